"""What an owner allows: policies, sources of values, caps per window. Nothing depends on the value."""

import asyncio
import io
import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.doubles.sessions import known_series, known_session, moving_session

from tacit.base.errors import CapExceeded, FileError, InputError
from tacit.core.law import OneShot
from tacit.core.mechanism.lattice import Lattice
from tacit.core.question import Count, GroupBy, Histogram, Mean, Quantile, Several, Sum, WeightedMean
from tacit.core.series import Hides
from tacit.live.fleet.policy import Policy, read_policy, seconds
from tacit.live.fleet.records import read_record
from tacit.live.fleet.sources import (
    CallableSource,
    CommandSource,
    EnvironmentSource,
    FileSource,
    LinesSource,
    SourceFailed,
)
from tacit.live.ledger.budget import Hidden, Purse, Window
from tacit.live.ledger.ledger import Ledger
from tacit.live.ledger.schema import Capped, Reserved
from tacit.live.transport.base import longest_frame

SECRET = "31.415926"
DAY = 86_400.0


def ledger_at(path, *begun):
    """A ledger with sessions of loss 1 begun at these times."""
    ledger = Ledger(path)
    for k, now in enumerate(begun):
        reserve(ledger, k, now=now, cap=100.0)
    return ledger


def reserve(ledger, k, *, now, cap=None, windows=(), planned=1.0, **more):
    return ledger.reserve(
        bytes([k + 1]) * 32, "value", planned=planned, adjacency=1.0, diameter=1.0, now=now, cap=cap,
        windows=windows, **more,
    )  # fmt: skip


# ---- caps per window -------------------------------------------------------------------------------


def test_a_window_counts_what_was_begun_in_it(path):
    with ledger_at(path, 0.0, 1000.0) as ledger:
        two_a_day = (Window(DAY, 2.0),)
        with pytest.raises(CapExceeded, match="cap of 2"):
            reserve(ledger, 2, now=DAY - 1.0, windows=two_a_day)
        assert ledger.reservation(bytes([3]) * 32) is None
        reserve(ledger, 2, now=DAY + 1.0, windows=two_a_day)  # the first is out of the window
        assert ledger.spent_since("value", 1.0) == 2.0
        with pytest.raises(CapExceeded):
            reserve(ledger, 3, now=DAY + 2.0, windows=two_a_day)


def test_a_window_is_computed_from_the_file(path):
    ledger_at(path, 0.0, 10.0).close()
    with Ledger(path) as again:
        assert again.last_begun("value") == 10.0
        with pytest.raises(CapExceeded):
            reserve(again, 2, now=20.0, windows=(Window(60.0, 2.5),))


def test_a_clock_that_was_set_back_frees_nothing(path):
    with ledger_at(path, 1000.0, 2000.0) as ledger, pytest.raises(CapExceeded):
        reserve(ledger, 2, now=10.0, windows=(Window(60.0, 2.0),))


def test_a_window_counts_a_session_as_often_as_the_cap_does(path):
    """The session's adjacency is its maker's choice: over a range of 4 steps it counts 4 times."""
    with Ledger(path) as ledger, pytest.raises(CapExceeded, match="counted 4 times"):
        ledger.reserve(
            bytes(31) + b"1", "value", planned=1.0, adjacency=1.0, diameter=4.0, now=0.0, cap=100.0,
            windows=(Window(60.0, 3.9),),
        )  # fmt: skip


def test_what_was_not_said_is_free_again(path):
    with ledger_at(path, 0.0, 1.0) as ledger:
        ledger.settle(bytes([1]) * 32)
        reserve(ledger, 2, now=2.0, windows=(Window(60.0, 2.0),))


@pytest.mark.parametrize(("time", "cap"), [(0.0, 1.0), (math.inf, 1.0), (1.0, -1.0), (1.0, math.inf)])
def test_a_window_is_a_time_and_an_amount(time, cap):
    with pytest.raises(InputError):
        Window(time, cap)


