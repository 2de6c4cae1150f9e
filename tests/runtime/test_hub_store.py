"""What a hub's store promises, whichever database it is in."""

import json
import time

import pytest
from tests.doubles.postgres import require_postgres, server

from tacit.base.errors import FileError, InputError, StoreLost
from tacit.live.fleet.database import DATABASE, Taken
from tacit.live.fleet.marks import MarkStore
from tacit.live.fleet.store import HubStore, SeenMember, host_setting
from tacit.live.identity.register import SIGNED
from tacit.live.ledger.rollback_guard import Position

ID, OTHER = b"i" * 32, b"o" * 32


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request, tmp_path):
    """Return a function that opens the same store again."""
    made = []
    if request.param == "postgres":
        require_postgres()

    def again(**given):
        while made:
            made.pop().close()
        made.append(HubStore(tmp_path, **given))
        return made[0]

    again(create=True)
    if request.param == "postgres":
        (tmp_path / DATABASE).touch(mode=0o600)
        (tmp_path / DATABASE).write_text(server().new())
    yield again
    while made:
        made.pop().close()


def begun(store, name="load-1", identity=ID, last=False):
    store.start_session("load", identity, name, b"data", 2**31, next_run=5.0, last=last)


def test_settings_are_kept(opened):
    store = opened()
    store.set_setting("state", "paused")
    store.set_setting("state", "serving")
    store.set_setting("address", "wss://h:1")
    store = opened()
    assert store.setting("state") == "serving"
    assert store.setting("nothing", "else") == "else"


def test_the_address_is_of_the_host(opened, tmp_path):
    """It is known while the database is away."""
    opened().set_setting("address", "wss://h:1")
    (tmp_path / DATABASE).unlink(missing_ok=True)
    assert host_setting(tmp_path, "address") == "wss://h:1"
    assert opened().setting("address") == "wss://h:1"


def test_an_invitation_is_used_once(opened):
    store = opened()
    store.invite("ab" * 6, b"d" * 32, "meter-*", 100, 30.0)
    assert store.open_invitations(99.0) == 1
    assert store.open_invitations(100.0) == 0
    assert store.use_invitation("ab" * 6, "meter-1", "key", 7.0)
    assert not store.use_invitation("ab" * 6, "meter-2", "other", 8.0)
    assert opened().invitation("ab" * 6)["name"] == "meter-1"
    with pytest.raises(Taken):  # not even a statement that forgets to ask
        opened().database.do("UPDATE invitation SET used = 9, name = 'x', key = 'y'")


def test_unused_invitations_are_withdrawn(opened):
    store = opened()
    for number, pattern in enumerate(("a1", "a2", "b")):
        store.invite(f"{number:012x}", b"d" * 32, pattern, 100, 30.0)
    store.use_invitation(f"{0:012x}", "a1", "key", 7.0)
    assert store.withdraw("a*") == 1
    assert store.withdraw("*") == 1
    assert store.invitation(f"{0:012x}") is not None


def test_what_members_did_is_noted(opened):
    store = opened()
    store.note({"b": SeenMember("k", "agent", 1.5, 9.0, "0.3"), "A": SeenMember("l", "keeper", 2.0)}, {}, {})
    store.note({"b": SeenMember("k", "agent", 3.5)}, {"b": "cap", "A": None}, {}, ["A"])
    rows = opened().members()
    assert [(row["name"], row["seen"], row["refused"], row["connected"]) for row in rows] == [
        ("A", 2.0, None, 0), ("b", 3.5, "cap", 1)
    ]  # fmt: skip
    store = opened()
    store.nobody_connected()
    assert store.count_members() == 2
    assert not any(row["connected"] for row in store.members())


def test_a_name_is_used_by_one_task(opened):
    store = opened()
    store.add_task("load", {"least": 2}, None, None)
    with pytest.raises(InputError):
        store.add_task("load", {}, 60.0, 3)
    store.add_task("other", {}, 60.0, 3)
    assert [row["name"] for row in opened().tasks()] == ["load", "other"]


def test_a_session_is_begun_with_its_task_or_not_at_all(opened):
    store = opened()
    store.add_task("load", {}, 60.0, None)
    begun(store)
    with pytest.raises(StoreLost):  # another host has begun it
        begun(store, identity=OTHER)
    store = opened()
    assert store.task("load")["started"] == 1
    begun(store, "load-2", OTHER, last=True)
    assert store.task("load")["state"] == "done"
    assert store.due_tasks() == []
    store.set_task("load", note="too late")
    assert store.task("load")["note"] is None
    assert [row["name"] for row in store.running_sessions()] == ["load-1", "load-2"]


def test_a_result_is_stored_once(opened):
    store = opened()
    store.add_task("load", {}, None, None)
    begun(store)
    store.set_progress(ID, {"slot": 1})
    store.end_session(ID, "finished", {"mean": 0.1})
    store.end_session(ID, "failed", {"why": "late"})
    store.set_progress(ID, {"slot": 2})
    store = opened()
    row = store.session(ID)
    assert (row["state"], json.loads(row["result"])) == ("finished", {"mean": 0.1})
    assert store.outcomes() == {"finished": 1}
    assert store.find_sessions(ID.hex()[:8]) == []


def test_a_slot_is_published_once_with_its_progress(opened):
    store = opened()
    store.add_task("load", {}, None, None)
    begun(store)
    store.publish_mean(ID, (0, None, 0, 0), {"over": 1})
    store.publish_mean(ID, (1, 0.1, 3, 4), {"over": 2})
    with pytest.raises(StoreLost):
        store.publish_mean(ID, (1, 0.2, 3, 4), {"over": 3})
    store = opened()
    assert [row["mean"] for row in store.means(ID)] == [None, 0.1]
    assert store.last_mean(ID)["slot"] == 1
    assert store.slots_written(ID) == 2
    assert json.loads(store.session(ID)["result"]) == {"over": 2}


def test_what_has_expired_is_forgotten(opened):
    store = opened()
    store.add_task("load", {}, None, None)
    begun(store)
    begun(store, "load-2", OTHER)
    store.end_session(ID, "finished", {})
    store.forget(2.0**31 + 1, 3600.0, 100)
    assert (store.session(ID)["data"], store.session(OTHER)["data"]) == (b"", b"data")
    store.forget(2.0**31 + 3601, 3600.0, 100)
    assert store.session(ID) is None
    assert store.session(OTHER) is not None


def test_marks_never_go_back(opened, tmp_path):
    def again():
        store = opened()
        return MarkStore(tmp_path, store.another() if (tmp_path / DATABASE).exists() else None)

    marks, key = again(), b"k" * 32
    for count in (3, 5):
        marks.keep({key: Position(b"g" * 16, count, b"h" * 32, inode=0, born=True)})
    marks.close()
    marks = again()
    assert marks.known(key).count == 5
    assert not marks.is_news(key, Position(b"g" * 16, 4, b"h" * 32, inode=0, born=True))
    marks.close()


def test_a_register_is_given_to_other_hosts_alone(opened, tmp_path):
    store = opened()
    (tmp_path / SIGNED).touch(mode=0o600)
    (tmp_path / SIGNED).write_text("{}\n")
    store.keep_register(tmp_path)
    assert opened().register() == ({SIGNED: b"{}\n"} if (tmp_path / DATABASE).exists() else {})


def test_a_closed_store_says_so(opened):
    store = opened()
    store.close()
    with pytest.raises((FileError, StoreLost)):
        store.add_task("load", {}, None, time.time())
