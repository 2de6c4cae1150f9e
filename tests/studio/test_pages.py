"""Every flow of the page, with NiceGUI's simulated user: fast, without a browser."""

import asyncio
import re

import pytest
import pytest_asyncio
from nicegui import ui
from nicegui.testing import user_simulation

from tacit.studio import examples
from tacit.studio.pages import root
from tacit.studio.panel import Panel

pytestmark = pytest.mark.asyncio
PATIENCE = 3000  # tenths of a second


@pytest_asyncio.fixture
async def user():
    async with user_simulation(root) as made:
        yield made


def put(user, marker, text):
    """Put text in place of what a field holds."""
    with user:
        for field in user.find(marker=marker).elements:
            field.value = text


async def until(told):
    """Wait for something that no text says."""
    for _ in range(20 * PATIENCE):
        if told():
            return
        await asyncio.sleep(0.005)
    pytest.fail("it did not come")


async def see(user, text):
    await user.should_see(text, retries=PATIENCE)


async def see_lines(user, text):
    """Wait for a command to copy, whose words are elements of their own."""
    await see(user, "On the command line")
    await until(
        lambda: text in {re.sub("<[^>]+>", "", one.content) for one in user.find(marker="lines").elements}
    )


def chart(user, described):
    """Return what a chart was last told to draw."""
    found = [one for one in user.find(kind=ui.echart).elements if described in one.props["aria-label"]]
    assert len(found) == 1
    return found[0].options


async def test_a_new_user_finds_a_design(user):
    await user.open("/?agents=500")
    for marker, text in {"agents": "1,000", "low": "0", "high": "10", "unit": "kW", "radius": "0.2"}.items():
        put(user, marker, text)
    put(user, "probability", "95")
    await see(user, "Privacy loss 4.384")
    await see_lines(user, "tacit design --agents 1000 --radius 0.2 --range 0:10")
    await see(user, "2.2815037")
    loss, radius = chart(user, "Radius")["series"][3]["data"][0]
    assert (round(loss, 2), radius) == (4.38, pytest.approx(0.2))


async def test_moving_a_slider_moves_its_number_and_the_chart(user):
    await user.open("/?agents=500")
    await see(user, "Privacy loss")
    before = chart(user, "Radius")["series"][3]["data"]
    user.find(marker="slide-agents").trigger("update:modelValue", 1000)
    await see(user, "The 1,000,000 agents")
    assert chart(user, "Radius")["series"][3]["data"] != before


async def test_a_negative_accuracy_is_refused_and_the_old_answer_goes(user, caplog):
    await user.open("/")
    await see(user, "Privacy loss")
    put(user, "radius", "-1")
    await see(user, "radius must be a number of at least 0, got -1")
    await see(user, "A field cannot be used")
    await user.should_not_see(marker="headline")
    await user.should_not_see("Privacy against accuracy")
    put(user, "radius", "5")
    await see(user, "Privacy loss")
    assert not [record for record in caplog.records if record.exc_info]


async def test_several_numbers_per_value(user):
    await user.open("/?components=3")
    await see(user, "In all 3 components together")
    await user.open("/watch?components=3")
    await see(user, "one number per agent, got 3 components")


@pytest.mark.parametrize(
    ("label", "says"),
    [
        ("How accurate can it be?", "Within "),
        pytest.param("How many agents does it take?", "3,074 agents", marks=pytest.mark.long),
        pytest.param("Is all of this possible?", "Out of reach", marks=pytest.mark.long),
    ],
)
async def test_every_side_can_be_asked_for(user, label, says):
    await user.open("/?agents=500")
    user.find(label).click()
    await see(user, says)


async def test_what_has_to_give_can_be_given_with_a_click(user):
    await user.open("/?find=all&budget=0.1&radius=1")
    await see(user, "Any one of these would work")
    words = next(one.text for one in user.find(kind=ui.button).elements if one.text.startswith("agents "))
    user.find(kind=ui.button, content=words).click()
    await see(user, "Possible")


async def test_a_sentence_stands_at_its_field(user):
    await user.open("/")
    await see(user, "Privacy loss")
    put(user, "radius", "abc")
    await see(user, "A field cannot be used")
    (field,) = user.find(marker="radius").elements
    assert field.error == "'abc' is not a finite number."
    put(user, "radius", "5")
    await see(user, "Privacy loss")
    assert field.error is None


async def test_a_graph_by_name(user):
    await user.open("/?agents=500")
    user.find("on a graph").click()
    await user.should_see(marker="graph", retries=PATIENCE)
    put(user, "graph", "karate")
    await see_lines(user, "tacit design --graph karate --radius 5 --true-average --range 0:100")
    put(user, "graph", "nonsense")
    await see(user, "A field cannot be used")


