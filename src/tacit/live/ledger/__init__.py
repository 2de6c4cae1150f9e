"""An agent's messages and their loss: durable before anything is sent."""

from typing import TYPE_CHECKING

from tacit.base.lazy import modules

if not TYPE_CHECKING:
    __getattr__, __dir__ = modules(__name__)
