"""Take the pictures of the studio that the docs show: ``python -m docs.studio_pictures``.

Needs chromium. Made-up values and fixed seeds, so that pictures change only for a reason.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from benchmarks.browser import browser, studio
from tacit.core.protocol.standing import Standing
from tacit.live.status.document import HubNumbers, StatusDocument, StatusPages
from tacit.live.status.server import StatusServer

PICTURES = Path(__file__).resolve().parent / "pictures"
REFUSED = "find=all&agents=500&high=1&budget=0.15&radius=0.5"
SHOTS: dict[str, tuple[str, str, int, bool]] = {  # name → address, what to wait for, width, dark
    "studio-plan": ("/", "Privacy loss 0.2057", 1280, False),
    "studio-plan-dark": ("/", "Privacy loss 0.2057", 1280, True),
    "studio-plan-phone": ("/", "Privacy loss 0.2057", 390, False),
    "studio-infeasible": (f"/?{REFUSED}", "Out of reach", 1280, False),
    "studio-series": ("/series", "per mean", 1280, False),
    "studio-watch": ("/watch", "Round 16 of 16", 1280, False),
    "studio-motion": ("/watch/motion", "After 30 s", 1280, False),
    "studio-compare": ("/compare", "× 4", 1280, False),
    "studio-status": ("/status?ports={hub}", "connected", 1280, False),
}
HUB = StatusDocument(
    kind="hub",
    name="hub",
    role="hub",
    hub="wss://192.0.2.1:7447",
    state="serving",
    ready=True,
    connected=dict.fromkeys(("alice", "bob", "carol"), "agent") | dict.fromkeys(("north", "south"), "keeper"),
    counts={"hub_refusals": {"cap": 1}, "hub_rounds": {"": 12}},
    numbers=HubNumbers(
        outcomes={"finished": 6}, open_invitations=2, refusing={"dave": "cap", "erin": "version"}
    ),
    sessions=[
        Standing(
            name=f"load-{i:02}",
            phase="finished",
            agents=3,
            rounds=2,
            round=2,
            used=3,
            feedback=[4 + 0.1 * i],
            radius=1.2,
            ended=time.time() - 60 * (7 - i),
        )
        for i in range(1, 7)
    ]
    + [Standing(name="load-07", phase="running", agents=3, rounds=2)],
)
"""A made-up hub."""


class HubPage(StatusPages):
    """Shows the made-up hub, for a `StatusServer`."""

    def document(self) -> StatusDocument:
        """Return the made-up hub."""
        return HUB


@contextmanager
def hub() -> Iterator[int]:
    """Show the made-up hub while the block lasts; yields its port."""
    started, stop, ports = Event(), Event(), list[int]()

    async def show() -> None:
        async with StatusServer(HubPage()) as server:
            ports.append(server.port)
            started.set()
            while not stop.is_set():
                await asyncio.sleep(0.05)

    thread = Thread(target=lambda: asyncio.run(show()))
    thread.start()
    started.wait()
    yield ports[0]
    stop.set()
    thread.join()


def main() -> None:
    """Take all pictures."""
    with studio() as where, browser() as started, hub() as port:
        for name, (path, text, width, dark) in SHOTS.items():
            context = started.new_context(
                viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
            )
            page = context.new_page()
            page.goto(where + path.format(hub=port), wait_until="commit")
            page.get_by_text(text).filter(visible=True).first.wait_for()
            page.wait_for_timeout(500)  # charts are drawn a moment after their words
            page.screenshot(path=PICTURES / f"{name}.png", full_page=True)
            context.close()
            print(f"docs/pictures/{name}.png")


if __name__ == "__main__":
    main()
