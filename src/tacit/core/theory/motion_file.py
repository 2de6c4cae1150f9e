"""Agents with dynamics of their own in a TOML file, to be checked exactly.

    agents = 40
    rounds = 480
    [motion]
    A = [[1, 0.25], [-0.25, 0.5]]
    B = [0, 0.25]
    C = [1, 0]
    names = ["speed", "acceleration"]
    private = {speed = 1.0}
    [noise]
    law = "scheduled"
    loss = 1

`[motion]` may have `jacobians`, `metric` and `rate` in place of A and B: a certificate, which is proved. With
`gain`, `limit`, `pace` and `range` it is an agent with a speed limit behind a public filter. With A, B, C and
`matrices` it is a measured plant, which moves by a matrix in their hull. `[noise]` has the numbers of its law
(noise, decay, or scales), or the loss for which the best are chosen. Law "gaussian" also has a delta, the
probability with which its loss may be exceeded.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.base.arguments import inside_unit, positive, shown, whole
from tacit.base.errors import FileError
from tacit.base.report import Row, Shown, Summary, some_rounds, up
from tacit.core.law import Gaussian, Law, Scheduled, named
from tacit.core.law.gaussian import mu_of
from tacit.core.mechanism import ClientServer
from tacit.core.motion import Contracting, Linear, Motion, Plant, Prefiltered
from tacit.core.motion.linear import as_vector
from tacit.core.theory import privacy
from tacit.core.theory.hybrid import Hybrid

_LINEAR = {"A", "B", "C", "private", "names", "norm", "measured", "seconds", "others"}
_PLANT = {"matrices", "metric", "rate", "rounding"}
_PREFILTERED = {"gain", "limit", "pace", "range", "private"}
_CONTRACTING = {"jacobians", "metric", "rate", "C", "private", "names", "measured"}
_NOISE = {"law", "noise", "decay", "scales", "loss", "delta"}

BROKEN = {
    "clamp": "a state must never be clamped, because two of them may move apart by it: give it room, and cut "
    "only what is said before its noise",
    "saturation": "a state at its limit does not forget its start, and liars can keep it there: put a public "
    "filter before it (gain, limit, pace and range)",
    "dead_zone": "a state does not move inside a dead zone, so its start never fades: give the zone a slope "
    "k, and 1 - k as a Jacobian",
    "coupling": "physical coupling shows a start in the messages of others: give the stacked A of all who "
    "are coupled, and what each of the others says as `others`; no session takes such agents",
    "parameters": "a private parameter inside A cannot be hidden by noise for the start: make it a private "
    "component of the state that never moves, or keep it out of A",
}
"""What breaks the guarantee although every formula is right, with the repair."""


@dataclass(frozen=True)
class MotionFile:
    """What a file says: a law with its motion, and for whom and how long."""

    law: Law | Hybrid
    agents: int
    rounds: int | None
    adjacency: float
    delta: float | None = None
    others: tuple[tuple[float, ...], ...] = ()

    @property
    def mechanism(self) -> ClientServer:
        """The agents around a server."""
        if self.others:
            raise FileError(f"{BROKEN['coupling']}. `tacit verify-dynamics` adds up what all of them say.")
        assert isinstance(self.law, Law)
        return ClientServer(self.law, agents=self.agents)


@dataclass(frozen=True)
class CertifiedPrivacy(Shown):
    """What a certificate proves of a law: privacy, and nothing else.

    What agents that are not linear agree on is not known.
    """

    law: Law
    rounds: int | None
    adjacency: float

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        motion = self.law.motion
        return {
            "law": self.law.name,
            "motion": motion.name,
            "rounds": self.rounds,
            "adjacency": self.adjacency,
            "epsilon": privacy.epsilon(self.law, self.rounds),
            "loss": privacy.loss(self.law, self.adjacency, self.rounds),
            "rate": motion.modulus,
            "assumptions": list(motion.assumptions),
        }

    def summary(self) -> Summary:
        """Return rows of the loss, and of the rate that was proved."""
        told = self.as_dict()
        run = "an endless run" if self.rounds is None else some_rounds(self.rounds)
        rows = [
            Row("epsilon", up(told["epsilon"]), f"ε per unit of adjacency, over {run}"),
            Row("loss", up(told["loss"]), f"ε × adjacency {self.adjacency:g}"),
            Row(
                "rate", up(told["rate"]), "proved: in the end two starts come nearer by this in every update"
            ),
        ]
        title = f"{told['law']} noise, {told['motion']} agents"
        return Summary(title, {"Privacy": rows}, self.law.motion.assumptions)


def parse_motion_file(text: str) -> MotionFile:
    """Read agents with dynamics of their own; refuse what is not understood."""
    given = _read(text)
    noise, adjacency, own = _table(given, "noise"), given["adjacency"], dict(_table(given, "motion"))
    others = own.pop("others", []) if "A" in own else []
    motion = _motion(own)
    if noise.get("law") == Hybrid.name:
        return MotionFile(_hybrid(noise, motion, given), given["agents"], given["rounds"], adjacency)
    law, delta = _law(noise, motion, given["rounds"], adjacency)
    rows = tuple(tuple(as_vector(row, "others", len(own["A"]), "what another agent says")) for row in others)
    return MotionFile(law, given["agents"], given["rounds"], adjacency, delta, rows)


def parse_motion_plan(text: str) -> dict[str, Any]:
    """Return what a file asks of a design: fields of `tacit.Plan`."""
    return _planned(_read(text))


def parse_motion_start(text: str) -> tuple[dict[str, Any], tuple[float, ...]]:
    """Return fields of a `tacit.Plan`, and the public start of a session.

    `start` in [motion] has a number per component of the state: what is added to the private values, and what
    the others are.
    """
    given = _read(text)
    own = dict(_table(given, "motion"))
    start = own.pop("start", ())
    found = _planned(given | {"motion": own})
    size = found["motion"].dimension
    start = tuple(as_vector(start, "start", size, "one per component").tolist()) if start else ()
    return found, start


def _planned(given: Mapping[str, Any]) -> dict[str, Any]:
    noise = given.get("noise", {})
    _only(noise, {"law", "loss", "delta"}, "[noise] of a design")
    own = _table(given, "motion")
    if "others" in own:
        raise FileError(f"{BROKEN['coupling']}. `tacit verify-dynamics` adds up what all of them say.")
    motion = _motion(own)
    return (
        {name: given[name] for name in ("agents", "rounds", "adjacency")} | {"motion": motion} | dict(noise)
    )


def _read(text: str) -> dict[str, Any]:
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"the file must be TOML, and is not: {error}.") from None
    _only(given, {"agents", "rounds", "adjacency", "motion", "noise"}, "the file")
    return given | {
        "rounds": None if "rounds" not in given else whole("rounds", given["rounds"], 1),
        "adjacency": positive("adjacency", given.get("adjacency", 1.0)),
        "agents": whole("agents", given.get("agents", 1), 1),
    }


def _motion(given: Mapping[str, Any]) -> Motion:
    for name, why in BROKEN.items():
        if name in given:
            raise FileError(f"[motion] must have no {name}: {why}.")
    if "limit" in given:
        _only(given, _PREFILTERED, "[motion] with a limit")
        missing = sorted(_PREFILTERED - set(given))
        if missing:
            raise FileError(
                f"[motion] with a limit must have {missing[0]}: liars could keep it at its limit."
            )
        return Prefiltered(**given)
    if "jacobians" in given:
        _only(given, _CONTRACTING, "[motion] with jacobians")
        if ("metric" in given) != ("rate" in given):
            raise FileError("[motion] needs both metric and rate, or neither: then a metric is looked for.")
        if "metric" in given:
            return Contracting(**{"C": None, "private": None, **given})
        rest = {name: given[name] for name in ("names", "measured") if name in given}
        C, private = given.get("C", ()), given.get("private")
        return Contracting.searched(given["jacobians"], C, private=private, **rest)
    _only(given, _LINEAR | _PLANT, "[motion]")
    own = {name: value for name, value in given.items() if name not in _PLANT}
    plant = {name: value for name, value in given.items() if name in _PLANT}
    if plant:
        return _plant(plant, _linear(own))
    return _linear(own)


def _plant(given: Mapping[str, Any], model: Linear) -> Plant:
    if "matrices" not in given or ("metric" in given) != ("rate" in given):
        raise FileError("[motion] of a plant must have matrices, and both metric and rate, or neither.")
    if "metric" in given:
        return Plant(**{"model": model, **given})
    return Plant.searched(model, given["matrices"], given.get("rounding", 0.0))


def _linear(given: Mapping[str, Any]) -> Linear:
    missing = [name for name in ("A", "B", "C", "private") if name not in given]
    if missing:
        raise FileError(f"[motion] must have A, B, C and private, and has no {missing[0]}.")
    own = dict(given)
    if "seconds" in own:
        return Linear.sampled(own.pop("A"), own.pop("B"), own.pop("C"), own.pop("seconds"), **own)
    return Linear(**own)


def _hybrid(noise: Mapping[str, Any], motion: Motion, given: Mapping[str, Any]) -> Hybrid:
    """Return noise once with fresh noise for a measured plant."""
    if not isinstance(motion, Plant) or given["rounds"] is None:
        raise FileError(
            "[noise] of hybrid noise is for a measured plant and a number of rounds: give matrices, in whose "
            "hull the plant's own one lies, and rounds. A computed state takes noise once."
        )
    more = {"agents": given["agents"], "adjacency": given["adjacency"]}
    _only(noise, {"law", "loss", "noise", "scales"}, "[noise] of hybrid noise")
    if set(noise) == {"law", "loss"}:
        epsilon = positive("loss", noise["loss"]) / given["adjacency"]
        return Hybrid.best(motion, epsilon, given["rounds"], **more)
    if set(noise) != {"law", "noise", "scales"} or len(noise["scales"]) != given["rounds"]:
        raise FileError("[noise] of hybrid noise must have a loss, or noise and one of scales per round.")
    return Hybrid(motion, noise["noise"], noise["scales"], **more)


def _law(
    given: Mapping[str, Any], motion: Motion, rounds: int | None, adjacency: float
) -> tuple[Law, float | None]:
    """Return the law, and the delta of Gaussian noise."""
    _only(given, _NOISE, "[noise]")
    name = given.get("law", Scheduled.name)
    kind = Gaussian if name == Gaussian.name else named(name)
    delta = None if kind.pure else inside_unit("delta", given.get("delta", 1e-6))
    if kind.pure and "delta" in given:
        raise FileError(f"[noise] of {kind.name} noise has no delta: its loss is never exceeded.")
    if "loss" in given:
        if set(given) - {"law", "loss", "delta"}:
            raise FileError("[noise] has a loss, for which noise is chosen, or numbers of its law; not both.")
        loss = positive("loss", given["loss"])
        if delta is not None:
            return Gaussian.best_for(motion, mu_of(loss, delta) / adjacency, rounds), delta
        return kind.best(motion, loss / adjacency, rounds), None
    if kind is Scheduled:
        if "scales" not in given:
            raise FileError("[noise] of scheduled noise must have scales, one per round, or a loss.")
        return Scheduled.of(motion, given["scales"]), None
    words = [word for word in kind.words() if word != "mixing"]
    missing = [word for word in words if word not in given]
    if missing:
        raise FileError(f"[noise] of {kind.name} noise must have {' and '.join(words)}, or a loss.")
    return kind(motion, *(given[word] for word in words)), delta


def _table(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = given.get(name)
    if not isinstance(found, Mapping):
        raise FileError(f"the file must have a table [{name}].")
    return found


def _only(given: Mapping[str, Any], known: set[str], where: str) -> None:
    odd = sorted(set(given) - known)
    if odd:
        raise FileError(f"{where} may have {', '.join(sorted(known))}, got {shown(odd[0])}.")
