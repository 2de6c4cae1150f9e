"""The notebooks run, each in a subprocess (a Jupyter kernel), and print what is stored in them."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def load(path):
    spec = importlib.util.spec_from_file_location(f"docs_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


runs = load(ROOT / "docs/notebook_runs.py")
pages = load(ROOT / "docs/_ext/notebook_pages.py")
NOTEBOOKS = runs.notebooks()
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_are_three():
    stems = [path.stem for path in NOTEBOOKS]
    assert stems == ["audit-and-attack", "plan-a-deployment", "reproduce-the-paper"]


REPEATED = {"audit-and-attack", "plan-a-deployment"}
"""Notebooks of which tests/audit and tests/theory show everything."""
run = [pytest.param(path, marks=[pytest.mark.long] * (path.stem in REPEATED)) for path in NOTEBOOKS]


@pytest.mark.parametrize("path", run, ids=lambda path: path.stem)
def test_it_runs_and_prints_what_is_stored(path):
    """Every assertion in its cells holds. Pictures and tables are not compared: they depend on fonts."""
    fresh = runs.executed(path)
    assert runs.printed(fresh) == runs.printed(runs.read(path)), "make docs stores what it prints now"
    kinds = [[sorted(o.get("data", ())) for o in c.get("outputs", ())] for c in fresh.cells]
    stored = [[sorted(o.get("data", ())) for o in c.get("outputs", ())] for c in runs.read(path).cells]
    assert kinds == stored


@each
def test_it_is_tidy(path):
    """No machine's paths, no times, no counters, nothing that failed; every picture is told in words."""
    text = path.read_text()
    assert text == runs.text(runs.tidy(runs.read(path)))
    assert not re.search(r"/(?:home|root|tmp|work|Users|usr)/", text)
    cells = json.loads(text)["cells"]
    assert cells[0]["source"][0].startswith("# ")
    for cell in cells:
        for output in cell.get("outputs", ()):
            assert output["output_type"] in ("stream", "execute_result", "display_data")
            assert output.get("name") != "stderr", output
            assert "image/svg+xml" not in output.get("data", {}) or cell["metadata"].get("alt"), cell


@each
def test_its_page_has_every_cell(path):
    page = pages.markdown(path.read_text())
    for cell in runs.read(path).cells:
        assert cell.source in page
        for output in cell.get("outputs", ()):
            assert output.get("text", "").rstrip() in page
    pictures = sum(
        "image/svg+xml" in o.get("data", {}) for c in runs.read(path).cells for o in c.get("outputs", ())
    )
    assert page.count('src="data:image/svg+xml;base64,') == pictures >= 3


def test_a_cell_that_fails_is_noticed(tmp_path):
    notebook = runs.read(NOTEBOOKS[-1])
    notebook.cells = notebook.cells[:1] + [c for c in notebook.cells if c.cell_type == "code"][:1]
    notebook.cells[-1].source = "assert 1 == 2"
    (tmp_path / "broken.ipynb").write_text(runs.text(notebook))
    with pytest.raises(Exception, match="AssertionError"):
        runs.executed(tmp_path / "broken.ipynb")
