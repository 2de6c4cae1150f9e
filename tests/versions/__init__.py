"""The bytes of released versions, which every later version reads.

``python -m tests.versions`` writes them for the version that is about to be released. A file of a released
version never changes: agents of that version are out there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from docs.wire_vectors import vectors
from tests.doubles import known_series, known_session

from tacit import __version__
from tacit.core.protocol.session import Session
from tacit.core.question import Count
from tacit.live.fleet import messages
from tacit.live.fleet.messages import AnyMessage, encode_control

HERE = Path(__file__).parent
SAID: tuple[AnyMessage, ...] = (
    messages.Greeting("agent"),
    messages.Greeting("keeper", b"mark"),
    messages.LedgerMark(b"mark"),
    messages.SessionOffer(b"session", b"signature"),
    messages.SessionOffer(b"session", b"signature", b"leaf", b"path"),
    messages.OfferReply(b"session", True),
    messages.OfferReply(b"session", False, "cap"),
    messages.ChannelOpen(b"session"),
    messages.ChannelClosed(b"session"),
    messages.RenewalRequest(b"request"),
    messages.RenewalAnswer(b"bundle"),
    messages.RenewalAnswer(why="no"),
    messages.RevocationNews(b"revoked"),
    messages.EnrolmentRequest("0123456789ab", b"secret", b"request"),
    messages.EnrolmentAnswer(b"bundle"),
    messages.EnrolmentAnswer(why="no"),
)
"""Every message between a hub and a member, with its fields at their default and not."""


def further_sessions() -> dict[str, Session]:
    """Return kinds of sessions that the vectors of the wire format lack.

    No number in them was computed, so that the bytes are the same on every machine.
    """
    values, stairs = (("middle", 0.5), ("domain", 1.0)), (("domain", 1.0), ("inner", 0.25))
    return {
        "bits": known_session(3, 1, law="bits", noise=2.0, further=values),
        "staircase": known_session(3, 1, law="staircase", noise=2.0, further=stairs),
        "asked-series": _asked_series(),
    }


def _asked_series() -> Session:
    made = known_series(3, 4, hides="step", question=Count())
    assert made.series is not None
    series = msgspec.structs.replace(made.series, steps=2.0**33, exponent=-30)
    same = ("name", "roster", "coordinator", "keepers", "asked", "deadlines", "expires")
    return Session.of_series(series, **{name: getattr(made, name) for name in same})


def fresh() -> dict[str, Any]:
    """Return the bytes of today's version, in hex."""
    made = vectors()
    sessions = {name: [one["id"], one["bytes"]] for name, one in made["sessions"].items()}
    sessions["series"] = [made["series"]["session"]["id"], made["series"]["session"]["bytes"]]
    sessions |= {name: [one.id.hex(), one.encode().hex()] for name, one in further_sessions().items()}
    frames = {name: [one["frame"] for one in found] for name, found in made["frames"].items()}
    frames["series"] = [one["frame"] for one in made["series"]["frames"]]
    return {
        "version": __version__,
        "messages": [[type(one).__name__, encode_control(one).hex()] for one in SAID],
        "refusals": sorted(messages.REFUSALS),
        "sessions": sessions,
        "frames": frames,
    }
