"""Audit recorded transcripts; known starts allow more tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import FloatArray, as_states
from tacit.base.errors import FileError, ParameterError
from tacit.core.history import History, read_history, write_history
from tacit.core.history.file import Declared, LineReader
from tacit.lab.audit.audit_plan import AuditPlan, describe
from tacit.lab.audit.examination import (
    Progress,
    TranscriptPair,
    goodness_findings,
    judge_evidence,
    strict_numbers,
)
from tacit.lab.audit.goodness import oddities
from tacit.lab.audit.masked_frames import examine_masked
from tacit.lab.audit.reconstruction import reconstruct
from tacit.lab.audit.report import AuditFinding, AuditReport
from tacit.lab.audit.residual import noise_of
from tacit.lab.audit.rules import rule_findings
from tacit.lab.audit.seeds import guessable
from tacit.lab.audit.testers import coin_for, to_learn_from

INPUTS = "inputs.json"
_LEVEL = 0.95


def write_folder(folder: Path | str, history: History, values: npt.ArrayLike | None = None) -> None:
    """Write every run to a file; write `values` only if given.

    Give them only if the auditor chose them: they are the private values of all agents.
    """
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    for run in range(history.runs):
        write_history(where / f"{run:06d}.jsonl", history.stacked[run])
    if values is not None:
        chosen = history.mechanism.states(values)
        (where / INPUTS).write_text(json.dumps({"values": chosen.tolist()}) + "\n", encoding="utf-8")


def read_folder(folder: Path | str) -> tuple[History, FloatArray | None]:
    """Read all sessions of a folder, and the values if the auditor chose them."""
    where = Path(folder)
    paths = sorted(where.glob("*.jsonl"))
    if not paths:
        raise FileError(
            f"{folder}: there must be at least one transcript, a file that ends in .jsonl: record some first."
        )
    declared = Declared(paths[0], LineReader(paths[0]).declared)
    sessions = History.stack([read_history(path, declared) for path in paths])
    known = where / INPUTS
    return sessions, _inputs(known, sessions.mechanism.n) if known.exists() else None


def _inputs(path: Path, n: int) -> FloatArray:
    try:
        return as_states(json.loads(path.read_text(encoding="utf-8"))["values"], n)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        raise FileError(f'{path} must hold {{"values": […]}}, one for each of the {n} agents.') from None


def examine_folder(
    folder: Path | str,
    *,
    adjacency: float = 1.0,
    failure_probability: float = 1e-6,
    seed: int = 0,
    seeds: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Audit a folder of recorded transcripts.

    `tacit.core.history.file` describes their format.

    Parameters
    ----------
    folder : path
        Transcripts; if ``inputs.json`` has the values, which the auditor chose, the noise is tested too.
        Or two such folders whose values differ in one agent: then the loss is measured too.
    adjacency, failure_probability, seed, seeds, progress
        As for `examine`.
    """
    if not 0 < failure_probability < 1:
        raise ParameterError(f"a failure probability must be in (0, 1), got {failure_probability}.")
    where, tell = Path(folder), progress or (lambda _share, _what: None)
    if not where.is_dir():
        raise FileError(f"{folder}: there is no such folder: give one with transcripts.")
    parts = [p for p in sorted(where.iterdir()) if p.is_dir() and any(p.glob("*.jsonl"))]
    if parts and len(parts) != 2:
        raise FileError(
            f"{folder}: there must be transcripts in it or in two folders of it, got {len(parts)} folders."
        )
    tell(0.0, "reading")
    if not parts:
        files = sorted(where.glob("*.jsonl"))
        if files and _with_keepers(files[0]):
            return examine_masked(
                files, name=where.name, adjacency=adjacency, failure_probability=failure_probability
            )
        transcripts, values = read_folder(where)
        return _one_start(where.name, transcripts, values, adjacency, failure_probability, seeds, tell)
    if any(_with_keepers(path) for part in parts for path in part.glob("*.jsonl")):
        raise FileError(
            f"{folder}: with keepers no transcript shows what an agent loses: audit one folder of "
            "transcripts, or keepers that you run yourself with `tacit audit --keepers 2`."
        )
    (first, values), (second, others) = (read_folder(part) for part in parts)
    if values is None or others is None:
        raise FileError(
            f"{folder}: both folders must have {INPUTS}, which says from which values they started: add it."
        )
    rng = np.random.default_rng([seed, first.runs])
    heads, tails = coin_for(first.runs, second.runs, failure_probability, rng)
    agent, distance = _difference(values, others)
    made = AuditPlan(
        first.mechanism, agent, distance, adjacency, first.rounds, heads + tails, failure_probability
    )
    low_bits = first.exponent is not None
    learn_from = to_learn_from(heads, tails, rng)
    evidence = TranscriptPair(made, first[:heads], second[:tails], values, others, low_bits, learn_from)
    return judge_evidence(evidence, seeds=seeds, progress=tell, subject=where.name)


