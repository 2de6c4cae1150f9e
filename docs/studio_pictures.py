"""Take the pictures of the studio that the docs show: ``python -m docs.studio_pictures``.

Needs chromium. Made-up values and fixed seeds, so that pictures change only for a reason.
"""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

from benchmarks.browser import browser, studio

PICTURES = Path(__file__).resolve().parent / "pictures"
METERS = "agents=1,000&low=0&high=10&unit=kW&radius=0.2"
WATCHED = "find=accuracy&place=graph&graph=geometric:40:0.3:seed=3&high=10&unit=kW&budget=40&mixing=0.4"
SHOTS: dict[str, tuple[str, str, int, bool]] = {  # name → address, what to wait for, width, dark
    "studio-plan": (f"/?{METERS}", "Privacy loss 4.66", 1280, False),
    "studio-plan-dark": (f"/?{METERS}", "Privacy loss 4.66", 1280, True),
    "studio-plan-phone": (f"/?{METERS}", "Privacy loss 4.66", 375, False),
    "studio-keepers": (f"/?{METERS}&keepers=2", "Privacy loss 0.2177", 1280, False),
    "studio-infeasible": ("/?find=all&agents=500&high=1&budget=0.15&radius=0.5", "Out of reach", 1280, False),
    "studio-watch": (f"/watch?{WATCHED}&rounds=40&tolerance=20", "Round 0 of 40", 1280, False),
    "studio-compare": (f"/compare?{METERS}", "× 0.5", 1280, False),
}


def play(page: Page) -> None:
    """Move a watched session on to round 12."""
    page.get_by_role("slider", name="round").locator("[tabindex]").first.focus()
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    page.get_by_text("After round 12").first.wait_for()


def main() -> None:
    """Take all pictures."""
    with studio() as where, browser() as started:
        for name, (path, text, width, dark) in SHOTS.items():
            context = started.new_context(
                viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
            )
            page = context.new_page()
            page.goto(where + path, wait_until="commit")
            page.get_by_text(text).filter(visible=True).first.wait_for()
            if "watch" in name:
                play(page)
            page.wait_for_timeout(500)  # charts are drawn a moment after their words
            page.screenshot(path=PICTURES / f"{name}.png", full_page=True)
            context.close()
            print(f"docs/pictures/{name}.png")


if __name__ == "__main__":
    main()
