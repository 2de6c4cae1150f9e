"""Result files: exact, and complete or absent.

They are clear about what they cannot be.
"""

import os
import stat
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import tacit
from tacit import Distributed, Fading, Graph
from tacit.base.errors import FileError
from tacit.lab.simulation import Record, load, results, save, simulate


def example():
    rng = np.random.default_rng(0)
    dataset = xr.Dataset(
        {
            "theta": (("run", "round", "agent"), rng.normal(size=(3, 5, 70))),
            "average": (("run", "round"), rng.normal(size=(3, 5)).astype(np.float32), {"unit": "1"}),
            "mixing": ((), 0.8),
            "noise": (("agent",), rng.random(70)),
            "converged": (("run",), np.array([True, False, True])),
            "sent": (("run",), np.array([1, -2, 2**62])),
            "small": (("run",), np.array([1, 2, 255], dtype=np.uint8)),
            "kind": (("run",), np.array(["fading", "één", ""])),
            "told": (("run",), np.array(["a", "bc", "d"], dtype=object)),
            "when": (("run",), np.array(["2020-01-01", "NaT", "2021-02-03"], dtype="M8[s]")),
            "took": (("run",), np.array([1, 2, 3], dtype="m8[ms]")),
            "swapped": (("run",), np.array([1.5, 2.5, np.nan], dtype=">f8")),
            "none": (("nothing",), np.zeros(0)),
        },
        coords={"agent": np.arange(70), "run": [10, 20, 30], "start": 2.5},
        attrs={
            "mechanism": "client-server",
            "law": "fading",
            "seed": 2**100,
            "small_seed": 7,
            "rounds": 5,
            "tacit_version": "0.1.0",
            "record": None,
            "quick": True,
            "text": "",
            "exact": 0.1,
            "endless": float("inf"),
            "grid": {"mixing": [0.1, None], "deep": {"a": False}},
            "names": ["a", "b"],
            "empty": [],
        },
    )
    dataset["theta"].attrs["private"] = None
    dataset["theta"].values[0, 0, :3] = [np.nan, np.inf, -0.0]
    return dataset


def test_round_trip_is_exact(tmp_path):
    before = example()
    save(before, tmp_path / "r.nc")
    after = load(tmp_path / "r.nc")
    xr.testing.assert_identical(after, before)
    for name in before.variables:
        assert after[name].dtype == before[name].dtype, name
        if before[name].dtype.kind != "O":
            assert after[name].values.tobytes() == before[name].values.tobytes(), name
    assert {k: type(v) for k, v in after.attrs.items()} == {k: type(v) for k, v in before.attrs.items()}
    assert after["theta"].attrs == {"private": None}


@pytest.mark.parametrize("record", [Record(average=True), Record(everything=True)])
def test_simulations_come_back(tmp_path, record):
    mechanism = Distributed(Fading([0.3, 0.4, 0.5], 2, 0.8), Graph.from_name("path:3"))
    before = simulate(mechanism, [1.0, 2.0, 4.0], 5, runs=2, seed=2**64 - 1, record=record)
    save(before, tmp_path / "r.nc")
    xr.testing.assert_identical(load(tmp_path / "r.nc"), before)


def test_arrays_in_attributes(tmp_path):
    weights = np.array([[0.1, np.nan]], dtype=np.float32)
    save(xr.Dataset(attrs={"weights": weights, "inside": {"a": np.array([3])}}), tmp_path / "r.nc")
    attrs = load(tmp_path / "r.nc").attrs
    np.testing.assert_array_equal(attrs["weights"], weights)
    assert attrs["weights"].dtype == np.float32
    np.testing.assert_array_equal(attrs["inside"]["a"], [3])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("aé\n\"'/"),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
        max_leaves=6,
    )
)
def test_any_attribute_comes_back(value):
    attrs = results._encoded_attrs({"a": value, "b": 1})
    assert all(isinstance(v, str | int | float) and not isinstance(v, bool) for v in attrs.values())
    back = results._decoded_attrs(attrs)
    assert back == {"a": value, "b": 1}
    assert type(back["a"]) is type(value)


@pytest.mark.parametrize("units", ["seconds", "days since 2000-01-01", "rounds"])
def test_units_are_only_words(tmp_path, units):
    """Netcdf readers turn numbers with such units into dates; ours must not."""
    before = xr.Dataset({"a": (("x",), [1.0, 2.0], {"units": units})})
    save(before, tmp_path / "r.nc")
    xr.testing.assert_identical(load(tmp_path / "r.nc"), before)


def test_how_a_dataset_was_stored_before_does_not_matter(tmp_path):
    before = xr.Dataset({"a": (("x",), [1.23456789, 2.0])})
    before["a"].encoding = {"dtype": "int16", "scale_factor": 0.1, "_FillValue": -1}
    save(before, tmp_path / "r.nc")
    xr.testing.assert_identical(load(tmp_path / "r.nc"), before)


def test_any_netcdf_reader_sees_values_and_parameters(tmp_path):
    save(example(), tmp_path / "r.nc")
    with xr.open_dataset(tmp_path / "r.nc", engine="h5netcdf", decode_timedelta=False) as plain:
        np.testing.assert_array_equal(plain["theta"].values, example()["theta"].values)
        assert plain.attrs["mechanism"] == "client-server"
        assert plain.attrs["rounds"] == 5
        assert plain.attrs["tacit_written_by"] == tacit.__version__


