"""Limits of the machine are said in one sentence, before anything is begun."""

import resource

import pytest

from tacit.errors import InputError
from tacit.runtime import limits
from tacit.runtime.limits import raise_files, require_files


@pytest.fixture
def allowed(monkeypatch):
    """A process that may have 500 open files, and 2,000 if it asks."""
    now = {"limit": (500, 2000)}
    monkeypatch.setattr(limits.resource, "getrlimit", lambda _: now["limit"])
    monkeypatch.setattr(limits.resource, "setrlimit", lambda _, limit: now.update(limit=limit))
    return now


def test_what_may_be_had_is_asked_for(allowed):
    require_files(100, "100 connections")
    assert allowed["limit"] == (500, 2000)
    require_files(1000, "1,000 connections")
    assert 1000 < allowed["limit"][0] <= 2000


def test_what_may_not_be_had_is_said(allowed):
    with pytest.raises(
        InputError, match=r"4,000 files need 4,128 open files, and .* may have 2,000: .*ulimit -n 4128"
    ):
        require_files(4000, "4,000 files")
    assert allowed["limit"] == (500, 2000)


def test_no_limit_is_enough(monkeypatch):
    endless = resource.RLIM_INFINITY
    monkeypatch.setattr(limits.resource, "getrlimit", lambda _: (endless, endless))
    monkeypatch.setattr(limits.resource, "setrlimit", None)
    require_files(10**9, "many")


def test_as_many_files_as_may_be_had(allowed):
    assert raise_files() == 2000
    assert allowed["limit"] == (2000, 2000)
