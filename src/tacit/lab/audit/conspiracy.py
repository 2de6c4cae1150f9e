"""What everyone else can learn about one agent if one keeper is honest.

The conspirators are the coordinator, everyone who reads the wires, all other agents and all keepers but one.
They know every mask and every draw except those of the honest keeper. So each update leaves two numbers that
they cannot compute: the agent's report X = x + mask, and the keeper's opening T = mask + z, modulo 2^w. If
everything is as declared, X − T = x − z has the law of a message of the paper's agent, so every tester of
such messages applies (`examine`). Masks and openings have their own tests, which also work on the bytes of
live sessions: `tacit.lab.audit.masked_frames`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import FloatArray, IntArray
from tacit.base.errors import ParameterError
from tacit.core.history import History, Wholes
from tacit.core.mechanism import ClientServer, Mechanism
from tacit.core.mechanism.lattice import Lattice
from tacit.core.mechanism.on_lattice import OnLattice, WholeState
from tacit.core.mechanism.whole import WholeArray
from tacit.core.noise.safe import SafeNoise
from tacit.core.theory.advice import ALL_KEEPERS
from tacit.core.theory.privacy import require_adjacency
from tacit.lab.audit.audit_plan import best_distance, default_rounds, default_starts, describe
from tacit.lab.audit.examination import Progress, examine
from tacit.lab.audit.masked_frames import mask_findings, opening_finding, secret_findings
from tacit.lab.audit.report import AuditReport
from tacit.lab.simulation.lattice import discrete_laplace

WIDTH = 16
"""Bytes of a masked number here; a session uses as many as its numbers need, plus five."""
_MODULUS = 1 << 8 * WIDTH
_OTHERS = 2  # agents besides the attacked one; the conspirators know their values
# Birthday bound: of this many secrets of only 32 bits, two are equal except with probability e^−41. Fewer
# would miss the bug `short-seed`, and sound masks of 128 bits still never collide.
_PAIRS = 600_000
_PAIRS_PER_SESSION = 30
_SHARE = 0.1  # of the failure probability, for masks and openings
_WATCHED = 2000  # sessions whose masks are tested bit by bit


@final
@dataclass(frozen=True, eq=False, repr=False)
class MaskedView:
    """What the conspirators cannot compute; arrays of (runs, updates).

    The auditor chose the value, so it also knows what is under the masks.

    Attributes
    ----------
    reports, openings : arrays of whole numbers modulo 2^w
        X and T, without the parts of the other keepers and agents.
    again : like `openings`, or None
        Answers to a second closing for the same update, without the agent.
    sent : array of whole numbers
        x, which follows from the value that the auditor chose.
    history : History
        X − T as the messages of the paper's agent, with the feedback it heard.
    """

    reports: WholeArray
    openings: WholeArray
    again: WholeArray | None
    sent: WholeArray
    history: History

    @property
    def masks(self) -> WholeArray:
        """The masks between the agent and the honest keeper."""
        return np.asarray((self.reports - self.sent) % _MODULUS, dtype=object)


@final
@dataclass(frozen=True)
class KeeperBug:
    """One thing that a keeper or its masks do wrong.

    Attributes
    ----------
    noise : function of (draws, scales, generator), optional
        Changes what the honest keeper draws, shape (updates, runs).
    mask : function of (secret, update), optional
        Makes a mask in another way.
    twice : bool
        The keeper answers a second closing for each update, with the same draw.
    """

    name: str
    wrong: str
    harm: str
    noise: Callable[[IntArray, FloatArray, np.random.Generator], IntArray] | None = None
    mask: Callable[[bytes, int], int] | None = None
    twice: bool = False


def right_mask(secret: bytes, update: int) -> int:
    """Return the mask of one update, pseudo-random without the secret."""
    return int.from_bytes(hashlib.shake_128(secret + update.to_bytes(8, "big")).digest(WIDTH), "big")


def _none(draws: IntArray, _scales: FloatArray, _rng: np.random.Generator) -> IntArray:
    return np.zeros_like(draws)


def _half(draws: IntArray, scales: FloatArray, rng: np.random.Generator) -> IntArray:
    return discrete_laplace(rng, scales[:, None] / 2, draws.shape)


def _same(draws: IntArray, scales: FloatArray, _rng: np.random.Generator) -> IntArray:
    """Every second draw is the one before, at its own scale."""
    again = draws.copy()
    for u in range(1, len(draws), 2):
        again[u] = np.rint(draws[u - 1] * (scales[u] / scales[u - 1]))
    return again


def _biased(secret: bytes, update: int) -> int:
    """Set one bit of a mask in 2.4 % of cases: it is 1 in 51.2 %."""
    more = hashlib.shake_128(b"more" + secret + update.to_bytes(8, "big")).digest(2)
    return right_mask(secret, update) | ((int.from_bytes(more, "big") < 0.024 * 2**16) << 64)


KEEPER_BUGS: dict[str, KeeperBug] = {
    bug.name: bug
    for bug in (
        KeeperBug(
            "two-sets",
            "the keeper answers two closings for one update",
            "the difference of the answers is the mask, and the report without it is the state",
            twice=True,
        ),
        KeeperBug("no-noise", "the keeper adds no noise", "the opening gives the mask away", noise=_none),
        KeeperBug("half-scale", "the noise is half as large", "the loss is twice as high", noise=_half),
        KeeperBug(
            "same-draw",
            "every second opening has the draw of the one before",
            "two messages can be combined so that the noise cancels",
            noise=_same,
        ),
        KeeperBug(
            "mask-without-update",
            "the mask is the same in every update",
            "the difference of two reports is that of two states, without noise",
            mask=lambda secret, _update: right_mask(secret, 0),
        ),
        KeeperBug(
            "short-seed",
            "masks come from 32 bits of the secret",
            "anyone who tries all 2^32 of them knows every mask",
            mask=lambda secret, update: right_mask(secret[:4], update),
        ),
        KeeperBug(
            "biased-mask",
            "one bit of every mask is 1 in 51.2 % of cases",
            "the bit under the mask can be guessed better than by chance",
            mask=_biased,
        ),
    )
}
"""Every planted bug by its name."""


@final
@dataclass(frozen=True)
class MaskedSessions:
    """Sessions with keepers, as conspirators see them, for `examine`.

    Parameters
    ----------
    kept : Mechanism
        With keepers. One agent of it is attacked, in a group of three.
    low, high : float
        The declared range of values.
    bug : KeeperBug, optional
    seedable : bool
        Use noise and secrets that follow from the seed, for repeatable tests. NOT private.
    """

    kept: Mechanism
    low: float
    high: float
    bug: KeeperBug | None = None
    seedable: bool = False
    low_bits: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        if not self.kept.keepers:
            raise ParameterError(
                "the mechanism must have keepers, and this one has no keeper: give it at least one."
            )

    @property
    def name(self) -> str:
        """The name of the bug, or "keepers"."""
        return "keepers" if self.bug is None else self.bug.name

    @property
    def mechanism(self) -> ClientServer:
        """The mechanism whose messages the view must be like.

        It is the paper's agent with the keeper's noise. The view must reveal no more than its messages.
        """
        return ClientServer(self.kept.noise_law, agents=1)

    def __call__(self, values: npt.ArrayLike, rounds: int, runs: int, seed: int) -> History:
        """Run `runs` sessions from one agent's value."""
        return self.view(values, rounds, runs, seed).history

    def view(self, values: npt.ArrayLike, rounds: int, runs: int, seed: int) -> MaskedView:
        """Run `runs` sessions, and return what the conspirators cannot compute."""
        law, m = self.kept.noise_law, self.kept.keepers
        lattice = Lattice.fitting(law, rounds, self.low, self.high)
        on = OnLattice(ClientServer(law, agents=1 + _OTHERS, keepers=m), lattice)
        middle = (self.low + self.high) / 2
        start = on.start([float(np.ravel(values)[0]), *[middle] * _OTHERS]).theta
        side_by_side = np.repeat(start[:, None], runs, axis=1)
        rng = np.random.default_rng([seed, runs, 0xC0]) if self.seedable else np.random.default_rng()
        scales = np.array([on.draw_scales(u)[0] for u in range(rounds)])
        draws = np.stack([self._draws(rng, scales, (rounds, runs)) for _ in range(m)], axis=1)
        if self.bug is not None and self.bug.noise is not None:
            draws[:, 0] = self.bug.noise(draws[:, 0], scales, rng)
        ran = on.run(WholeState(side_by_side, side_by_side), draws)
        return self._seen(ran, draws[:, 0], rng)

    def _draws(self, rng: np.random.Generator, scales: FloatArray, shape: tuple[int, ...]) -> IntArray:
        if self.seedable:
            return discrete_laplace(rng, scales[:, None], shape)
        noise = SafeNoise()
        return np.stack([noise.draw(s, shape[1]) if s else np.zeros(shape[1], np.int64) for s in scales])

    def _seen(self, ran: History, drawn: IntArray, rng: np.random.Generator) -> MaskedView:
        assert ran.private is not None
        assert ran.private.whole_sent is not None
        assert ran.wholes is not None
        assert ran.exponent is not None
        lattice, exponent = ran.wholes.lattice, ran.exponent[:, :1]
        # Openings are taken from the sum of reports, so a keeper adds −z for the noise z of the feedback.
        sent, z = ran.private.whole_sent[:, 0].T, -drawn.T.astype(object)
        masks = self.masks(sent.shape[0], sent.shape[1], rng)
        reports, openings = (sent + masks) % _MODULUS, (masks + z) % _MODULUS
        pooled = (reports - openings + _MODULUS // 2) % _MODULUS - _MODULUS // 2
        said = np.ones((*sent.shape, 1), dtype=np.bool_)
        if self.kept.shadowed:
            said[:, 1:] = False  # one opening; nothing is sent after it
        x = np.where(said, pooled[:, :, None], 0)
        update = np.arange(sent.shape[1])[None, :, None]
        y = ran.wholes.y.T
        history = History(
            self.mechanism,
            np.asarray(lattice.value(x, exponent[None])),
            np.asarray(lattice.value(y)),
            said,
            np.arange(sent.shape[1]),
            update,
            exponent[None],
            Wholes(lattice, x, y),
        )
        again = z % _MODULUS if self.bug is not None and self.bug.twice else None
        return MaskedView(reports, openings, again, sent, history)

    def masks(self, pairs: int, updates: int, rng: np.random.Generator) -> WholeArray:
        """Return the masks of fresh secrets, shape (pairs, updates)."""
        make = right_mask if self.bug is None or self.bug.mask is None else self.bug.mask
        secrets = rng.bytes(32 * pairs)
        out = np.empty((pairs, updates), dtype=object)
        for i in range(pairs):
            secret = secrets[32 * i : 32 * i + 32]
            out[i] = [make(secret, u) for u in range(updates)]
        return out


# ---- the whole audit -----------------------------------------------------------------------------------


def examine_keepers(
    mechanism: Mechanism,
    *,
    bug: str | None = None,
    distance: float | None = None,
    adjacency: float = 1.0,
    rounds: int | None = None,
    transcripts: int = 20_000,
    failure_probability: float = 1e-6,
    seed: int = 0,
    seedable: bool = False,
    progress: Progress | None = None,
) -> AuditReport:
    """Audit a mechanism with keepers: all attack one agent and one keeper.

    Parameters
    ----------
    mechanism : Mechanism
        With keepers.
    bug : str, optional
        One of `KEEPER_BUGS`, to see it caught.
    distance, adjacency, rounds, transcripts, failure_probability, seed, progress
        As for `tacit.lab.audit.examine`.
    seedable : bool
        See `MaskedSessions`.
    """
    if bug is not None and bug not in KEEPER_BUGS:
        raise ParameterError(f"a keeper's bug must be one of {', '.join(KEEPER_BUGS)}, got {bug!r}.")
    if not 0 < failure_probability < 1:
        raise ParameterError(f"a failure probability must be in (0, 1), got {failure_probability}.")
    planted = None if bug is None else KEEPER_BUGS[bug]
    trial = MaskedSessions(mechanism, 0.0, 1.0, planted, seedable)
    law, share = trial.mechanism.law, _SHARE * failure_probability
    if planted is not None and planted.noise is _same and law.shadowed:
        raise ParameterError(
            f"this bug is in later openings, and with {law.name} noise there is only one: choose another bug."
        )
    length = default_rounds(law, 0) if rounds is None else rounds
    left = failure_probability - share
    apart = (
        best_distance(law, length, 0, transcripts, left) if distance is None else require_adjacency(distance)
    )
    start = default_starts(1, apart)
    subject = replace(trial, low=float(start[0]) - apart, high=float(start[0]) + 2 * apart)
    found = examine(
        subject, values=start, distance=apart, adjacency=adjacency, rounds=length, transcripts=transcripts,
        failure_probability=left, seed=seed, progress=progress,
    )  # fmt: skip
    view = subject.view(start, length, min(transcripts, _WATCHED), 2 * seed + 3)
    rng = np.random.default_rng([seed, 0xC1]) if seedable else np.random.default_rng()
    opened = view.openings.ravel().tolist()
    answers = (
        [(t,) for t in opened] if view.again is None else list(zip(opened, view.again.ravel(), strict=True))
    )
    pairs = max(_PAIRS, _PAIRS_PER_SESSION * transcripts)
    fresh = secret_findings(subject.masks(pairs, 1, rng).ravel().tolist(), WIDTH, share / 2)
    watched = mask_findings(view.masks[:, : 1 if mechanism.shadowed else None], WIDTH, share / 2)
    extra = [opening_finding(answers), *watched, *fresh]
    return replace(
        found,
        declared=describe(mechanism),
        failure_probability=failure_probability,
        findings=(*found.findings, *extra),
        notes=(
            *found.notes,
            "Judged by what everyone else, with all keepers but one, can learn about one agent.",
            ALL_KEEPERS,
        ),
    )