def test_large_arrays_are_packed_and_small_ones_not():
    assert results._storage(np.zeros(1000))["zlib"]
    assert "zlib" not in results._storage(np.zeros(10))
    assert "zlib" not in results._storage(np.float64(1)[()] * np.ones(()))


def test_saving_replaces_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "r.nc"
    save(xr.Dataset(attrs={"n": 1}), path)
    save(xr.Dataset(attrs={"n": 2}), path)
    assert load(path).attrs == {"n": 2}
    assert os.listdir(tmp_path) == ["r.nc"]


def test_a_link_is_followed_and_the_usual_rights_apply(tmp_path):
    (tmp_path / "real.nc").write_bytes(b"")
    (tmp_path / "link.nc").symlink_to(tmp_path / "real.nc")
    before = os.umask(0o027)
    try:
        save(xr.Dataset(attrs={"n": 1}), tmp_path / "link.nc")
    finally:
        os.umask(before)
    assert (tmp_path / "link.nc").is_symlink()
    assert load(tmp_path / "real.nc").attrs == {"n": 1}
    assert stat.S_IMODE((tmp_path / "real.nc").stat().st_mode) == 0o640


FULL_DISK = """
import resource, sys
import numpy as np, xarray as xr
from tacit.base.errors import FileError
from tacit.lab.simulation import save
data = np.random.default_rng(0).random(200_000)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    save(xr.Dataset({"a": (("x",), data)}), sys.argv[1])
except FileError as error:
    print(error)
    sys.exit(3)
"""


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "r.nc"
    save(xr.Dataset(attrs={"n": 1}), path)
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr
    assert "cannot be written" in done.stdout
    assert load(path).attrs == {"n": 1}
    assert os.listdir(tmp_path) == ["r.nc"]


def test_a_crash_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "r.nc"
    save(xr.Dataset(attrs={"n": 1}), path)

    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(KeyboardInterrupt):
        save(xr.Dataset(attrs={"n": 2}), path)
    assert load(path).attrs == {"n": 1}
    assert os.listdir(tmp_path) == ["r.nc"]


def test_a_place_that_cannot_be_written(tmp_path):
    with pytest.raises(FileError, match="cannot be written: No such file or directory"):
        save(example(), tmp_path / "absent" / "r.nc")


def test_missing_foreign_damaged_and_newer_files_are_refused(tmp_path):
    with pytest.raises(FileError, match="there is no file"):
        load(tmp_path / "absent.nc")
    with pytest.raises(FileError, match="cannot be read as a result file"):
        load(tmp_path)
    (tmp_path / "text.nc").write_text("theta, 1, 2")
    with pytest.raises(FileError, match="cannot be read as a result file"):
        load(tmp_path / "text.nc")
    xr.Dataset({"a": 1}).to_netcdf(tmp_path / "foreign.nc", engine="h5netcdf")
    with pytest.raises(FileError, match="not one that tacit saved"):
        load(tmp_path / "foreign.nc")


def test_a_newer_format_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FORMAT", 2)
    monkeypatch.setattr(results, "__version__", "9.9")
    save(example(), tmp_path / "new.nc")
    monkeypatch.undo()
    with pytest.raises(FileError, match=r"saved by tacit 9.9, in format 2.*Install a newer tacit"):
        load(tmp_path / "new.nc")


@pytest.mark.parametrize("part", [0.3, 0.7, 0.99])
def test_a_cut_off_file_is_refused(tmp_path, part):
    save(example(), tmp_path / "r.nc")
    whole = (tmp_path / "r.nc").read_bytes()
    (tmp_path / "cut.nc").write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(FileError, match="cannot be read"):
        load(tmp_path / "cut.nc")


def test_a_flipped_bit_in_packed_values_is_noticed(tmp_path):
    values = np.random.default_rng(0).random(100_000)
    save(xr.Dataset({"a": (("x",), values)}), tmp_path / "r.nc")
    data = bytearray((tmp_path / "r.nc").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "r.nc").write_bytes(bytes(data))
    with pytest.raises(FileError, match="damaged"):
        load(tmp_path / "r.nc")


def test_what_a_file_cannot_hold_is_refused_by_name(tmp_path):
    with pytest.raises(FileError, match=r"attribute 'a' must be None.*got object"):
        save(xr.Dataset(attrs={"a": object()}), tmp_path / "r.nc")
    with pytest.raises(FileError, match="attribute must have a text as its name"):
        save(xr.Dataset(attrs={"tacit_format": 3}), tmp_path / "r.nc")
    with pytest.raises(FileError, match="variable 'a' must hold numbers"):
        save(xr.Dataset({"a": (("x",), np.array([{}, None], dtype=object))}), tmp_path / "r.nc")
    stacked = example()[["average"]].stack(both=("run", "round"))
    with pytest.raises(FileError, match="no multi-index"):
        save(stacked, tmp_path / "r.nc")
    with pytest.raises(FileError, match=r"none of .*coordinates"):
        save(xr.Dataset({"a": ((), 1.0, {"coordinates": "b"})}, {"b": 1}), tmp_path / "r.nc")
    with pytest.raises(FileError, match="netCDF cannot hold"):
        save(xr.Dataset({"a/b": 1.0}), tmp_path / "r.nc")
    assert not os.listdir(tmp_path)


def test_without_hdf5_the_package_to_install_is_named(tmp_path, monkeypatch):
    def missing(*_, **__):
        raise ImportError

    monkeypatch.setattr(xr.Dataset, "to_netcdf", missing)
    with pytest.raises(FileError, match="simulation"):
        save(example(), tmp_path / "r.nc")