def test_sums_are_those_of_all_sessions_one_by_one():
    """Whatever was reserved, said, settled and capped in whichever order."""
    rng, purse, known = random.Random(7), Purse(), []
    purse.capped(Capped("value", math.inf, 10.0))
    for k in range(300):
        session = k.to_bytes(32, "big")
        adjacency, diameter = rng.choice([(1.0, 1.0), (1.0, 4.0), (0.3, 4.0)])
        row = Reserved(
            "value", adjacency, diameter, rng.uniform(0.1, 1.0), None, rng.choice([None, float(k)])
        )
        purse.reserved(session, row)
        known.append(session)
        for one in rng.sample(known, min(3, len(known))):
            if purse.is_settled(one) or rng.random() < 0.5:
                purse.said(one, rng.uniform(0.0, 0.1))
            else:
                purse.settled(one)
        if k % 50 == 0:
            purse.capped(Capped("value", rng.choice([0.5, 2.0, math.inf]), 10.0))
        assert purse.spent("value") == sum(map(purse.charge, known), Fraction(0))
    recent = [s for s in known if purse._reserved[s].at is None or purse._reserved[s].at > 100.0]
    assert purse.spent_since("value", 100.0) == sum(map(purse.charge, recent), Fraction(0))


# ---- policies --------------------------------------------------------------------------------------

AGENT = """
format = 1
hub = "wss://localhost:7447"
authority = "{print}"
keys = "keys"
ledger = "me.ledger"

[value]
file = "value"
low = 0
high = 1

[limits]
cap = 2
windows = [{{ time = "1d", cap = 1.5 }}]
pause = "1m"
longest = "2h"

[trust]
"keeper-0" = "{key}"
"""


@pytest.fixture
def text():
    from tacit.live.identity.keys import key_text

    session = known_session(keepers=2)
    return AGENT.format(print="ab" * 32, key=key_text(session.keepers[0].key))


def written(path, text):
    path.write_text(text)
    return path


