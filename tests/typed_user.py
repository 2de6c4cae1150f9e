"""A user's script, for mypy: public names are typed from the root on, and misspelt ones are found.

`make lint` checks it, and that each error which is ignored here is one.
"""

from typing import assert_type

import tacit


def plan(values: list[float]) -> float:
    """Design, analyze, simulate, compare and examine, all from the root."""
    answer = tacit.design(agents=len(values), loss=1, adjacency=1)
    assert_type(answer, tacit.Design)
    promise = tacit.analyze(answer.mechanism, adjacency=1, rounds=1, spread=10)
    assert_type(promise, tacit.Promise)
    assert_type(promise.radius, float)
    assert_type(tacit.ask([1.0, 2.0], tacit.Mean(0, 10), loss=1), tacit.lab.simulation.SimulatedAnswer)
    assert_type(tacit.examine(answer.mechanism, rounds=1), tacit.lab.audit.AuditReport)
    truck = tacit.Linear(A=[[1, 0.25], [-0.25, 0.5]], B=[0, 0.25], C=[1, 0], private={"speed": 1.0})
    moving = tacit.ClientServer(tacit.Scheduled.best(truck, 1.0, 10), agents=len(values))
    assert_type(tacit.analyze(moving, adjacency=1, rounds=10).moved_by(2), float | None)
    law: tacit.core.law.Law = tacit.Fading(0.5, 1.0, 0.8)
    return promise.radius + float(law.epsilons(3)[0])


async def take_part(session: str, keys: str) -> None:
    """Run a member of a session."""
    agreed = tacit.live.read_session(session)
    me = tacit.live.Identity.load(keys)
    async with tacit.live.Agent(agreed, 1.0, ledger="me.ledger", identity=me, cap=1.0) as agent:
        await agent.result()
    assert_type(tacit.live.ledger.ledger.Ledger("me.ledger").spent("value"), float)


def misspelt() -> None:
    """Names that are not there."""
    tacit.desing()  # type: ignore[attr-defined]
    tacit.core.lore  # type: ignore[attr-defined] # noqa: B018
    tacit.lab.audit.examinate()  # type: ignore[attr-defined]
    tacit.live.Agents()  # type: ignore[attr-defined]
    tacit.live.ledger.legder  # type: ignore[attr-defined] # noqa: B018
    tacit.analyze(1, 2, 3)  # type: ignore[arg-type, call-arg]
