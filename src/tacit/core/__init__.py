"""What is promised, and why. Pure: no clock, disk or network."""

from typing import TYPE_CHECKING

from tacit.base.lazy import modules

if not TYPE_CHECKING:
    __getattr__, __dir__ = modules(__name__)
