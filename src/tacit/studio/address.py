"""Keep a page's question in the address bar of its browser tab.

So a reload, a shared link, and the buttons back and forward all lead to the same question.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, urlencode

from nicegui import ui

from tacit.base.errors import InputError

Query = Mapping[str, str]


class Address:
    """The address of one tab; the page is told when the user moves.

    Consecutive changes of one field are one entry of the browser's history. So going back once undoes a
    slider's whole movement.
    """

    def __init__(self) -> None:
        self._client = ui.context.client
        self._router = self._client.sub_pages_router
        self._path, self._entry = "", ""
        self._told: Callable[[Query], None] = _nothing
        self._router.on_path_changed(self._moved)

    @property
    def query(self) -> dict[str, str]:
        """The fields that the address names."""
        return _query(self._router.current_path)

    def follow(self, told: Callable[[Query], None]) -> None:
        """Call `told` with the query whenever the user goes back or forward.

        Only the page that was built last is told, and only about its own addresses.
        """
        self._path, self._entry, self._told = _page(self._router.current_path), "", told

    def write(self, query: Query, entry: str) -> None:
        """Show a question in the address bar; `entry` is the changed field."""
        address = f"{self._path}?{urlencode(query, safe=':,')}"
        if address == self._router.current_path:
            return
        method = "replaceState" if entry == self._entry else "pushState"
        self._entry, self._router.current_path = entry, address
        self._client.run_javascript(f"history.{method}({{}}, '', {json.dumps(address)})")

    def _moved(self, path: str) -> None:
        if _page(path) == self._path:
            self._entry = ""
            self._told(_query(path))
        else:
            self._told = _nothing


def say_instead(error: InputError) -> str:
    """Say that the address cannot be used and that the page shows its example."""
    return f"The address cannot be used, so the page shows its example: {error}"


def _page(path: str) -> str:
    return path.partition("?")[0].rstrip("/") or "/"


def _query(path: str) -> dict[str, str]:
    return dict(parse_qsl(path.partition("?")[2].partition("#")[0], keep_blank_values=True))


def _nothing(_: Query) -> None:
    """Ignore the address: no page follows it."""
