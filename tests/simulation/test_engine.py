"""The fast engine equals the plain loops, and itself.

Threads and batches do not matter.
"""

import math
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import ClientServer, Distributed, Fading, Graph, OneShot, __version__
from tacit.base.errors import InputError
from tacit.core.mechanism.topology import GivenWeights
from tacit.core.noise import SimulatedNoise
from tacit.lab.simulation import (
    Record,
    _graph_kernels,
    _layout,
    _server_kernels,
    batches,
    history_of,
    load,
    reference,
    save,
    simulate,
)
from tacit.lab.simulation.threads import ThreadTeam, even_work

EVERYTHING = Record(everything=True, average=True)


def star_with_a_tail(n):
    """A hub, leaves, and a path: degrees from 1 to n."""
    edges = [(0, i) for i in range(1, n - n // 4)] + [(i - 1, i) for i in range(n - n // 4, n)]
    return Graph.from_edges(edges, n)


def mechanisms(n, rng):
    """Both mechanisms, both kinds of noise, shared and per-agent parameters."""
    each = rng.uniform(0.2, 0.9, (3, n))
    for parameters in (
        Fading(0.3, 2.0, 0.8),
        Fading(each[0], 5 * each[1], each[2]),
        Fading(each[0], 2.0, 0.7),
        Fading(0.6, 5 * each[1], 0.7),
        Fading(0.6, 2.0, each[2]),
        OneShot(0.3, 2.0),
        OneShot(each[0], 5 * each[1]),
    ):
        yield ClientServer(parameters, n)
        yield Distributed(parameters, star_with_a_tail(n))
        yield Distributed(parameters, star_with_a_tail(n), "metropolis")


# ---------------------------------------------------------------- equal to the reference


def assert_same(execution, expected):
    for name in ("theta", "eta", "x", "y"):
        got, wanted = getattr(execution, name), getattr(expected, name)
        assert got.shape == wanted.shape, name
        np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-11, err_msg=name)


@st.composite
def simulations(draw):
    n = draw(st.integers(1, 12))
    tree = [(draw(st.integers(0, i - 1)), i) for i in range(1, n)]
    chords = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=8))
    edges = {*tree, *(tuple(sorted(e)) for e in chords if e[0] != e[1])}
    graph = Graph.from_edges(sorted(edges), n)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))

    def one_or_each(low, high):
        return float(rng.uniform(low, high)) if draw(st.booleans()) else rng.uniform(low, high, n)

    sigma, c = one_or_each(0.05, 0.95), one_or_each(0.1, 10)
    parameters = OneShot(sigma, c) if draw(st.booleans()) else Fading(sigma, c, one_or_each(0.3, 0.99))
    counts = rng.integers(0, 3, n), rng.integers(1, 5, len(graph.indices))
    weights = draw(st.sampled_from(["closed", "metropolis", None]))
    if weights is None and n > 1:
        weights = GivenWeights(graph, *counts)
    mechanism = (
        ClientServer(parameters, n) if draw(st.booleans()) else Distributed(parameters, graph, weights)
    )
    k = draw(st.sampled_from([None, 1, 2, 3]))
    values = rng.normal(size=n if k is None else (n, k))
    return (
        mechanism,
        values,
        draw(st.integers(0, 6)),
        draw(st.integers(1, 20)),
        draw(st.integers(0, 2**64 - 1)),
    )


