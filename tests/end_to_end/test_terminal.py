"""On a real terminal: the view while it runs, Ctrl-C, SIGTERM, --timeout, and going on after each."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading

import pytest

from tacit.core.protocol.session import Deadlines
from tacit.live.identity.roster import COORDINATOR

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """A program with a terminal of its own; what it shows is read all the time."""

    def __init__(self, command):
        self._keys, screen = pty.openpty()
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        try:
            self.process = subprocess.Popen(
                command, stdin=screen, stdout=screen, stderr=screen, start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
                env=os.environ | {"TERM": "xterm", "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        finally:
            os.close(screen)
        self.raw = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        while True:
            try:
                data = os.read(self._keys, 65536)
            except OSError:  # the program has ended
                return
            if not data:
                return
            self.raw += data

    @property
    def text(self):
        return " ".join(ESCAPES.sub("", self.raw.decode(errors="replace")).split())

    def press(self, keys):
        os.write(self._keys, keys)

    def ended(self, seconds):
        """Return the exit code, when all that was shown is read."""
        code = self.process.wait(seconds)
        self._reader.join()
        os.close(self._keys)
        return code


@pytest.fixture
def session(crew):
    """A session that waits for agent-0, which is to be run on a terminal."""
    made = crew(agents=2, rounds=8, pace=0.3, quorum=2, deadlines=Deadlines(round=30, start=30, repeat=0.2))
    for unit in (COORDINATOR, "agent-1"):
        made.run.start(unit)
    return made


def command(play, *more):
    words = play.run.command("agent-0")
    place = words.index("--log")
    return [word for word in words[:place] + words[place + 2 :] if word != "--json"] + list(more)


def test_stopped_by_a_key_by_a_signal_and_by_the_clock_it_goes_on_each_time(session):
    one = Terminal(command(session))
    session.until(lambda: re.search(r"message \d sent, loss so far", one.text))
    one.press(b"\x03")
    assert one.ended(session.wait) == 130
    assert re.search(r"This session costs at most 1\.\d+", one.text)
    assert re.search(r"round \d+/8 ━", one.text)
    assert one.text.endswith("Stopped; run the same command again to resume.")
    assert one.raw.rindex(b"\x1b[?25h") > one.raw.rindex(b"\x1b[?25l")  # the cursor is back

    two = Terminal(command(session))
    session.until(lambda: re.search(r"message \d sent, loss so far", two.text))
    two.process.send_signal(signal.SIGTERM)
    assert two.ended(session.wait) == 0
    assert two.text.endswith("Stopped; run the same command again to resume.")

    for seconds in ("0.01", "0.03"):  # while the connection is being made, too
        three = Terminal(command(session, "--timeout", seconds))
        assert three.ended(session.wait) == 5, three.text
        assert three.text.endswith("The session did not end in time; run the same command again to continue.")

    last = Terminal(command(session))
    assert last.ended(session.wait) == 0
    assert "agent-0: result" in last.text
    assert "rounds 8 all" in last.text
    for shown in (one, two, three, last):
        assert "Traceback" not in shown.text
    assert session.run.processes[COORDINATOR].wait(session.wait) == 0
    assert session.run.processes["agent-1"].wait(session.wait) == 0
    session.require_ledgers()
    assert session.verdict().sound


def test_the_coordinator_on_a_terminal_names_who_is_missing(crew):
    made = crew(agents=2, rounds=3, deadlines=Deadlines(round=30, start=0.3, repeat=0.1))
    words = made.run.command(COORDINATOR)
    place = words.index("--log")
    shown = Terminal([word for word in words[:place] + words[place + 2 :] if word != "--json"])
    made.until(lambda: "waits for agent-0, agent-1" in shown.text)
    for name in made.names:
        made.run.start(name)
    assert shown.ended(made.wait) == 0
    assert "The session is over" in shown.text
    assert "messages used 2 per round, of 2 agents" in shown.text
    made.ended()
