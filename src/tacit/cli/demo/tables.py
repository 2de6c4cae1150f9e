"""What the demo shows: the rounds as they happen, and the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from tacit.errors import installing
from tacit.report import Grid, Row, Shown, Summary, near, up

if TYPE_CHECKING:
    from tacit.cli.demo.scenario import Happening

LOW, HIGH, UNIT = 15.0, 25.0, "°C"
_STRIP = 39  # width of the line, in characters: the table fits 80 columns
_MOST_AGENTS, _SIDE_BY_SIDE = 40, 3


def rounds_table(lines: Sequence[Happening], target: float) -> Grid:
    """Return a table of rounds, with the feedback as a mark on a line."""
    rows = []
    for line in lines:
        if line.event:
            rows.append(("", "", "", "", line.event))
            continue
        heard = "" if line.feedback is None else f"{line.feedback:.3f}"
        place = "" if line.feedback is None else strip([line.feedback])
        rows.append((str(line.round), heard, line.used, up(line.epsilon), place))
    columns = ("round", "feedback", "used", "ε so far", scale(target))
    return Grid("Rounds (▼ is the true average)", columns, rows, right=(0, 1, 2, 3))


def scale(target: float) -> str:
    """Return the ends of the line, and a mark at the true average."""
    low, high = f"{LOW:g}", f"{HIGH:g} {UNIT}"
    marks = list(low + " " * (_STRIP - len(low)) + high)
    marks[_place(target)] = "▼"
    return "".join(marks)


def strip(states: list[float]) -> str:
    """Draw states on a line: · for one state, : for a few, # for many."""
    counts = [0] * _STRIP
    for state in states:
        counts[_place(state)] += 1
    many = max(4, len(states) // 4)
    return "".join(" " if k == 0 else "·" if k == 1 else ":" if k < many else "#" for k in counts)


def _place(value: float) -> int:
    share = (value - LOW) / (HIGH - LOW)
    return min(_STRIP - 1, max(0, round(share * (_STRIP - 1))))


@final
@dataclass(frozen=True)
class DemoResult(Shown):
    """The demo's result beside the promise. All values are made up.

    Attributes
    ----------
    facts : mapping
        The promise, the result and the verdict on the transcript, by name.
    started, ended : sequence of float
        The first and the last state of every agent, the last clamped to the range.
    files : mapping of str to path
        The files that were written.
    """

    facts: Mapping[str, Any]
    started: Sequence[float]
    ended: Sequence[float]
    files: Mapping[str, Path]

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return {**self.facts, "files": dict(self.files)}

    def summary(self) -> Summary:
        """Return the result for people, beside the promise."""
        facts = self.facts
        agree = f"all {facts['agents']:,} agents within {near(facts['disagreement'], 3)}"
        agree += "; clamped to the range" if facts["clamped"] else ""
        kept = facts["error"] <= facts["radius"]
        verdict = "kept" if kept else f"missed, which has probability {facts['failure_probability']:g}"
        sections = {
            "Result": [
                Row("true average", f"{facts['average']:.4f}", f"of the made-up values, in {UNIT}"),
                Row("agreed on", f"{facts['agreed_on']:.4f}", agree),
                Row("error", f"{facts['error']:.4f}", f"promised at most {up(facts['radius'])}: {verdict}"),
            ],
            "Privacy": [
                Row("epsilon", up(facts["epsilon"]), f"ε per {UNIT}, for these rounds"),
                Row("loss", up(facts["loss"]), "the largest loss in any agent's ledger"),
            ],
            "Transcript": self._verdict_rows(),
            "Files": self._file_rows(),
        }
        return Summary("The session is over", sections)

    def _verdict_rows(self) -> list[Row]:
        verdict = self.facts["transcript"]
        what = "signatures, order, means to the last bit, losses, no contradictions"
        rows = [
            Row("verdict", "sound" if verdict["sound"] else "NOT SOUND", what),
            Row("means", f"{verdict['means']:,}", "recomputed from the signed messages, and right"),
        ]
        if verdict["radius"] is not None:
            from tacit.theory.advice import SELECTION

            met, proof = up(verdict["radius"]), up(verdict["radius_any_selection"])
            rows.append(Row("radius", met, f"for the messages that were used, {SELECTION}"))
            rows.append(Row("any selection", proof, "the radius without that assumption"))
        return rows

    def _file_rows(self) -> list[Row]:
        picture = Row("picture", "none", f"drawing needs an extra; {installing('plots')}")
        if "svg" in self.files:
            picture = Row("picture", str(self.files["svg"]), f"also {self.files['png']}")
        seen = "what an adversary could see: tacit verify, tacit audit"
        return [
            picture,
            Row("transcript", str(self.files["transcript"]), seen),
            Row("session", str(self.files["session"]), "what all agreed on: tacit session check"),
        ]

    def endings(self) -> Grid:
        """Return first and last states of at most 40 agents, 3 to a row."""
        pairs = list(zip(self.started, self.ended, strict=True))[:_MOST_AGENTS]
        cells = [(f"{i}", f"{start:.3f}", f"{end:.3f}") for i, (start, end) in enumerate(pairs)]
        rows = -(-len(cells) // _SIDE_BY_SIDE)
        cells += [("", "", "")] * (_SIDE_BY_SIDE * rows - len(cells))
        columns = ("agent", "started", "ended") * _SIDE_BY_SIDE
        table = [[cell for part in cells[row::rows] for cell in part] for row in range(rows)]
        right = tuple(range(len(columns)))
        return Grid(f"Each agent, in made-up {UNIT}", columns, table, right=right)