async def test_two_settings_are_compared(user):
    await user.open("/compare?agents=1000&high=10&radius=0.2&b-agents=4000")
    await see(user, "× 4")
    put(user, "agentsB", "1000")
    await user.should_not_see("× 4", retries=PATIENCE)
    await see(user, "same")
    names = [series["name"] for series in chart(user, "twice")["series"] if series["type"] == "line"]
    assert names == ["A: this design", "A: one-shot", "B: this design", "B: one-shot"]


async def test_a_session_is_watched_round_by_round(user):
    await user.open("/watch?find=accuracy&agents=8&budget=4&mixing=0.3&rounds=5&tolerance=50&round=0")
    await see(user, "Round 0 of 5")
    user.find("Step").click()
    await see(user, "Round 1 of 5")
    assert len(chart(user, "Loss")["series"][0]["data"]) == 2
    user.find(marker="round").trigger("update:modelValue", 3)
    await see(user, "Round 3 of 5")
    user.find(marker="play").click()
    await see(user, "Pause")
    await see(user, "Round 5 of 5")
    await see(user, "Play")  # it stops by itself
    user.find("Back to the start").click()
    await see(user, "Round 0 of 5")
    put(user, "seed", "x")
    (seed,) = user.find(marker="seed").elements
    await until(lambda: seed.error == "'x' is not a whole number.")


async def test_an_adversary_thinks_about_an_agent(user):
    await user.open("/watch?find=accuracy&agents=24&high=10&unit=kW&budget=4&mixing=0.3&round=0")
    await see(user, "After round 0 its best guess is 5\u00a0kW")
    put(user, "adversary", "insiders")
    await see(user, "They see only their own connections")
    user.find(marker="round").trigger("update:modelValue", 9)
    await see(user, "After round 9 its best guess")
    truth = chart(user, "believed now")["series"][1]["markLine"]["data"]
    put(user, "agent", "8")
    await until(lambda: chart(user, "believed now")["series"][1]["markLine"]["data"] != truth)


async def test_an_eavesdropper_is_watched_with_and_without_keepers(user):
    await user.open("/watch?find=accuracy&agents=8&budget=4&mixing=0.3&rounds=5&tolerance=50&keepers=2")
    await see(user, "Messages are masked, so it learns from the feedback alone")
    await see(user, "an eavesdropper would then be 95% sure")
    assert [series["name"] for series in chart(user, "believed now")["series"]][2] == "without keepers"
    put(user, "adversary", "conspirators")
    await see(user, "Everybody except this agent and one honest keeper")


async def test_nobody_shows_a_status(user):
    await user.open("/status?ports=1")
    await see(user, "No status found at these ports")
    await see(user, "does not answer")
    put(user, "ports", "abc")
    (field,) = user.find(marker="ports").elements
    await until(lambda: field.error == "'abc' is not a port of this machine or an address.")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/", "Privacy loss 0.2057"),
        pytest.param("/series", "Deviation 0.05255\u00a0kW per mean", marks=pytest.mark.long),
        ("/watch", "Round 16 of 16"),
        ("/watch/motion", "After 30 s"),
        pytest.param("/compare", "Privacy loss 0.0", marks=pytest.mark.long),
    ],
)
async def test_a_page_opens_with_a_finished_example(user, path, says):
    """At a loss of at most 1, and with all charts drawn."""
    await user.open(path)
    await see(user, says)
    charts = user.find(kind=ui.echart).elements
    await until(lambda: all(any(series["data"] for series in one.options["series"]) for one in charts))
    if path == "/watch":
        assert chart(user, "Loss")["series"][0]["data"][-1][1] <= 1


async def test_an_example_that_is_ready_is_shown_while_the_page_is_built(user, monkeypatch):
    examples.PLAN.prepare()
    monkeypatch.setattr(Panel, "start", None)  # is not needed
    await user.open("/")
    await user.should_see("Privacy loss 0.2057")


EXAMPLES = {
    "/": "1,000",
    "/series": "1,000",
    "/watch": "60",
    "/watch/motion": None,
    "/compare": "1,000",
    "/status": None,
}
BAD_ADDRESSES = {
    "/?agents=-1": "agents: -1 is not a whole number",
    "/?find=gold": "find must be one of",
    "/?gold=1": "no field 'gold'",
    "/series?hides=all": "hides must be one of",
    "/?when=often": "when must be one of",
    "/compare?when=series": "series are planned under Plan",
    "/watch?seed=x": "seed: 'x' is not a whole number",
    "/watch/motion?law=gold": "law must be one of",
    "/watch/motion?gold=1": "no field 'gold'",
    "/watch?adversary=me": "adversary must be one of",
    "/compare?b-agents=none": "agents: 'none' is not a whole number",
    "/status?ports=http://elsewhere": "is not a port of this machine",
}


