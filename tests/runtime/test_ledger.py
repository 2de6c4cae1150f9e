"""The ledger's rules: nothing said twice differently, and no cap passed."""

import secrets
import signal
import sqlite3
import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtime.builders import ONE as S
from tests.runtime.builders import SECRET, began, entered, moved

from tacit.base.errors import CapExceeded, InputError, LedgerError
from tacit.core.protocol.messages import Reason
from tacit.core.protocol.records import Closed, Ended, Evidence, Opened, Silenced, Spoke
from tacit.live.ledger.ledger import Ledger
from tacit.live.ledger.snapshot import open_snapshot

T = b"t" * 32


@pytest.fixture
def ledger(path):
    with entered(path) as made:
        yield made


# ---- what goes in comes out --------------------------------------------------------------------------


def test_records_come_back_in_order(path):
    records = [
        began(),
        Spoke(0, b"frame 0", 0.25),
        moved(0),
        Spoke(1, b"frame 1", 0.125),
        Evidence(2, 0, b"d" * 32, b"one", b"other"),
        Evidence(2, 0, b"d" * 32, b"one", b"a third"),
        moved(1),
        Silenced(2, Reason.CAP),
        Ended(2, Reason.OPERATOR),
    ]
    with Ledger(path) as ledger:
        assert ledger.created
        ledger.reserve(S, "meter", planned=1.0, adjacency=1.0, diameter=1.0, cap=10.0)
        ledger.append(S, records[:1])
        ledger.append(S, records[1:4])
        ledger.append(S, records[4:])
        ledger.append(T, [Opened(T, (0, 1)), Closed(0, b"feedback", (0,), (b"report",))])
        assert ledger.records(S) == records
    with Ledger(path) as ledger:
        assert not ledger.created
        assert ledger.records(S) == records
        assert ledger.said(S, 1) == b"frame 1"
        assert ledger.said(S, 2) is None
        assert ledger.sessions() == (S, T)
        assert ledger.records(T) == [Opened(T, (0, 1)), Closed(0, b"feedback", (0,), (b"report",))]
        assert ledger.records(b"u" * 32) == []


def test_a_copy_in_memory_has_all_that_was_saved(path):
    """From file and log together: new rows, rows that were forgotten, a log that was begun anew."""

    def require_same():
        with open_snapshot(path) as copy:
            assert copy.position.count == 0  # it is never compared with a mark
            assert copy.sessions() == ledger.sessions()
            assert copy.balance("meter") == ledger.balance("meter")
            assert [copy.size(one) for one in (S, T)] == [ledger.size(one) for one in (S, T)]
            assert copy.records(T) == ledger.records(T)
            assert copy.forgotten(S) == ledger.forgotten(S)
            with pytest.raises(LedgerError):
                copy.append(T, [Closed(99, b"feedback", (0,), (b"report",))])

    with Ledger(path) as ledger:
        ledger.reserve(S, "meter", planned=1.0, adjacency=1.0, diameter=1.0, cap=10.0)
        ledger.append(S, [began(), Spoke(0, b"frame 0", 0.25)])
        require_same()
        ledger.settle(S)
        ledger.forget(S)
        require_same()
        ledger.append(T, [Opened(T, (0, 1))])
        for number in range(1200):  # more than SQLite keeps in the log
            ledger.append(T, [Closed(number, bytes(3000), (0,), (b"report",))], flush=False)
            if number % 400 == 399:
                require_same()
    assert sorted(path.parent.iterdir()) == [path, path.with_name(f"{path.name}.mark")]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.lists(st.tuples(st.binary(max_size=300), st.floats(0, 1e-3)), min_size=1, max_size=4), max_size=6
    )
)
def test_any_bytes_and_losses_come_back(tmp_path, batches):
    path = tmp_path / secrets.token_hex(8)
    said = []
    with entered(path) as ledger:
        for batch in batches:
            records = [Spoke(len(said) + i, frame, loss) for i, (frame, loss) in enumerate(batch)]
            ledger.append(S, records)
            said += records
    with Ledger(path) as ledger:
        assert ledger.records(S)[1:] == said
        ledger.settle(S)
        exact = sum((Fraction(record.loss) for record in said), Fraction(0))
        assert exact <= Fraction(ledger.spent("meter")) <= exact * (1 + Fraction(1, 2**52))


