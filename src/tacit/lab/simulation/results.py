"""Save results in one netCDF file, and read them back exactly.

A file holds the arrays, every parameter, the seed and the version of tacit that wrote it, and opens in
anything that reads netCDF 4. It is written atomically: a crash or a full disk leaves the old file.

NetCDF has fewer types than Python. Other values are written as JSON and listed in the attribute
``tacit_json``; types that it would change are listed in ``tacit_dtypes``. `load` undoes both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit import __version__
from tacit.base.errors import FileError, installing
from tacit.base.files import write_whole

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 1
_FORMAT, _WRITER, _JSON, _DTYPES = "tacit_format", "tacit_written_by", "tacit_json", "tacit_dtypes"
_OWN = frozenset({_FORMAT, _WRITER, _JSON, _DTYPES})
_TAKEN = frozenset({"coordinates", "dtype", "_FillValue"})  # reserved by netCDF conventions
_ARRAY = "__array__"

# Measured on simulated states: shuffled zlib saves 36 % of float64 and 63 % of float32; levels above 1
# take up to three times as long for 1 % more. LZF is faster, but other netCDF readers lack it.
# zlib's checksum finds damage.
_PACKED: Mapping[str, Any] = {"zlib": True, "complevel": 1, "shuffle": True}
_WORTH_PACKING = 4096  # bytes


def save(dataset: xr.Dataset, path: str | os.PathLike[str]) -> None:
    """Write a dataset to a netCDF file, atomically.

    Parameters
    ----------
    dataset : xarray.Dataset
        As `simulate` and `sweep` return it. Attributes may be None, truth values, numbers, text, arrays,
        and lists and dictionaries of these.
    path : path
        A file there is replaced.
    """
    prepared, encoding = _prepare(dataset)
    try:
        # HDF5 can crash the process when the disk is full, so it writes to memory, and we write to disk
        image = prepared.to_netcdf(engine="h5netcdf", encoding=encoding)
    except ImportError as error:
        raise _no_hdf5() from error
    except (NotImplementedError, TypeError, ValueError) as error:
        raise FileError(
            "netCDF cannot hold this dataset: it has a type or a name that netCDF does not support."
        ) from error
    write_whole(Path(path).resolve(), memoryview(image), mode=None, force=True)


def load(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read a dataset that `save` wrote, into memory.

    Values, types and attributes are as they were.
    """
    import xarray as xr

    name = os.fspath(path)
    if not os.path.exists(name):
        raise FileError(f"there is no file {name!r}.")
    try:
        with xr.open_dataset(
            name, engine="h5netcdf", mask_and_scale=False, decode_times=False, decode_timedelta=False
        ) as opened:
            _require_format(name, opened.attrs)
            stored = opened.load()
    except ImportError as error:
        raise _no_hdf5() from error
    except FileError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
        raise FileError(
            f"{name!r} cannot be read as a result file: it is damaged, not a netCDF file, or not yours to "
            "read. Give a file that tacit saved."
        ) from error
    return _restore(name, stored)


def _require_format(name: str, attrs: Mapping[str, Any]) -> None:
    if _FORMAT not in attrs:
        raise FileError(
            f"{name!r} is a netCDF file, but not one that tacit saved. Open it with xarray instead."
        )
    if int(attrs[_FORMAT]) > FORMAT:
        raise FileError(
            f"{name!r} was saved by tacit {attrs.get(_WRITER)}, in format {int(attrs[_FORMAT])}; "
            f"this is tacit {__version__}, which reads up to format {FORMAT}. Install a newer tacit."
        )


def _no_hdf5() -> FileError:
    return FileError(
        f"result files need the package h5py, which is not installed; {installing('simulation')}."
    )


