"""What a private value passes is what docs/architecture.md says, and at most half of what it was."""

import re
from pathlib import Path

import pytest
from tests.runtime.hops import walks

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
BEFORE = 62, 84
"""Version 0.1, traced in the same way: from file to wire, and with the way back."""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return walks(tmp_path_factory.mktemp("walk"))


@pytest.fixture(scope="module")
def section():
    return PAGE.read_text().split("## The walk of one private value\n")[1].split("\n## ")[0]


def test_the_page_lists_every_function_and_no_other(found, section):
    rows = [line.split("|") for line in section.splitlines() if re.match(r"\| \d+\. ", line)]
    listed = [name for row in rows for name in re.findall(r"`([^`]+)`", row[3])]
    assert sorted(listed) == sorted(name.partition(".")[2] for name in found[1].functions)
    assert [int(row[1].split(".")[0]) for row in rows] == list(range(1, len(rows) + 1))


def test_the_page_counts_right(found, section):
    private, whole = found
    assert f"These are {len(whole.functions)} functions." in section
    assert f"pass {len(private.functions)} of them and {len(private.classes)} classes" in section
    assert f"had {BEFORE[1]}, {BEFORE[0]} and" in section


def test_the_walk_is_half_as_long_as_it_was(found):
    assert all(2 * len(walk.functions) <= before for walk, before in zip(found, BEFORE, strict=True))


def test_only_what_must_hold_it_holds_it(found):
    """Neither the host that drives all machines, nor what logs and shows, nor the transport ever has it."""
    modules = {name.partition(".")[0] for walk in found for name in walk.functions}
    assert not modules & {"host", "running", "notices", "output", "status", "participant", "transcript"}
