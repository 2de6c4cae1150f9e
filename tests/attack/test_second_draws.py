"""Ways to make an agent draw twice for one update, pass its cap, or count loss on the wrong thing."""

import asyncio

import pytest

from tacit.base.errors import CapExceeded, InputError, LedgerError
from tacit.core.protocol.records import Began, Spoke
from tacit.live.ledger.ledger import Ledger

S, T = b"s" * 32, b"t" * 32


def enter(member):
    async def main():
        async with member:
            pass

    asyncio.run(main())


def test_a_key_speaks_in_a_session_from_one_ledger_only(world):
    """Deleted, mistyped or restored elsewhere: with another ledger all noise would be drawn anew."""
    session = world.session()
    network = world.network(session)
    sent = []
    network.taps.append(lambda sender, _to, _frame: sent.append(sender))
    asyncio.run(world.run(session, [world.agent(session, network, i) for i in (0, 1)], network))
    before, words = len(sent), "forget what was spent"
    elsewhere = world.folder / "other.ledger"
    with pytest.raises(LedgerError, match="another ledger"):
        enter(world.agent(session, network, 0, ledger=elsewhere))
    assert not elsewhere.exists()  # and nothing was made
    with pytest.raises(
        LedgerError, match="begun this session with another ledger"
    ):  # whatever the owner says
        enter(world.agent(session, network, 0, ledger=elsewhere, new_ledger=words))
    assert len(sent) == before
    with Ledger(elsewhere) as other:
        assert other.values() == ()  # and nothing was set aside in it
    (world.folder / "a0.ledger").unlink()
    (world.folder / "a0.ledger.mark").unlink()
    with pytest.raises(LedgerError, match="another ledger"):
        enter(world.agent(session, network, 0))
    enter(world.agent(session, network, 1))  # the very ledger goes on


def test_a_mistyped_ledger_does_not_bring_the_cap_back(world):
    """A new session, and a ledger that these keys have never spoken from: it would have the whole cap."""
    first, second = world.session(rounds=1), world.session(rounds=1, name="second")
    cap = 1.5 * 10 * first.account(0).total  # enough for one of them
    enter(world.agent(first, world.network(first), 0, cap=cap))
    with pytest.raises(CapExceeded):
        enter(world.agent(second, world.network(second), 0, cap=cap))
    typo = world.folder / "a0.leger"
    with pytest.raises(LedgerError, match=r"another ledger than .*a0.leger \(.*a0.ledger\): check --ledger"):
        enter(world.agent(second, world.network(second), 0, cap=cap, ledger=typo))
    assert not list(world.folder.glob("a0.leger*"))
    Ledger(typo).close()  # one that exists is no better
    with pytest.raises(LedgerError, match="another ledger"):
        enter(world.agent(second, world.network(second), 0, cap=cap, ledger=typo))
    with pytest.raises(LedgerError, match="new-ledger"):
        enter(world.agent(second, world.network(second), 0, cap=cap, ledger=typo, new_ledger="yes"))
    words = "forget what was spent"
    enter(world.agent(second, world.network(second), 0, cap=cap, ledger=typo, new_ledger=words))
    enter(world.agent(second, world.network(second), 0, cap=cap, ledger=typo))  # it is known now


def test_what_binds_a_key_survives_a_power_cut(world):
    session = world.session()
    enter(world.agent(session, world.network(session), 0))
    (note,) = (world.folder / "keys" / "a0" / "sessions").iterdir()
    assert note.name == session.id.hex()
    note.write_bytes(b"")  # made, and not yet written when the power failed
    enter(world.agent(session, world.network(session), 0))
    assert note.read_bytes()
    assert note.stat().st_mode & 0o777 == 0o600


def test_a_tiny_adjacency_cannot_make_a_cap_meaningless(world):
    """Noise of a billionth costs little for values a billionth apart: a cap is about the whole range."""
    session = world.session(adjacency=1e-9, noise=4e-9, rounds=1)
    network = world.network(session)
    with pytest.raises(CapExceeded, match="counted 10000000000 times"):
        enter(world.agent(session, network, 0, cap=1.0))
    with pytest.raises(CapExceeded, match="counted 1000000000 times"):
        enter(world.agent(session, network, 0, cap=1.0, adjacency=1.0))
    honest = world.session(adjacency=1.0, rounds=1)
    enter(world.agent(honest, world.network(honest), 0, cap=1.0, adjacency=1.0))
    with pytest.raises(CapExceeded, match="counted 1000000000 times"):  # the ledger knows what it means now
        enter(world.agent(session, network, 0, cap=1.0))
    with pytest.raises(InputError, match="values up to 1 apart"):
        enter(world.agent(session, network, 0, cap=1.0, adjacency=2.0))


def test_a_cap_covers_all_components_together(world):
    """Three numbers from 0 to 10 each: two values can be 30 apart."""
    session = world.session(components=3, adjacency=1.0, rounds=1, noise=2.0)
    network, loss = world.network(session), world.session(rounds=1).account(0).total
    with pytest.raises(CapExceeded, match="counted 30 times"):
        enter(world.agent(session, network, 0, value=[1.0, 2.0, 3.0], cap=29 * loss))


