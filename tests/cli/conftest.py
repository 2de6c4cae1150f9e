"""Run commands as a user would, and hold each run to the rules for all of them."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tacit.cli import main

CODES = {0, 2, 3, 130}


@pytest.fixture
def run(tmp_path, monkeypatch) -> Callable[..., Result]:
    """Run `tacit` in an empty directory; whatever happens there is no traceback and no bug."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def invoke(*words: object, code: int = 0) -> Result:
        result = CliRunner().invoke(main, [str(word) for word in words])
        assert "Traceback" not in result.output
        assert "cannot explain" not in result.output
        assert result.exit_code == code, result.output
        assert result.exit_code in CODES
        return result

    return invoke


@pytest.fixture
def answer(run) -> Callable[..., Any]:
    """Run `tacit … --json` and return what a program would read: strict JSON, nothing else."""

    def invoke(*words: object, code: int = 0) -> Any:
        def refuse(word: str) -> None:
            raise AssertionError(f"{word} is not JSON")

        return json.loads(run(*words, "--json", code=code).stdout, parse_constant=refuse)

    return invoke
