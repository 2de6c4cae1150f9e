"""Simulate a grid of settings, with durable results.

Cells run on this machine or on a cluster. Every finished cell is written to disk before the next one is
reported. A stopped sweep resumes when the same call is made again. A cell is a pure function of the plan and
its number, so it gives the same numbers here, on a cluster, and on a retry after a worker died.
"""

from __future__ import annotations

import math
import os
import secrets
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit import __version__
from tacit.base.arguments import function, path_text
from tacit.base.arrays import FloatArray, ValuesLike
from tacit.base.errors import FileError, InputError, ParameterError
from tacit.core.mechanism import ClientServer, Mechanism
from tacit.lab.simulation import sweep_file
from tacit.lab.simulation.cluster import connected
from tacit.lab.simulation.outcome import sample_outcome
from tacit.lab.simulation.sweep_plan import Grid, SweepPlan, derived_seed

if TYPE_CHECKING:
    import xarray as xr

    from tacit.core.question import Answer

Cell = dict[str, Any]

_ENGINE = threading.Lock()  # one cell at a time per process: the engine uses every core
_STATES = 2**25  # final states held at a time; results for a seed depend on it

PER_RUN = {
    "deviation": "weighted average at the end minus its target",
    "disagreement": "largest minus smallest state at the end",
}
PER_CELL = {
    "noise": "scale of the noise of round 0",
    "decay": "factor by which the noise fades every round; none for noise laws without one",
    "epsilon_rounds": "privacy loss of the rounds that were run, per unit of adjacency",
    "epsilon_endless": "privacy loss of an endless run; none where it has no bound",
    "variance": "of the deviation, in closed form",
    "chebyshev_radius": "of the deviation for the failure probability, by Chebyshev's inequality",
    "average_radius": "of the deviation for the failure probability, exactly",
}
OF_QUESTIONS = {
    "adjacency": "how far apart two records can be",
    "half_width": "of the widest part of the answer, for records that are spread evenly",
    "half_width_all": "the same for all parts at once",
}


def sweep(
    grid: Grid,
    *,
    rounds: int,
    runs: int,
    path: str | os.PathLike[str],
    seed: int = 0,
    values: str | ValuesLike = "zeros",
    method: str = "engine",
    failure_probability: float = 0.05,
    cluster: Any = None,
    progress: Callable[[int, int], object] | None = None,
) -> xr.Dataset:
    """Simulate every combination of settings.

    The same call continues where an earlier one stopped.

    Parameters
    ----------
    grid : mapping from a name to values
        ``agents`` (with a server) or ``graph`` (names like ``ring:100``, or a list of anything that
        `Graph.of` takes, which the results call by a hash of its edges), with ``weights`` (names of rules,
        like ``metropolis``) if wanted; ``mixing``; ``noise`` and
        ``decay``, or ``epsilon`` for the noise and decay that are best for it; and ``law``,
        the names of noise laws: ``fading`` (if not given), ``one-shot``, ``constant``. With ``question``,
        questions or their words like ``histogram:0,1,2``, cells also have the loss and the half widths of
        the answer's intervals; noise is drawn once with a server, and ``loss`` may replace ``epsilon``.
    rounds, runs : int
        Rounds of a run, and runs of every cell.
    path : path
        File for the results, one line of JSON per cell. The same call on the same path continues it;
        a finished sweep returns at once; the file of another sweep is refused.
    seed : int
        Every cell has its own seed, derived from this and the cell's number.
    values : str or array_like
        θ(0): ``zeros``, ``uniform:LOW:HIGH:SEED``, or one number per agent. The deviation does
        not depend on it, the disagreement does. Of an array only a hash is kept.
    method : {"engine", "outcome"}
        Simulate the agents, or sample the deviation without them (`sample_outcome`), which costs
        the same for any number of agents but gives the disagreement only with a server.
    failure_probability : float
        The b of the radii.
    cluster : str or distributed.Client, optional
        Address of a Dask scheduler, like ``tcp://host:8786``; its workers need this tacit. Without
        it cells run here one by one, each on all cores.
    progress : callable, optional
        Called with the number of finished cells and of all cells.

    Returns
    -------
    xarray.Dataset
        One dimension per axis of the grid, and ``run``. See `load_sweep`.
    """
    path = path_text("the path of a sweep", path)
    function("progress", progress)
    plan = SweepPlan.of(
        grid,
        rounds=rounds,
        runs=runs,
        seed=seed,
        values=values,
        method=method,
        failure_probability=failure_probability,
    )
    if not os.path.exists(path):
        plan.require_buildable()
        if cluster is not None:
            with connected(cluster):  # before the file is made
                pass
    with sweep_file.writing(path) as book:
        if book.is_new:
            book.start(plan.document(), plan.digest)
        elif book.digest != plan.digest:
            raise _other_plan(book, plan)
        _run(plan, book, cluster, progress)
    return _dataset(book)


