"""A figure of an audit: measured and promised loss, and every test."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.audit.report import AuditFinding, AuditReport, LossCurve
from tacit.plots.sheets import Where, Width, panels
from tacit.plots.style import BLUE, GREY, INK, RED, label_line, text_size

_MOST = 2.0  # end of the axis, in alarm levels; larger values are shown as an arrow
_ROW = 0.24  # inches


def draw_audit(report: AuditReport, *, ax: Where = None, width: Width = None) -> Figure:
    """Draw the loss over the rounds, and how close each test is to an alarm.

    `ax` are two Axes, or one if the report has no loss over rounds.
    """
    tests = [f for f in report.findings if closeness(f) is not None]
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
    ax.set_xlabel("rounds seen")
    ax.set_ylabel(f"loss between starts {report.distance:g} apart")
    ax.set_title("Loss: promised at most, measured at least")
    gap = curve.promised[-1] - curve.measured[-1]
    push = 6 * math.copysign(abs(gap) < 0.06 * top, gap)  # keep the two names apart
    label_line(ax, end, curve.promised[-1], "promised", BLUE, offset=(9, push))
    label_line(ax, end, curve.measured[-1], "measured", RED if over[-1] else INK, offset=(9, -push))
    ax.text(
        0.02, 0.97, f"too high with probability at most {report.failure_probability:g}",
        transform=ax.transAxes, color=GREY, fontsize=text_size(8), va="top",
    )  # fmt: skip


def _tests(ax: Axes, tests: list[AuditFinding]) -> None:
    for row, finding in enumerate(reversed(tests)):
        far = closeness(finding) or 0.0
        alarm = finding.verdict == "alarm"
        colour = RED if alarm else INK
        ax.hlines(row, 0, min(far, _MOST), color=colour, lw=1.2)
        marker = ">" if far > _MOST else "^" if alarm else "o"
        ax.plot(min(far, _MOST), row, marker, color=colour, ms=4.5, clip_on=False)
    ax.axvline(1, color=RED, lw=1, ls=(0, (4, 2)))
    ax.set_yticks(range(len(tests)), [f.test for f in reversed(tests)])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlim(0, _MOST + 0.08)
    ax.set_ylim(-0.7, len(tests) - 0.3)
    ax.set_xticks([0, 1, 2], ["nothing", "alarm", "twice"])
    ax.set_title("How near to an alarm")
