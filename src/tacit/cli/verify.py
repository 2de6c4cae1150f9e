"""`tacit verify`: judge a session from its transcripts, without any secret."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options, output
from tacit.files import whole_file
from tacit.report import each, near, up

if TYPE_CHECKING:
    from tacit.runtime.verify.verdict import Accuracy, Verdict

EXIT_CODES = {"sound": 0, "unsound": 1, "unchecked": 7}
"""One for each verdict."""

_SHOWN = 20  # findings, and agents, for people

EPILOG = """\b
Examples:
  tacit verify transcript.jsonl --session session.toml
  tacit verify coordinator.jsonl agent-*.jsonl --json
  tacit verify peer-*.jsonl --merge session.jsonl
"""


@click.command(epilog=EPILOG)
@click.argument(
    "transcripts", nargs=-1, required=True, metavar="TRANSCRIPT...", type=click.Path(path_type=Path)
)
@click.option(
    "--session",
    "session_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The session file that was agreed on; otherwise compare the id yourself.",
)
@click.option("--running", is_flag=True, help="Accept that the last rounds are missing: the session goes on.")
@options.failure_option
@click.option("--agent", metavar="NAME", help="How accurate this agent's own result is.")
@click.option("--merge", type=options.OUT_FILE, help="Also write all transcripts as one file.")
@options.force_option
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    transcripts: tuple[Path, ...],
    session_file: Path | None,
    running: bool,
    failure_probability: float,
    agent: str | None,
    merge: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Check what everyone could see of a session: who said what, and whether it adds up.

    Signatures, order, means to the last bit, quorums, noise exponents, losses and contradictions are computed
    anew from the public transcripts of one session. SOUND means that every mean was recomputed from signed
    messages. UNCHECKED means that messages are missing for that, and says which; then no accuracy is shown.
    The coordinator's transcript has all messages; one agent's alone does not. A transcript brings its own
    roster: with --session it must be the one that was agreed on. Exit codes: 0 sound, 1 something is wrong,
    2 the input cannot be read, 7 unchecked.
    """
    from tacit.runtime.session.file import read_session
    from tacit.runtime.verify.verdict import verify

    if merge is not None:
        output.require_writable(merge, force)
    agreed = None if session_file is None else read_session(session_file)
    verdict = verify(
        transcripts, running=running, failure_probability=failure_probability, agent=agent, session=agreed
    )
    if merge is not None:
        _merge(transcripts, merge)
    if as_json:
        output.print_json({**_answer(verdict), "file": merge})
    else:
        _print(verdict)
        if merge is not None:
            click.echo(f"Written: {merge}")
    ctx.exit(EXIT_CODES[verdict.word])


def _merge(transcripts: tuple[Path, ...], out: Path) -> None:
    from tacit.runtime.transcript import merge

    with whole_file(out) as part:
        merge(transcripts, part)


def _answer(verdict: Verdict) -> dict[str, Any]:
    session = verdict.session
    names = [member.name for member in session.roster]
    accuracy = verdict.accuracy
    from tacit.theory.advice import SELECTION

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
            {
                "name": finding.name,
                "wrong": finding.wrong,
                "gap": finding.gap,
                "sentence": finding.sentence,
                "file": finding.file,
                "line": finding.line,
                "round": finding.round,
                "sender": finding.sender,
            }
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
        "accuracy": accuracy
        and {
            "of": accuracy.what,
            **_numbers(accuracy),
            "assumption": SELECTION,
            "weights": dict(zip(names, accuracy.weights.tolist(), strict=True)),
        },
    }


def _numbers(accuracy: Accuracy) -> dict[str, Any]:
    return {
        field.name: getattr(accuracy, field.name)
        for field in dataclasses.fields(accuracy)
        if field.name not in ("what", "weights")
    }


def _named(verdict: Verdict, row: tuple[Any, ...], names: list[str]) -> Any:
    """Whose messages a round used; on a graph, by whom."""
    if verdict.session.topology == "server":
        return [names[i] for i in row]
    by: dict[str, list[str]] = {}
    for i, j in row:
        by.setdefault(names[i], []).append(names[j])
    return by


_SAYS = {
    "unchecked": "Not everything could be checked, so nothing is said about accuracy. What is missing:",
    "unsound": "Something is wrong, so nothing is said about accuracy:",
}


def _print(verdict: Verdict) -> None:
    session = verdict.session
    title = f"{verdict.word.upper()}: session {session.name}, {session.id.hex()[:16]}"
    sections = {
        "Session": _session_rows(verdict),
        "Accuracy": _accuracy_rows(verdict),
        "Loss": _loss_rows(verdict),
    }
    notes = [_SAYS[verdict.word]] if verdict.word in _SAYS else []
    notes += [str(finding) for finding in verdict.findings[:_SHOWN]]
    if len(verdict.findings) > _SHOWN:
        notes.append(f"and {len(verdict.findings) - _SHOWN} more findings: see --json.")
    output.print_report(title, {name: rows for name, rows in sections.items() if rows}, notes)


def _session_rows(verdict: Verdict) -> list[output.Line]:
    session = verdict.session
    kind = "a coordinator" if session.topology == "server" else f"{len(session.edges or ()):,} edges"
    rows: list[output.Line] = [
        ("agents", f"{session.n:,}", f"on the roster, with {kind}"),
        ("rounds", f"{verdict.rounds:,} of {session.rounds:,}", "over"),
        ("means", f"{verdict.means:,}", "computed anew, right to the last bit"),
    ]
    if session.topology == "server" and verdict.used:
        sizes = [len(row) for row in verdict.used]
        full = sum(size == session.n for size in sizes)
        rows.append(("used", f"{each(sizes)}", f"messages in a round; all {session.n:,} in {full:,} rounds"))
    if verdict.claimed is not None:
        name = "result" if verdict.sound else "claimed"
        meaning = "the last feedback" + ("" if verdict.sound else ", not checked")
        rows.append((name, *output.in_range(session, verdict.claimed, meaning)))
    if verdict.equivocators:
        rows.append(
            ("equivocated", ", ".join(verdict.equivocators[:4]), "signed two different messages for one")
        )
    return rows


def _accuracy_rows(verdict: Verdict) -> list[output.Line]:
    accuracy = verdict.accuracy
    if accuracy is None:
        return []
    from tacit.report import component_rows
    from tacit.theory.advice import SELECTION

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
            "the radius without that assumption: whoever chose which messages are used",
        ),
        *component_rows(
            "around what was met",
            accuracy.radius_met,
            accuracy.radius_met_all_components,
            k,
            "the radius around the average with the weights below",
        ),
        ("weights", f"{near(low, 4)} to {near(high, 4)}", "of the agents' values in it"),
        ("shift", up(accuracy.shift), "at most, between the two targets"),
    ]


def _loss_rows(verdict: Verdict) -> list[output.Line]:
    session = verdict.session
    if not any(verdict.messages):
        return []
    apart = f"for values {near(session.adjacency)} apart"
    rows: list[output.Line] = [
        ("messages", each(list(verdict.messages)), "of each agent in these transcripts")
    ]
    if verdict.losses is not None:
        rows.append(("loss", up(max(verdict.losses)), f"at most, of any agent by them, {apart}"))
    if verdict.declared is not None:
        rows.append(("declared", up(max(verdict.declared)), "if it speaks in every round"))
    return rows
