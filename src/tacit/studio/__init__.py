"""The web page: plan, compare, watch a simulated session, see what runs.

Everything is computed by plain functions on frozen values, without a browser: `form` (the fields of a
question), `planning` (the answers; `planned_once` and `planned_series` are its parts), `same` (the command
and Python lines with the same answer), `compare` (two answers), `watched_run` (a simulated session, and what
an adversary believes), `deployment` (running hubs and members), `charts` (chart options). The pages that
show it are thin and use NiceGUI: `shell`, `fields`, `panel` and `page_…`. `address` keeps the question in
the address bar, and `server` serves the pages on this machine.
"""

from typing import TYPE_CHECKING

from tacit.base.lazy import modules

if not TYPE_CHECKING:
    __getattr__, __dir__ = modules(__name__)