# ---- what must never be ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Spoke(4, b"one", 0.1), Spoke(4, b"another", 0.1)),
        (Spoke(4, b"one", 0.1), Spoke(4, b"one", 0.0)),
        (moved(4), moved(4)),
        (Closed(4, b"y", (), ()), Closed(4, b"z", (), ())),
        (Silenced(4, Reason.CAP), Silenced(5, Reason.CAP)),
        (Ended(4, None), Ended(5, None)),
        (Evidence(0, 0, b"d" * 32, b"", b""), began()),
    ],
)
def test_what_exists_once_cannot_exist_twice(ledger, first, second):
    ledger.append(S, [first])
    before = ledger.records(S)
    with pytest.raises(LedgerError, match="a second must never exist"):
        ledger.append(S, [Evidence(1, 1, b"d" * 32, b"", b""), second])
    assert ledger.records(S) == before  # all or none
    ledger.append(S, [moved(9)])  # a refused record does no harm to later ones


def test_the_file_itself_refuses(path):
    """The file refuses a second message, a change and a removal."""
    with entered(path) as ledger:
        ledger.append(S, [Spoke(0, b"said", 0.5)])
    database = sqlite3.connect(path)
    row = (S, "spoke", 0, 0.5, b"s" * 16, b"other", b"d" * 32)
    for statement, values in [
        ("INSERT INTO record VALUES (9, ?, ?, ?, ?, ?, ?, ?)", row),
        ("UPDATE record SET data = x'00' WHERE kind = 'spoke'", ()),
        ("UPDATE record SET salt = NULL, data = zeroblob(32) WHERE kind = 'spoke'", ()),  # it is not over
        ("UPDATE record SET loss = 0.0 WHERE kind = 'spoke'", ()),
        ("INSERT INTO record VALUES (9, ?, 'moved', 7, NULL, NULL, zeroblob(32), zeroblob(32))", (S,)),
        ("DELETE FROM record", ()),
        ("UPDATE ledger SET generation = zeroblob(16)", ()),
        (
            "INSERT INTO record VALUES (9, ?, 'spoke', 1, NULL, zeroblob(16), x'', zeroblob(32))",
            (S,),
        ),  # no loss
        ("INSERT INTO record VALUES (9, ?, 'spoke', 1, -1.0, zeroblob(16), x'', zeroblob(32))", (S,)),
        (
            "INSERT INTO record VALUES (9, ?, 'spoke', 1, 0.1, zeroblob(16), x'', zeroblob(32))",
            (T,),
        ),  # not reserved
        ("INSERT INTO record VALUES (9, ?, 'whisper', 1, NULL, zeroblob(16), x'', zeroblob(32))", (S,)),
        ("INSERT INTO record VALUES (9, ?, 'ended', 1, NULL, zeroblob(16), x'', zeroblob(32))", (S,)),
    ]:
        with pytest.raises(sqlite3.IntegrityError):
            database.execute(statement, values)
    database.close()
    with Ledger(path) as ledger:
        assert ledger.said(S, 0) == b"said"


def test_nothing_is_said_before_its_loss_is_set_aside(path):
    with Ledger(path) as ledger:
        with pytest.raises(LedgerError, match="must be reserved before"):
            ledger.append(S, [began()])
        with pytest.raises(LedgerError, match="must begin before"):
            ledger.append(S, [Spoke(0, b"x", 0.1)])
        ledger.reserve(S, "meter", planned=1.0, adjacency=1.0, diameter=1.0, cap=10.0)
        with pytest.raises(LedgerError, match="must begin before"):
            ledger.append(S, [Spoke(0, b"x", 0.1)])


@pytest.mark.parametrize("last", [Ended(1, None), Silenced(1, Reason.CAP), None])
def test_nothing_is_said_after_the_last_word(ledger, last):
    ledger.append(S, [Spoke(0, b"x", 0.1)])
    if last is None:
        ledger.settle(S)
        ledger.settle(S)
    else:
        ledger.append(S, [last])
    with pytest.raises(LedgerError, match="settled"):
        ledger.append(S, [Spoke(1, b"y", 0.1)])
    ledger.append(S, [moved(0)])  # it may go on listening


def test_a_record_of_another_session_is_refused(ledger):
    with pytest.raises(InputError, match="of another"):
        ledger.append(S, [began(T)])
    with pytest.raises(InputError, match="32 bytes"):
        ledger.append(b"short", [moved(0)])
    with pytest.raises(InputError, match="32 bytes"):
        ledger.append(bytes(32), [moved(0)])


# ---- losses ------------------------------------------------------------------------------------------