async def test_an_address_that_cannot_be_used_is_said_above_the_example(user, caplog):
    for path, says in BAD_ADDRESSES.items():
        await user.open(path)
        await see(user, "The address cannot be used, so the page shows its example")
        await see(user, says)
        page = path.partition("?")[0]
        if EXAMPLES[page] is not None:
            (field,) = user.find(marker="agentsA" if page == "/compare" else "agents").elements
            assert field.value == EXAMPLES[page]
    assert not [record for record in caplog.records if record.exc_info]


async def test_the_address_follows_the_question_and_the_question_the_address(user):
    await user.open("/?agents=500&radius=5")
    await see(user, "Privacy loss")
    router = user.client.sub_pages_router
    scripts, run = [], user.client.run_javascript

    def recorded(script, **more):
        if script.startswith("history."):
            scripts.append(script)
        return run(script, **more)

    user.client.run_javascript = recorded
    for text in ("6", "60"):  # two changes of one field are one step back
        put(user, "agents", text)
        await until(lambda text=text: f"agents={text}&" in router.current_path)
    put(user, "radius", "x")  # is not kept
    await see(user, "A field cannot be used")
    put(user, "radius", "20")
    await until(lambda: "radius=20" in router.current_path)
    assert [script.partition("(")[0] for script in scripts] == [
        "history.pushState", "history.replaceState", "history.pushState",
    ]  # fmt: skip
    assert "radius=x" not in "".join(scripts)
    with user:  # as when going back
        await router._handle_open("/?agents=500&radius=5")
    (field,) = user.find(marker="agents").elements
    await until(lambda: field.value == "500")
    assert len(scripts) == 3


async def test_a_series_is_planned(user):
    await user.open("/series?hides=window&size=35040&agents=300")
    await see(user, "Out of reach")
    words = next(one.text for one in user.find(kind=ui.button).elements if one.text.startswith("agents "))
    user.find(kind=ui.button, content=words).click()
    await see(user, "per mean")
    put(user, "size", "-1")
    (field,) = user.find(marker="size").elements
    await until(lambda: field.error == "this must be a positive number, got '-1'.")
    await see(user, "A field cannot be used")
    await user.should_not_see("What each mechanism would do")


async def test_one_form_asks_about_one_time_and_about_a_series(user):
    await user.open("/")
    await see(user, "Privacy loss 0.2057")
    await see(user, "One dishonest agent can move the result by at most")
    await user.should_not_see(marker="slots")
    put(user, "when", "series")
    await see(user, "Deviation 0.05255\u00a0kW per mean")
    await see(user, "What each mechanism would do")
    for gone in ("Accuracy", "What do you want to know?", "Watch a session with these numbers"):
        await user.should_not_see(gone)
    put(user, "when", "once")
    await see(user, "Privacy loss 0.2057")
    await user.should_not_see("What each mechanism would do")


async def test_what_a_field_that_cannot_be_used_leaves_on_the_watch_page_is_marked_as_old(user, caplog):
    await user.open("/watch")
    await see(user, "Round 16 of 16")
    put(user, "agents", "-1")
    await see(user, "The charts show the last valid session")
    for marker, text, says in (("agent", "999999", "0 to 59"), ("seed", "-1", "whole number")):
        put(user, "agents", "60")
        put(user, marker, text)
        (field,) = user.find(marker=marker).elements
        await until(lambda field=field, says=says: says in (field.error or ""))
        put(user, marker, "1")
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_histogram_is_planned_and_watched(user):
    asked = "find=accuracy&ask=histogram&domain=0,1,2&keepers=2&agents=1,000"
    await user.open(f"/?{asked}")
    await see(user, "Within 8.227\u00a0records")
    assert chart(user, "Interval of each part")["xAxis"]["data"] == ["0 to 1", "1 to 2"]
    put(user, "ask", "count")
    await see(user, "Within 4.114\u00a0records")
    put(user, "ask", "word")
    await user.should_see(marker="domain", retries=PATIENCE)
    put(user, "domain", "mode")
    await see(user, "A field cannot be used")
    await user.open(f"/watch?{asked}")
    await see(user, "The simulated answer")
    await see(user, "the truth is")
