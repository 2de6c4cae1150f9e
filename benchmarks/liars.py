"""How far a live liar moves the result, and how far it may.

Real agents, keepers and coordinators in one process, with their own ledgers, keys and signed messages. A liar
says what it likes in place of its message. `python -m benchmarks.liars` prints the table of
docs/explanation/threat-model.md; tests/end_to_end/test_live_liars.py checks every row.

Every session is run with and without the lie, on the same draws (of bits) or without noise (of other laws).
How far the liar moved the result is then the difference of what honest agents end with.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

import tacit
from tacit.core.graph import Graph
from tacit.core.protocol.private_state import MixingState
from tacit.core.protocol.roster import COORDINATOR
from tacit.core.protocol.schema import Deadlines
from tacit.core.protocol.session import LAST_EXPIRY, Session
from tacit.core.theory.liars import moved_by_liars
from tacit.core.theory.plan import Plan
from tacit.lab.simulation import Record
from tacit.live.identity.identity import provision
from tacit.live.identity.roster import Roster
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.coordinator import Coordinator
from tacit.live.runtime.keeper import Keeper
from tacit.live.runtime.noise import noise_ahead
from tacit.live.sessions.design import draft
from tacit.live.transport.memory import MemoryNetwork

LOW, HIGH, LOSS, AGENTS = 0.0, 10.0, 1.0, 10
MODELS: dict[str, dict[str, Any]] = {
    "server, one-shot": {},
    "server, staircase": {"law": "staircase"},
    "server, bits": {"law": "bits"},
    "server, fading, 5 rounds": {"mixing": 0.5, "law": "fading", "rounds": 5, "tolerance": 100.0},
    "graph (ring), 5 rounds": {"graph": Graph.of(f"ring:{AGENTS}"), "rounds": 5, "tolerance": 100.0},
    "server, 2 keepers": {"keepers": 2},
}
LIES = ("largest", "smallest", "random")


@dataclass(frozen=True)
class Lie:
    """The arithmetic of an honest agent, but for what it says."""

    agent: Any
    what: str
    times: int  # the reach; more than 1 under masks, where nobody sees a number beyond it

    def __getattr__(self, name: str) -> Any:
        return getattr(self.agent, name)

    def report(self, basis: Any, u: int, draw: Any) -> int:  # noqa: ARG002
        """Return a number that passes every check."""
        grid = self.agent.lattice
        limit = grid.limit >> (self.agent.message_exponent(u) - grid.state_exponent)
        limit *= self.times
        least, most = self.agent.ends if self.agent.law.two_valued else (-limit, limit)
        if self.what == "random":
            if self.agent.law.two_valued:
                return int(secrets.choice((least, most)))
            return int(least + secrets.randbelow(most - least + 1))
        return int(most if self.what == "largest" else least)


class Known:
    """The same bits in every run, and no other noise. NOT private."""

    def __init__(self, session: Session, who: int) -> None:
        self._two, self._chance = session.mechanism.law.two_valued, np.random.default_rng(who)

    def draw(self, scale: float, size: int | None = None) -> Any:  # noqa: ARG002 - values are single numbers
        """Return one draw."""
        return int(self._chance.integers(0, int(scale))) if self._two else 0


@contextmanager
def lying(what: str | None, who: range) -> Iterator[None]:
    """Let some agents of every session lie, and all noise be known."""
    honest = MixingState.speak

    def speak(self: MixingState, heard: bytes) -> Any:
        if self.number in who and what is not None:
            times = AGENTS // len(who) if self._codec.session.keepers else 1  # more would be seen as nonsense
            self._agent = Lie(self._agent, what, times)  # type: ignore[assignment]
        return honest(self, heard)

    def known(session: Session, number: int) -> Any:
        return noise_ahead(session, number, Known(session, number))

    with ExitStack() as patched:
        patched.enter_context(patch.object(MixingState, "speak", speak))
        for room in ("agent_kind", "keeper"):
            patched.enter_context(patch(f"tacit.live.runtime.{room}.noise_ahead", known))
        yield


def session_of(keys: Any, names: list[str], asked: dict[str, Any]) -> Session:
    """Return a session that is designed for one trust model."""
    asked = dict(asked)
    kept = [f"keeper{j}" for j in range(asked.pop("keepers", 0))]
    served = "graph" not in asked
    members = [*names, *kept]
    roster = Roster(
        tuple(_member(name, keys[name]) for name in members),
        keys["coordinator"].public_key if served else None,
    )
    plan = Plan(low=LOW, high=HIGH, loss=LOSS, **asked)
    more: dict[str, Any] = {"quorum": AGENTS} if served else {}
    waits = Deadlines(round=600.0, start=600.0, repeat=0.1)
    return draft(
        "liars", roster, plan, keepers=kept, anyway=True, expires=LAST_EXPIRY, deadlines=waits, **more
    )


def _member(name: str, key: Any) -> Any:
    from tacit.core.protocol.roster import Member

    return Member(name, key.public_key)


@dataclass(frozen=True)
class Row:
    """One session: how far the result moved, and how far it may."""

    model: str
    lie: str
    liars: int
    moved: float
    bound: float


async def _play(session: Session, keys: Any, names: list[str], place: Path) -> list[float]:
    """Run all members; return the final values of agents."""
    net = MemoryNetwork(session)
    seats: dict[str, int] = dict(zip(names, range(len(names)), strict=True))

    def own(name: str, number: int) -> dict[str, Any]:
        return {"transport": net.transport(number), "ledger": place / name, "identity": keys[name]}

    members: list[Any] = []
    if session.edges is None:
        members.append(Coordinator(session, **own("coordinator", COORDINATOR)))
    for j, number in enumerate(session.keeper_numbers):
        members.append(Keeper(session, **own(f"keeper{j}", number)))
    agents = [Agent(session, 5.0, cap=1e9, **_trusting(session, own(name, seats[name]))) for name in names]

    async def result(member: Any) -> Any:
        async with member:
            return await member.result()

    done = await asyncio.gather(*map(result, [*members, *agents]))
    return [float(np.ravel(result.value)[0]) for result in done[len(members) :]]


def _trusting(session: Session, own: dict[str, Any]) -> dict[str, Any]:
    return own | ({"trust": {k.name: k.key for k in session.keepers}} if session.keepers else {})


def play(model: str, lies: tuple[str, ...] = LIES, liars: int = 1) -> list[Row]:
    """Run one session with each lie, live, and once without."""
    names = [f"a{i}" for i in range(AGENTS)]
    with TemporaryDirectory() as folder:
        place = Path(folder)
        keys = provision(place / "keys", ["coordinator", *names, *[f"keeper{j}" for j in range(2)]])
        session = session_of(keys, names, MODELS[model])
        ended = {}
        for lie in (None, *lies):
            named = replace(session, name=f"liars-{lie}")  # a session is run once
            with lying(lie, range(liars)):
                ended[lie] = np.array(asyncio.run(_play(named, keys, names, place))[liars:])
    bound = moved_by_liars(session.mechanism, session.lattice, session.rounds, liars)
    moved = {lie: float(np.max(np.abs(ended[lie] - ended[None]))) for lie in lies}
    return [Row(model, lie, liars, moved[lie], bound) for lie in lies]


def accuracy(show: Callable[[str], object], runs: int = 1000) -> None:
    """Print standard deviations of the mean of 1,000 values at the middle, simulated and promised."""
    show("| loss | Laplace | bits | staircase |")
    show("|---|---|---|---|")
    for loss in (0.5, 1.0, 2.0):
        cells = []
        for law in ("one-shot", "bits", "staircase"):
            made = tacit.design(agents=1000, low=LOW, high=HIGH, loss=loss, law=law)
            mean = tacit.simulate(
                made.mechanism, np.full(1000, 5.0), 1, runs=runs, seed=1, record=Record(average=True)
            )["average"].isel(round=-1)
            cells.append(f"{float(mean.std()):.3f}, promised {made.promise.variance**0.5:.3f}")
        show(f"| {loss:g} | {' | '.join(cells)} |")


def main(show: Callable[[str], object] = print) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Live liars in each trust model, as a table.")
    parser.add_argument("--liars", type=int, default=1, help="How many of 10 agents lie.")
    parser.add_argument("--accuracy", action="store_true", help="Print the accuracy of the laws instead.")
    asked = parser.parse_args()
    if asked.accuracy:
        accuracy(show)
        return
    liars = asked.liars
    show("| session of 10 agents, 0 to 10, loss 1 | largest | smallest | random | at most |")
    show("|---|---|---|---|---|")
    for model in MODELS:
        rows = play(model, liars=liars)
        moved = " | ".join(f"{row.moved:.4g}" for row in rows)
        show(f"| {model} | {moved} | {rows[0].bound:.4g} |")


if __name__ == "__main__":
    main()
