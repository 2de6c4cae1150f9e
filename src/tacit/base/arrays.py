"""Array types, and checks of arrays that come from outside the package."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

import numpy as np

from tacit.base.arguments import shown
from tacit.base.errors import ParameterError, StateError

if TYPE_CHECKING:
    import numpy.typing as npt

if TYPE_CHECKING:
    FloatArray: TypeAlias = npt.NDArray[np.float64]
    IntArray: TypeAlias = npt.NDArray[np.int64]
    BoolArray: TypeAlias = npt.NDArray[np.bool_]
    ArrayLike: TypeAlias = npt.ArrayLike
else:  # an agent's process imports this, and needs no numpy (`tacit.base.late`)
    FloatArray = IntArray = BoolArray = ArrayLike = Any
PerAgent: TypeAlias = float | Sequence[float] | FloatArray
"""One number for all agents, or one number per agent."""
ValuesLike: TypeAlias = ArrayLike | Mapping[Any, Any]
"""One number or vector per agent: by position, or by label in a mapping, a Series or a table of pandas."""


def is_array(value: object) -> TypeGuard[npt.NDArray[Any]]:
    """Whether this is an array; asked of a number, it loads no numpy."""
    return not isinstance(value, int | float) and isinstance(value, np.ndarray)


def frozen(array: npt.NDArray[np.generic]) -> None:
    """Make an array read-only, so that a frozen object cannot change."""
    array.setflags(write=False)


def per_agent_columns(values: FloatArray, ndim: int) -> FloatArray:
    """Shape one value per agent to broadcast over states.

    The states have `ndim` axes.
    """
    return values.reshape(values.shape + (1,) * (ndim - values.ndim))


class ByValue:
    """Equal if of the same class with equal fields; arrays by value.

    For frozen dataclasses with ``eq=False``, whose own comparison would fail on arrays.
    """

    def _compared(self) -> tuple[Any, ...]:
        return tuple(getattr(self, own.name) for own in fields(self) if own.compare)  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self is other or all(map(_same, self._compared(), other._compared()))

    def __hash__(self) -> int:
        return hash((type(self), *map(_hashed, self._compared())))


def _same(one: Any, other: Any) -> bool:
    if is_array(one) or is_array(other):
        return one is other or (one is not None and other is not None and bool(np.array_equal(one, other)))
    return bool(one == other)


def _hashed(value: Any) -> int:
    """Hash a field; arrays count by their shape, because it must be cheap."""
    if isinstance(value, np.ndarray):
        return hash(value.shape)
    try:
        return hash(value)
    except TypeError:
        return 0


def is_labelled(given: object) -> bool:
    """Whether numbers have labels: a mapping, or a Series or table of pandas."""
    pandas = sys.modules.get("pandas")
    return isinstance(given, Mapping) or bool(pandas and isinstance(given, pandas.Series | pandas.DataFrame))


def by_label(given: Any, labels: Sequence[Hashable], what: str = "values") -> Any:
    """Return labelled numbers in the order of `labels`, others as they are.

    There must be one entry for each label and no other. Errors show labels, never a value.
    """
    if not is_labelled(given):
        return given
    mapping = isinstance(given, Mapping)
    keys = list(given) if mapping else given.index.tolist()
    place = {key: k for k, key in enumerate(keys)}
    if len(place) < len(keys):
        twice = next(key for k, key in enumerate(keys) if place[key] != k)
        raise StateError(f"{what} must have one entry per agent, and have two for {twice!r}. Remove one.")
    missing = [label for label in labels if label not in place]
    if missing or len(keys) > len(labels):
        odd = f"none for {missing[0]!r}" if missing else f"one for {(set(keys) - set(labels)).pop()!r}"
        raise StateError(
            f"{what} with labels must have one entry for each agent by its name, and have {odd}. Name every "
            "agent as the graph does (around a server 0, 1, …), or give an array of numbers in that order."
        )
    order = [place[label] for label in labels]
    if mapping:
        rows = list(given.values())
        return [rows[k] for k in order]
    return given.to_numpy()[order]


def as_states(
    values: ValuesLike,
    n: int,
    what: str = "values",
    labels: Sequence[Hashable] | None = None,
) -> FloatArray:
    """Return one state per agent as float64, of shape (n,) or (n, k).

    Values with labels are taken by the agents' labels, 0 … n − 1 if there are none. The message never shows a
    value: states are private.
    """
    values = by_label(values, range(n) if labels is None else labels, what)
    try:
        states = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise StateError(f"{what} must be numbers, one (or one vector of equal length) per agent.") from None
    if states.ndim not in (1, 2) or states.shape[0] != n or 0 in states.shape:
        raise StateError(
            f"{what} must have shape ({n},) or ({n}, k), one row per agent, got shape {states.shape}. "
            "Give one number or one vector for each agent."
        )
    require_finite(states, what)
    return states


def require_finite(values: FloatArray, what: str) -> None:
    """Refuse NaN and infinities. The error names the index, never a value."""
    bad = ~np.isfinite(values)
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        raise StateError(f"{what} must be finite numbers, got NaN or infinity at index {place}.")


def checked_per_agent(
    value: PerAgent, name: str, *, below_one: bool, field: str | None = None
) -> float | FloatArray:
    """Return a number in (0, 1) or (0, ∞), or one per agent.

    Several numbers are returned as a read-only array.
    """
    must = "must be in (0, 1)" if below_one else "must be a positive number"
    if type(value) in (int, float):
        number = float(cast(float, value))
        if not 0 < number < (1 if below_one else math.inf):  # also refuses NaN
            raise ParameterError(f"{name} {must}, got {number}.", field)
        return number
    if is_labelled(value):
        raise ParameterError(
            f"{name} must be one number, or one per agent in their order, got {shown(value)} with labels. "
            "A law does not know the agents' names: give graph.in_order(…) of it.",
            field,
        )
    try:
        if isinstance(value, str | bool):
            raise TypeError
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        advice = "Give one number, or one per agent."
        raise ParameterError(f"{name} {must}, got {shown(value)}. {advice}", field) from None
    if array.ndim > 1 or array.size == 0:
        raise ParameterError(f"{name} must be one number, or one per agent, got shape {array.shape}.", field)
    bad = ~(np.isfinite(array) & (array > 0) & ((array < 1) | (not below_one)))
    if bad.any():
        first = int(np.argmax(bad.reshape(-1)))
        where = f" for agent {first}" if array.ndim else ""
        raise ParameterError(f"{name} {must}, got {array.reshape(-1)[first]}{where}.", field)
    if array.ndim == 0:
        return float(array)
    frozen(array)
    return array
