"""Every flow in a real browser; what it showed when a test failed is kept in out/screenshots."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
SHOTS = Path(__file__).resolve().parents[2] / "out" / "screenshots"
PATIENCE = 240_000  # milliseconds, for a machine that is busy
expect.set_options(timeout=PATIENCE)
PAGES = {
    "plan": "/",
    "series": "/series",
    "watch": "/watch",
    "motion": "/watch/motion",
    "compare": "/compare",
    "status": "/status?ports=1",
}
READY = {
    "plan": "Privacy loss",
    "series": "per mean",
    "watch": "Round 16",
    "motion": "After 30 s",
    "compare": "× 4",
    "status": "No status",
}
FOCUSED = """() => {
    const e = document.activeElement;
    const within = e.closest('.q-field, .q-radio, .q-slider, .q-expansion-item');  // these mark it themselves
    const style = getComputedStyle(e);
    const shown = style.outlineStyle !== 'none' || style.boxShadow !== 'none' || within !== null;
    return [(e.getAttribute('aria-label') || e.textContent || '').trim(), e.tagName, shown];
}"""
SHORT = "/watch?find=accuracy&agents=24&high=10&unit=kW&budget=4&mixing=0.3&rounds=6&tolerance=5&round=0"
METERS = "agents=1,000&high=10&unit=kW&radius=0.2"


@pytest.fixture(scope="module")
def studio(apart, tmp_path_factory):
    """Run `tacit studio` as a user would, and return where it is."""
    tacit = Path(sys.executable).with_name("tacit")
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "NICEGUI"))}
    with subprocess.Popen(
        [*apart, tacit, "studio", "--port", "0", "--no-browser"], cwd=tmp_path_factory.mktemp("studio"),
        env={**outside, "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        yield re.search(r"http://127\.0\.0\.1:\d+", running.stdout.readline())[0]
        running.send_signal(signal.SIGINT)


@pytest.fixture
def visit(browser, studio, request):
    """Open pages; whatever they do, nothing leaves this machine and nothing is wrong in the console."""
    asked, wrong, contexts = [], [], []

    def opened(path="/", width=1280, **kinds):
        context = browser.new_context(viewport={"width": width, "height": 900}, **kinds)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("websocket", lambda socket: asked.append(socket.url))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(studio + path, wait_until="commit")
        expect(page.locator("h1")).to_be_visible()
        return page

    failed = request.session.testsfailed
    yield opened
    for number, context in enumerate(contexts):
        if request.session.testsfailed > failed:
            context.pages[0].screenshot(path=SHOTS / f"{request.node.name}-{number}.png", full_page=True)
        context.close()
    outside = [url for url in asked if urlsplit(url).hostname not in ("127.0.0.1", None)]
    assert any(url.startswith("ws") for url in asked)
    assert (outside, wrong) == ([], [])


def see(page, text):
    expect(page.get_by_text(text).filter(visible=True).first).to_be_visible()


@pytest.mark.long
def test_a_new_user_finds_a_design(visit):
    page = visit("/?agents=500")
    for label, text in {
        "number of agents": "1,000", "values from": "0", "to": "10", "unit": "kW", "mean within ±": "0.2",
        "with probability": "95",
    }.items():  # fmt: skip
        page.get_by_role("textbox", name=label, exact=True).fill(text)
    see(page, "Privacy loss 4.384")
    see(page, "tacit design --agents 1000 --radius 0.2 --range 0:10")
    picture = page.get_by_role("img", name="Radius against privacy loss")
    expect(picture.locator("svg text", has_text="loss 4.39")).to_be_visible()


def test_a_slider_is_moved_with_the_keyboard(visit):
    page = visit("/")
    see(page, "Privacy loss")
    field = page.get_by_role("textbox", name="number of agents")
    field.focus()
    page.keyboard.press("Tab")
    slider = page.get_by_role("slider", name="number of agents")
    assert slider.evaluate("e => e.contains(document.activeElement)")
    page.keyboard.press("ArrowRight")
    expect(field).not_to_have_value("1,000")
    grown = int(field.input_value())
    assert grown > 1000
    see(page, f"The {grown:,} agents")


def test_everything_is_reached_by_tab_with_a_visible_focus(visit):
    page = visit("/")
    see(page, "Privacy loss")
    order = []
    for _ in range(30):
        page.keyboard.press("Tab")
        order.append(page.evaluate(FOCUSED))
    tags = [tag for _, tag, _ in order]
    assert [name for name, _, shown in order if not shown] == []
    assert [name for name, _, _ in order[:4]] == ["Plan", "Watch", "Compare", "Status"]
    assert "once" in order[5][0]
    assert tags.count("INPUT") >= 6
    assert "BUTTON" in tags


@pytest.mark.long
def test_what_cannot_be_had_says_what_has_to_give(visit):
    page = visit("/?agents=500")
    page.get_by_text("Is all of this possible?").click()
    page.get_by_role("textbox", name="mean within ±").fill("1")
    see(page, "Out of reach")
    see(page, "Any one of these would work")
    page.get_by_role("button", name=re.compile("^agents ")).click()
    see(page, "Possible")


@pytest.mark.long
def test_bad_input_is_said_at_its_field(visit):
    page = visit("/")
    see(page, "Privacy loss")
    page.get_by_role("textbox", name="mean within ±").fill("abc")
    field = page.locator(".q-field", has=page.get_by_role("textbox", name="mean within ±"))
    expect(field.get_by_text("'abc' is not a finite number.")).to_be_visible()


def test_lines_are_copied(visit, studio):
    page = visit(f"/?{METERS}", permissions=["clipboard-read", "clipboard-write"])
    see(page, "Privacy loss 4.384")
    page.get_by_role("button", name="Copy: On the command line").click()
    see(page, "Copied.")
    page.wait_for_function("navigator.clipboard.readText().then(text => text !== '')")  # a moment later
    assert (
        page.evaluate("navigator.clipboard.readText()")
        == "tacit design --agents 1000 --radius 0.2 --range 0:10"
    )


@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=pytest.mark.long)])
def test_a_command_breaks_between_its_words(visit, width):
    page = visit("/series")
    page.set_viewport_size({"width": width, "height": 900})
    see(page, "per mean")
    command = page.locator("pre").first
    expect(command).to_contain_text("--loss 1 --delta 1e-06")
    heights = "words => words.map(word => word.getBoundingClientRect().height)"
    assert len(set(command.locator("span").evaluate_all(heights))) == 1
    assert command.locator("span").all_inner_texts() == command.inner_text().split()


@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=pytest.mark.long)])
def test_a_legend_shows_all_its_entries(visit, width):
    page = visit("/watch")
    page.set_viewport_size({"width": width, "height": 900})
    see(page, "Round 16 of 16")
    picture = page.get_by_role("img", name="States of all agents")
    for entry in ("50% of runs end here", "95% of runs end here", "average of all", "chosen agent"):
        expect(picture.locator("svg text", has_text=entry)).to_be_visible()


@pytest.mark.long
def test_a_design_is_taken_along_to_the_other_pages(visit):
    page = visit(f"/?{METERS}")
    see(page, "Privacy loss 4.384")
    page.get_by_role("link", name="Compare with another setting").click()
    see(page, "4,000")
    see(page, "× 0.5")
    expect(page).to_have_url(re.compile("b-agents=4,000"))
    expect(page.get_by_role("link", name="Compare", exact=True)).to_have_attribute("aria-current", "page")
    page.go_back()
    see(page, "Privacy loss 4.384")
    page.get_by_role("link", name="Watch a session with these numbers").click()
    see(page, "There are too many agents to draw")


@pytest.mark.long
def test_a_session_is_watched(visit):
    page = visit(SHORT)
    see(page, "Round 0 of 6")
    page.get_by_role("button", name="Play").click()
    see(page, "Round 6 of 6")  # where it stops by itself
    page.get_by_role("button", name="Back to the start").click()
    see(page, "Round 0 of 6")
    page.get_by_role("slider", name="round").locator("[tabindex]").first.focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    see(page, "Round 4 of 6")
    page.get_by_role("button", name="Step").click()
    see(page, "Round 5 of 6")
    page.get_by_role("combobox", name="adversary").click()
    page.get_by_role("option", name="compromised agents alone").click()
    see(page, "They see only their own connections")
    page.get_by_role("textbox", name="about agent number").fill("7")
    see(page, "After round 5 its best guess")
    page.get_by_role("textbox", name="about agent number").fill("3")
    see(page, "agent 3 must not be compromised")


def test_a_running_member_is_followed(visit, apart):
    script = """
