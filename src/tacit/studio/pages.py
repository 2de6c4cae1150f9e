"""The pages of the studio, under one root."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nicegui import ui

from tacit.studio import page_compare, page_motion, page_plan, page_status, page_watch, shell
from tacit.studio.address import Address
from tacit.studio.form import SERIES_EXAMPLE

Build = Callable[[Address], None]
BUILDERS: dict[str, Build] = {
    "/": page_plan.build,
    "/series": partial(page_plan.build, example=SERIES_EXAMPLE),
    "/watch": page_watch.build,
    "/watch/motion": page_motion.build,
    "/compare": page_compare.build,
    "/status": page_status.build,
}


def root(anywhere: bool = True) -> None:
    """Build the head, and below it the page of the address.

    `anywhere` says whether Status may read other machines.
    """
    shell.head()
    address = Address()
    builders = BUILDERS | {"/status": partial(page_status.build, anywhere=anywhere)}
    # Builders must take no arguments. Otherwise NiceGUI rebuilds a page whenever its query changes.
    ui.sub_pages({path: _page(build, address) for path, build in builders.items()})


def _page(build: Build, address: Address) -> Callable[[], None]:
    return lambda: build(address)