def load_sweep(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read what a sweep has finished so far.

    Returns
    -------
    xarray.Dataset
        One dimension per axis of the grid, and ``run``; NaN where a cell is not finished or a
        quantity does not exist. Per run: ``deviation`` and ``disagreement``. Per cell: the noise and
        decay used, ``epsilon_rounds``, ``epsilon_endless``, ``variance``, ``chebyshev_radius``,
        ``average_radius``.
    """
    return _dataset(sweep_file.read(path))


def run_cell(plan: SweepPlan, cell: int) -> Cell:
    """Simulate one cell. Pure: depends only on the plan and the cell's number."""
    if plan.version != __version__:
        raise InputError(
            f"workers must have the tacit of the sweep, {plan.version}, got {__version__}: results could "
            "differ. Install it on every worker."
        )
    mechanism = plan.mechanism(cell)
    simulated = _sampled if plan.method == "outcome" else _simulated
    deviation, disagreement = simulated(plan, mechanism, plan.cell_seed(cell))
    return {
        "settings": plan.settings(cell),
        "deviation": _told(deviation),
        "disagreement": _told(disagreement),
        **_promised(plan, mechanism),
        **_asked(plan, cell, mechanism),
    }


def _asked(plan: SweepPlan, cell: int, mechanism: Mechanism) -> dict[str, float | None]:
    """How wide the intervals of the answer are."""
    question = plan.question(cell)
    if question is None:
        return {}
    from tacit.core.theory.planned_answer import planned

    spread = question.box[1] - question.box[0]
    answer = planned(mechanism, question, plan.failure_probability, plan.rounds, spread)
    alone, together = _width(answer.radius, answer.each), _width(answer.radius_all_parts, answer.together)
    return {"adjacency": question.adjacency, "half_width": alone, "half_width_all": together}


def _width(radius: float | None, found: Answer) -> float | None:
    """Return the half width of the widest part; None without an interval."""
    ends = [(part.low, part.high) for part in found.parts]
    widths = [(high - low) / 2 for low, high in ends if low is not None and high is not None]
    return radius if radius is not None else max(widths, default=None)


def _run(
    plan: SweepPlan, book: sweep_file.SweepFile, cluster: Any, progress: Callable[[int, int], object] | None
) -> None:
    pending = [cell for cell in range(plan.cells) if cell not in book.finished]

    def tell() -> None:
        if progress is not None:
            progress(len(book.finished), plan.cells)

    tell()
    if not pending:
        return
    here = ((cell, run_cell(plan, cell)) for cell in pending)
    with closing(here if cluster is None else _on_cluster(cluster, plan, pending)) as records:
        for cell, record in records:
            book.append(cell, record)
            tell()


def _on_cluster(cluster: Any, plan: SweepPlan, pending: Iterable[int]) -> Generator[tuple[int, Cell]]:
    """Run the cells on Dask, and yield them as they finish."""
    with connected(cluster, "Finished cells are kept: repeat the same call to continue.") as client:
        from distributed import as_completed

        futures: dict[Any, int] = {}
        try:
            # Unique to this call. Otherwise a client could return cancelled cells of an earlier call.
            call = secrets.token_hex(8)
            for cell in pending:
                key = f"tacit-sweep-{call}-{cell}"
                futures[client.submit(run_cell, plan, cell, key=key)] = cell
            for future in as_completed(list(futures), loop=client.loop):  # type: ignore[no-untyped-call]
                # Do not use with_results: it returns a lost connection as if it were a result.
                yield futures.pop(future), future.result()
        finally:
            if client is cluster:  # a client made here is closed, which releases them
                client.cancel(list(futures))


def _sampled(plan: SweepPlan, mechanism: Mechanism, seed: int) -> tuple[FloatArray, FloatArray]:
    deviation = sample_outcome(mechanism, plan.runs, rounds=plan.rounds, seed=seed)
    apart = math.nan
    if isinstance(mechanism, ClientServer):
        # differences between agents shrink as their starts' influence does, without randomness (lem:con)
        apart = float(mechanism.motion.influence(plan.rounds)) * plan.spread(mechanism.n)
    return deviation, np.full(plan.runs, apart)


def _simulated(plan: SweepPlan, mechanism: Mechanism, seed: int) -> tuple[FloatArray, FloatArray]:
    from tacit.core.theory import accuracy
    from tacit.lab.simulation.engine import simulate
    from tacit.lab.simulation.record import Record

    values = plan.initial_values(mechanism.n)
    averages, apart = [], []
    step = max(1, _STATES // mechanism.n)
    for part, first in enumerate(range(0, plan.runs, step)):
        with _ENGINE:
            end = simulate(
                mechanism,
                values,
                plan.rounds,
                runs=min(step, plan.runs - first),
                seed=derived_seed(seed, part) if part else seed,
                record=Record(average=True),
            )
        averages.append(end["average"].values[:, -1])
        apart.append(np.ptp(end["theta"].values[:, -1], axis=-1))
    return np.concatenate(averages) - accuracy.target(mechanism, values), np.concatenate(apart)


def _promised(plan: SweepPlan, mechanism: Mechanism) -> dict[str, float | None]:
    """The closed forms of a cell."""
    from tacit.core.theory import accuracy, privacy

    law, b = mechanism.law, plan.failure_probability
    try:
        endless = privacy.epsilon(law)
    except ParameterError:  # q ≤ 1 − σ: no bound
        endless = math.nan
    promised = {
        "noise": float(np.asarray(law.c)),
        "decay": float(np.asarray(law.worded().get("decay", math.nan))),
        "epsilon_rounds": privacy.epsilon(law, plan.rounds),
        "epsilon_endless": endless,
        "variance": accuracy.variance(mechanism, plan.rounds),
        "chebyshev_radius": accuracy.chebyshev_radius(mechanism, b, plan.rounds),
        "average_radius": accuracy.radius(mechanism, b, plan.rounds),
    }
    return {name: value if math.isfinite(value) else None for name, value in promised.items()}


def _told(sample: FloatArray) -> list[float] | None:
    """Return a sample for JSON: exact, and without NaN."""
    return None if np.isnan(sample).any() else sample.tolist()


def _other_plan(book: sweep_file.SweepFile, plan: SweepPlan) -> FileError:
    asked = plan.document()
    differ = [name for name in asked if book.plan.get(name) != asked[name]]
    return FileError(
        f"{book.name!r} holds another sweep: {', '.join(differ) or 'its plan'} differ. "
        "Give another path, or repeat the original call to continue it."
    )


def _dataset(book: sweep_file.SweepFile) -> xr.Dataset:
    try:
        return _tabulated(book.plan, book.finished)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise FileError(
            f"{book.name!r} does not match its plan: it was changed by hand. Use another path."
        ) from error


def _tabulated(plan: Mapping[str, Any], finished: Mapping[int, Cell]) -> xr.Dataset:
    import xarray as xr

    grid: Mapping[str, list[Any]] = plan["grid"]
    shape, runs = tuple(len(axis) for axis in grid.values()), int(plan["runs"])
    per_cell = PER_CELL | (OF_QUESTIONS if "question" in grid else {})
    names = PER_RUN | {name: text for name, text in per_cell.items() if name not in grid}
    arrays = {name: np.full((math.prod(shape), *([runs] * (name in PER_RUN))), np.nan) for name in names}
    for cell, record in finished.items():
        for name, array in arrays.items():
            if record[name] is not None:
                array[cell] = record[name]
    variables = {
        name: (
            [*grid, *(["run"] * (name in PER_RUN))],
            array.reshape(shape + array.shape[1:]),
            {"long_name": names[name]},
        )
        for name, array in arrays.items()
    }
    attrs = {name: value for name, value in plan.items() if name != "grid"}
    attrs |= {"cells": math.prod(shape), "finished": len(finished)}
    return xr.Dataset(variables, {name: np.asarray(axis) for name, axis in grid.items()}, attrs)
