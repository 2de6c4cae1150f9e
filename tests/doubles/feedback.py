"""Feedback as a coordinator would sign it, with parts that a test can choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tacit.core.protocol.codec import Codec
from tacit.core.protocol.messages import NOTHING_HEARD, Feedback
from tacit.core.protocol.places import LastUsed


def known_feedback(codec: Codec, t: int, numbers: Sequence[int], **chosen: Any) -> Feedback:
    """Return the body of a feedback; by default all agents were used, by a state that says nobody was."""
    n = codec.session.n
    fields: dict[str, Any] = {"count": n, "state": LastUsed(n).root, "basis": bytes(32)}
    fields |= {"before": NOTHING_HEARD} | chosen
    fields.setdefault("members", fields["count"])
    return Feedback(round=t, numbers=codec.pack(numbers), **fields)
