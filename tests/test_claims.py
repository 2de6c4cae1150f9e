"""Claims of the docs name the tests that show them, and these tests exist."""

import ast
import re
from functools import lru_cache
from pathlib import Path

import pytest
from tests.source import parsed

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
CLAIMS = [ROOT / "docs" / "explanation" / name for name in ("threat-model.md", "guarantees.md")]
NAMED = re.compile(r"(tests/[\w/]+\.py)::(\w+)")


@lru_cache
def defined_in(path):
    names = parsed((ROOT / path).read_text()).body
    return {
        item.name for item in names if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_test_that_a_page_names_exists(page):
    for path, name in NAMED.findall(page.read_text()):
        assert (ROOT / path).exists(), f"{page.name} names {path}"
        assert name in defined_in(path), f"{page.name} names {path}::{name}"


@pytest.mark.parametrize("page", CLAIMS, ids=lambda path: path.name)
def test_every_claim_names_a_test(page):
    """In tables whose last column is "shown by", each row does."""
    rows, claims = page.read_text().splitlines(), 0
    inside = False
    for row in rows:
        if not row.startswith("|"):
            inside = False
        elif row.rstrip().endswith("| shown by |"):
            inside = True
        elif inside and not row.startswith("|---"):
            claims += 1
            assert NAMED.search(row.rsplit(" | ", 1)[-1]), row
    assert claims > 5
