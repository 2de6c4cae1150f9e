"""The command reference is what --help says."""

from pathlib import Path

from tacit.cli import VERBS
from tacit.cli.figure import command as figures
from tacit.cli.reference import markdown, renewed_fields

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def test_the_page_is_current():
    assert PAGE.read_text() == markdown(), "run: python docs/make.py"


def test_the_fields_of_a_session_are_current():
    page = PAGE.with_name("files.md").read_text()
    assert renewed_fields(page) == page, "run: python docs/make.py --reference"
    assert "| `deadlines.round` | all | number | 30 |" in page


def test_every_command_has_its_section(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")  # must not matter
    text = markdown()
    for verb in VERBS:
        assert f"\n## tacit {verb}\n" in text
    for figure in figures.commands:
        assert f"\n## tacit figure {figure}\n" in text
    assert text == PAGE.read_text()
    assert "usage: tacit analyze [options]" in text.lower()
