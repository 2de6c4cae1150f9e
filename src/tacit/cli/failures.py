"""Errors as one sentence on stderr and an exit code."""

from __future__ import annotations

import errno
import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import click

from tacit.base.errors import Infeasible, SessionOver, TacitError
from tacit.base.extras import missing_extra

UNUSABLE, INFEASIBLE, BUG, OVER, STOPPED = 2, 3, 1, 6, 130

JSON_ASKED = "tacit.json"
"""Key in the context's meta that says the user asked for JSON."""
ON_STOP = "tacit.stopped"
"""Key in the context's meta for the sentence after Ctrl-C."""


def explain(ctx: click.Context, error: BaseException) -> NoReturn:
    """Print what went wrong in one sentence, and exit with its code."""
    if os.environ.get("TACIT_DEBUG") and not isinstance(error, TacitError | KeyboardInterrupt):
        raise error
    if isinstance(error, KeyboardInterrupt):
        _leave(ctx, ctx.meta.get(ON_STOP, "Stopped."), STOPPED)
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        _quiet_pipe(ctx)
    if isinstance(error, Infeasible):
        if ctx.meta.get(JSON_ASKED):
            answer = {
                "feasible": False,
                "reason": str(error),
                "gives": error.gives,
                "alternatives": error.alternatives,
            }
            click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
            ctx.exit(INFEASIBLE)
        _leave(ctx, f"Infeasible: {error}", INFEASIBLE)
    if isinstance(error, SessionOver):
        _leave(ctx, f"Over: {_sentence(error)}", OVER)
    if isinstance(error, ModuleNotFoundError):
        verb = f"tacit {ctx.invoked_subcommand}" if ctx.invoked_subcommand else "this"
        error = missing_extra(error, verb) or error
    sentence = _sentence(error)
    if sentence is None:
        _leave(ctx, _bug(error), BUG)
    _leave(ctx, f"Error: {sentence}", UNUSABLE)


def _sentence(error: BaseException) -> str | None:
    """Return what to tell the user, or None for an unexpected error."""
    if isinstance(error, TacitError):
        return " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}."
    if isinstance(error, MemoryError):
        return "this does not fit in memory: ask for fewer agents, runs or rounds, or record less."
    if isinstance(error, OverflowError | ZeroDivisionError | FloatingPointError) or _left_range(error):
        return "these numbers overflow floating-point arithmetic: choose less extreme ones."
    return None


def _left_range(error: BaseException) -> bool:
    """Whether it is numpy's warning of an overflow or undefined result."""
    return isinstance(error, RuntimeWarning) and " encountered in " in str(error)


@contextmanager
def strict_numbers() -> Iterator[None]:
    """Turn numpy's overflow warnings into errors: results would be wrong."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".* encountered in ", RuntimeWarning)
        yield


def _bug(error: BaseException) -> str:
    """Return a sentence that names the place of a bug.

    It leaves out the exception's message, which could contain a private value.
    """
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    return (
        f"Error: unexpected failure ({type(error).__name__}{place}). This is a bug in tacit; "
        "set TACIT_DEBUG=1 to see where it comes from."
    )


def _leave(ctx: click.Context, sentence: str, code: int) -> NoReturn:
    click.echo(sentence, err=True)
    ctx.exit(code)


def _quiet_pipe(ctx: click.Context) -> NoReturn:
    """Exit quietly: the reader of our output has closed the pipe."""
    # Redirect stdout, or the interpreter would report an error when it flushes at exit.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    ctx.exit(0)


def tolerant_streams() -> None:
    """Print ? for letters that the terminal cannot encode."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