def examine_files(
    paths: Sequence[Path | str],
    *,
    adjacency: float = 1.0,
    failure_probability: float = 1e-6,
    seeds: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Audit one transcript, or several of one kind, from unknown values.

    Parameters
    ----------
    paths : sequence of paths
        With keepers, also several members' transcripts of one session.
    adjacency, failure_probability, seeds, progress
        As for `examine`.
    """
    if not 0 < failure_probability < 1:
        raise ParameterError(f"a failure probability must be in (0, 1), got {failure_probability}.")
    if not paths:
        raise FileError("there must be a transcript to audit: give at least one file.")
    name = Path(paths[0]).name if len(paths) == 1 else f"{len(paths)} transcripts"
    if _with_keepers(paths[0]):
        return examine_masked(paths, name=name, adjacency=adjacency, failure_probability=failure_probability)
    tell = progress or (lambda _share, _what: None)
    declared = Declared(Path(paths[0]), LineReader(paths[0]).declared)
    transcripts = History.stack([read_history(path, declared) for path in paths])
    return _one_start(name, transcripts, None, adjacency, failure_probability, seeds, tell)


def _with_keepers(path: Path | str) -> bool:
    return Declared(Path(path), LineReader(path).declared).mechanism.keepers > 0


def _difference(values: FloatArray, others: FloatArray) -> tuple[int, float]:
    """Who starts differently, and by how much in the L1 norm."""
    apart = np.abs(values - others).reshape(len(values), -1).sum(axis=1)
    if np.count_nonzero(apart) != 1:
        raise FileError(
            f"the starts must differ for exactly one agent, got {np.count_nonzero(apart)} agents."
        )
    return int(np.argmax(apart)), float(apart.max())


def _one_start(  # noqa: PLR0917 - all of them go into the report
    name: str,
    transcripts: History,
    values: FloatArray | None,
    adjacency: float,
    failure_probability: float,
    seeds: Sequence[int] | None,
    tell: Progress,
) -> AuditReport:
    """Check the rules for every agent, and the noise if the values are known."""
    findings = [*rule_findings(transcripts)]
    notes = (_knowable(transcripts),)
    tell(0.3, "noise")
    if values is None:
        why = f"the values are unknown: add {INPUTS} if the auditor chose them"
        findings.append(AuditFinding("noise", "skipped", why))
    else:
        with strict_numbers():
            noise = noise_of(transcripts, values)
            odd = [*oddities(noise), *guessable(noise, seeds)]
        findings += goodness_findings(odd, failure_probability)
    why = "needs transcripts from two known starts, in two folders"
    findings.append(AuditFinding("loss", "skipped", why))
    tell(1.0, "done")
    return AuditReport(
        subject=name,
        declared=describe(transcripts.mechanism),
        agent=0,
        distance=None,
        adjacency=adjacency,
        rounds=transcripts.rounds,
        transcripts=transcripts.runs,
        failure_probability=failure_probability,
        promised=None,
        measured=None,
        findings=tuple(findings),
        notes=notes,
    )


def _knowable(transcripts: History) -> str:
    """Say how wide an eavesdropper's interval for a value is.

    It must not say where the interval is, because a report may be published.
    """
    widths = []
    for agent in range(transcripts.mechanism.n):
        low, high = reconstruct(transcripts.of(agent)).interval(_LEVEL)
        widths.append(high - low)
    return (
        "Without prior knowledge, an eavesdropper can locate an agent's value within an interval of length "
        f"{np.min(widths):.3g} to {np.max(widths):.3g}, with probability {_LEVEL:g}."
    )
