"""Shared by all pages: the head, light and dark, and building blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from html import escape
from pathlib import Path

from nicegui import ui

from tacit.base.report import Row, Summary
from tacit.studio.charts import Options

PAGES = {"/": "Plan", "/watch": "Watch", "/compare": "Compare", "/status": "Status"}
ACCENT = "#0072b2"  # as in tacit.lab.plots.style
_DARK = {
    None: ("brightness_auto", "as the system"),
    False: ("light_mode", "light"),
    True: ("dark_mode", "dark"),
}


class Slider(ui.slider):
    """A slider that the server does not move while the user moves it.

    Without this, a late reply would put it back to an older position.
    """

    LOOPBACK = False


@cache
def _css() -> str:
    return Path(__file__).with_name("studio.css").read_text(encoding="utf-8")


def head() -> None:
    """Build the head of every page."""
    ui.add_head_html(f"<style>{_css()}</style><script>document.documentElement.lang = 'en'</script>")
    ui.colors(primary=ACCENT)
    with ui.element("header").classes("top"), ui.element("div").classes("inner"):
        with ui.element("div").classes("brand"):
            ui.html("tacit <span>studio</span>", sanitize=False)
        with ui.element("nav").props('aria-label="Pages"'):
            links = {path: ui.link(name, path) for path, name in PAGES.items()}
        _dark_button()

    def mark(path: str) -> None:
        top = "/" + path.partition("?")[0].split("/")[1]
        here = top if top in PAGES else "/"
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
    with ui.element("div").classes("page"):  # NiceGUI builds the main landmark
        with ui.element("h1"):
            ui.label(title)
        with ui.element("p").classes("lead"):
            ui.label(lead)
        yield


class PageNotice:
    """A sentence above a page, hidden while it is empty.

    For example, it says why the address cannot be used.
    """

    def __init__(self, text: str = "") -> None:
        with ui.element("div").classes("notice").props('role="alert"') as self._box:
            self._label = ui.label().mark("notice")
        self.say(text)

    def say(self, text: str) -> None:
        """Show a sentence, or nothing."""
        self._label.set_text(text)
        self._box.set_visibility(bool(text))


class Numbers:
    """The numbers of an answer in groups, with notes below them."""

    def __init__(self) -> None:
        with ui.element("section").classes("card").props('aria-label="Numbers"') as self._card:
            self._table = ui.element("div")
        self._card.set_visibility(False)

    def show(self, summary: Summary | None, notes: Sequence[str] = ()) -> None:
        """Show a summary, or nothing."""
        self._card.set_visibility(summary is not None)
        self._table.clear()
        if summary is None:
            return
        with self._table:
            with ui.element("div").classes("numbers"):
                for section, rows in summary.sections.items():
                    self._section(section, rows)
            with ui.element("div").classes("notes"):
                for note in notes:
                    paragraph(note)

    def _section(self, section: str, rows: Sequence[Row]) -> None:
        with ui.element("div"):
            with ui.element("h2"):
                ui.label(section)
            for row in rows:
                with ui.element("div").classes("line"):
                    ui.label(row.name)
                    ui.label(row.shown).classes("value")
                    ui.label(row.meaning).classes("meaning")


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
    """Build a chart; `described` is its text for screen readers."""
    made = ui.echart(options, renderer="svg").classes(f"chart {classes}")
    made.props["role"] = "img"
    made.props["aria-label"] = described
    return made


def redraw(made: ui.echart, options: Options) -> None:
    """Replace the options of a chart."""
    made.options.clear()
    made.options.update(options)
    made.update()


def paragraph(text: str, classes: str = "") -> ui.label:
    """Build a paragraph."""
    with ui.element("p"):
        return ui.label(text).classes(classes)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Build a table whose first column names its rows."""
    with ui.element("table").classes("plain-table"):
        with ui.element("tr"):
            for column in columns:
                with ui.element("th").props("scope=col"):
                    ui.label(column)
        for first, *others in rows:
            with ui.element("tr"):
                with ui.element("th").props("scope=row"):
                    ui.label(first)
                for cell in others:
                    with ui.element("td"):
                        ui.label(cell)


def code(heading: str) -> Callable[[str], None]:
    """Build a heading and code to copy; return a function that sets the code."""
    with ui.element("div"):
        with ui.element("h2").style("margin-bottom: 6px"):
            ui.label(heading)
        with ui.element("div").classes("code"):
            with ui.element("pre"):
                shown = ui.html(sanitize=False).mark("lines")
            lines = ""

            def copy() -> None:
                ui.clipboard.write(lines)
                ui.notify("Copied.", position="bottom", timeout=1200)

            ui.button("Copy", on_click=copy).props(f'flat dense size=sm aria-label="Copy: {heading}"')

    def show(text: str) -> None:
        nonlocal lines
        lines = text
        shown.set_content(_unbroken(text))

    return show


def _unbroken(text: str) -> str:
    """Return HTML that breaks lines between words, never within ``--loss``."""
    return re.sub(r"\S+", lambda word: f"<span>{escape(word[0])}</span>", text)
