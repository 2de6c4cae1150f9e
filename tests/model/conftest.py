"""Where the model's real counterpart puts its files."""

import os
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def folder():
    """A directory in memory where there is one: the disk is waited for at every append."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as made:
        yield Path(made)