def test_a_lower_cap_counts_in_a_session_that_goes_on(folder):
    with Ledger(folder / "l") as ledger:
        asked = {"planned": 0.8, "adjacency": 1.0, "diameter": 1.0}
        assert ledger.reserve(S, "meter", cap=1.0, **asked).cap == 1.0
        assert ledger.reserve(S, "meter", cap=0.5, **asked).budget.cap == 0.5
        assert ledger.reserve(S, "meter", cap=2.0, **asked).cap == 0.5  # a higher one does not
        assert ledger.balance("meter").remaining == 0.0
    with Ledger(folder / "l") as again:
        assert again.reservation(S).cap == 0.5


def test_a_session_that_counts_several_times_keeps_a_lowered_cap(folder):
    """A cap that is lowered on the way must stop an agent whose messages count three times."""
    with Ledger(folder / "l") as ledger:
        ledger.reserve(T, "meter", planned=0.3, adjacency=3.0, diameter=3.0, cap=2.1)
        ledger.reserve(S, "meter", planned=0.5, adjacency=1.0, diameter=3.0)
        ledger.set_cap("meter", 0.9)
        budget = ledger.reservation(S).budget
        assert budget.cap <= 0.9 / 3
        assert budget.spent >= 0.1
        # messages of 0.1 each: two of them count for 0.6, beside the 0.3 of the other session
        assert budget.spent + 2 * 0.1 <= budget.cap + 1e-15
        assert budget.spent + 3 * 0.1 > budget.cap


@pytest.mark.parametrize(("before", "more"), [(0, 0), (0, 2), (2, 0), (2, 1)])
def test_a_lower_cap_stops_an_agent_before_it_would_exceed_it(world, before, more):
    """Begun and not spoken yet, or after some rounds: restarted with a cap for so many more messages."""
    session = world.session(adjacency=10.0, rounds=30, quorum=1)
    losses = [float(loss) for loss in session.account(0).per_message]

    def said(ledger):
        return [record.update for record in ledger.records(session.id) if isinstance(record, Spoke)]

    async def stop():
        network = world.network(session)
        others = [world.agent(session, network, 1)] if before else []
        rest = asyncio.ensure_future(world.run(session, others, network))
        async with asyncio.timeout(120), world.agent(session, network, 0) as agent:
            while not agent._ledger.size(session.id) or len(said(agent._ledger)) < before:
                await asyncio.sleep(0)
        rest.cancel()
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})  # until all ledgers are closed

    asyncio.run(stop())
    with Ledger(world.folder / "a0.ledger") as ledger:
        allowed = len(said(ledger)) + more
    assert before <= allowed < 30
    cap, network = sum(losses[:allowed]) * (1 + 1e-9), world.network(session)
    agents = [world.agent(session, network, 0, cap=cap), world.agent(session, network, 1)]
    asyncio.run(world.run(session, agents, network))
    with Ledger(world.folder / "a0.ledger") as ledger:
        assert said(ledger) == list(range(allowed))
        assert ledger.spent("value") <= cap


def test_a_lower_cap_counts_in_a_process_that_goes_on(folder):
    """Its machine has the old cap; the ledger refuses the message before it is sent."""
    with Ledger(folder / "l") as ledger:
        ledger.reserve(S, "meter", planned=0.8, adjacency=1.0, diameter=1.0, cap=1.0)
        ledger.append(S, [Began(S, 0, b"", 0.8, 0.0, 1.0), Spoke(0, b"frame", 0.3)])
        ledger.set_cap("meter", 0.5)
        with pytest.raises(CapExceeded, match=r"lowered to 0\.5"):
            ledger.append(S, [Spoke(1, b"frame", 0.3)])
        assert ledger.said(S, 1) is None
        ledger.append(S, [Spoke(1, b"frame", 0.2)])
        ledger.set_cap("meter", 1.0)
        ledger.append(S, [Spoke(2, b"frame", 0.3)])


def test_what_a_session_costs_is_told_with_what_it_protects(world):
    from tacit.core.protocol.notices import Cost

    wide, narrow = world.session(adjacency=10.0), world.session(adjacency=0.5)
    cost = Cost(planned=0.25, spent=0.0, cap=1.0)
    assert "for values up to 10 apart; other" in cost.sentence(wide)
    assert "for values up to 0.5 apart, though they may be 10 apart; other" in cost.sentence(narrow)
    assert cost.facts(narrow)["adjacency"] == 0.5


def test_without_entropy_nothing_is_said(world, monkeypatch):
    def exhausted(*_):
        raise OSError("the generator failed")

    session = world.session()
    network = world.network(session)
    sent = []
    network.taps.append(lambda sender, _to, _frame: sent.append(sender))
    monkeypatch.setattr("tacit.core.noise.safe.SafeNoise.draw", exhausted)

    async def main():
        async with world.agent(session, network, 0) as agent:
            await agent.result()

    with pytest.raises(OSError, match="generator failed"):
        asyncio.run(main())
    assert sent == []