def _prepare(dataset: xr.Dataset) -> tuple[xr.Dataset, dict[Hashable, dict[str, Any]]]:
    """Convert everything to netCDF's own types.

    Also choose how to store each variable.
    """
    import xarray as xr

    _require_storable(dataset)
    dtypes: dict[str, str] = {}
    variables: dict[Hashable, xr.Variable] = {}
    encoding: dict[Hashable, dict[str, Any]] = {}
    for name, variable in dataset.variables.items():
        values = np.asarray(variable.values)
        dtypes[str(name)] = values.dtype.str
        if values.dtype.kind in "mM":
            values = values.view(np.int64)  # as integers: calendar encoding would change the unit
        variables[name] = xr.Variable(variable.dims, values, _encoded_attrs(variable.attrs, _OWN | _TAKEN))
        encoding[name] = _storage(values)
    attrs = _encoded_attrs(dataset.attrs)
    attrs |= {_FORMAT: FORMAT, _WRITER: __version__, _DTYPES: json.dumps(dtypes)}
    coords = {name: variables.pop(name) for name in dataset.coords}
    return xr.Dataset(variables, coords, attrs), encoding


def _require_storable(dataset: xr.Dataset) -> None:
    for name, variable in dataset.variables.items():
        levels = getattr(dataset.indexes.get(name), "nlevels", 1)
        if not isinstance(name, str) or levels > 1:
            raise FileError(
                f"variables must have a text as their name and no multi-index, got {name!r}. Use reset_index."
            )
        if variable.dtype.kind == "O" and not all(isinstance(v, str) for v in variable.values.flat):
            raise FileError(f"variable {name!r} must hold numbers, truth values, times or text to be saved.")


def _storage(values: np.ndarray[Any, Any]) -> dict[str, Any]:
    storage: dict[str, Any] = {"_FillValue": None} if values.dtype.kind == "f" else {}
    if values.dtype.kind in "iuf" and values.ndim and values.nbytes >= _WORTH_PACKING:
        storage |= _PACKED
    return storage


def _restore(name: str, stored: xr.Dataset) -> xr.Dataset:
    import xarray as xr

    try:
        dtypes: dict[str, str] = json.loads(stored.attrs[_DTYPES])
        variables: dict[Hashable, xr.Variable] = {}
        for key, variable in stored.variables.items():
            values, dtype = np.asarray(variable.values), np.dtype(dtypes[str(key)])
            values = values.view(dtype) if dtype.kind in "mM" else values.astype(dtype, copy=False)
            variables[key] = xr.Variable(variable.dims, values, _decoded_attrs(variable.attrs))
        coords = {key: variables.pop(key) for key in stored.coords}
        return xr.Dataset(variables, coords, _decoded_attrs(stored.attrs))
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(
            f"{name!r} is not as tacit saved it: another program changed it. Open it with xarray."
        ) from error


def _encoded_attrs(attrs: Mapping[Any, Any], reserved: Set[str] = _OWN) -> dict[str, Any]:
    encoded: dict[str, Any] = {}
    as_json: list[str] = []
    for name, value in attrs.items():
        if not isinstance(name, str) or name in reserved:
            raise FileError(
                f"an attribute must have a text as its name, none of {', '.join(sorted(reserved))}, "
                f"got {name!r}."
            )
        if _is_native(value):
            encoded[name] = value
        else:
            as_json.append(name)
            try:
                encoded[name] = json.dumps(value, default=_jsonable)
            except (TypeError, ValueError) as error:
                raise FileError(
                    f"attribute {name!r} must be None, a truth value, a number, text, an array, or a list or "
                    f"dictionary of these, got {type(value).__name__}."
                ) from error
    if as_json:
        encoded[_JSON] = json.dumps(as_json)
    return encoded


def _is_native(value: object) -> bool:
    """Whether netCDF can keep the value as it is."""
    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, int | np.integer):
        return -(2**63) <= int(value) < 2**63
    return isinstance(value, str | float | np.floating)


def _jsonable(value: object) -> object:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        return {_ARRAY: value.tolist(), "dtype": value.dtype.str, "shape": value.shape}
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be stored in a result file")


def _decoded_attrs(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    as_json = set(json.loads(attrs.get(_JSON, "[]")))
    return {
        name: json.loads(value, object_hook=_array_again) if name in as_json else _plain(value)
        for name, value in attrs.items()
        if name not in _OWN
    }


def _array_again(item: dict[str, Any]) -> object:
    if _ARRAY not in item:
        return item
    return np.array(item[_ARRAY], dtype=item["dtype"]).reshape(item["shape"])


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value
