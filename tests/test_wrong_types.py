"""Arguments of a wrong type are refused in one sentence, like numbers out of range."""

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest

import tacit
from tacit import ClientServer, Constant, Distributed, Fading, Graph, InputError, OneShot
from tacit.lab.simulation import Record, simulate, sweep

LAW = Fading(0.8, 10, 0.6)
RING = Graph.from_name("ring:4")
SERVER = ClientServer(LAW, agents=4)
VALUES = [0.0, 1.0, 2.0, 3.0]
SECRET = "71.25"
"""A private value, given at a wrong place. No error may show it."""
SWAPPED = [float(SECRET)] * 4


class Odd:
    """Something that is nothing that tacit takes."""


ODD = Odd()
WHOLE = (10.0, "10", 2.5, True, ODD, [3], SWAPPED, np.array(SWAPPED))
NUMBER = ("1", ODD, [1.0, 2.0], SWAPPED, np.array(SWAPPED), 1j)
MECHANISM = (LAW, RING, "ring:4", ClientServer, 4, None, ODD)
GRAPH = ("nothing:4", "", 4, 4.5, LAW, Graph, ODD, [1, 2, 3], b"ring:4")
STATES = ("abc", 5, None, ODD, [[[1.0]]], [1.0, 2.0], RING, ["a"] * 4, [[1.0], [1.0, 2.0]] * 2)
FLAG = ("no", 2, ODD)


def each(call: Callable[[object], object], name: str, wrong: tuple[object, ...]) -> list[object]:
    """One case per wrong value."""
    return [pytest.param(call, one, id=f"{name}-{k}-{type(one).__name__}") for k, one in enumerate(wrong)]


def _simulate(**given: object) -> object:
    return simulate(**{"mechanism": SERVER, "values": VALUES, "rounds": 2} | given)  # type: ignore[arg-type]


def _compare(**given: object) -> object:
    usual = {"graph": RING, "values": VALUES, "epsilon": 1.0, "runs": 2, "methods": ["one-shot"], "rounds": 2}
    return tacit.compare(**usual | given)  # type: ignore[arg-type]


def _examine(**given: object) -> object:
    return tacit.examine(**{"subject": SERVER, "transcripts": 200, "rounds": 1} | given)  # type: ignore[arg-type]


def _sweep(**given: object) -> object:
    usual = {
        "grid": {"agents": 4, "mixing": 0.8, "epsilon": 1.0},
        "rounds": 2,
        "runs": 2,
        "path": "/dev/null/x",
    }
    return sweep(**usual | given)  # type: ignore[arg-type]


def of(verb: Callable[..., object], **fields: tuple[object, ...]) -> list[object]:
    """The cases of a function's keywords."""
    return [
        case
        for field, wrong in fields.items()
        for case in each(lambda one, f=field: verb(**{f: one}), f"{verb.__name__}-{field}", wrong)  # type: ignore[misc]
    ]


def _analyze(**given: object) -> object:
    return tacit.analyze(**{"mechanism": SERVER} | given)  # type: ignore[arg-type]


def _server(**given: object) -> object:
    return ClientServer(**{"law": LAW, "agents": 4} | given)  # type: ignore[arg-type]


def _graph(**given: object) -> object:
    return Distributed(**{"law": LAW, "graph": RING} | given)  # type: ignore[arg-type]


def _fading(**given: object) -> object:
    return Fading(**{"sigma": 0.8, "c": 10, "q": 0.6} | given)  # type: ignore[arg-type]


def _one_shot(**given: object) -> object:
    return OneShot(**{"sigma": 0.8, "c": 10} | given)  # type: ignore[arg-type]


def _constant(**given: object) -> object:
    return Constant(**{"sigma": 0.8, "c": 10} | given)  # type: ignore[arg-type]


def _design(**given: object) -> object:
    return tacit.design(**{"epsilon": 1.0} | ({} if "graph" in given else {"agents": 4}) | given)  # type: ignore[arg-type]


def _weighted(**given: object) -> object:
    return tacit.WeightedMean(**{"low": 0, "high": 1, "most": 1} | given)  # type: ignore[arg-type]


def _variance(**given: object) -> object:
    return tacit.Variance(**{"low": 0, "high": 1} | given)  # type: ignore[arg-type]


def _mean(**given: object) -> object:
    return tacit.Mean(**{"low": 0, "high": 1} | given)  # type: ignore[arg-type]


def _quantile(**given: object) -> object:
    return tacit.Quantile(**{"edges": [0, 1, 2]} | given)  # type: ignore[arg-type]


def _groups(**given: object) -> object:
    return tacit.GroupBy(**{"labels": ["a", "b"], "question": tacit.Mean(0, 1)} | given)  # type: ignore[arg-type]


def _several(**given: object) -> object:
    return tacit.Several(**{"questions": [tacit.Mean(0, 1)]} | given)  # type: ignore[arg-type]


def _own(**given: object) -> object:
    return tacit.Own(**{"vector": lambda x: [x], "centre": [0], "radius": 1} | given)  # type: ignore[arg-type]


MANY = (3, 0.5, None, ODD, "ab", b"ab", [ODD], [[1]], [])
"""Nothing that is a list of numbers."""