def test_a_policy_is_read_as_it_is_written(tmp_path, text):
    policy = read_policy(written(tmp_path / "me.toml", text))
    assert policy.windows == (Window(DAY, 1.5),)
    assert (policy.pause, policy.longest, policy.keys) == (60.0, 7200.0, tmp_path / "keys")
    assert isinstance(policy.source, FileSource)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("cap = 2", "cap = -2", "limits.cap"),
        ("cap = 2", 'cap = "2"', "me.toml, limits.cap: must be a finite number"),
        ('ledger = "me.ledger"', "", "me.toml, ledger: must be given"),
        ("[limits]", "[limit]", "me.toml, limit: is not known here"),
        ("high = 1", 'high = 1\nstdin = "no"', "me.toml, value.stdin: must be true or false"),
        ('file = "value"', "", "one place"),
        ('file = "value"', 'file = "value"\nenv = "X"', "one place"),
        ("high = 1", "high = 0", "below"),
        ("format = 1", "format = 9", "format"),
        ('"wss://', '"http://', "wss"),
        ("abab", "zz", "fingerprint"),
        ('"1m"', '"soon"', "30s"),
        ("keys =", 'role = "king"\nkeys =', "role"),
        ("keys =", 'role = "keeper"\nkeys =', "keeper has no value"),
        ("[value]", "[value", "TOML"),
    ],
)
def test_a_wrong_policy_is_refused_in_one_sentence(tmp_path, text, old, new, why):
    assert old in text
    with pytest.raises(FileError, match=why):
        read_policy(written(tmp_path / "me.toml", text.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("text", "found"), [("30s", 30.0), ("5m", 300.0), ("2h", 7200.0), ("1d", DAY), (7, 7.0)]
)
def test_times(text, found):
    assert seconds(text, "it") == found


NOW = 1_000_000.0


@pytest.fixture
def policy(tmp_path, text):
    return read_policy(written(tmp_path / "me.toml", text))


def judged(policy, session, ledger, who=0, now=NOW):
    me = session.member(who)
    return policy.judge(session, (me.name, me.key), ledger, now)


def soon(**changes):
    return known_session(keepers=2, expires=int(NOW + 600), **changes)


def test_a_session_is_judged_by_the_policy(policy, path):
    with Ledger(path) as ledger:
        session = soon()
        assert judged(policy, session, ledger) is None
        assert policy.judge(session, ("agent-0", bytes(32)), ledger, NOW).why == "roster"
        assert judged(policy, session, ledger, now=session.expires).why == "expired"
        assert judged(policy, session, ledger, now=NOW - 7200).why == "long"
        assert judged(policy, soon(high=2.0), ledger).why == "range"
        assert judged(policy, soon(components=2), ledger).why == "range"
        assert judged(replace(policy, rounds=session.rounds), session, ledger) is None
        assert judged(replace(policy, rounds=session.rounds - 1), session, ledger).why == "rounds"
        assert judged(replace(policy, trust={}), session, ledger).why == "keepers"
        assert judged(policy, known_session(graph="ring:4", expires=int(NOW + 600)), ledger).why == "topology"
        assert judged(policy, session, ledger, who=3).why == "roster"  # an agent's policy keeps for nobody


def test_a_keeper_of_a_trusted_name_with_another_key_is_refused(policy, path):
    with Ledger(path) as ledger:
        session = soon()
        liar = {"keeper-0": session.keepers[1].key, "keeper-1": session.keepers[1].key}
        assert judged(replace(policy, trust=liar), session, ledger).why == "keepers"


def test_agents_with_their_own_dynamics_are_refused_whatever_their_range_is(policy, path):
    moving = moving_session(low=0.0, high=1.0, expires=int(NOW + 600))
    assert moving.question in policy.questions
    with Ledger(path) as ledger:
        refusal = judged(policy, moving, ledger)
        assert refusal.why == "question"
        assert "agents with their own dynamics, which no policy allows" in refusal.sentence


def test_a_clock_that_was_set_back_is_named(policy, path):
    """It was told as "comes less than 0 s after the one before"."""
    with ledger_at(path, NOW + 3600.0) as ledger:
        found = judged(policy, soon(), ledger)
        assert found.why == "clock"
        assert "set back" in found.sentence
        assert "less than" not in found.sentence


def test_sessions_that_come_too_soon_are_refused(policy, path):
    with ledger_at(path, NOW - 59.0) as ledger:
        assert judged(policy, soon(), ledger).why == "pause"
        assert judged(policy, soon(), ledger, now=NOW + 1.0) is None


def test_a_policy_for_means_refuses_other_questions(policy, path):
    session = soon()
    low, high = session.lattice.low, session.lattice.high
    once = {"law": "one-shot", "rounds": 1, "adjacency": Sum(low, high).adjacency}
    asked = soon(asked=Sum(low, high), **once)
    with Ledger(path) as ledger:
        assert judged(policy, soon(adjacency=asked.adjacency), ledger) is None
        found = judged(policy, asked, ledger)
        assert found.why == "question"
        assert "asks for sum:0:1, and the policy accepts only mean:0:1" in found.sentence


def asking(question, **more):
    grid = Lattice.fitting(OneShot(0.5, 2.0), 1, *question.box)
    about = {"lattice": grid, "components": question.components, "adjacency": question.adjacency}
    return soon(asked=question, law="one-shot", rounds=1, **about, **more)


def test_a_policy_accepts_the_questions_that_it_names_and_no_others(tmp_path, text, path):
    named = 'accept = ["histogram:0,1,2,inf", "town,load=group-by:a,b:sum:0:9"]'
    policy = read_policy(written(tmp_path / "me.toml", text.replace("low = 0\nhigh = 1", named)))
    groups = GroupBy(["a", "b"], Sum(0, 9))
    with Ledger(path) as ledger:
        for accepted in (Histogram([0, 1, 2, math.inf]), groups):
            assert judged(policy, asking(accepted), ledger) is None
        for other in (
            Histogram([0, 1, 2, 3]),  # another domain
            Histogram([0, 1, math.inf]),  # a part of it
            Quantile([0, 1, 2, math.inf]),  # the same vectors, another question
            GroupBy(["a", "b"], Sum(0, 10)),
            Several([Histogram([0, 1, 2, math.inf]), groups]),  # both at once
        ):
            assert judged(policy, asking(other), ledger).why == "question"
        assert judged(policy, soon(), ledger).why == "question"  # the mean is not named
        long = Histogram(["a" * 5000, "b"])
        assert len(judged(policy, asking(long), ledger).sentence) < 600
    assert policy.source.names[groups] == ("town", "load")


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('accept = ["histogram:2,1"]', "numbers that increase"),
        ('accept = ["hist:1,2"]', "must be written like"),
        ('accept = ["count", "solar=count"]', "must be there once"),
        ('accept = ["town=group-by:a:count"]', "records of 2 fields, got the names of 1"),
        ('accept = ["count"]\nlow = 0.0', "says all that is accepted"),
        ("low = 0.0", "or value.accept must name questions"),
        ("low = 0.0\nhigh = nan", "value.low must be below value.high"),
        ("low = 0.0\nhigh = inf", "high must be a finite number"),
    ],
)
def test_questions_that_make_no_sense_are_refused(tmp_path, text, table, told):
    with pytest.raises(FileError, match=told):
        read_policy(written(tmp_path / "me.toml", text.replace("low = 0\nhigh = 1", table)))