@settings(max_examples=50, deadline=None)
@given(simulations(), st.integers(1, 3), st.sampled_from([None, 1, 3]))
def test_every_run_is_the_reference_on_its_noise(simulation, threads, batch):
    mechanism, values, rounds, runs, seed = simulation
    runs *= 1 if batch else 10  # stacks of sheets need many runs
    data = simulate(
        mechanism, values, rounds, runs=runs, seed=seed, record=EVERYTHING, threads=threads, batch=batch
    )
    gamma = mechanism.stationary / np.asarray(mechanism.law.sigma)
    k = None if values.ndim == 1 else values.shape[1]
    for run in {0, runs // 2, runs - 1}:
        noise = SimulatedNoise(seed).draw(mechanism.law, rounds, mechanism.n, k, run)
        execution = history_of(data, mechanism, run)
        assert_same(execution, reference(mechanism, values, noise))
        average = np.tensordot(execution.theta, gamma / gamma.sum(), axes=(1, 0))
        np.testing.assert_allclose(data.average.sel(run=run), average, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("n", [1023, 1025, 2500])
def test_it_is_the_reference_across_blocks_of_agents(n):
    # blocks of a sum have 1024 agents, blocks of draws 512 numbers
    rng = np.random.default_rng(n)
    for mechanism in mechanisms(n, rng):
        values = rng.normal(size=n)
        data = simulate(mechanism, values, 3, runs=3, seed=n, record=EVERYTHING)
        noise = SimulatedNoise(n).draw(mechanism.law, 3, n, run=2)
        assert_same(history_of(data, mechanism, 2), mechanism.execute(values, noise))


@pytest.mark.parametrize("parameters", [Fading(0.3, 2, 0.8), OneShot(0.3, 2)])
@pytest.mark.parametrize("kind", [ClientServer, Distributed])
def test_one_agent_alone_hears_itself(kind, parameters):
    mechanism = kind(parameters, 1 if kind is ClientServer else Graph.from_edges([], 1))
    data = simulate(mechanism, [5.0], 4)
    noise = SimulatedNoise(0).draw(parameters, 4, 1)
    assert data.theta.values.item() == pytest.approx(reference(mechanism, [5.0], noise).theta[-1].item())


def test_no_kernel_is_compiled_twice_for_the_same_arrays():
    # A written 0 is a type of its own to numba, and each kernel takes a second or more to compile.
    for mechanism in mechanisms(3, np.random.default_rng(1)):
        for threads in (1, 2):
            simulate(mechanism, [1.0, 2.0, 3.0], 2, record=EVERYTHING, threads=threads)
    kernels = [
        k for m in (_server_kernels, _graph_kernels) for k in vars(m).values() if hasattr(k, "signatures")
    ]
    used = [[str(kind) for kind in signature] for kernel in kernels for signature in kernel.signatures]
    assert used
    assert [kinds for kinds in used if "Literal" in str(kinds)] == []


# ---------------------------------------------------------------- the same bits, however computed


@pytest.fixture
def finely_shared(monkeypatch):
    """Share even small rounds among threads.

    Also switch between threads often.
    """
    monkeypatch.setattr(_layout, "WORTH_SHARING", 1)
    monkeypatch.setattr(batches, "STEPS_PER_CALL", 10_000)


def identical(a, b):
    return a.equals(b) and all(np.array_equal(a[name], b[name]) for name in ("theta", "average"))


@pytest.mark.usefixtures("finely_shared")
@pytest.mark.parametrize("components", [None, 3])
def test_threads_and_batches_change_no_bit(components):
    rng = np.random.default_rng(1)
    n = 2100
    values = rng.normal(size=n if components is None else (n, components))
    record = Record(every=2, average=True)
    for mechanism in mechanisms(n, rng):
        expected = simulate(mechanism, values, 5, runs=7, seed=2, record=record, threads=1, batch=1)
        for threads, batch in ((1, None), (2, None), (3, 1), (5, 4)):
            got = simulate(mechanism, values, 5, runs=7, seed=2, record=record, threads=threads, batch=batch)
            assert identical(got, expected), (mechanism, threads, batch)


def test_stacks_of_sheets_change_no_bit():
    rng = np.random.default_rng(2)
    record = Record(every=2, agents=[0, 30, 49], average=True)
    for mechanism in mechanisms(50, rng):
        values = rng.normal(size=(50, 2))
        assert max(width for _, width in _layout.layout(mechanism, 2, 100, 1, None).tiles) == 32
        expected = simulate(mechanism, values, 5, runs=100, record=record, batch=1)
        assert identical(simulate(mechanism, values, 5, runs=100, record=record, threads=1), expected)


def test_threads_change_no_bit_with_many_agents():
    n = 70_000
    values = np.random.default_rng(3).normal(size=n)
    ring = Graph.from_edges(np.column_stack([np.arange(n), (np.arange(n) + 1) % n]))
    for mechanism in (ClientServer(Fading(0.3, 2, 0.8), n), Distributed(Fading(0.3, 2, 0.8), ring)):
        record = Record(every=1, agents=[0, 12_345, n - 1], average=True)
        expected = simulate(mechanism, values, 3, runs=2, record=record, threads=1)
        assert _layout.layout(mechanism, 1, 2, 2, None).together
        assert identical(simulate(mechanism, values, 3, runs=2, record=record, threads=2), expected)


@pytest.mark.usefixtures("finely_shared")
@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_recorded_changes_no_bit(threads):
    rng = np.random.default_rng(4)
    values = rng.normal(size=(300, 2))
    for mechanism in mechanisms(300, rng):
        whole = simulate(mechanism, values, 6, runs=3, record=EVERYTHING, threads=threads)
        final = simulate(mechanism, values, 6, runs=3, threads=threads)
        assert np.array_equal(final.theta, whole.theta.sel(round=[6]))
        some = simulate(
            mechanism, values, 6, runs=3, record=Record(every=4, agents=[7, 3], average=True), threads=threads
        )
        assert some.theta.agent.values.tolist() == [3, 7]
        assert np.array_equal(some.theta, whole.theta.sel(round=[0, 4, 6], agent=[3, 7]))
        assert np.array_equal(some.average, whole.average.sel(round=[0, 4, 6]))
        averages = simulate(
            mechanism, values, 6, runs=3, record=Record(every=1, states=False, average=True), threads=threads
        )
        assert "theta" not in averages
        assert np.array_equal(averages.average, whole.average)


def test_the_past_does_not_depend_on_how_long_it_goes_on():
    rng = np.random.default_rng(5)
    for mechanism in mechanisms(50, rng):
        values = rng.normal(size=50)
        longer = simulate(mechanism, values, 9, record=Record(every=1))
        assert np.array_equal(simulate(mechanism, values, 5).theta[:, 0], longer.theta.sel(round=5))


def test_runs_do_not_depend_on_how_many_there_are():
    rng = np.random.default_rng(6)
    for mechanism in mechanisms(50, rng):
        values = rng.normal(size=50)
        more = simulate(mechanism, values, 4, runs=40, seed=9)
        assert np.array_equal(simulate(mechanism, values, 4, runs=13, seed=9).theta, more.theta[:13])
        assert not np.isin(more.theta[0], more.theta[1:]).any()
        assert not np.array_equal(more.theta, simulate(mechanism, values, 4, runs=40, seed=8).theta)


def test_it_can_be_used_from_several_threads():
    mechanism = Distributed(Fading(0.3, 2, 0.8), star_with_a_tail(400))
    values = np.arange(400.0)
    alone = [simulate(mechanism, values, 20, runs=20, seed=seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: simulate(mechanism, values, 20, runs=20, seed=seed), range(4)))
    assert all(a.equals(b) for a, b in zip(alone, together, strict=True))


# ---------------------------------------------------------------- what the paper says of it


def test_the_weighted_average_moves_by_the_weighted_noise_alone():
    # proof of Lemma 8: Σγ_iθ_i(t+1) = Σγ_iθ_i(t) + Σω_iη_i(t), ω_i = |N(i)|+1 in the paper
    rng = np.random.default_rng(7)
    for mechanism in mechanisms(60, rng):
        if mechanism.shadowed:
            continue
        omega = mechanism.stationary
        gamma = omega / np.asarray(mechanism.law.sigma)
        data = simulate(mechanism, rng.normal(size=60), 12, runs=2, record=EVERYTHING)
        moved = np.diff(data.average, axis=1)
        np.testing.assert_allclose(moved, (data.eta.values @ omega) / gamma.sum(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mechanism", [ClientServer(Fading(0.8, 10, 0.6), 30), None])
def test_the_spread_of_the_average_is_the_one_of_the_lemma(mechanism):
    parameters, runs, rounds = Fading(0.8, 10, 0.6), 20_000, 12
    mechanism = mechanism or Distributed(parameters, star_with_a_tail(30))
    gamma = mechanism.closed_degrees / 0.8
    d = np.sum(mechanism.closed_degrees.astype(float) ** 2) / gamma.sum() ** 2
    variance = 2 * d * 100 * (1 - 0.6 ** (2 * rounds)) / (1 - 0.36)
    data = simulate(
        mechanism, np.full(30, 5.0), rounds, runs=runs, seed=1, record=Record(states=False, average=True)
    )
    deviation = data.average.values[:, 0] - 5
    assert abs(deviation.mean()) < 4.5 * math.sqrt(variance / runs)
    # the kurtosis of a Laplace variable is 6, so that of a sum of them at most 6
    assert abs(deviation.var() / variance - 1) < 4.5 * math.sqrt(5 / runs)


# ---------------------------------------------------------------- the dataset


def test_the_dataset_says_what_was_run():
    n = 6
    mechanism = Distributed(Fading(np.linspace(0.2, 0.8, n), 3.0, 0.9), star_with_a_tail(n))
    data = simulate(mechanism, np.zeros((n, 2)), 4, runs=3, seed=17, record=Record(every=3, agents=[1, 4]))
    assert data.theta.dims == ("run", "round", "agent", "component")
    assert data["round"].values.tolist() == [0, 3, 4]
    assert data.mixing.sel(agent=4) == pytest.approx(0.68)
    assert float(data.noise) == 3
    assert float(data.decay) == 0.9
    assert "indptr" not in data
    assert data.attrs.pop("edges").tolist() == mechanism.graph.edges().tolist()
    assert data.attrs.pop("values_sha256") != data.attrs["graph_sha256"]
    assert data.attrs == {
        "graph_sha256": mechanism.graph.sha256,
        "mechanism": "distributed",
        "weights": "closed",
        "law": "fading",
        "agents": n,
        "keepers": 0,
        "rounds": 4,
        "seed": 17,
        "interrupted": 0,
        "tacit_version": __version__,
    }


def test_a_record_of_everything_can_be_kept_in_a_file(tmp_path):
    import xarray as xr

    mechanism = Distributed(OneShot(0.5, 3.0), star_with_a_tail(6))
    data = simulate(mechanism, np.arange(6.0), 4, runs=2, record=EVERYTHING)
    assert "decay" not in data
    assert data.attrs["law"] == "one-shot"
    assert np.array_equal(data.indices, mechanism.graph.indices)
    data.to_netcdf(tmp_path / "data.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "data.nc", engine="h5netcdf") as again:
        assert_same(history_of(again, mechanism, 1), history_of(data, mechanism, 1))


@pytest.mark.parametrize("weights", ["closed", "metropolis", "given"])
def test_a_record_of_everything_says_which_weights_ran(tmp_path, weights):
    graph = star_with_a_tail(6)
    counts = (np.arange(6), np.arange(1, 1 + len(graph.indices)))
    rows = GivenWeights(graph, *counts) if weights == "given" else weights
    mechanism = Distributed(Fading(np.linspace(0.3, 0.8, 6), 1.0, 0.9), graph, rows)
    save(simulate(mechanism, np.arange(6.0), 4, runs=2, record=EVERYTHING), tmp_path / "data.nc")
    data = load(tmp_path / "data.nc")
    assert data.attrs["weights"] == weights
    again = history_of(data, run=1)
    assert_same(again, history_of(data, mechanism, 1))
    np.testing.assert_array_equal(
        again.mechanism.topology.matrix.toarray(), mechanism.topology.matrix.toarray()
    )
    assert again.mechanism.law == mechanism.law
    other = "closed" if weights == "metropolis" else "metropolis"
    with pytest.raises(InputError, match="its weights differ"):
        history_of(data, Distributed(mechanism.law, graph, other))
    server = ClientServer(Fading(0.5, 1.0, 0.9), 6, keepers=2)
    data = simulate(server, np.arange(6.0), 2, record=EVERYTHING)
    assert "weights" not in data.attrs
    assert history_of(data).mechanism.keepers == 2


def test_executions_need_what_they_are_made_of():
    mechanism = ClientServer(Fading(0.5, 1, 0.9), 3)
    with pytest.raises(InputError, match="everything=True"):
        history_of(simulate(mechanism, np.zeros(3), 2), mechanism)
    data = simulate(mechanism, np.zeros(3), 2, record=EVERYTHING)
    with pytest.raises(InputError, match="must be the one that was simulated"):
        history_of(data, ClientServer(Fading(0.5, 1, 0.9), 4))
    with pytest.raises(InputError, match="run must be one of the 1 runs"):
        history_of(data, mechanism, 1)


def test_no_rounds_are_no_rounds():
    mechanism = ClientServer(Fading(0.5, 1, 0.9), 3)
    data = simulate(mechanism, [1.0, 2.0, 3.0], 0, runs=2, record=EVERYTHING)
    assert data.theta.values.tolist() == [[[1.0, 2.0, 3.0]]] * 2
    assert history_of(data, mechanism, 1).rounds == 0


# ---------------------------------------------------------------- progress and interruption

SMALL = ClientServer(Fading(0.5, 1, 0.9), 100)
LARGE = Distributed(Fading(0.5, 1, 0.9), star_with_a_tail(3000))


@pytest.mark.usefixtures("finely_shared")
@pytest.mark.parametrize("mechanism", [SMALL, LARGE])
@pytest.mark.parametrize("threads", [1, 2])
def test_progress_rises_to_the_total(mechanism, threads):
    told = []
    simulate(
        mechanism, np.zeros((mechanism.n, 2)), 10, runs=9, threads=threads, batch=2,
        progress=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    assert told == sorted(told)
    assert told[-1] == (90, 90)
    assert {total for _, total in told} == {90}


class Interrupt:
    """Ctrl-C after some share of the work."""

    def __init__(self, share):
        self.share = share

    def __call__(self, done, total):
        if done >= self.share * total:
            raise KeyboardInterrupt


def own_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("tacit-crew")]


@pytest.mark.usefixtures("finely_shared")
@pytest.mark.parametrize("mechanism", [SMALL, LARGE])
@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_stops_it_and_leaves_no_thread(mechanism, threads):
    with pytest.raises(KeyboardInterrupt):
        simulate(mechanism, np.zeros(mechanism.n), 50, runs=20, threads=threads, progress=Interrupt(0.5))
    assert not own_threads()


@pytest.mark.usefixtures("finely_shared")
@pytest.mark.parametrize("mechanism", [SMALL, LARGE])
@pytest.mark.parametrize("threads", [1, 2])
def test_finished_runs_can_be_kept(mechanism, threads):
    values = np.arange(float(mechanism.n))
    whole = simulate(mechanism, values, 50, runs=20)
    some = simulate(
        mechanism, values, 50, runs=20, threads=threads, batch=1, progress=Interrupt(0.5), on_interrupt="keep"
    )
    assert some.attrs["interrupted"] == 1
    assert 0 < some.sizes["run"] <= 20
    assert np.array_equal(some.theta, whole.theta.sel(run=some.run))


def test_nothing_finished_is_nothing_to_keep():
    with pytest.raises(KeyboardInterrupt):
        simulate(SMALL, np.zeros(100), 50, threads=1, progress=Interrupt(0), on_interrupt="keep")


def test_an_error_in_a_thread_is_raised(monkeypatch):
    def fails(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(batches.ClientServerTile, "advance", fails)
    with pytest.raises(RuntimeError, match="broken"):
        simulate(SMALL, np.zeros(100), 5, runs=50, threads=2)
    assert not own_threads()


# ---------------------------------------------------------------- layout


@given(
    st.integers(1, 10**7),
    st.integers(1, 5),
    st.integers(1, 300),
    st.integers(1, 64),
    st.integers(1, 400) | st.none(),
)
def test_tiles_cover_every_column_once(n, components, runs, threads, batch):
    plan = _layout.layout(ClientServer(Fading(0.5, 1, 0.9), n), components, runs, threads, batch)
    covered = [c for first, width in plan.tiles for c in range(first, first + width)]
    assert covered == list(range(components * runs))
    assert all(width in _layout.WIDTHS or width % _layout.WIDEST == 0 for _, width in plan.tiles)
    assert not plan.together or max(width for _, width in plan.tiles) <= _layout.WIDEST
    if batch is not None:
        whole = batch * components
        assert all(first // whole == (first + width - 1) // whole for first, width in plan.tiles)


def test_small_runs_are_stacked_with_some_tiles_for_every_thread():
    mechanism = ClientServer(Fading(0.5, 1, 0.9), 10)
    plan = _layout.layout(mechanism, 1, 100_000, 4, None)
    assert 16 <= len(plan.tiles) <= 40
    assert not plan.together
    widths = [width for _, width in _layout.layout(mechanism, 1, 50, 2, None).tiles]
    assert len(widths) >= 8


def test_little_memory_makes_narrow_tiles(monkeypatch):
    mechanism = Distributed(Fading(0.5, 1, 0.9), star_with_a_tail(1000))
    assert max(width for _, width in _layout.layout(mechanism, 1, 500, 2, None).tiles) > 16
    monkeypatch.setattr(_layout, "available_memory", lambda: 4 * 24 * 1000 * 3)
    assert max(width for _, width in _layout.layout(mechanism, 1, 500, 2, None).tiles) == 2


@given(st.integers(2, 400), st.integers(1, 9))
def test_shares_cover_the_agents_and_spread_the_work(n, threads):
    team = ThreadTeam(threads)
    graph = star_with_a_tail(n)
    bounds = even_work(graph.indptr, team)
    team.dismiss()
    assert bounds[0] == 0
    assert bounds[-1] == n
    assert (np.diff(bounds) >= 0).all()
    work = np.diff(graph.indptr[bounds] + bounds)
    heaviest = int(graph.degrees.max()) + 1
    assert work.max() <= (len(graph.indices) + n) / (len(bounds) - 1) + heaviest


# ---------------------------------------------------------------- refusals and manners


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rounds": -1}, "rounds must be"),
        ({"runs": 0}, "runs must be"),
        ({"seed": -1}, "seed must be"),
        ({"threads": 0}, "threads must be"),
        ({"batch": 0}, "batch must be"),
        ({"on_interrupt": "maybe"}, "on_interrupt must be"),
        ({"values": [0.0] * 3}, "one row per agent"),
        ({"values": [float("nan")] * 100}, "finite"),
    ],
)
def test_what_cannot_be_simulated_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        simulate(SMALL, **{"values": np.zeros(100), "rounds": 1, **arguments})


def test_values_are_not_changed():
    for mechanism in mechanisms(40, np.random.default_rng(8)):
        values = np.arange(40.0)
        simulate(mechanism, values, 3)
        assert np.array_equal(values, np.arange(40.0))


def test_loading_the_engine_is_cheap():
    code = "import sys, tacit.lab.simulation.engine; assert not {'numba', 'xarray'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
