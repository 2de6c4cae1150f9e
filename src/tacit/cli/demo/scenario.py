"""The course of the demo: who is started, who is killed, and the result."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tacit.cli.demo.processes import COORDINATOR, Processes, Tail, make_addresses, make_roster
from tacit.cli.demo.tables import HIGH, LOW, UNIT, DemoResult
from tacit.cli.drawing import write_figure
from tacit.errors import TacitError
from tacit.protocol.codec import Codec
from tacit.protocol.records import Began, Moved
from tacit.protocol.schema import Deadlines
from tacit.protocol.session import Session

if TYPE_CHECKING:
    from tacit.arrays import FloatArray
    from tacit.graph import Graph
    from tacit.history import History
    from tacit.runtime.verification.verdict import Verdict
    from tacit.theory.promise import Promise

_BACK_AFTER = 0.5  # seconds a killed process stays dead
_PATIENCE = 300.0
_PACE, _SHOW = 0.25, 5.0  # minimum seconds of one round and of the demo, so that people can follow
_MOST_PROCESSES, _SHARED_PROCESSES = 100, 4
_ANY = 1000 * (HIGH - LOW)  # a tolerance that is always met: no agreement required
_MOST_ROUNDS = 150  # a ring of 50 needs thousands to agree: too long for a demo


@dataclass(frozen=True)
class Happening:
    """A finished round, or an event."""

    round: int = 0
    feedback: float | None = None
    used: str = ""
    epsilon: float = 0.0
    event: str = ""


@final
@dataclass
class Scenario:
    """One run of the demo."""

    session: Session
    processes: Processes
    values: list[float]
    faults: bool
    needed: int
    """How many rounds it would take to agree."""
    _due: list[tuple[float, str]] = field(default_factory=list)
    _hit: set[str] = field(default_factory=set)

    @classmethod
    def prepare(
        cls,
        folder: Path,
        agents: int,
        *,
        topology: str,
        keepers: int = 0,
        epsilon: float,
        mixing: float,
        rounds: int | None,
        faults: bool,
        pace: float | None,
        processes: int | None,
        seed: int,
    ) -> Scenario:
        """Make keys, a session and made-up values."""
        from tacit.runtime.session.design import draft
        from tacit.runtime.session.file import write_session
        from tacit.theory.answers import answer
        from tacit.theory.plan import Plan

        graph = _graph(topology, agents)
        names = [f"agent-{i}" for i in range(agents)]
        kept = [f"keeper-{j}" for j in range(keepers)]
        roster = make_roster(folder, [*names, *kept], graph=graph is not None)
        asked = Plan(
            agents=agents if graph is None else None,
            graph=graph,
            keepers=keepers,
            epsilon=epsilon,
            mixing=mixing,
            low=LOW,
            high=HIGH,
            adjacency=1.0,
        )
        needed = answer(asked).promise.rounds
        chosen = rounds or min(needed, _MOST_ROUNDS)
        session = draft(
            "demo",
            roster,
            replace(asked, rounds=chosen, tolerance=_ANY if chosen < needed else None),
            deadlines=Deadlines(round=10.0 + agents / 10, start=120.0, repeat=1.0 + agents / 100),
            keepers=kept,
            anyway=True,
        )
        write_session(session, folder / "session.toml", addresses=make_addresses(session))
        # The seed makes only the values. The agents draw the noise, which cannot be seeded.
        values = np.random.default_rng(seed).uniform(LOW, HIGH, agents).tolist()
        if processes is None and graph is None and agents > _MOST_PROCESSES:
            processes = _SHARED_PROCESSES
        together = 1 if processes is None else -(-agents // processes)
        cap = float(f"{1.005 * session.promise().loss:.2g}")
        slow = min(_PACE, _SHOW / session.rounds) if pace is None else pace
        given = dict(zip(names, values, strict=True))
        return cls(session, Processes(folder, session, given, cap, together, slow), values, faults, needed)

    @cached_property
    def promise(self) -> Promise:
        """What the session promises if nothing goes wrong."""
        return self.session.promise().theory

    @property
    def loss(self) -> float:
        """Upper bound on an agent's loss in the session."""
        return self.session.promise().loss

    @property
    def average(self) -> float:
        """The average of the made-up values, with the graph's weights."""
        from tacit.theory import accuracy

        return float(accuracy.target(self.session.mechanism, np.array(self.values)))

    # ---- running ------------------------------------------------------------------------------------

    def play(self) -> Iterator[Happening]:
        """Start all, kill some, and yield what happens until all have ended."""
        try:
            self.processes.start_all()
            follow = self._server_rounds() if self.session.topology == "server" else self._graph_rounds()
            end = time.monotonic() + _PATIENCE + self.session.n
            while self.processes.running or self._due:
                for line in follow():
                    yield line
                    yield from self._damage(line.round)
                yield from self._revive()
                self.processes.require_healthy()
                if time.monotonic() > end:
                    raise TacitError(
                        "the demo's session did not end in time: try again when the machine is less busy."
                    )
                time.sleep(0.02)
            yield from follow()
        finally:
            self.processes.stop_all()

    def _damage(self, round_over: int) -> Iterator[Happening]:
        if not self.faults:
            return
        rounds, units = self.session.exchanges, self.processes.units
        plan = {units[len(units) // 2]: max(1, rounds // 3)}
        if self.session.keepers:
            plan[self.session.keepers[0].name] = max(1, 2 * rounds // 3)
        if COORDINATOR in units:
            plan[COORDINATOR] = max(1, rounds // 2)
        for unit, when in plan.items():
            if round_over >= when and unit not in self._hit and unit in self.processes.running:
                self._hit.add(unit)
                self.processes.kill(unit)
                self._due.append((time.monotonic() + _BACK_AFTER, unit))
                yield Happening(event=f"{unit} is killed (kill -{signal.SIGKILL:d})")

    def _revive(self) -> Iterator[Happening]:
        for when, unit in list(self._due):
            if time.monotonic() >= when:
                self._due.remove((when, unit))
                self.processes.start(unit)
                yield Happening(event=f"{unit} is restarted by the same command")

    def _server_rounds(self) -> Any:
        log, transcript = (
            Tail(self.processes.path(COORDINATOR, "log")),
            Tail(self.processes.path(COORDINATOR, "transcript")),
        )
        heard: dict[int, float] = {}
        shown: set[int] = set()

        def lines() -> Iterator[Happening]:
            told = [event for event in log if event.get("event") == "round-closed"]
            for line in transcript:
                if "y" in line:
                    heard[line["round"]] = float(self.session.lattice.value(line["y"]))
            for event in told:
                t = event["round"]
                if t not in shown:  # a restarted coordinator may repeat it
                    shown.add(t)
                    yield Happening(
                        t + 1, heard.get(t), f"{len(event['used'])}/{self.session.n}", self._epsilon(t + 1)
                    )

        return lines

    def _graph_rounds(self) -> Any:
        logs = {unit: Tail(self.processes.path(unit, "log")) for unit in self.processes.units}
        made = dict.fromkeys(logs, 0)
        used: dict[int, int] = {}
        shown = 0

        def lines() -> Iterator[Happening]:
            nonlocal shown
            for unit, log in logs.items():
                for event in log:
                    if event.get("event") == "updated" and event["round"] >= made[unit]:
                        made[unit] = event["round"] + 1
                        used[event["round"]] = used.get(event["round"], 0) + event["count"]
            most = 2 * len(self.session.edges or ()) + self.session.n
            while shown < min(made.values()):
                shown += 1
                yield Happening(shown, None, f"{used.get(shown - 1, 0)}/{most}", self._epsilon(shown))

        return lines

    def _epsilon(self, rounds: int) -> float:
        from tacit.theory import privacy

        return float(np.max(privacy.epsilon(self.session.mechanism.law, rounds)))

    # ---- afterwards ---------------------------------------------------------------------------------

    @cached_property
    def final(self) -> dict[str, Any]:
        """What each agent printed at its end."""
        return self.processes.results()

    @cached_property
    def verdict(self) -> Verdict:
        """What the transcripts prove."""
        from tacit.runtime.verification.verdict import verify

        return verify(self._transcripts(), failure_probability=self.promise.failure_probability)

    def _transcripts(self) -> list[Path]:
        units = [COORDINATOR] if self.session.topology == "server" else self.processes.units
        return [self.processes.path(unit, "transcript") for unit in units]

    def result(self, files: dict[str, Path]) -> DemoResult:
        """Return the result beside the promise; `files` is what `keep` returned."""
        final = [self.final[name]["value"] for name in self.processes.values]
        mean = float(np.mean(final))
        agreed = self.session.clamp(mean)
        verdict, accuracy = self.verdict, self.verdict.accuracy
        facts = {
            **self.promise.as_dict(),
            "average": self.average,
            "agreed_on": agreed,
            "clamped": agreed != mean,
            "error": abs(agreed - self.average),
            "disagreement": max(final) - min(final),
            "loss": max(self.final[name]["loss"] for name in self.processes.values),
            "cap": self.processes.cap,
            "killed": sorted(self._hit),
            "rounds_per_second": self._speed(),
            "final": final,
            "transcript": {
                "sound": verdict.sound,
                "means": verdict.means,
                "rounds": verdict.rounds,
                "radius": None if accuracy is None else accuracy.radius,
                "radius_any_selection": None if accuracy is None else accuracy.radius_any_selection,
            },
        }
        return DemoResult(facts, self.values, self.session.clamp(final).tolist(), files)

    def _speed(self) -> float | None:
        """Return rounds per second, including pauses and faults.

        It is None on a graph, where no member sees the rounds of all.
        """
        if self.session.topology == "graph" or self.session.exchanges < 2:
            return None
        closed = [
            e["time"] for e in Tail(self.processes.path(COORDINATOR, "log")) if e["event"] == "round-closed"
        ]
        return float((self.session.exchanges - 1) / max(closed[-1] - closed[0], 1e-3))

    def keep(self, out: Path) -> dict[str, Path]:
        """Write the session, its transcript and a picture; return the files.

        The picture shows the made-up values. It needs the extra ``plots``.
        """
        files = {"transcript": out / "demo.jsonl", "session": out / "demo.toml"}
        files["session"].write_bytes((self.processes.folder / "session.toml").read_bytes())
        self._keep_transcript(files["transcript"])
        if find_spec("matplotlib") is not None:
            files |= self._draw(out)
        return files

    def _draw(self, out: Path) -> dict[str, Path]:
        from tacit.plots.fans import fan
        from tacit.plots.trajectories import draw_trajectories

        files = {kind: out / f"demo.{kind}" for kind in ("svg", "png")}
        promised = fan(self.session.mechanism, self.session.rounds, (0.5, self.promise.failure_probability))
        figure = draw_trajectories(self._history(out), promised, f"temperature ({UNIT})")
        for file in files.values():
            write_figure(figure, file)
        return files

    def _keep_transcript(self, path: Path) -> None:
        transcripts = self._transcripts()
        path.unlink(missing_ok=True)
        if len(transcripts) == 1:
            path.write_bytes(transcripts[0].read_bytes())
        else:
            from tacit.runtime.transcript import merge

            merge(transcripts, path)

    def _history(self, out: Path) -> History:
        """Return the history with the agents' private states.

        The demo may read them because all values are made up.
        """
        from tacit.history import Private, read_history

        theta = np.stack([self._states(name) for name in self.processes.values], axis=1)
        return replace(read_history(out / "demo.jsonl"), private=Private(theta))

    def _states(self, name: str) -> FloatArray:
        from tacit.runtime.ledger.ledger import Ledger

        codec = Codec(self.session)
        with Ledger(self.processes.path(name, "ledger"), create=False) as ledger:
            records = ledger.records(self.session.id)
        packed = [record.state for record in records if isinstance(record, Began | Moved)]
        return np.array([float(self.session.lattice.value(codec.unpack(state)[0])) for state in packed])


def _graph(topology: str, agents: int) -> Graph | None:
    if topology == "server":
        return None
    from tacit.graph.families import from_name

    return from_name(topology if ":" in topology else f"{topology}:{agents}")
