"""Mechanisms with one known bug each: the auditor must catch them.

Each declares the mechanism it is given and does something else. They are data: what is wrong, what harm it
does, and how to build one. All except `floating-point` send numbers on the declared lattice, so that no
other bug can be detected by accident.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.errors import ParameterError
from tacit.core.mechanism import Mechanism
from tacit.core.motion.mixing import kept
from tacit.lab.audit import portable
from tacit.lab.audit.portable import laplace
from tacit.lab.audit.subjects import Moment, Say, Simulated, Unit, rounded

RAW_EVERY = 4
SEED_BASE = 1000
COARSER = 16  # bits
PLANTED = 20  # the bit of `planted-bit`
RARE = 0.01  # share of sessions that fade too fast
_FASTER = 0.8
_STRETCH = 5.0
_SWING = 0.4


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
    first = SEED_BASE + int(
        rng.integers(4000)
    )  # like a counter or a clock: different each time, and easy to guess
    return np.stack([np.random.default_rng(first + run).laplace(size=shape[1:]) for run in range(shape[0])])


def _after_neighbour(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Draw sizes that follow from the last draw of the agent before.

    Each draw alone still has the right law.
    """
    uniform = portable.uniform(rng, shape)
    for slot in range(1, shape[1]):
        before = _STRETCH * np.roll(uniform[:, slot - 1], 1, axis=1)
        uniform[:, slot] = np.maximum(before - np.floor(before), 2.0**-53)
    signs = np.where(rng.random(shape) < 0.5, -1.0, 1.0)
    return -signs * portable.log(uniform)


