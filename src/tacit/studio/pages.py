"""The pages of the studio, under one root."""

# No `from __future__ import annotations` here: NiceGUI looks for the class itself in signatures.

from collections.abc import Callable, Mapping

from nicegui import PageArguments, ui

from tacit.studio import page_compare, page_plan, page_status, page_watch, shell

Build = Callable[[Mapping[str, str]], None]
BUILDERS: dict[str, Build] = {
    "/": page_plan.build,
    "/watch": page_watch.build,
    "/compare": page_compare.build,
    "/status": page_status.build,
}


def root() -> None:
    """Build what a browser opens: the head, and below it the page that the address asks for."""
    shell.head()
    ui.sub_pages({path: _page(build) for path, build in BUILDERS.items()})


def _page(build: Build) -> Callable[[PageArguments], None]:
    def made(args: PageArguments) -> None:
        build(args.query_parameters)

    return made
