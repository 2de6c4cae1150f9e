"""`tacit audit`: try to break the promise, and report the result."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options, output, series
from tacit.cli.drawing import require_drawable, width_option, write_figure
from tacit.cli.output import progress

if TYPE_CHECKING:
    from tacit.core.mechanism import Mechanism
    from tacit.core.question import Question
    from tacit.core.theory.plan import Plan
    from tacit.lab.audit.examination import Progress
    from tacit.lab.audit.report import AuditReport
    from tacit.lab.audit.subjects import Subject
    from tacit.lab.plots.sheets import Width

ALARM = 1
"""Exit code if a test found something."""

# The names of tacit.lab.audit.BROKEN, conspiracy.KEEPER_BUGS and asked.QUESTION_BUGS, repeated because --help
# must not load them; a test compares.
BUGS = (
    "redraw", "fades-by-round", "low-scale", "gaussian", "floating-point", "reused-noise", "raw-state",
    "larger-mixing", "smaller-mixing", "guessable-seed", "coarse-lattice", "marked-bit", "single-precision",
    "follows-neighbour", "follows-feedback", "planted-bit", "short-uniform", "rare-decay",
)  # fmt: skip
KEEPER_BUGS = (
    "two-sets", "no-noise", "half-scale", "same-draw", "mask-without-update", "short-seed", "biased-mask",
)  # fmt: skip

QUESTION_BUGS = ("small-diameter", "encode-others", "moving-edges", "counted-twice")

ONCE_BUGS = ("rounded-down", "float-probability", "reused-draw")
"""Of tacit.lab.audit.once.PLANTED, for bits; the last one for staircase noise, too."""

_BITS = {"agents": 3, "law": "bits", "mixing": 0.5, "noise": 11.0}
_BITS |= {"parameters": (("middle", 5.0), ("domain", 10.0))}
_ASKED = {"agents": 3, "mixing": 0.5, "noise": 0.5, "question": "histogram:0,1,2,5,10"}
_PAPER = {"agents": 3, "mixing": 0.8, "noise": 10.0, "decay": 0.6}
_KEEPERS = 2  # that a demonstration of a keeper's bug has
_HOUR = 3600  # seconds

EPILOG = """\b
Examples:
  tacit audit --agents 500 --mixing 0.8 --noise 10 --decay 0.6
  tacit audit --agents 1000 --mixing 0.8 --noise 10 --decay 0.6 --keepers 2
  tacit audit --broken redraw --out audit.svg
  tacit audit --agents 1000 --mixing 0.5 --noise 2 --ask histogram:0,1,2,5,10
  tacit audit transcript.jsonl
  tacit audit recorded/ --json
  tacit audit --series 48 --hides step:2 --agents 1000 --range 0:10 --keepers 1