def test_sessions_on_one_value_share_one_cap(path):
    with Ledger(path) as ledger:
        ledger.reserve(S, "meter", planned=0.6, adjacency=2.0, diameter=2.0, cap=1.0)
        assert (ledger.spent("meter"), ledger.remaining("meter")) == (0.6, 0.4)
        with pytest.raises(CapExceeded, match=r"may cost 0\.5.*the 0\.6 of other.*the cap of 1: nothing was"):
            ledger.reserve(T, "meter", planned=0.5, adjacency=2.0, diameter=2.0)
        assert ledger.reservation(T) is None
        ledger.reserve(
            T, "other", planned=0.5, adjacency=2.0, diameter=2.0, cap=0.5
        )  # another value, another cap
        ledger.append(S, [began(), Spoke(0, b"x", 0.25), Ended(1, None)])
        assert (ledger.spent("meter"), ledger.remaining("meter")) == (0.25, 0.75)  # the rest was never said
        ledger.reserve(b"u" * 32, "meter", planned=0.75, adjacency=2.0, diameter=2.0)
        assert ledger.balance("meter").sessions == 2
        assert ledger.values() == ("meter", "other")
    with Ledger(path) as ledger:  # none of it depends on memory
        assert ledger.spent("meter") == 1.0
        assert ledger.remaining("meter") == 0.0
        with pytest.raises(CapExceeded):
            ledger.reserve(b"v" * 32, "meter", planned=1e-300, adjacency=2.0, diameter=2.0)


def test_sums_are_exact_and_rounded_to_the_safe_side(path):
    tenth = Fraction(0.1)
    with Ledger(path) as ledger:
        for i in range(9):
            ledger.reserve(bytes([i + 1]) * 32, "meter", planned=0.1, adjacency=1.0, diameter=1.0, cap=1.0)
        assert Fraction(ledger.spent("meter")) >= 9 * tenth
        assert Fraction(ledger.remaining("meter")) <= 1 - 9 * tenth
        # Ten times the float 0.1 is above 1, if only by 2^-54; as floats the sum would have been 1.
        with pytest.raises(CapExceeded):
            ledger.reserve(S, "meter", planned=0.1, adjacency=1.0, diameter=1.0)


def test_what_remains_is_rounded_down(path):
    with Ledger(path) as ledger:
        ledger.reserve(S, "meter", planned=1e-17, adjacency=1.0, diameter=1.0, cap=1.0)
        assert ledger.remaining("meter") < 1.0
        assert ledger.spent("meter") == 1e-17


