"""Mechanisms with one known bug each: an auditor that has never caught anything is untested.

Each declares the mechanism it is given and does something else. They are data: what is wrong, whom
it harms, and how to build one. All but `floating-point` send numbers on the lattice, so that
nothing but the one bug can give them away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tacit.arrays import FloatArray
from tacit.audit.subjects import Simulated, laplace
from tacit.errors import ParameterError
from tacit.mechanism import Mechanism

RAW_EVERY = 4
SEED_BASE = 1000


@dataclass(frozen=True)
class Broken:
    """One bug.

    Attributes
    ----------
    name : str
        On the command line.
    wrong : str
        What the mechanism does.
    harm : str
        What follows from it.
    build : function
        Makes the broken mechanism that declares the given one.
    """

    name: str
    wrong: str
    harm: str
    build: Callable[[Mechanism], Simulated]


def _gaussian(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    return rng.normal(scale=2**0.5, size=shape)  # the variance of Laplace noise of scale 1


def _quiet(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    return 0.8 * laplace(rng, shape)


def _shared(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    noise = laplace(rng, shape)
    noise[:, :, 1] = noise[:, :, 0]
    return noise


def _sometimes_raw(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    noise = laplace(rng, shape)
    noise[:, RAW_EVERY - 1 :: RAW_EVERY] = 0
    return noise


def _seeded(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    first = SEED_BASE + int(rng.integers(4000))  # like a counter or a clock: different, and easy to guess
    return np.stack([np.random.default_rng(first + run).laplace(size=shape[1:]) for run in range(shape[0])])


def _two_agents(mechanism: Mechanism) -> Simulated:
    if mechanism.n < 2:
        raise ParameterError("noise can be reused by another agent only where there is one: take 2 agents.")
    return Simulated(mechanism, name="reused-noise", unit=_shared)


def _fading_only(mechanism: Mechanism) -> Simulated:
    if mechanism.one_shot:
        raise ParameterError("one-shot noise is drawn once: messages after it have none to leave out.")
    return Simulated(mechanism, name="raw-state", unit=_sometimes_raw)


def _mixing(name: str, share: float) -> Callable[[Mechanism], Simulated]:
    def build(mechanism: Mechanism) -> Simulated:
        declared = np.asarray(mechanism.parameters.sigma)
        if declared.ndim:
            raise ParameterError("this broken mechanism needs one mixing for all agents.")
        sigma = float(declared)
        return Simulated(mechanism, name=name, sigma=sigma + share * (1 - sigma if share > 0 else sigma))

    return build


BROKEN: dict[str, Broken] = {
    bug.name: bug
    for bug in (
        Broken(
            "redraw",
            "an agent that is asked again draws new noise for the same update",
            "each retry is paid for again: the mean of many answers is the state itself",
            lambda m: Simulated(m, name="redraw", retries="redraw"),
        ),
        Broken(
            "fades-by-round",
            "noise fades with the round, also while an agent is away and does not update",
            "after an absence the state has forgotten less than its noise has faded",
            lambda m: Simulated(m, name="fades-by-round", misses=True, by_round=True),
        ),
        Broken(
            "low-scale",
            "the noise is 20 % too small",
            "the loss is 25 % higher than promised",
            lambda m: Simulated(m, name="low-scale", unit=_quiet),
        ),
        Broken(
            "gaussian",
            "noise is Gaussian, of the same variance",
            "rare messages give a start away almost surely: no pure guarantee holds",
            lambda m: Simulated(m, name="gaussian", unit=_gaussian),
        ),
        Broken(
            "floating-point",
            "textbook Laplace noise in floating point, sent as it is",
            "the low bits of one message tell two starts apart",
            lambda m: Simulated(m, name="floating-point", lattice=False),
        ),
        Broken(
            "reused-noise",
            "agent 1 uses the noise of agent 0",
            "the difference of two messages has no noise at all",
            _two_agents,
        ),
        Broken(
            "raw-state",
            f"every {RAW_EVERY}th message is the state without noise",
            "that message gives the initial value away",
            _fading_only,
        ),
        Broken(
            "larger-mixing",
            "agents mix by more than they declare, a fifth of the way to 1",
            "the loss is smaller than promised, but accuracy and target are not what was agreed",
            _mixing("larger-mixing", 0.2),
        ),
        Broken(
            "smaller-mixing",
            "agents mix by a fifth less than they declare",
            "states forget more slowly than accounted for: the loss is higher than promised",
            _mixing("smaller-mixing", -0.2),
        ),
        Broken(
            "guessable-seed",
            "noise comes from a seeded generator, and the seed counts sessions",
            "whoever tries the seeds knows all the noise",
            lambda m: Simulated(m, name="guessable-seed", unit=_seeded),
        ),
    )
}
"""Every bug by its name."""


def broken(name: str, mechanism: Mechanism) -> Simulated:
    """Return a mechanism that declares the given one and has the named bug."""
    if name not in BROKEN:
        raise ParameterError(f"a broken mechanism must be one of {', '.join(BROKEN)}, got {name!r}.")
    return BROKEN[name].build(mechanism)