"""


@click.command(epilog=EPILOG)
@click.argument(
    "files",
    nargs=-1,
    type=click.Path(exists=True, path_type=Path),
    metavar="[TRANSCRIPT]...|[FOLDER]",
)
@options.asked_by("audit")
@click.option(
    "--broken",
    type=click.Choice(BUGS + KEEPER_BUGS + QUESTION_BUGS + ONCE_BUGS + series.BUGS),
    metavar="BUG",
    help=f"Audit a mechanism with a known bug, to see it caught: {', '.join(BUGS)}. "
    f"With keepers: {', '.join(KEEPER_BUGS)}. Of a question: {', '.join(QUESTION_BUGS)}. "
    f"Of bits: {', '.join(ONCE_BUGS)}. Of a series: {', '.join(series.BUGS)}.",
)
@click.option(
    "--simulated", is_flag=True, help="Use noise that follows from --seed, to repeat an audit exactly."
)
@click.option(
    "--sessions", type=options.Whole(200), default=20_000, show_default=True, help="Sessions to run."
)
@click.option(
    "--rounds",
    type=options.Whole(),
    help="Rounds of a session (T).  [default: enough to cover almost all of the loss]",
)
@click.option(
    "--agent",
    type=options.Whole(0),
    help="The agent whose value is varied.  [default: the one with the largest epsilon]",
)
@click.option(
    "--distance",
    type=options.NUMBER,
    help="Distance between its two values.  [default: the easiest to tell apart]",
)
@options.one_adjacency_option
@click.option(
    "--failure-probability",
    type=options.NUMBER,
    default=1e-6,
    show_default=True,
    help="Probability of a false alarm, over all tests together, in (0, 1).",
)
@options.seed_option
@click.option("--out", type=options.OUT_FILE, help="Draw the result: .svg, .png or .pdf.")
@width_option
@options.force_option
@series.or_series(
    series.audit,
    shared=("agents", "keepers", "broken", "simulated", "sessions", "failure_probability", "seed"),
)
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    files: tuple[Path, ...],
    out: Path | None,
    width: Width,
    force: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Try to break the promise: test the loss, the noise and its low bits.

    Parameters are audited as they are deployed: sessions are run many times with each of two values of
    one agent, and every test tries to tell the two apart, or finds noise that is not as declared. With
    keepers, everyone attacks except one agent and one keeper. Of transcripts only the public content is
    used. With --series two streams of readings that the series should hide are told apart, knowing all
    but one keeper. Exit codes: 0 no alarm, 1 alarm, 2 the input cannot be used.
    """
    if out is not None:
        require_drawable(out, force, width)
    with _told() as tell:
        report = _from_files(files, asked, tell) if files else _from_running(asked, tell)
    if out is not None:
        from tacit.lab.plots.audit import draw_audit

        write_figure(draw_audit(report, width=width), out)
    output.print_result(report, as_json, file=out)
    if out is not None and not as_json:
        click.echo(f"Drawn: {out}")
    ctx.exit(0 if report.passed else ALARM)


@contextmanager
def _told() -> Iterator[Progress | None]:
    """Show a progress bar."""
    with progress("audit", "% done") as tell:
        yield None if tell is None else lambda share, _what: tell(round(100 * share), 100)


def _from_files(files: tuple[Path, ...], asked: dict[str, Any], tell: Progress | None) -> AuditReport:
    from tacit.lab.audit.recorded import examine_files, examine_folder

    folder = next((path for path in files if path.is_dir()), None)
    if folder is not None and len(files) > 1:
        raise click.UsageError(f"{folder} is a folder of transcripts: give nothing beside it.")
    if clash := options.given(*_running_options()):
        raise click.UsageError(f"The transcripts already say this: leave {', '.join(clash)} out.")
    common = {name: asked[name] for name in ("adjacency", "failure_probability")}
    common |= {"seeds": _likely_seeds(), "progress": tell}
    if folder is None:
        return examine_files(files, **common)
    return examine_folder(folder, seed=asked["seed"], **common)


def _running_options() -> tuple[str, ...]:
    size = ("agents", "graph", "keepers", "weights", "question")
    law = ("mixing", "noise", "decay", "law", "parameters")
    return (*size, *law, "broken", "simulated", "rounds", "agent", "distance")


def _from_running(asked: dict[str, Any], tell: Progress | None) -> AuditReport:
    plan = _plan(asked)
    mechanism = plan.mechanism()
    if plan.question is not None or plan.low is not None:
        return _asked_for(plan.asked, mechanism, asked, tell)
    how = {name: asked[name] for name in ("distance", "adjacency", "rounds", "failure_probability", "seed")}
    how |= {"transcripts": asked["sessions"], "progress": tell}
    if mechanism.law.whole_domain:
        return _of_one_message(mechanism, asked)
    if mechanism.keepers:
        from tacit.lab.audit.conspiracy import examine_keepers

        if asked["agent"] is not None:
            raise click.UsageError("With keepers all agents are alike: leave --agent out.")
        return examine_keepers(mechanism, bug=asked["broken"], seedable=asked["simulated"], **how)
    from tacit.lab.audit.examination import examine

    subject, agent, notes = _subject(mechanism, asked)
    report = examine(subject, agent=agent, seeds=_likely_seeds(), **how)
    return replace(report, notes=(*notes, *report.notes))


