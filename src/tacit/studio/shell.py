"""What all pages share: the head with its links, light and dark, and small building blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from nicegui import ui

from tacit.studio.charts import Options

PAGES = {"/": "Plan", "/watch": "Watch", "/compare": "Compare", "/status": "Status"}
ACCENT = "#0072b2"  # as in tacit.plots.style
_DARK = {
    None: ("brightness_auto", "as the system"),
    False: ("light_mode", "light"),
    True: ("dark_mode", "dark"),
}


class Slider(ui.slider):
    """A slider that stays where its user put it: no position comes back that was overtaken meanwhile."""

    LOOPBACK = False


@cache
def _css() -> str:
    return Path(__file__).with_name("studio.css").read_text(encoding="utf-8")


def head() -> None:
    """Build the head of every page."""
    ui.add_head_html(f"<style>{_css()}</style>")
    ui.colors(primary=ACCENT)
    with ui.element("header").classes("top"), ui.element("div").classes("inner"):
        with ui.element("div").classes("brand"):
            ui.html("tacit <span>studio</span>", sanitize=False)
        with ui.element("nav").props('aria-label="Pages"'):
            links = {path: ui.link(name, path) for path, name in PAGES.items()}
        _dark_button()

    def mark(path: str) -> None:
        here = path.partition("?")[0].rstrip("/") or "/"
        for target, link in links.items():
            link.props(remove="aria-current")
            if target == here:
                link.props("aria-current=page")

    router = ui.context.client.sub_pages_router
    mark(router.current_path)
    router.on_path_changed(mark)


def _dark_button() -> None:
    dark = ui.dark_mode(None)

    def following() -> None:
        order: list[bool | None] = [None, True, False]
        dark.value = order[(order.index(dark.value) + 1) % 3]
        show()

    def show() -> None:
        icon, words = _DARK[dark.value]
        button.props(f'icon={icon} aria-label="Colours: {words}. Change."')

    button = ui.button(on_click=following).props("flat round dense").mark("dark")
    show()


@contextmanager
def page(title: str, lead: str) -> Iterator[None]:
    """Build the frame of one page."""
    ui.page_title(f"{title} · tacit studio")
    with ui.element("div").classes("page"):
        with ui.element("h1"):
            ui.label(title)
        with ui.element("p").classes("lead"):
            ui.label(lead)
        yield


@contextmanager
def card(heading: str = "", classes: str = "") -> Iterator[ui.element]:
    """Build a card, with its heading."""
    with ui.element("section").classes(f"card {classes}") as made:
        if heading:
            made.props["aria-label"] = heading
            with ui.element("h2"):
                ui.label(heading)
        yield made


def chart(options: Options, described: str, classes: str = "") -> ui.echart:
    """Build a chart; `described` says what it shows to who cannot see it."""
    made = ui.echart(options, renderer="svg").classes(f"chart {classes}")
    made.props["role"] = "img"
    made.props["aria-label"] = described
    return made


def redraw(made: ui.echart, options: Options) -> None:
    """Draw other options in the same chart."""
    made.options.clear()
    made.options.update(options)
    made.update()


def paragraph(text: str, classes: str = "") -> ui.label:
    """Build a paragraph."""
    with ui.element("p"):
        return ui.label(text).classes(classes)


def code(heading: str) -> Any:
    """Build a heading and lines to copy; returns a function that sets them."""
    with ui.element("div"):
        with ui.element("h2").style("margin-bottom: 6px"):
            ui.label(heading)
        with ui.element("div").classes("code"):
            with ui.element("pre"):
                shown = ui.label().mark("lines")

            def copy() -> None:
                ui.clipboard.write(shown.text)
                ui.notify("Copied.", position="bottom", timeout=1200)

            ui.button("Copy", on_click=copy).props(f'flat dense size=sm aria-label="Copy: {heading}"')

    return shown.set_text
