"""The group: what it shows, what it loads, and how everything that goes wrong ends."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.base.errors import Infeasible, StateError
from tacit.cli import VERBS, analyze, failures, hub, main, session
from tacit.cli.figure import command as figures

HEAVY = (
    "numba",
    "matplotlib",
    "dask",
    "distributed",
    "xarray",
    "scipy",
    "numpy",
    "networkx",
    "rich",
    "h5netcdf",
)
TACIT = Path(sys.executable).with_name("tacit")


def subprocess_run(*words, **options):
    return subprocess.run([TACIT, *words], capture_output=True, text=True, check=False, **options)


def test_help_lists_every_verb_and_its_summary(run):
    text = run("--help").output
    for verb, summary in VERBS.items():
        assert f"  {verb} " in text
        assert summary in text


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_shows_an_example_and_json_in_its_help(run, verb):
    text = run(verb, "--help").output
    assert f"  tacit {verb}" in text.split("Example")[1]
    if verb not in ("figure", "demo"):  # the demo is for people; its files are for programs
        assert "--json" in text


@pytest.mark.parametrize("figure", sorted(figures.commands))
def test_every_figure_shows_an_example_and_json_in_its_help(run, figure):
    text = run("figure", figure, "--help").output
    assert f"  tacit figure {figure}" in text.split("Example")[1]
    assert "--json" in text
    assert "--table" in text


_HELP = [f"from tacit.cli import main; main({words})" for words in (["-h"], ["session", "-h"], ["hub", "-h"])]


@pytest.mark.parametrize("code", [*_HELP, "import tacit; dir(tacit)"])
def test_help_and_import_load_nothing_heavy(code):
    script = f"""
import sys
try:
    {code}
except SystemExit:
    pass
print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_help_loads_no_verb():
    script = """
import sys
from tacit.cli import main
try:
    main(["--help"])
except SystemExit:
    pass
print([name for name in sys.modules if name.startswith("tacit.cli.")], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "['tacit.cli.failures', 'tacit.cli.late']"


@pytest.mark.parametrize("group", [session, hub])
def test_a_group_says_of_a_late_command_what_it_says_of_itself(group):
    for name, line in group.command.late.items():
        assert group.command.get_command(None, name).get_short_help_str(100) == line


def test_version(run):
    assert run("--version").output == f"tacit {tacit.__version__}\n"


def test_the_installed_command_answers():
    done = subprocess.run([TACIT, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"tacit {tacit.__version__}\n"


@pytest.mark.parametrize(
    "words",
    [("nonsense",), ("analyze", "--nonsense"), ("figure", "nonsense"), ("graph",), ("graph", "a", "b")],
)
def test_unknown_words_are_refused_with_2(run, words):
    assert "Error: " in run(*words, code=2).stderr


ANALYZE = ("analyze", "--agents", "2", "--mixing", "0.5", "--noise", "1", "--decay", "0.8")


@pytest.fixture
def failing(run, monkeypatch):
    """Run a verb that fails with the given error."""

    def invoke(error, *words, code):
        def fail(*_args, **_options):
            raise error

        monkeypatch.setattr(analyze.options, "read_question", fail)
        return run(*ANALYZE, *words, code=code)

    return invoke


def test_interrupt_is_one_line_and_130(failing):
    result = failing(KeyboardInterrupt(), code=130)
    assert (result.stdout, result.stderr) == ("", "Stopped.\n")


def test_a_mistake_is_one_line_and_2(failing):
    result = failing(StateError("this must\n  hold."), code=2)
    assert (result.stdout, result.stderr) == ("", "Error: this must hold.\n")


def test_infeasible_is_one_line_and_3(failing):
    result = failing(Infeasible("no way.", {"radius": 2.0}), code=3)
    assert (result.stdout, result.stderr) == ("", "Infeasible: no way.\n")


def test_infeasible_is_json_for_programs(failing):
    result = failing(Infeasible("no way.", {"radius": 2.0}), "--json", code=3)
    assert json.loads(result.stdout) == {
        "feasible": False,
        "reason": "no way.",
        "gives": {"radius": 2.0},
        "alternatives": [{"radius": 2.0}],
    }
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "memory"),
        (OverflowError("x"), "floating-point"),
        (RuntimeWarning("overflow encountered in divide"), "floating-point"),
        (ModuleNotFoundError("x", name="matplotlib.figure"), "'.[plots]'"),
        (PermissionError(13, "Permission denied", "some/file"), "some/file: Permission denied."),
    ],
)
def test_what_python_raises_is_explained(failing, error, words):
    assert words in failing(error, code=2).stderr


def test_an_overflow_is_no_answer(run, monkeypatch):
    # numpy only warns of it; what follows would be printed as if it were true
    def overflow(*_args, **_options):
        with np.errstate(all="warn"):
            return np.float64(1e300) * np.float64(1e300)

    monkeypatch.setattr(analyze.options, "read_question", overflow)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert "floating-point" in run(*ANALYZE, code=2).stderr


def test_a_broken_pipe_is_quiet(failing):
    result = failing(BrokenPipeError(32, "Broken pipe"), code=0)
    assert result.output == ""


def test_a_bug_says_so_without_what_it_was_about(monkeypatch):
    # The message of an unforeseen error might hold a private value.
    from click.testing import CliRunner

    def fail(*_args, **_options):
        raise RuntimeError("secret 42.125")

    monkeypatch.setattr(analyze.options, "read_question", fail)
    result = CliRunner().invoke(main, ANALYZE)
    assert result.exit_code == failures.BUG
    assert "RuntimeError in test_main.py" in result.stderr
    assert "42.125" not in result.output
    monkeypatch.setenv("TACIT_DEBUG", "1")
    assert "42.125" in str(CliRunner().invoke(main, ANALYZE).exception)


def test_reading_only_the_first_line_is_no_error():
    done = subprocess.run(
        f"{TACIT} graph star:3000 --json | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "{\n"
    assert done.stderr == ""


def test_a_terminal_without_greek_still_gets_an_answer():
    done = subprocess.run(
        [TACIT, *ANALYZE],
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        encoding="latin-1",
        check=True,
    )
    assert "? per unit of adjacency" in done.stdout


def test_no_command_imports_with_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for verb in VERBS:
            assert main.get_command(None, verb) is not None