def test_a_keeper_judges_its_own_place_alone(policy, path):
    keeper = Policy(policy.hubs, policy.authority, policy.keys, policy.ledger, "keeper", longest=7200.0)
    with Ledger(path) as ledger:
        assert judged(keeper, soon(), ledger, who=3) is None
        assert judged(keeper, soon(), ledger, who=0).why == "roster"


# ---- sources ---------------------------------------------------------------------------------------


def read(source, components=1):
    return asyncio.run(source.read(Mean(-100, 100, components)))


def test_a_file_is_read_anew_for_each_session(tmp_path):
    file = written(tmp_path / "value", "1.5")
    file.chmod(0o600)
    source = FileSource(file)
    assert read(source) == 1.5
    file.write_text("2.5, 3")
    assert read(source, 2) == [2.5, 3.0]


def test_a_command_an_environment_and_a_function(monkeypatch):
    assert read(CommandSource(["echo", "4.5"])) == 4.5
    monkeypatch.setenv("READING", "5.5")
    assert read(EnvironmentSource("READING")) == 5.5
    assert read(CallableSource(lambda: 6)) == 6.0

    async def later():
        return [1, 2]

    assert read(CallableSource(later), 2) == (1.0, 2.0)


def test_the_last_line_counts():
    source = LinesSource(io.StringIO("1\n2\n\n7.5\n"))
    source.start()
    source._thread.join()
    assert read(source) == 7.5


GROUPS = GroupBy(["north", "south"], Mean(0, 10))
FROM_TEXT = [
    ("3.5", Histogram([0, 5, 10]), (), 3.5),
    ("inf", Histogram([0, math.inf]), (), math.inf),
    (" light green\n", Histogram(["light green"]), (), "light green"),
    ("Yes", Count(), (), 1),
    ("0", Count(), (), 0),
    ("false", Count(), (), 0),
    ("2 7.5", WeightedMean(0, 10, 3), (), (2, 7.5)),
    ("north 3", GROUPS, (), ("north", 3)),
    ('"north",3\nsouth, 4\n', GROUPS, (), ("south", 4)),
    ('["north", 3]', GROUPS, (), ("north", 3)),
    ('{"load": 3, "town": "north", "x": 1}', GROUPS, ("town", "load"), ("north", 3)),
    ('{"town": "north", "load": 3}\n{"town": "south", "load": 4}\n', GROUPS, ("town", "load"), ("south", 4)),
    ('[{"town": "a", "load": 3},\n{"town": "south", "load": 4}]\n', GROUPS, ("town", "load"), ("south", 4)),
    ("load,town\n3,north\n4,south\n", GROUPS, ("town", "load"), ("south", 4)),
    ("load,town\n3,north\n", Mean(0, 10), ("load",), 3),
    ("1; south; 4", Several([Count(), GROUPS]), (), (1, ("south", 4))),
]


@pytest.mark.parametrize(("given", "question", "names", "record"), FROM_TEXT)
def test_a_record_is_read_from_text_json_and_csv(given, question, names, record):
    assert read_record(given, question, names) == record
    assert read_record(given.encode(), question, names) == record


def test_a_record_is_an_object_of_a_program():
    assert read_record({"town": "north", "load": 3}, GROUPS, ("town", "load")) == ("north", 3)
    assert read_record(np.array([2, 7.5]), WeightedMean(0, 10, 3)) == (2, 7.5)
    assert read_record(True, Count()) == 1


