"""The command reference is what --help says."""

from pathlib import Path

import click

from tacit.cli import VERBS, main
from tacit.cli.figure import command as figures
from tacit.cli.reference import markdown, renewed_fields

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "wire.md"


def test_the_fields_of_a_session_are_current():
    page = PAGE.read_text()
    assert renewed_fields(page) == page, "run: python docs/make.py --reference"
    assert "| `deadlines.round` | all | real | 30 |" in page


def test_every_command_has_its_section(monkeypatch):
    text = markdown()
    monkeypatch.setenv("COLUMNS", "40")  # must not matter
    assert text == markdown()
    for verb in VERBS:
        assert f"\n## tacit {verb}\n" in text
    for figure in figures.commands:
        assert f"\n## tacit figure {figure}\n" in text
    assert "\ntacit analyze [OPTIONS]\n" in text


def test_what_several_commands_share_is_told_once_and_every_option_is_named():
    text = markdown()
    assert text.count("Print JSON for programs.") == 1
    context = click.Context(main, info_name="tacit")
    for verb in VERBS:
        section = text.partition(f"\n## tacit {verb}\n")[2].partition("\n## ")[0]
        for option in main.get_command(context, verb).params:
            if isinstance(option, click.Option) and not option.hidden:
                own, shared = f"\n  {option.opts[-1]} ", f"`{option.opts[-1]}`"
                assert (own in section) != (shared in section), (verb, option.opts)