def test_a_crash_cannot_hide_what_was_planned(path):
    script = f"""
import os, signal
from tacit.live.ledger.ledger import Ledger
Ledger({str(path)!r}).reserve(b"s" * 32, "meter", planned=0.7, adjacency=1.0, diameter=1.0, cap=1.0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -signal.SIGKILL
    with Ledger(path) as again:
        assert again.spent("meter") == 0.7
        with pytest.raises(CapExceeded):
            again.reserve(T, "meter", planned=0.4, adjacency=1.0, diameter=1.0)
        assert (
            again.reserve(S, "meter", planned=0.7, adjacency=1.0, diameter=1.0).planned == 0.7
        )  # the same session goes on


def test_a_smaller_adjacency_counts_more_often(path):
    with Ledger(path) as ledger:
        ledger.reserve(S, "meter", planned=0.2, adjacency=10.0, diameter=10.0, cap=1.0)
        found = ledger.reserve(T, "meter", planned=0.2, adjacency=4.0, diameter=10.0)
        assert found.steps == 3  # two values 10 apart are joined by three steps of 4
        assert ledger.spent("meter") == pytest.approx(0.8)
        with pytest.raises(CapExceeded, match="counted 10 times"):
            ledger.reserve(b"u" * 32, "meter", planned=0.1, adjacency=1.0, diameter=10.0)
        assert ledger.reserve(b"v" * 32, "meter", planned=0.1, adjacency=99.0, diameter=10.0).steps == 1


def test_a_cap_is_about_any_two_values_unless_its_owner_says_otherwise(path):
    """A first session with a tiny range must not narrow the cap."""
    with Ledger(path) as ledger:
        ledger.reserve(S, "meter", planned=0.1, adjacency=1e-6, diameter=1e-6, cap=1.0)
        assert ledger.balance("meter").adjacency == float("inf")
        with pytest.raises(CapExceeded, match="counted 1000 times"):
            ledger.reserve(T, "meter", planned=0.01, adjacency=1.0, diameter=1000.0)
        # The owner's own adjacency bounds it, and so does the range that values are clamped to.
        ledger.set_cap("meter", 1.0, adjacency=5.0)
        assert ledger.reserve(T, "meter", planned=0.01, adjacency=1.0, diameter=1000.0).steps == 5
        assert ledger.reserve(b"u" * 32, "meter", planned=0.01, adjacency=1.0, diameter=3.0).steps == 3
        ledger.set_cap("meter", 50.0, adjacency=float("inf"))
        assert ledger.reservation(T).steps == 1000


def test_a_cap_is_raised_only_on_purpose(path):
    with Ledger(path) as ledger:
        with pytest.raises(InputError, match="needs a cap"):
            ledger.reserve(S, "meter", planned=0.1, adjacency=1.0, diameter=1.0)
        ledger.reserve(S, "meter", planned=0.1, adjacency=1.0, diameter=1.0, cap=1.0)
        with pytest.raises(InputError, match="joining a session"):
            ledger.reserve(T, "meter", planned=0.1, adjacency=1.0, diameter=1.0, cap=2.0)
        ledger.reserve(T, "meter", planned=0.1, adjacency=1.0, diameter=1.0, cap=0.5)
        assert ledger.balance("meter").cap == 0.5
        assert ledger.set_cap("meter", 3.0).cap == 3.0
        assert ledger.balance("meter").remaining == pytest.approx(2.8)
        assert ledger.set_cap("new", 1.0).adjacency == float("inf")
        ledger.set_cap("new", 1.0, adjacency=5.0)
    with Ledger(path) as ledger:
        assert ledger.balance("meter").cap == 3.0
        assert ledger.balance("new").adjacency == 5.0


def test_messages_beyond_what_was_set_aside_are_refused(path):
    with entered(path, planned=0.5) as ledger:
        ledger.append(S, [Spoke(0, b"x", 0.25)])
        with pytest.raises(CapExceeded, match="reserved"):
            ledger.append(S, [Spoke(1, b"y", 0.2), Spoke(2, b"z", 0.1)])
        ledger.append(S, [Spoke(1, b"y", 0.25)])
        with pytest.raises(CapExceeded):
            ledger.append(S, [Spoke(2, b"z", 5e-324)])


def test_a_part_of_a_session_can_be_set_aside(path):
    with Ledger(path) as ledger:
        ledger.reserve(S, "meter", planned=0.7, adjacency=1.0, diameter=1.0, cap=1.0)
        found = ledger.reserve(T, "meter", planned=0.5, adjacency=1.0, diameter=1.0, partial=True)
        assert found.planned == pytest.approx(0.3)
        assert Fraction(0.7) + Fraction(found.planned) <= 1
        assert found.others == 0.7
        with pytest.raises(CapExceeded):
            ledger.reserve(b"u" * 32, "meter", planned=0.5, adjacency=1.0, diameter=1.0, partial=True)


def test_a_session_is_resumed_with_the_same_value(ledger):
    with pytest.raises(InputError, match="'meter'"):
        ledger.reserve(S, "other", planned=1.0, adjacency=1.0, diameter=1.0, cap=10.0)
    assert ledger.reserve(S, "meter", planned=1.0, adjacency=1.0, diameter=1.0, cap=10.0).settled is False


@pytest.mark.parametrize(
    "wrong",
    [
        {"planned": -1.0},
        {"planned": float("nan")},
        {"planned": float("inf")},
        {"adjacency": 0.0, "diameter": 0.0},
        {"cap": float("nan")},
        {"cap": -1.0},
        {"value": "../x"},
        {"value": ""},
    ],
)
def test_terms_that_are_no_terms(path, wrong):
    terms = {"value": "meter", "planned": 0.1, "adjacency": 1.0, "diameter": 1.0, "cap": 1.0} | wrong
    with Ledger(path) as ledger:
        with pytest.raises(InputError):
            ledger.reserve(S, terms.pop("value"), **terms)
        assert ledger.sessions() == ()


def test_an_endless_cap(path):
    with Ledger(path) as ledger:
        ledger.reserve(S, "meter", planned=1e6, adjacency=1.0, diameter=1.0, cap=float("inf"))
        assert ledger.remaining("meter") == float("inf")
        assert ledger.balance("meter").cap == float("inf")


def test_unknown_values_have_no_balance(ledger):
    assert ledger.spent("nobody") == 0.0
    with pytest.raises(InputError, match="nothing is known"):
        ledger.remaining("nobody")
    with pytest.raises(InputError, match="nothing is reserved"):
        ledger.settle(T)


# ---- nothing private ---------------------------------------------------------------------------------


def test_nothing_private_is_shown(path):
    shown = []
    with entered(path) as ledger:
        shown += [
            repr(ledger),
            str(ledger.records(S)),
            repr(ledger.balance("meter")),
            repr(ledger.reservation(S)),
        ]
        with pytest.raises(LedgerError) as error:
            ledger.append(S, [began()])
        shown.append(str(error.value))
    assert SECRET.decode() not in " ".join(shown)
    assert SECRET not in path.with_name(path.name + ".mark").read_bytes()
