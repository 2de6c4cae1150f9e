"""Formulas are typeset whole, and every statement of the proofs names code and tests that exist."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROOFS = sorted(path for path in (ROOT / "docs/proofs").glob("*.md") if path.name != "index.md")


def extension(name):
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / f"docs/_ext/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


formulas, sources = extension("formulas"), extension("sources")


def test_a_formula_becomes_mathml():
    made = formulas.mathml(r"ε = \frac{q}{c\,(q+σ-1)} ≤ |x|", display=True)
    assert made.startswith("<math ")
    assert "<mfrac>" in made
    assert "<mo>≤</mo>" in made
    assert "<mi>ε</mi>" in made
    assert 'display="block"' in made
    assert r"alttext=" in made


@pytest.mark.parametrize(("latex", "tag"), [("β'", "<msup>"), ("θ'_i", "<msubsup>"), ("x_i''", "<msubsup>")])
def test_a_prime_is_not_made_small_twice(latex, tag):
    made = formulas.mathml(latex, display=False)
    assert "′" in made
    assert tag not in made
    assert "<msup>" in formulas.mathml("σ^2", display=False)


@pytest.mark.parametrize("latex", [r"\nosuchcommand x", r"\begin{aligned} a &= b \\ c &= d \end{aligned}"])
def test_what_would_not_be_typeset_is_refused(latex):
    with pytest.raises(ValueError, match="not known"):
        formulas.mathml(latex, display=True)


def statements(text):
    """Return the sections of a proof, by their headings, which are the labels that other pages link to."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def held_by(section):
    """Return the names of code and tests under a statement."""
    lines = re.findall(r"^\*Code:\* (.+?)\*Tests:\* (.+?)(?:\n\n|\Z)", section, re.MULTILINE | re.DOTALL)
    return [
        [name for part in kind for name in re.findall(r"`([^`]+)`", part)]
        for kind in zip(*lines, strict=True)
    ]


@pytest.mark.parametrize("page", PROOFS, ids=lambda page: page.stem)
def test_every_statement_names_its_code_and_tests(page):
    found = statements(page.read_text())
    assert found
    for label, section in found.items():
        assert held_by(section), f"{page.name}, {label}: no line with code and tests"
        code, tests = held_by(section)
        assert code, f"{page.name}, {label}"
        assert tests, f"{page.name}, {label}"
        assert all(name.startswith("tests/") for name in tests)
        for name in code + tests:
            assert exists(name), f"{page.name}, {label} names {name}"


def test_every_result_to_cite_has_a_proof():
    """Code and tests are named under the statement that a row leads to."""
    text = (ROOT / "docs/proofs/index.md").read_text()
    rows = [row.split(" | ") for row in text.splitlines() if row.startswith("| ")][1:]
    assert len(rows) > 10
    for result, _, proof, *_ in rows:
        page, label = re.search(r"\]\(([\w-]+\.md)#([\w-]+)\)", proof).groups()
        headings = statements((ROOT / "docs/proofs" / page).read_text())
        assert label in {slug(heading) for heading in headings}, f"{result}: {page}#{label}"


def slug(heading):
    """Return the anchor that code hosts and the site give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def exists(name):
    """Whether a name leads to a file, and to a line of it where it names a function."""
    found = sources.place(name)
    return found is not None and (found[1] > 0 or "::" not in name)


@pytest.mark.parametrize(
    "name", ["tacit.core.theory.privacy.gone", "tests/gone.py", "tests/test_docs.py::test_gone"]
)
def test_a_name_that_is_gone_is_noticed(name):
    assert not exists(name)


def test_a_name_leads_to_its_line():
    file, line = sources.place("tacit.core.theory.privacy.epsilon")
    assert "def epsilon(" in (ROOT / file).read_text().splitlines()[line - 1]
