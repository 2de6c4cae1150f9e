"""Peers with requirements of their own: they run in another environment, and do rounds when told to."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parent.parent / ".venv-peers" / "bin" / "python"
"""Made by `make bench` from requirements.txt beside this file."""


def available() -> bool:
    """Whether the environment of the peers is there."""
    return PYTHON.exists()


def version(name: str) -> str:
    """Return the version that a peer is pinned to."""
    lines = (HERE / "requirements.txt").read_text().splitlines()
    return next(
        line.partition("==")[2] for line in lines if line.partition("==")[0].partition("[")[0] == name
    )