def _of_one_message(mechanism: Mechanism, asked: dict[str, Any]) -> AuditReport:
    """Audit bits or staircase noise: the two starts are the ends of the range."""
    from tacit.lab.audit.once import examine_once

    if clash := options.given("agent", "distance", "adjacency", "rounds", "simulated"):
        raise click.UsageError(f"{mechanism.law.name} noise says this itself: leave {', '.join(clash)} out.")
    how = {name: asked[name] for name in ("failure_probability", "seed")}
    return examine_once(mechanism, transcripts=asked["sessions"], planted=asked["broken"], **how)


def _asked_for(
    question: Question, mechanism: Mechanism, asked: dict[str, Any], tell: Progress | None
) -> AuditReport:
    """Audit a question: the two starts are those of two records."""
    from tacit.lab.audit.asked import examine_question

    if clash := options.given("agent", "distance", "adjacency"):
        raise click.UsageError(f"The records of a question say this: leave {', '.join(clash)} out.")
    how = {name: asked[name] for name in ("rounds", "failure_probability", "seed")}
    how |= {"transcripts": asked["sessions"], "progress": tell}
    return examine_question(mechanism, question, bug=asked["broken"], seedable=asked["simulated"], **how)


def _subject(
    mechanism: Mechanism, asked: dict[str, Any]
) -> tuple[Mechanism | Subject, int | None, tuple[str, ...]]:
    """Return what to run, whose value is varied, and notes for the report."""
    agent = asked["agent"]
    if asked["broken"] is None and not asked["simulated"]:
        return mechanism, agent, ()
    from tacit.lab.audit import Simulated, broken
    from tacit.lab.audit.audit_plan import group_note, stand_in, weakest

    whose = weakest(mechanism) if agent is None else agent
    small, members = stand_in(mechanism, min(whose, mechanism.n - 1))
    subject = Simulated(small) if asked["broken"] is None else broken(asked["broken"], small)
    return subject, members.index(whose) if whose in members else whose, group_note(members, mechanism)


def _plan(asked: dict[str, Any]) -> Plan:
    names = ("agents", "graph", "mixing", "noise", "decay", "weights", "question")
    given = {name: asked[name] for name in names}
    keepers, bug = asked["keepers"], asked["broken"]
    nothing = not any(value is not None for value in given.values()) and not asked["law"]
    if bug is not None and nothing:
        given |= _ASKED if bug in QUESTION_BUGS else _BITS if bug in ONCE_BUGS else _PAPER  # a demonstration
        keepers = keepers or (_KEEPERS if bug in KEEPER_BUGS else 0)
    if bug is not None and (bug in QUESTION_BUGS) != (given["question"] is not None):
        fitting: tuple[str, ...] = BUGS if given["question"] is None else QUESTION_BUGS
        who = "Without" if given["question"] is None else "With"
        raise click.UsageError(f"{who} --ask, --broken must be one of {', '.join(fitting)}, got {bug}.")
    if bug is not None and bug not in QUESTION_BUGS and (bug in KEEPER_BUGS) != (keepers > 0):
        known = KEEPER_BUGS if keepers else BUGS
        who = "With" if keepers else "Without"
        raise click.UsageError(f"{who} keepers --broken must be one of {', '.join(known)}, got {bug}.")
    if "law" not in given:
        given |= {name: asked[name] for name in ("law", "parameters")}
    question = options.read_question(given | {"keepers": keepers})
    if bug is not None and (bug in ONCE_BUGS) != question.chosen_law.whole_domain:
        which = ONCE_BUGS if question.chosen_law.whole_domain else BUGS
        raise click.UsageError(
            f"With {question.chosen_law.name} noise --broken must be one of {', '.join(which)}, got {bug}."
        )
    return question


def _likely_seeds() -> tuple[int, ...]:
    """Seeds to try: common ones, and the times of the last hour."""
    from tacit.lab.audit.seeds import COMMON

    now = int(time.time())
    return (*COMMON, *range(now - _HOUR, now + 1))