@pytest.mark.parametrize(
    ("given", "question", "names"),
    [
        (f"it is {SECRET}", Histogram([0, 1]), ()),
        (f"{SECRET} {SECRET}", Histogram([0, 1]), ()),
        ("", Histogram([0, 1]), ()),
        ("nan", Histogram([0, 1]), ()),
        ("", Histogram(["a"]), ()),
        (SECRET, Count(), ()),
        (SECRET, WeightedMean(0, 1), ()),
        (f"north {SECRET} 3", GROUPS, ()),
        (f"[{SECRET}", GROUPS, ()),
        ("[" * 99_999, GROUPS, ()),
        (f'{{"load": {SECRET}}}', GROUPS, ("town", "load")),
        (f'{{"town": null, "load": {SECRET}}}', GROUPS, ("town", "load")),
        (f'{{"town": "north", "load": "{SECRET}x"}}', GROUPS, ("town", "load")),
        ('{"load": 3', Mean(0, 10), ("load",)),
        ("load,town\n", GROUPS, ("town", "load")),
        (f"weight\n{SECRET}\n", Mean(0, 10), ("load",)),
        (None, Mean(0, 10), ()),
        ({"load": SECRET}, GROUPS, ()),
    ],
)
def test_what_is_no_record_is_refused_without_showing_it(given, question, names):
    with pytest.raises(InputError, match="the input is not") as error:
        read_record(given, question, names)
    assert SECRET not in f"{error.value} {error.value.__cause__}"


def failing(tmp_path):
    open_to_all = written(tmp_path / "open", SECRET)
    open_to_all.chmod(0o644)
    words = written(tmp_path / "words", f"it is {SECRET}")
    words.chmod(0o600)

    def breaks():
        raise ValueError(f"the value {SECRET} is odd")

    return [
        FileSource(tmp_path / "none"),
        FileSource(open_to_all),
        FileSource(words),
        CommandSource(["sh", "-c", f"echo {SECRET}; exit 3"]),
        CommandSource(["sh", "-c", f"echo {SECRET} >&2; echo nan"]),
        CommandSource(["/nowhere/reading"]),
        CommandSource(["sleep", "60"], seconds=0.05),
        EnvironmentSource("TACIT_NO_SUCH_VARIABLE"),
        LinesSource(io.StringIO(f"{SECRET} {SECRET}\n")),
        CallableSource(breaks),
        CallableSource(lambda: "much"),
        CallableSource(lambda: math.nan),
    ]


def test_a_source_that_fails_says_so_without_the_value(tmp_path):
    for source in failing(tmp_path):
        with pytest.raises(SourceFailed) as error:
            read(source)
        shown = f"{error.value} {error.value.__cause__}"
        assert SECRET not in shown.replace(" ".join(getattr(source, "_words", ())), "")


def test_an_unknown_field_of_the_value_is_answered_with_those_that_there_are(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(
        'format = 1\nhub = "wss://h:1"\nauthority = "00"\nkeys = "a"\nledger = "a.ledger"\n'
        "[value]\nlow = 0\nhigh = 1\nlines = true\n[limits]\ncap = 1\n"
    )
    with pytest.raises(FileError, match=r"value.lines: is not known.*file, command, env, stdin"):
        read_policy(path)


# ---- series ----------------------------------------------------------------------------------------


def accepting(hides, delta=1e-6):
    accepts = None if hides is None else Hidden(Hides.parse(hides), delta)
    mean = {Mean(0, 10): ()}
    return Policy("", "", None, None, "agent", mean, accepts=accepts, longest=math.inf, cap=1.0)


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (accepting(None), "series"),
        (accepting("step:3"), "hides"),
        (accepting("reading"), "hides"),
        (accepting("step:2", 1e-7), "delta"),
        (accepting("step:2"), "keepers"),  # all but whom to trust
    ],
)
def test_a_series_must_hide_what_its_owner_wants_hidden(path, policy, why):
    session = known_series(3, 8)
    assert (session.lattice.low, session.lattice.high) == (0.0, 10.0)
    me = (session.roster[0].name, session.roster[0].key)
    with Ledger(path) as ledger:
        refusal = policy.judge(session, me, ledger, 0.0)
    assert refusal.why == why
    if why == "series":
        assert 'hides = "step:2" and delta = 1e-06 into [limits]' in refusal.sentence


