"""Rules that anyone can check on a transcript, without knowing a value.

An honest agent never breaks one, so a single case raises an alarm.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tacit.core.history import AgentHistory, History
from tacit.core.mechanism.lattice import LatticeAgent
from tacit.lab.audit.likelihood import counted
from tacit.lab.audit.report import AuditFinding

NO_LATTICE = "no lattice is declared"
"""Why a test of the lattice was skipped."""
_ROUNDING = 1e-9  # relative: float messages are checked up to it


def rule_findings(transcripts: History) -> Iterator[AuditFinding]:
    """Check every rule on every session."""
    views = [transcripts.of(agent) for agent in range(transcripts.mechanism.n)]
    yield _one_draw(views)
    yield _on_lattice(views)
    if transcripts.mechanism.shadowed:
        yield _shadow(views)


def _one_draw(views: list[AgentHistory]) -> AuditFinding:
    """One draw per update: if asked again, an agent repeats the same message."""
    redrawn, asked = 0, 0
    for view in views:
        said = view.said
        first = np.zeros(said.shape, dtype=np.bool_)
        seen = np.full(len(said), -1)
        for slot in range(said.shape[1]):
            update = np.broadcast_to(view.update[:, slot], seen.shape)
            first[:, slot] = said[:, slot] & (update > seen)
            seen = np.where(said[:, slot], update, seen)
        again = said & ~first
        asked += int(again.sum())
        redrawn += int(np.sum(again & counted(view)))
    detail = f"{redrawn:,} of {asked:,} repetitions differ" if asked else "no agent was asked twice"
    return AuditFinding("one draw per update", "alarm" if redrawn else "pass", detail)


def _on_lattice(views: list[AgentHistory]) -> AuditFinding:
    """Check that messages are multiples of the declared step.

    The step shrinks with the noise.
    """
    test, off = "on the lattice", 0
    if views[0].exponent is None:
        return AuditFinding(test, "skipped", NO_LATTICE)
    for view in views:
        assert view.exponent is not None
        step = view.exponent.reshape(*view.exponent.shape, *(1,) * (view.x.ndim - 2))
        ratio = np.ldexp(view.x, -step)
        off += int(np.sum(ratio != np.rint(ratio)))
        if view.wholes is not None:
            agent = LatticeAgent(view.wholes.lattice, view.law)
            for u in np.unique(view.update).tolist():
                wrong = (view.update == u) & (view.exponent != agent.message_exponent(u))
                off += int(np.sum(wrong & view.said))  # only messages that were sent have a step
    return AuditFinding(
        test, "alarm" if off else "pass", f"{off:,} numbers are not" if off else "all numbers are"
    )


def _shadow(views: list[AgentHistory]) -> AuditFinding:
    """Check one-shot noise: later messages follow from public numbers."""
    off = 0
    for view in views:
        tail = (1,) * (view.x.ndim - 2)
        risen = np.diff(view.update, axis=1) > 0
        moved = risen.reshape(risen.shape + tail)
        heard = view.y[:, view.rounds_of[:-1]]
        expected = np.where(moved, view.motion.move(view.x[:, :-1], heard), view.x[:, :-1])
        size = _ROUNDING * (1 + np.max(np.abs(view.x)))
        both = view.said[:, 1:] & view.said[:, :-1]
        later = (both & (view.update[:, 1:] > 0)).reshape(both.shape + tail)
        off += int(np.sum((np.abs(view.x[:, 1:] - expected) > size) & later))
    detail = (
        f"{off:,} messages do not follow from earlier ones"
        if off
        else "all later messages follow from earlier ones"
    )
    return AuditFinding("shadow follows", "alarm" if off else "pass", detail)
