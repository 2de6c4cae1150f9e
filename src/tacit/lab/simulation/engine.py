"""Simulate many runs, fast: fused kernels, batches of runs, all cores.

Results depend only on the mechanism, the values, the seed and the number of the run: not on threads, the
batch or what is recorded. They equal `tacit.lab.simulation.reference` on the noise of
``SimulatedNoise(seed).draw(…, run=run)`` up to rounding.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, wait
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from tacit.base.arguments import function, inside_unit, instance, shown, whole
from tacit.base.arrays import ValuesLike
from tacit.base.errors import ParameterError
from tacit.base.extras import explains_extras
from tacit.core.mechanism import Distributed, Mechanism
from tacit.core.mechanism.base import require_mechanism
from tacit.core.noise.simulated import as_seed
from tacit.lab.simulation._layout import Layout, layout
from tacit.lab.simulation.record import Record, require_room
from tacit.lab.simulation.recorder import Kept, dataset
from tacit.lab.simulation.threads import ThreadTeam, finish, thread_count

if TYPE_CHECKING:
    import xarray as xr

    from tacit.core.question import Question
    from tacit.lab.simulation.batches import Setup, Tile

Progress = Callable[[int, int], object]
POLL_SECONDS = 0.1


@explains_extras
def simulate(
    mechanism: Mechanism,
    values: ValuesLike,
    rounds: int,
    *,
    question: Question | None = None,
    failure_probability: float = 0.05,
    runs: int = 1,
    seed: int = 0,
    record: Record | None = None,
    batch: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    on_interrupt: Literal["raise", "keep"] = "raise",
) -> xr.Dataset:
    """Run a mechanism many times on independent simulated noise.

    Parameters
    ----------
    mechanism : ClientServer or Distributed
    values : array_like, mapping or Series, shape (n,) or (n, k)
        θ(0), the same in every run.
    question : Question, optional
        Then `values` are records, one per agent, as of `tacit.ask`: each agent starts at the vector of its
        record. The dataset also has the answer of every run, decoded from the average of all states.
    failure_probability : float
        With which an interval of an answer may miss the truth.
    rounds, runs : int
    seed : int
        Determines the noise, together with the number of the run. Not private: see `SimulatedNoise`.
    record : Record, optional
        What to keep; by default only the final states.
    batch : int, optional
        How many runs to move together; chosen from memory and caches if not given.
    threads : int, optional
        One per core if not given.
    progress : callable, optional
        Called repeatedly with the number of finished rounds, over all runs, and their total.
    on_interrupt : {"raise", "keep"}
        What Ctrl-C does: raise, or return the runs that are finished, if any.

    Returns
    -------
    xarray.Dataset
        ``theta`` (run, round, agent[, component]); ``average`` (run, round[, component]); of a
        record of everything also ``eta``, ``x`` and ``y``, in round ``said``. Parameters are variables
        ``mixing``, ``noise`` and ``decay``; the attributes say what was run. If the graph's nodes have names,
        they are the coordinate ``label`` of ``agent``: ``set_index(agent="label")`` selects by name.
        Agents with dynamics of their own have the components of their state along ``component``.
        With a question also ``estimate``, ``low`` and ``high`` (run, part) of its answer, ``low_all`` and
        ``high_all`` for all parts at once, and ``truth`` (part).

    Raises
    ------
    RecordTooLarge
        If it would not fit in memory; raised before any work.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> from tacit.lab.simulation import simulate
    >>> final = simulate(ClientServer(Fading(0.8, 10, 0.6), agents=500), [50.0] * 500, 30, runs=100)
    >>> dict(final.theta.sizes)
    {'run': 100, 'round': 1, 'agent': 500}
    """
    require_mechanism(mechanism)
    advice = "Make one, like Record(everything=True)."
    record = Record() if record is None else instance("record", record, Record, "a Record", advice)
    rounds, runs = whole("rounds", rounds, 0), whole("runs", runs, 1)
    function("progress", progress)
    if on_interrupt not in ("raise", "keep"):
        raise ParameterError(f'on_interrupt must be "raise" or "keep", got {shown(on_interrupt)}.')
    seed, threads = as_seed(seed), thread_count(threads)
    if question is not None:
        from tacit.lab.simulation.answers_of_runs import started

        failure_probability = inside_unit("failure_probability", failure_probability)
        values, record = started(mechanism, values, question), replace(record, average=True)
    states = mechanism.states(values)
    mechanism.law.deviation(np.float64(max(rounds - 1, 0)))  # refuses more rounds than the law covers
    if mechanism.law.whole_domain:
        from tacit.lab.simulation.once import simulate_once

        found = simulate_once(mechanism, states, rounds=rounds, runs=runs, seed=seed, record=record)
        if question is None:
            return found
        from tacit.lab.simulation.answers_of_runs import with_answers

        return with_answers(found, mechanism, states, question, failure_probability)
    if not mechanism.law.pure and mechanism.law.mixes:
        from tacit.lab.simulation.moving import simulate_gaussian

        return simulate_gaussian(mechanism, states, rounds=rounds, runs=runs, seed=seed, record=record)
    if mechanism.motion.dimension is not None:
        from tacit.lab.simulation.moving import simulate_moving

        return simulate_moving(mechanism, states, rounds=rounds, runs=runs, seed=seed, record=record)
    components = 1 if states.ndim == 1 else states.shape[1]
    plan = layout(mechanism, components, runs, threads, batch)
    served = not isinstance(mechanism, Distributed)
    size = record.size(n=mechanism.n, components=components, rounds=rounds, runs=runs, served=served)
    one_run = 24 * rounds * mechanism.n * components if record.everything else 0
    require_room(record, size, plan.working_bytes + one_run)

    from tacit.lab.simulation.batches import Setup

    # copy: the caller may change the values, and kernels are compiled for one array layout
    theta = np.array(states.reshape(mechanism.n, components), order="C")
    setup = Setup(mechanism, theta, seed, rounds, record.everything, record.average)
    kept = Kept(record, setup, runs)
    interrupted = False
    try:
        _run(setup, plan, kept, threads, progress or (lambda _done, _total: None))
    except KeyboardInterrupt:
        if on_interrupt == "raise" or not kept.finished.any():
            raise
        interrupted = True
    found = dataset(kept, vectors=states.ndim == 2, interrupted=interrupted)
    if question is not None:
        from tacit.lab.simulation.answers_of_runs import with_answers

        return with_answers(found, mechanism, states, question, failure_probability)
    return found


def _run(setup: Setup, plan: Layout, kept: Kept, threads: int, progress: Progress) -> None:
    """Run every tile to its end, all threads on one or each thread on its own."""
    team = ThreadTeam(threads) if threads > 1 and (plan.together or len(plan.tiles) > 1) else None
    try:
        if team is None or plan.together:
            _one_by_one(setup, plan, kept, team, progress)
        else:
            _side_by_side(setup, plan, kept, team, progress)
    finally:
        if team is not None:
            team.dismiss()


def _one_by_one(setup: Setup, plan: Layout, kept: Kept, team: ThreadTeam | None, progress: Progress) -> None:
    done, total = 0, _total(setup, plan)
    for first, width in plan.tiles:
        tile = _tile(setup, first, width, team)
        for step in kept.follow(tile):
            done += step * width
            progress(done // setup.components, total)


def _side_by_side(setup: Setup, plan: Layout, kept: Kept, team: ThreadTeam, progress: Progress) -> None:
    stop, lock = threading.Event(), threading.Lock()
    done, total = 0, _total(setup, plan)

    def work(first: int, width: int) -> None:
        nonlocal done
        if stop.is_set():
            return
        for step in kept.follow(_tile(setup, first, width, None)):
            with lock:
                done += step * width
            if stop.is_set():
                return

    futures = [team.submit(partial(work, first, width)) for first, width in plan.tiles]
    try:
        waiting = set(futures)
        while waiting:
            finished, waiting = wait(waiting, POLL_SECONDS, FIRST_EXCEPTION)
            finish(list(finished))
            progress(done // setup.components, total)
    finally:
        stop.set()
        finish(futures)


def _tile(setup: Setup, first: int, width: int, team: ThreadTeam | None) -> Tile:
    from tacit.lab.simulation.batches import ClientServerTile, DistributedTile, KeeperTile

    if isinstance(setup.mechanism, Distributed):
        return DistributedTile(setup, first, width, team)
    kind = KeeperTile if setup.mechanism.keepers else ClientServerTile
    return kind(setup, first, width, team)


def _total(setup: Setup, plan: Layout) -> int:
    return setup.rounds * sum(width for _, width in plan.tiles) // setup.components