@pytest.mark.parametrize(
    "limits",
    [
        'hides = "step:2"',
        "delta = 1e-6",
        'hides = "all"\ndelta = 1e-6',
        'hides = "step:2"\ndelta = 1e-6\nadjacency = 0.5',
        'hides = "reading"\ndelta = 1e-6\nadjacency = 9.0',
        "",
    ],
)
def test_what_an_owner_accepts_of_series_is_read_whole(tmp_path, limits):
    about = f'format = 1\nhub = "wss://h:1"\nauthority = "{"ab" * 32}"\nkeys = "a"\nledger = "l"\n'
    value = '[value]\nlow = 0.0\nhigh = 1.0\nenv = "X"\n'
    (tmp_path / "p.toml").write_text(f"{about}{value}[limits]\ncap = 1.0\n{limits}\n")
    if not limits:
        assert read_policy(tmp_path / "p.toml").accepts is None
        return
    with pytest.raises(FileError, match=r"go together|step:2|adjacency"):
        read_policy(tmp_path / "p.toml")


@pytest.mark.parametrize(
    "key", ['cap = 1.0', 'adjacency = 1.0', 'hides = "step:2"', 'delta = 1e-6', 'pause = "60s"',
            'windows = [{ time = "1d", cap = 1.0 }]'],
)  # fmt: skip
def test_a_keeper_refuses_limits_that_it_does_not_honour(tmp_path, key):
    about = "\n".join(line for line in AGENT.format(print="ab" * 32, key="").splitlines()[:6])
    file = written(tmp_path / "p.toml", f'{about}\nrole = "keeper"\n[limits]\nlongest = "2d"\n{key}\n')
    with pytest.raises(FileError, match=f"limits.{key.split()[0]}"):
        read_policy(file)


def test_a_keeper_says_only_how_much_work_it_takes(tmp_path, path):
    about = f'format = 1\nhub = "wss://h:1"\nauthority = "{"ab" * 32}"\nkeys = "a"\nledger = "l"\n'
    limits = 'longest = "400d"\nrounds = 5\nsessions = 2\ncomponents = 3\n'
    (tmp_path / "p.toml").write_text(f'{about}role = "keeper"\n[limits]\n{limits}')
    keeper = read_policy(tmp_path / "p.toml")
    assert keeper.longest == 400 * DAY
    assert (keeper.rounds, keeper.sessions, keeper.components) == (5, 2, 3)
    with Ledger(path) as ledger:
        for components, why in ((3, None), (4, "components")):
            found = judged(keeper, soon(rounds=5, components=components), ledger, who=3)
            assert getattr(found, "why", None) == why
        assert judged(keeper, soon(rounds=6), ledger, who=3).why == "rounds"


def test_limits_of_work_have_defaults_and_are_at_least_one(tmp_path, text):
    found = read_policy(written(tmp_path / "me.toml", text))
    assert (found.rounds, found.sessions) == (10_000, 64)
    for name in ("rounds", "sessions"):
        wrong = text.replace("[limits]\n", f"[limits]\n{name} = 0\n")
        with pytest.raises(FileError, match=f"limits.{name} must be at least 1"):
            read_policy(written(tmp_path / "me.toml", wrong))
    with pytest.raises(FileError, match=r"limits\.components is for keepers"):
        read_policy(written(tmp_path / "me.toml", text.replace("[limits]\n", "[limits]\ncomponents = 2\n")))


def test_the_closing_of_a_slot_fits_into_a_frame():
    """It has a salt of 32 bytes for each agent."""
    assert longest_frame(known_series(1000, 8)) > 32 * 1000 + longest_frame(known_session(1000, 2)) - 4096


@pytest.mark.parametrize(
    "high",
    ["[" * 3000, "9" * 5000, "9" * 400, "1e999", "a" + ".a" * 3000],
    ids=["deep", "long", "wide", "far", "parts"],
)
def test_a_policy_with_impossible_numbers_is_refused_in_words(tmp_path, high):
    path = tmp_path / "alice.toml"
    path.write_text(
        f'format = 1\nhub = "wss://h:1"\nauthority = "{"ab" * 32}"\nkeys = "a"\nledger = "b"\n'
        f"[value]\nlow = 0\nhigh = {high}\n[limits]\ncap = 1\n"
    )
    with pytest.raises(FileError, match=r"alice\.toml") as refused:
        read_policy(path)
    assert len(str(refused.value)) < 300
