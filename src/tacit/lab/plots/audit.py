"""A figure of an audit: measured and promised loss, and every test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.base.report import counted
from tacit.lab.audit.report import AuditFinding, AuditReport, LossCurve
from tacit.lab.plots.sheets import Where, Width, panels
from tacit.lab.plots.style import BLUE, INK, RED, label_line

_MOST = 2.0  # end of the axis, in alarm levels; larger values are shown as an arrow
_ROW = 0.24  # inches
_QUIET = 0.05  # of the alarm level; tests that are not nearer share one row


def draw_audit(report: AuditReport, *, ax: Where = None, width: Width = None) -> Figure:
    """Draw the loss over the rounds, and how close each test is to an alarm.

    `ax` are two Axes, or one if the report has no loss over rounds.
    """
    tests = _rows(report.findings)
    height, curve = max(3.4, 1.1 + _ROW * len(tests)), report.curve
    size = (5.2, height, 1) if curve is None else (9.2, height, 2)
    layout: dict[str, Any] = {} if curve is None else {"width_ratios": [1.25, 1]}
    with panels(*size, ax=ax, wanted=width, rows=True, **layout) as sheet:
        if curve is not None:
            _loss(sheet.axes[0], report, curve)
        _tests(sheet.axes[-1], tests)
        verdict = "no alarm" if report.passed else f"{len(report.alarms)} alarms"
        sheet.caption(f"{report.subject}: {verdict} in {report.transcripts:,} sessions ({report.declared})")
    return sheet.figure


def closeness(finding: AuditFinding) -> float | None:
    """How close a test came to an alarm: 1 is the alarm.

    None for tests that were skipped.
    """
    if finding.verdict == "skipped":
        return None
    if finding.loss is not None and finding.promised:
        return finding.loss / finding.promised
    if finding.p_value is not None and finding.limit is not None:
        smallest = max(finding.p_value, 1e-300)
        return math.log(min(smallest, 1.0)) / math.log(finding.limit)
    return _MOST if finding.verdict == "alarm" else 0.0


def _rows(findings: Sequence[AuditFinding]) -> list[tuple[str, float, bool]]:
    """Return name, closeness and alarm of each test that saw something.

    All tests that saw next to nothing share the last row: a long column of zeros hides the few that matter.
    """
    tests = [(f.test, closeness(f), f.verdict == "alarm") for f in findings]
    known = [(name, near, alarm) for name, near, alarm in tests if near is not None]
    loud = [row for row in known if row[2] or row[1] >= _QUIET]
    quiet = [near for _, near, alarm in known if not alarm and near < _QUIET]
    if quiet:
        loud.append((counted(len(quiet), "more test" if loud else "test"), max(quiet), False))
    return loud


def _loss(ax: Axes, report: AuditReport, curve: LossCurve) -> None:
    rounds = list(curve.rounds)
    ax.plot(rounds, curve.promised, color=BLUE, drawstyle="steps-mid")
    over = [m > p for m, p in zip(curve.measured, curve.promised, strict=True)]
    ax.vlines(rounds, 0, curve.measured, color=[RED if o else INK for o in over], lw=1.2)
    for seen, marker, colour in ((True, "^", RED), (False, "o", INK)):
        points = [(t, m) for t, m, o in zip(rounds, curve.measured, over, strict=True) if o == seen]
        ax.plot(*zip(*points, strict=True) if points else ([], []), marker, color=colour, ms=4.5)
    top = 1.18 * max(*curve.promised, *curve.measured)
    end = len(rounds)
    ax.set_xlim(0.4, end + 0.4 + 0.19 * (end + 1))
    ax.set_ylim(0, top)
    ax.set_xticks([t for t in rounds if end <= 12 or t % 5 == 0])
    ax.grid(axis="y")
    rate = f"{report.failure_probability:g}"
    ax.set_xlabel(f"rounds seen (measured: too high with probability at most {rate})")
    ax.set_ylabel(f"loss between starts {report.distance:.4g} apart")
    ax.set_title("Loss: promised at most, measured at least")
    gap = curve.promised[-1] - curve.measured[-1]
    push = 6 * math.copysign(abs(gap) < 0.06 * top, gap)  # keep the two names apart
    label_line(ax, end, curve.promised[-1], "promised", BLUE, offset=(9, push))
    label_line(ax, end, curve.measured[-1], "measured", RED if over[-1] else INK, offset=(9, -push))


def _tests(ax: Axes, tests: list[tuple[str, float, bool]]) -> None:
    for row, (_, far, alarm) in enumerate(reversed(tests)):
        colour = RED if alarm else INK
        ax.hlines(row, 0, min(far, _MOST), color=colour, lw=1.2)
        marker = ">" if far > _MOST else "^" if alarm else "o"
        ax.plot(min(far, _MOST), row, marker, color=colour, ms=4.5, clip_on=False)
    ax.axvline(1, color=RED, lw=1, ls=(0, (4, 2)))
    ax.set_yticks(range(len(tests)), [name for name, *_ in reversed(tests)])
    ax.tick_params(axis="y", length=0, pad=8)  # a dot at 0 must not touch the name
    ax.spines["left"].set_visible(False)
    ax.set_xlim(0, _MOST + 0.08)
    ax.set_ylim(-0.7, len(tests) - 0.3)
    ax.set_xticks([0, 1, 2], ["0", "alarm", "2 × alarm"])
    ax.set_title("How close to an alarm")