CASES = [
    *of(_mean, low=NUMBER, high=NUMBER, numbers=WHOLE),
    *of(_weighted, low=NUMBER, high=NUMBER, most=NUMBER),
    *of(_variance, low=NUMBER, stretch=NUMBER),
    *each(tacit.Histogram, "Histogram", MANY),  # type: ignore[arg-type]
    *of(_quantile, edges=MANY, shares=(*MANY, ["0.5"], [1.5])),
    *of(_groups, labels=MANY, question=(3, None, ODD, "mean", tacit.Mean)),
    *of(_several, questions=(3, ODD, "mean", [3], []), weights=(3, ODD, "1", [ODD], [0], [1, 2])),
    *of(_own, vector=(3, None, ODD), centre=MANY, radius=(*NUMBER, 0), vertices=MANY[:-1]),
    *of(_analyze, mechanism=MECHANISM, adjacency=NUMBER, failure_probability=NUMBER, rounds=WHOLE),
    *of(_analyze, tolerance=NUMBER, spread=NUMBER, components=WHOLE),
    *of(_simulate, mechanism=MECHANISM, values=STATES, rounds=WHOLE, runs=WHOLE, batch=WHOLE, threads=WHOLE),
    *of(
        _simulate,
        seed=("x", 1.0, ODD, SWAPPED),
        record=("everything", True, Record, ODD),
        progress=("yes", ODD),
    ),
    *of(_simulate, on_interrupt=(ODD, 1, None)),
    *of(_compare, graph=GRAPH, values=STATES, epsilon=NUMBER, adjacency=NUMBER, rounds=WHOLE, runs=WHOLE),
    *of(_compare, seed=("x", 1.0), mixing=NUMBER, delta=NUMBER, tolerance=NUMBER, keepers=WHOLE),
    *of(
        _compare, failure_probability=NUMBER, agent=("a", 1.0, ODD), methods=("one-shot", ODD, 3, [ODD], [[]])
    ),
    *of(_compare, weights=(3, ODD, "heavy", RING), progress=("yes",)),
    *of(_examine, subject=MECHANISM, adjacency=NUMBER, distance=NUMBER, rounds=WHOLE, transcripts=WHOLE),
    *of(
        _examine,
        failure_probability=NUMBER,
        seed=("x", 1.0, -1),
        agent=("a", 1.0, ODD),
        values=STATES[:2] + STATES[3:],
    ),
    *of(_examine, seeds=("x", 3, ["x"], [1.5], ODD), progress=("yes",)),
    *of(
        _sweep, grid=("agents", None, [1], ODD, {"agents": ODD, "mixing": 0.8, "epsilon": 1.0}), rounds=WHOLE
    ),
    *of(
        _sweep,
        runs=WHOLE,
        seed=("x", 1.0),
        values=STATES[:4],
        method=(ODD, 1, []),
        failure_probability=NUMBER,
    ),
    *of(_sweep, path=(3, None, ODD), cluster=(3, ODD), progress=("yes",)),
    *of(
        _design, agents=WHOLE, graph=(*GRAPH, None), epsilon=NUMBER, loss=NUMBER, radius=NUMBER, keepers=WHOLE
    ),
    *of(
        _design,
        failure_probability=NUMBER,
        mixing=NUMBER[:3],
        rounds=WHOLE,
        components=WHOLE,
        adjacency=NUMBER,
    ),
    *of(_design, law=(LAW, 3, ODD, "no such", Graph, int), weights=(3, ODD, "metropolis"), true_average=FLAG),
    *of(_design, tolerance=NUMBER, spread=NUMBER, low=NUMBER, high=NUMBER),
    *of(_server, law=(Fading, "fading", None, RING, ODD), agents=(*WHOLE, RING, None), keepers=WHOLE),
    *of(_graph, law=(Fading, "fading", None, RING, ODD), graph=GRAPH, weights=(3, ODD, "heavy", RING)),
    *of(_fading, sigma=("0.8", ODD, None, RING), c=("10", ODD, None, RING), q=("0.6", ODD, None, RING, True)),
    *of(_one_shot, sigma=("0.8", ODD, None), c=("10", ODD, None, True)),
    *of(_constant, sigma=("0.8", ODD, None), c=("10", ODD, None, True)),
    *each(Graph.from_edges, "from_edges", ("ring:4", 3, None, ODD, [1, 2], [(1, "a")], RING)),  # type: ignore[arg-type]
    *each(Graph.from_name, "from_name", (RING, 3, None, b"ring:4", ODD)),  # type: ignore[arg-type]
    *each(Graph.from_file, "from_file", (RING, 3.0, None, ODD)),  # type: ignore[arg-type]
    *each(Graph.load, "load", (RING, 3.0, None, ODD)),  # type: ignore[arg-type]
    *each(Graph.from_networkx, "from_networkx", (RING, "ring:4", ODD)),  # type: ignore[arg-type]
    *each(Graph.from_sparse, "from_sparse", (RING, "ring:4", nx.path_graph(3))),
    *each(SERVER.start, "start", STATES),  # type: ignore[arg-type]
    *each(lambda noise: SERVER.execute(VALUES, noise), "execute", ("x", 3, None, ODD, [[1.0]])),  # type: ignore[arg-type]
    *of(Record, every=WHOLE, agents=("ab", 3, [1.5], ODD), average=FLAG, everything=FLAG, states=FLAG),
]


@pytest.mark.parametrize(("call", "wrong"), CASES)
def test_a_wrong_type_is_refused_in_one_sentence(call: Callable[[object], object], wrong: object) -> None:
    with pytest.raises(InputError) as refused:
        call(wrong)
    text = str(refused.value)
    assert len(text) > 30
    assert text.endswith(".")
    assert "\n" not in text
    assert SECRET not in text
    assert "object at 0x" not in text
