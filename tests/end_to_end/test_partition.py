"""A link that is cut and healed, between network namespaces of this machine."""

import os
import shutil
import subprocess

import pytest

from tacit.core.protocol.session import Deadlines
from tacit.live.identity.roster import COORDINATOR


def _ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=120)


class Link:
    """Two namespaces, here and there, with one cable between them."""

    def __init__(self, number):
        self.here, self.there = f"tacit{number}a", f"tacit{number}b"
        self.cable = f"tct{number}a", f"tct{number}b"
        self.host, self.other = f"10.213.{number % 250}.1", f"10.213.{number % 250}.2"

    def make(self):
        for space in (self.here, self.there):
            _ip("netns", "add", space)
            _ip("-n", space, "link", "set", "lo", "up")
        # From inside, so that this machine's own network never sees an interface come or go.
        _ip("-n", self.here, "link", "add", self.cable[0], "type", "veth",
            "peer", "name", self.cable[1], "netns", self.there)  # fmt: skip
        ends = zip((self.here, self.there), self.cable, (self.host, self.other), strict=True)
        for space, device, address in ends:
            _ip("-n", space, "addr", "add", f"{address}/24", "dev", device)
            _ip("-n", space, "link", "set", device, "up")

    def cut(self):
        _ip("-n", self.here, "link", "set", self.cable[0], "down")

    def heal(self):
        _ip("-n", self.here, "link", "set", self.cable[0], "up")

    def remove(self):
        for space in (self.here, self.there):
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True, timeout=120)


@pytest.fixture
def link():
    if shutil.which("ip") is None:
        pytest.skip("no `ip` (iproute2) on this machine: network namespaces cannot be made")
    made = Link(os.getpid() % 100_000)
    try:
        made.make()
    except subprocess.CalledProcessError as error:
        made.remove()
        said = error.stderr.decode(errors="replace").strip()
        pytest.skip(f"network namespaces may not be made here: {said}")
    yield made
    made.remove()


def spread(play, link, there):
    """Run these members on the other side of the link."""
    usual = play.run.command
    play.run.command = lambda unit: [
        "ip", "netns", "exec", link.there if unit in there else link.here, *usual(unit)
    ]  # fmt: skip


def test_a_session_that_lost_its_quorum_to_a_cut_waits_says_for_whom_and_goes_on(crew, link):
    made = crew(
        agents=4, rounds=10, pace=0.2, quorum=3, hosts=(link.host,), at={COORDINATOR: link.host},
        deadlines=Deadlines(round=1.0, start=20.0, repeat=0.2),
    )  # fmt: skip
    far = {"agent-2", "agent-3"}
    spread(made, link, far)
    made.run.start_all()
    made.until(lambda: made.rounds() >= 2)
    link.cut()
    # Before the start it may have waited for others; now it lacks these two.
    made.until(lambda: any(set(e["missing"]) == far for e in made.events(COORDINATOR, "waiting")))
    link.heal()
    made.ended()
    by_ledger, verdict = made.require_sound(), made.verdict()
    assert all(len(row) >= 3 for row in verdict.used)
    assert all((i, t) in by_ledger for t, row in enumerate(verdict.used) for i in row)


def test_a_ring_across_a_cut_heals(crew, link):
    ring = ((0, 1), (1, 2), (2, 3), (0, 3))
    sides = {f"agent-{i}": link.host if i < 2 else link.other for i in range(4)}
    made = crew(
        agents=4, rounds=14, pace=0.3, edges=ring, hosts=(link.host, link.other), at=sides,
        deadlines=Deadlines(round=1.0, start=20.0, repeat=0.2),
    )  # fmt: skip
    spread(made, link, {"agent-2", "agent-3"})
    made.run.start_all()

    def updates(which):
        return which(len(made.events(name, "updated")) for name in made.names)

    made.until(lambda: updates(min) >= 2)
    link.cut()
    at = updates(max)  # whoever was ahead may still have been heard
    made.until(lambda: updates(min) >= at + 3)
    link.heal()
    made.ended()
    made.require_sound()
    pairs = [set(row) for row in made.verdict().used]
    assert any((1, 2) not in row and (0, 1) in row for row in pairs)  # each side went on alone