import asyncio
from tacit.core.protocol.standing import Loss
from tacit.live.status.status import Status
from tacit.live.status.server import StatusServer
from tests.doubles import known_session
async def main():
    status = Status(known_session(agents=3), who=0)
    async with StatusServer(status) as server:
        print(server.port, flush=True)
        for round in range(10_000):
            loss = Loss(spent=0.01 * (round % 9), planned=0.5, cap=1.0)
            status.update(phase="running", round=round, late=["agent2"], feedback=[7.5 + round], loss=loss)
            await asyncio.sleep(0.3)
asyncio.run(main())
"""
    member = [*apart, sys.executable, "-c", script]
    with subprocess.Popen(member, stdout=subprocess.PIPE, text=True) as running:
        try:
            page = visit(f"/status?ports={running.stdout.readline().strip()}")
            see(page, "agent2")
            see(page, "0.5 planned, 1 cap")
            first = page.locator(".figure:visible").first.inner_text()
            expect(page.locator(".figure:visible").first).not_to_have_text(first)
            see(page, "Feedback since this page was opened")
        finally:
            running.kill()
        see(page, "No status found at these ports")
        see(page, "--status PORT")


def test_light_and_dark(visit):
    page = visit("/", color_scheme="dark")
    see(page, "Privacy loss")

    def ground():
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    assert ground() == "rgb(19, 21, 24)"
    button = page.get_by_role("button", name="Colours")
    button.click()
    expect(button).to_have_attribute("aria-label", re.compile("dark"))
    button.click()
    expect(button).to_have_attribute("aria-label", re.compile("light"))
    page.wait_for_function("getComputedStyle(document.body).backgroundColor == 'rgb(247, 247, 248)'")


def test_the_address_keeps_the_question(visit):
    page = visit("/")
    see(page, "Privacy loss 0.2057")
    field = page.get_by_role("textbox", name="number of agents")
    field.fill("4000")
    expect(page).to_have_url(re.compile("agents=4000"))
    page.get_by_role("textbox", name="mean within ±").fill("0.1")
    expect(page).to_have_url(re.compile("radius=0.1"))
    page.go_back()  # one field, one step
    expect(page.get_by_role("textbox", name="mean within ±")).to_have_value("0.2")
    expect(field).to_have_value("4000")
    page.go_back()
    expect(field).to_have_value("1,000")
    see(page, "Privacy loss 0.2057")
    page.go_forward()
    expect(field).to_have_value("4000")
    page.reload()
    expect(page.get_by_role("textbox", name="number of agents")).to_have_value("4000")
    see(page, "The 4,000 agents")
    page.goto(page.url.replace("agents=4000", "agents=none"))
    see(
        page,
        "The address cannot be used, so the page shows its example: agents: 'none' is not a whole number.",
    )
    expect(page.get_by_role("textbox", name="number of agents")).to_have_value("1,000")


CASES = [("plan", "light", 390), ("watch", "dark", 1280), ("motion", "light", 390), ("status", "dark", 390)]
LONG = [(name, colours, width) for name in PAGES for colours in ("light", "dark") for width in (1280, 390)]


@pytest.mark.parametrize(
    ("name", "colours", "width"),
    [pytest.param(*case, marks=[pytest.mark.long] * (case not in CASES)) for case in LONG],
)
def test_everybody_can_use_a_page(visit, name, colours, width):
    """No violation that axe-core finds: names, roles, contrast, landmarks, order; and no scrolling aside."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = visit(PAGES[name], width=width, color_scheme=colours)
    see(page, READY[name])
    found = axe.run(page).response["violations"]
    said = [(rule["id"], [node["html"][:160] for node in rule["nodes"]][:3]) for rule in found]
    assert said == []
    page.wait_for_function("document.documentElement.scrollWidth <= window.innerWidth")
