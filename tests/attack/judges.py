"""Both verifiers, and small sessions with keepers and series for them to judge."""

import contextlib
import importlib
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from tests.doubles import Harness, ScriptedNoise, known_key, known_series, known_session

from tacit.base.errors import FileError
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.messages import COORDINATOR, Refusal
from tacit.core.protocol.records import Closed
from tacit.live.verification.findings import GAPS, WRONG, refusal_name
from tacit.live.verification.verdict import verify

EXAMPLE = Path(__file__).parents[2] / "examples" / "verify_independently.py"
REFUSED = {refusal_name(reason) for reason in Refusal} - {*WRONG, *GAPS} | {"bad-frame"}


def second_verifier():
    """Return the program that knows only the wire page; it imports its neighbour as a script does."""
    sys.path.insert(0, str(EXAMPLE.parent))
    try:
        return importlib.import_module(EXAMPLE.stem)
    finally:
        sys.path.remove(str(EXAMPLE.parent))


def stage(**asked):
    """Play a session with keepers, or a series."""
    harness = _series(**asked) if "hides" in asked else _kept(**asked)
    session, numbers = harness.session, harness.numbers
    kept = {number: list(harness.ledgers[number].records()) for number in numbers}
    keys = {number: known_key(number) for number in numbers}
    return SimpleNamespace(session=session, codec=Codec(session), keys=keys, kept=kept, harness=harness)


def _kept(components=1, absent=None, **asked):
    session = known_session(3, 3, components=components, **asked)
    values = [0.25, 0.5, 1.0] if components == 1 else [[0.25] * components] * 3
    shape = (3, 6) if components == 1 else (3, 6, components)
    harness = Harness(session, values, ScriptedNoise(np.zeros(shape, dtype=object)))
    harness.start(*(number for number in harness.numbers if number != absent))
    assert harness.run(lambda h: _closed(h) == session.exchanges, most=5000)
    return harness


def _closed(harness):
    return sum(isinstance(record, Closed) for record in harness.ledgers[COORDINATOR].records())


def _series(**asked):
    """Agent 2 comes in slot 1. Agents 0 and 1 are away in slot 2, which is lost; agent 2 in slot 3."""
    session = known_series(3, 4, **asked)
    draws = np.array([((37 * k) % 23 - 11) * 268_447_801 for k in range(16)], dtype=object).reshape(4, 4)
    harness = Harness(session, [lambda slot: 1.0 + slot] * 3, ScriptedNoise(draws))
    harness.start(COORDINATOR, 0, 1, *session.keeper_numbers)
    harness.run(lambda h: h.clock.now >= session.series.begin_of(1))
    harness.start(2)
    harness.run(lambda h: _closed(h) == 2)
    harness.stop(0)
    harness.stop(1)
    harness.run(lambda h: _closed(h) == 3)
    harness.stop(2)
    harness.start(0)
    harness.start(1)
    assert harness.run(lambda h: h.machine(COORDINATOR).ended, most=5000)
    return harness


def named(findings):
    """The names of what is wrong or missing. Both programs name refused frames, each in its own order."""
    return {"bad-frame" if name in REFUSED else name for name in findings}


def judged(paths, running):
    try:
        verdict = verify(paths, running=running)
    except FileError:
        return {"verdict": "unreadable"}
    found = {"verdict": verdict.word, "result": verdict.result and list(verdict.result)}
    found["findings"] = named(finding.name for finding in verdict.findings if finding.wrong or finding.gap)
    if verdict.word == "unsound":  # how much is right of what is wrong is nobody's business
        return found
    last = verdict.claimed and list(verdict.claimed)
    found |= {"rounds": verdict.rounds, "means_recomputed": verdict.means, "last_feedback": last}
    for field in ("means", "used", "members") if verdict.series else ():
        found[field] = list(getattr(verdict.series, field))
    return found


def judged_by_other(other, paths, running):
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        code = other.main([*map(str, paths), *(["--running"] if running else [])])
    found = json.loads(told.getvalue())
    assert code == {"sound": 0, "unsound": 1, "unreadable": 2, "unchecked": 7}[found["verdict"]]
    found.pop("id", None)
    if "findings" in found:
        found["findings"] = named(found["findings"])
    kept = ("verdict", "result", "findings")
    return {key: found[key] for key in kept if key in found} if code == 1 else found
