"""A verdict as rows for people, and as plain types for programs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tacit.base.report import Row, Summary, component_rows, each, near, result_row, up
from tacit.core.series import written
from tacit.core.theory.advice import NOT_COVERED, SELECTION

if TYPE_CHECKING:
    from tacit.live.verification.verdict import Accuracy, Verdict

_RECOMPUTED = "recomputed, right to the last bit"
_SHOWN = 20  # findings for people

ALL_TOOK_PART = (
    "All agents took part in every round, so the radius of `tacit session check` holds. These agents have "
    "their own dynamics."
)
SOME_WERE_MISSING = (
    "Not every agent took part in every round, and what that means for agents with their own dynamics is not "
    "worked out: no radius is given. The losses hold."
)

_SAYS = {
    "unchecked": "Not everything could be checked, so nothing is said about accuracy. What is missing:",
    "unsound": "Something is wrong, so nothing is said about accuracy:",
}


def verdict_dict(verdict: Verdict) -> dict[str, Any]:
    """Return everything a program would read, ready for JSON."""
    session = verdict.session
    names = [member.name for member in session.roster]
    return {
        "verdict": verdict.word,
        "sound": verdict.sound,
        "session": session.name,
        "id": session.id.hex(),
        "topology": session.topology,
        "rounds": verdict.rounds,
        "rounds_declared": session.rounds,
        "means_recomputed": verdict.means,
        "result": verdict.result,
        "last_feedback": verdict.claimed,
        "result_in_range": None if verdict.result is None else session.clamp(verdict.result),
        "equivocated": list(verdict.equivocators),
        "findings": [
            {"name": finding.name, "wrong": finding.wrong, "gap": finding.gap, **vars(finding)}
            for finding in verdict.findings
        ],
        "agents": {
            name: {
                "messages": verdict.messages[i],
                "loss": verdict.losses and verdict.losses[i],
                "loss_declared": verdict.declared and verdict.declared[i],
            }
            for i, name in enumerate(names)
        },
        "used": [_named(verdict, row, names) for row in verdict.used],
        "accuracy": verdict.accuracy and _accuracy_dict(verdict.accuracy, names),
        **({} if verdict.answer is None else {"answer": verdict.answer.as_dict()}),
        **({} if verdict.series is None else {"series": _series_dict(verdict)}),
    }


def _series_dict(verdict: Verdict) -> dict[str, Any]:
    series, run = verdict.session.series, verdict.series
    assert series is not None
    assert run is not None
    about = {"hides": written(series.hides), "loss": series.loss, "delta": series.delta, "lost": run.lost}
    facts = {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}
    answers = facts.pop("answers")
    told = {"answers": [answer and answer.as_dict() for answer in answers]} if answers else {}
    return {**about, **facts, **told}


def _accuracy_dict(accuracy: Accuracy, names: list[str]) -> dict[str, Any]:
    numbers = {field.name: getattr(accuracy, field.name) for field in dataclasses.fields(accuracy)}
    weights = dict(zip(names, accuracy.weights.tolist(), strict=True))
    return {"of": numbers.pop("what"), **numbers, "assumption": SELECTION, "weights": weights}


def _named(verdict: Verdict, row: tuple[Any, ...], names: list[str]) -> Any:
    """Whose messages a round used; on a graph, by whom."""
    if verdict.session.topology == "server":
        return [names[i] for i in row]
    by: dict[str, list[str]] = {}
    for i, j in row:
        by.setdefault(names[i], []).append(names[j])
    return by


def verdict_summary(verdict: Verdict) -> Summary:
    """Return the verdict for people, with losses and radii rounded up.

    The first findings are its notes.
    """
    session = verdict.session
    sections = {
        "Session": _session_rows(verdict),
        "Answer": [] if verdict.answer is None else verdict.answer.rows(),
        "Accuracy": _accuracy_rows(verdict) if verdict.series is None else _series_rows(verdict),
        "Loss": _loss_rows(verdict),
    }
    notes = [_SAYS[verdict.word]] if verdict.word in _SAYS else []
    if verdict.sound and session.motion is not None:
        whole = verdict.complete and verdict.rounds == session.rounds
        notes.append(ALL_TOOK_PART if whole else SOME_WERE_MISSING)
        notes += session.motion.motion.assumptions
    if verdict.series is not None and verdict.series.incomplete:
        notes.append(NOT_COVERED)
    if verdict.sound and session.edges is not None and session.asked is not None and verdict.answer is None:
        why = (
            "There is no answer: messages were missing, and the noise of such means is not computed."
            if verdict.agent is not None
            else "Name one with --agent to see it."
        )
        notes.append(
            f"On a graph every agent has an answer of its own, from the last mean that it made. {why}"
        )
    notes += [str(finding) for finding in verdict.findings[:_SHOWN]]
    if len(verdict.findings) > _SHOWN:
        notes.append(f"and {len(verdict.findings) - _SHOWN} more findings: see --json.")
    return Summary(
        f"{verdict.word.upper()}: session {session.name}, {session.id.hex()[:16]}",
        {name: rows for name, rows in sections.items() if rows},
        tuple(notes),
    )


def _session_rows(verdict: Verdict) -> list[Row]:
    session = verdict.session
    kind = "a coordinator" if session.topology == "server" else f"{len(session.edges or ()):,} edges"
    rows = [
        Row("agents", f"{session.n:,}", f"on the roster, with {kind}"),
        Row("rounds", f"{verdict.rounds:,} of {session.rounds:,}", "over"),
        Row("means" if session.series is None else "sums", f"{verdict.means:,}", _RECOMPUTED),
    ]
    if session.topology == "server" and verdict.used:
        sizes = [len(row) for row in verdict.used]
        full = sum(size == session.n for size in sizes)
        rows.append(Row("used", each(sizes), f"messages in a round; all {session.n:,} in {full:,} rounds"))
    if verdict.claimed is not None and verdict.answer is None:
        name = "result" if verdict.sound else "claimed"
        what = "the last feedback" if session.series is None else "the mean of the last slot"
        meaning = what + ("" if verdict.sound else ", not checked")
        rows.append(result_row(name, verdict.claimed, session.clamp(verdict.claimed), meaning))
    if verdict.equivocators:
        some = ", ".join(verdict.equivocators[:4])
        rows.append(Row("equivocated", some, "signed two different messages for one"))
    return rows


def _series_rows(verdict: Verdict) -> list[Row]:
    run = verdict.series
    if run is None or not verdict.sound:
        return []
    found = [deviation for deviation in run.deviations if deviation is not None]
    rows = [Row("lost", f"{run.lost:,}", f"of {len(run.used):,} slots: they have no mean")]
    if found:
        rows.append(
            Row("deviation", up(max(found)), "at most, of the noise in any mean, for the agents used")
        )
    means = len(found)
    whole = sum(
        u == verdict.session.n and not b for u, b in zip(run.used, run.incomplete_before, strict=True)
    )
    rows.append(Row("incomplete", f"{run.incomplete:,}", "slots in which an agent was missing"))
    rows.append(Row("of all agents", f"{whole:,}", f"of {means:,} means: nobody is missing, now or before"))
    return rows


def _accuracy_rows(verdict: Verdict) -> list[Row]:
    accuracy = verdict.accuracy
    if accuracy is None or verdict.answer is not None:  # an answer has intervals of its own
        return []
    low, high, k = accuracy.weights.min(), accuracy.weights.max(), accuracy.components
    misses = f"missed with probability {near(accuracy.failure_probability)}"
    return [
        *component_rows(
            "radius",
            accuracy.radius,
            accuracy.radius_all_components,
            k,
            f"of {accuracy.what} around the declared target, {misses}, {SELECTION}",
        ),
        *component_rows(
            "any selection",
            accuracy.radius_any_selection,
            accuracy.radius_any_selection_all_components,
            k,
            "the radius without that assumption, for any choice of messages",
        ),
        *component_rows(
            "around what was met",
            accuracy.radius_met,
            accuracy.radius_met_all_components,
            k,
            "the radius around the average with the weights below",
        ),
        Row("weights", f"{near(low, 4)} to {near(high, 4)}", "of the agents' values in it"),
        Row("shift", up(accuracy.shift), "at most, between the two targets"),
    ]


def _loss_rows(verdict: Verdict) -> list[Row]:
    if not any(verdict.messages):
        return []
    apart = f"for values {near(verdict.session.adjacency)} apart"
    if (series := verdict.session.series) is not None:
        apart = f"for {verdict.session.hidden}, except with probability {near(series.delta)}"
    rows = [Row("messages", each(list(verdict.messages)), "of each agent in these transcripts")]
    if verdict.losses is not None:
        rows.append(Row("loss", up(max(verdict.losses)), f"at most, of any agent by them, {apart}"))
    if verdict.declared is not None:
        rows.append(Row("declared", up(max(verdict.declared)), "if it speaks in every round"))
    return rows
