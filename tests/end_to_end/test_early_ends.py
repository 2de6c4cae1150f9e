"""One that does not come, a session that is cancelled or expires, and a key that is revoked: live."""

import time

import pytest
from click.testing import CliRunner

from tacit.cli import main
from tacit.core.protocol.session import Deadlines
from tacit.live.identity.identity import install_revocations, load_authority
from tacit.live.identity.register import opened
from tacit.live.identity.roster import COORDINATOR
from tacit.live.ledger.ledger import Ledger


def waits_for(made, unit, name):
    """Whether a member has said that it waits for somebody."""
    return any(name in line["missing"] for line in made.events(unit, "waiting"))


def start(made, *units):
    for unit in (COORDINATOR, *units):
        made.run.start(unit)


def codes(made):
    made.until(lambda: not made.run.running)
    return {unit: process.returncode for unit, process in made.run.processes.items()}


def spent(made, name):
    with Ledger(made.run.path(name, "ledger"), create=False) as ledger:
        return ledger.spent("value")


def test_one_that_does_not_come_is_named_and_not_waited_for_beyond_the_deadline(crew):
    """The finding: one agent that did not come stalled all others for ever, without a word."""
    made = crew(agents=3, rounds=3, start=2, quorum=2, deadlines=Deadlines(round=20, start=4, repeat=0.2))
    start(made, "agent-0", "agent-1")
    made.until(lambda: waits_for(made, COORDINATOR, "agent-2"))
    made.ended()
    assert all(made.result(name)["finished"] for name in ("agent-0", "agent-1"))
    assert made.result(COORDINATOR)["used"] == [["agent-0", "agent-1"]] * 3


def test_a_session_that_waits_for_all_is_cancelled_and_costs_nothing(crew):
    made = crew(agents=3, rounds=3, deadlines=Deadlines(round=600, start=600, repeat=0.2))
    start(made, "agent-0", "agent-1")
    made.until(lambda: waits_for(made, COORDINATOR, "agent-2"))
    for name in ("agent-0", "agent-1"):
        made.until(lambda name=name: waits_for(made, name, "coordinator"))
    words = ["session", "cancel", made.folder / "session.toml", "--keys", made.folder / "keys" / COORDINATOR]
    assert CliRunner().invoke(main, list(map(str, words))).exit_code == 0
    assert set(codes(made).values()) == {5}
    for name in ("agent-0", "agent-1"):
        assert made.events(name, "stopped")[-1]["reason"] == "operator"
        assert spent(made, name) == 0.0


@pytest.mark.long
def test_a_session_that_nobody_ends_is_over_when_it_expires_and_costs_nothing(crew):
    made = crew(
        agents=3, rounds=3, expires=int(time.time()) + 20,
        deadlines=Deadlines(round=600, start=600, repeat=0.2),
    )  # fmt: skip
    start(made, "agent-0", "agent-1")
    assert set(codes(made).values()) == {5}
    for name in ("agent-0", "agent-1"):
        assert made.events(name, "stopped")[-1]["reason"] == "expired"
        assert spent(made, name) == 0.0
    made.run.start("agent-2")
    assert codes(made)["agent-2"] == 2
    assert "session test expired on" in made.said("agent-2")


def test_one_whose_key_is_revoked_is_turned_out_of_a_running_session(crew):
    made = crew(agents=3, rounds=40, pace=0.2, quorum=2, deadlines=Deadlines(round=1.5, start=30, repeat=0.2))
    made.run.start_all()
    made.until(lambda: made.rounds() >= 2)
    home = made.folder / "keys" / "authority"
    with opened(home, load_authority(home)) as register:
        register.revoke("agent-2")
        register.save()
        install_revocations(register.revoked.pem(), made.folder / "keys" / COORDINATOR)
    troubles = lambda unit: " ".join(line["text"] for line in made.events(unit, "trouble"))  # noqa: E731
    made.until(lambda: "the certificate of agent-2 is revoked" in troubles(COORDINATOR))
    made.until(lambda: "agent-2" not in made.events(COORDINATOR, "round-closed")[-1]["used"])
    made.until(lambda: "revoked" in made.said("agent-2") + troubles("agent-2"))  # it is told why