def _inverted(bits: int) -> Unit:
    """Invert uniform numbers of so many bits. Single precision has 24."""

    def unit(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        u = np.floor(portable.uniform(rng, shape) * 2.0**bits) * 2.0**-bits + 2.0 ** -(bits + 1)
        return portable.numpy_noise(u, np.ones(()))

    return unit


def _rarely_faster(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    noise = laplace(rng, shape)
    faster = portable.powers(_FASTER, np.arange(shape[1])).reshape(-1, *(1,) * (len(shape) - 2))
    return np.where(rng.random((shape[0], *(1,) * (len(shape) - 1))) < RARE, faster * noise, noise)


def _coarse(now: Moment) -> FloatArray:
    grid = now.step * 2.0**COARSER
    return np.rint(now.state / now.step) * now.step + np.rint(now.noise / grid) * grid


def _marked(now: Moment) -> FloatArray:
    """Put one bit of the start into the lowest bit of every message.

    The other bits are those of a number nearby.
    """
    whole = (now.state + now.noise) / now.step
    bit = _of_start(now)
    return np.asarray((2 * np.rint((whole - bit) / 2) + bit) * now.step)


def planted(bit: int) -> Say:
    """Put one bit of the start into this bit of every message."""

    def say(now: Moment) -> FloatArray:
        whole = np.rint((now.state + now.noise) / now.step).astype(np.int64)
        told = _of_start(now).astype(np.int64) << bit
        return np.asarray((whole & ~(1 << bit) | told) * now.step)

    return say


def _of_start(now: Moment) -> FloatArray:
    """Whether the fraction of the start is at least one half."""
    return np.asarray(np.floor(2 * now.start) % 2)


def _swinging(now: Moment) -> FloatArray:
    return rounded(replace(now, noise=now.noise * (1 + _SWING * np.sign(now.pull))))


def _two_agents(name: str, unit: Unit) -> Callable[[Mechanism], Simulated]:
    def build(mechanism: Mechanism) -> Simulated:
        if mechanism.n < 2:
            raise ParameterError(
                f"this bug is in the noise of two agents, got {mechanism.n} agent: take at least 2."
            )
        return Simulated(mechanism, name=name, unit=unit)

    return build


def _fading_only(build: Callable[[Mechanism], Simulated]) -> Callable[[Mechanism], Simulated]:
    def checked(mechanism: Mechanism) -> Simulated:
        if mechanism.shadowed:
            raise ParameterError(
                f"this bug is in the noise of later messages, and {mechanism.law.name} noise has none."
            )
        return build(mechanism)

    return checked


def _mixing(name: str, share: float) -> Callable[[Mechanism], Simulated]:
    def build(mechanism: Mechanism) -> Simulated:
        declared = np.asarray(mechanism.law.sigma)
        if declared.ndim:
            raise ParameterError("this broken mechanism needs one mixing for all agents.")
        sigma = float(declared)
        return Simulated(mechanism, name=name, sigma=sigma + share * (kept(sigma) if share > 0 else sigma))

    return build


BROKEN: dict[str, Broken] = {
    bug.name: bug
    for bug in (
        Broken(
            "redraw",
            "an agent that is asked again draws new noise for the same update",
            "each retry costs privacy again: the mean of many answers is the state itself",
            lambda m: Simulated(m, name="redraw", retries="redraw"),
        ),
        Broken(
            "fades-by-round",
            "noise fades with the round, also while an agent is away and does not update",
            "after an absence the noise has faded more than the influence of the value",
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
            "rare messages reveal a start almost surely: no pure guarantee holds",
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
            _two_agents("reused-noise", _shared),
        ),
        Broken(
            "raw-state",
            f"every {RAW_EVERY}th message is the state without noise",
            "that message reveals the initial value",
            _fading_only(lambda m: Simulated(m, name="raw-state", unit=_sometimes_raw)),
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
            "the influence of a value fades more slowly than declared: the loss is higher than promised",
            _mixing("smaller-mixing", -0.2),
        ),
        Broken(
            "guessable-seed",
            "noise comes from a seeded generator, and the seed counts sessions",
            "anyone who tries the seeds knows all the noise",
            lambda m: Simulated(m, name="guessable-seed", unit=_seeded),
        ),
        Broken(
            "coarse-lattice",
            f"noise is on a lattice 2^{COARSER} times coarser than declared, the state is not rounded to it",
            "the low bits of every message are those of the state: they tell two starts apart",
            lambda m: Simulated(m, name="coarse-lattice", say=_coarse),
        ),
        Broken(
            "marked-bit",
            "the lowest bit of every message is a bit of the start",
            "one message tells which bit",
            lambda m: Simulated(m, name="marked-bit", say=_marked),
        ),
        Broken(
            "single-precision",
            "noise comes from uniform numbers of 24 bits",
            "each start allows only few messages, and another start allows others",
            lambda m: Simulated(m, name="single-precision", unit=_inverted(24)),
        ),
        Broken(
            "follows-neighbour",
            "the size of an agent's noise follows from another agent's draw a round before",
            "anyone who knows the other's start knows the size of the noise: two starts are told apart",
            _fading_only(_two_agents("follows-neighbour", _after_neighbour)),
        ),
        Broken(
            "follows-feedback",
            "noise is larger after feedback above the state, and smaller after feedback below it",
            "the loss is higher than promised whenever feedback pulls down",
            _fading_only(lambda m: Simulated(m, name="follows-feedback", say=_swinging)),
        ),
        Broken(
            "planted-bit",
            f"bit {PLANTED} of every message is a bit of the start",
            "one message tells which bit",
            lambda m: Simulated(m, name="planted-bit", say=planted(PLANTED)),
        ),
        Broken(
            "short-uniform",
            "noise comes from uniform numbers of 32 bits",
            "each start allows only few messages, and another start allows others",
            lambda m: Simulated(m, name="short-uniform", unit=_inverted(32)),
        ),
        Broken(
            "rare-decay",
            f"in {RARE:.0%} of sessions noise fades a fifth faster than declared",
            "in these sessions the loss is higher than promised",
            _fading_only(lambda m: Simulated(m, name="rare-decay", unit=_rarely_faster)),
        ),
    )
}
"""Every bug by its name."""


def broken(name: str, mechanism: Mechanism) -> Simulated:
    """Return a mechanism that declares the given one and has the named bug."""
    if name not in BROKEN:
        raise ParameterError(f"a broken mechanism must be one of {', '.join(BROKEN)}, got {name!r}.")
    return BROKEN[name].build(mechanism)
