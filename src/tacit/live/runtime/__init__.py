"""Members of a session: what drives their machines."""

from typing import TYPE_CHECKING

from tacit.base.lazy import modules

if not TYPE_CHECKING:
    __getattr__, __dir__ = modules(__name__)
