"""Scripts of the protocol: each shows one rule, and everything that follows from its commands.

After a change that is meant, `REWRITE=1 pytest tests/protocol/test_scripts.py` writes what follows now. Read
the difference.
"""

import os
from pathlib import Path

import pytest
from tests.protocol.script import played

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_what_follows_is_what_is_written(path):
    text = path.read_text()
    now = played(text)
    if "REWRITE" in os.environ:
        path.write_text(now)
    assert now == text or "REWRITE" in os.environ


def test_the_page_names_every_script():
    page = (Path(__file__).parents[2] / "docs/explanation/protocol.md").read_text()
    assert [path.name for path in SCRIPTS if f"`{path.name}`" not in page] == []


def test_a_script_that_says_something_else_is_noticed():
    text = SCRIPTS[0].read_text()
    assert played(text.replace("saves", "forgets")) != text.replace("saves", "forgets")
