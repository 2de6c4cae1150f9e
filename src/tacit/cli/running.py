"""What long-running verbs share: options, signals, log, exit codes."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, final

import click

from tacit.cli import options
from tacit.cli.log_file import LogFile, say
from tacit.cli.status_place import StatusPlace, status_options
from tacit.errors import CapExceeded, Disputed, InputError, LedgerError, SessionOver, TacitError

if TYPE_CHECKING:
    from tacit.protocol.codec import Sign
    from tacit.protocol.effects import Notice
    from tacit.protocol.session import Session
    from tacit.runtime.ledger.group_commit import Taker
    from tacit.runtime.participant import Participant
    from tacit.runtime.status.status import Status

FINISHED, UNUSABLE, REFUSED, DISK, UNFINISHED, STOPPED = 0, 2, 3, 4, 5, 130
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
_LONGEST = 86_400.0  # seconds per round
_OFTEN = 100
"""Log remotely triggered notices this many times, then only at powers of two."""
_MEMBERS, _MEMBER_LISTS = {"who", "sender"}, {"used", "missing"}


def common_options(command: F) -> F:
    """Add the options of every long-running verb."""
    existing = click.Path(exists=True, path_type=Path)
    for option in (
        options.json_option,
        click.option(
            "--timeout",
            type=options.NUMBER,
            help="Stop after this many seconds (exit code 5).  [default: when the session expires]",
        ),
        status_options,
        click.option(
            "--log",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Write the log here, as JSON lines.",
        ),
        click.option(
            "--transcript",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Record what an adversary could see in this file.",
        ),
        click.option(
            "--ledger",
            type=click.Path(dir_okay=False, path_type=Path),
            required=True,
            help="File in which every message is saved before it is sent. Never restore it from a backup.",
        ),
        click.option("--keys", type=existing, required=True, help="Directory of keys (tacit keys)."),
        click.argument("session_file", metavar="SESSION", type=existing),
    ):
        command = option(command)
    return command


def pace_option(command: F) -> F:
    """Add --pace, for members that begin rounds; keepers only answer."""
    option = click.option(
        "--pace", type=options.NUMBER, default=0.0, show_default=True, help="Minimum seconds per round."
    )
    return option(command)


def witness_option(command: F) -> F:
    """Add --witness, for members that must not go on from a restored ledger."""
    option = click.option(
        "--witness",
        type=click.Path(dir_okay=False, path_type=Path),
        help="A file on another disk or host that detects a ledger restored from a backup (tacit ledger "
        "witness).",
    )
    return option(command)


def use_one_thread() -> None:
    """Keep numpy from starting a thread for every core.

    A member multiplies no matrices. Call this before numpy is imported.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@dataclasses.dataclass(frozen=True)
class Options:
    """The common options as they were given."""

    ledger: Path
    transcript: Path | None
    log: Path | None
    place: StatusPlace
    timeout: float | None
    pace: float = 0.0

    @classmethod
    def taken(cls, given: dict[str, Any]) -> Options:
        """Take the common options as click has them."""
        taken = cls(place=StatusPlace.taken(given), **given)
        if not 0 <= taken.pace <= _LONGEST:
            raise InputError(f"--pace must be from 0 to {_LONGEST:g} seconds, got {taken.pace:g}.")
        if taken.timeout is not None and not taken.timeout > 0:
            raise InputError(f"--timeout must be above 0 seconds, got {taken.timeout:g}.")
        return taken

    def require_apart(self) -> None:
        """Refuse one file for two purposes: a log would destroy the ledger."""
        ledger = self.ledger.resolve()
        kept = [ledger, *(ledger.with_name(ledger.name + rest) for rest in (".mark", "-wal"))]
        kept += [path.resolve() for path in (self.transcript, self.log) if path is not None]
        if len(set(kept)) < len(kept):
            raise InputError("the ledger, the transcript and the log must be different files: rename one.")


@final
class Log:
    """Shows notices on a terminal, and writes them as JSON lines.

    JSON lines go to the log file, or to standard error if that is not a terminal. Notices contain nothing
    private.
    """

    def __init__(self, session: Session, path: Path | None, who: int) -> None:
        self._session = session
        # Several members may log to one place, so every line names its member.
        self._whose = {
            "session": session.name,
            "id": session.id.hex()[:16],
            "member": session.member_name(who),
        }
        self._without: tuple[int, ...] = ()
        self._often: Counter[Hashable] = Counter()
        self._file = None if path is None else LogFile(path, self._whose)
        self._bar: Any = None
        if sys.stderr.isatty():
            self._bar = _bar(session.rounds)
            self._bar.start()

    def notice(self, notice: Notice) -> None:
        """Show and log a notice."""
        from tacit.cli.notices import progress, sentence

        what = as_dict(notice, self._session)
        if (shouted := _shouted(notice)) is not None:
            self._often[shouted] += 1
            what["count"] = count = self._often[shouted]
            if count > _OFTEN and count & (count - 1):  # otherwise one sender could fill the disk
                return
        self._write(what)
        if self._bar is not None:
            if (done := progress(notice, self._session)) is not None:
                self._bar.update(self._bar.task_ids[0], completed=done[0], description=done[1])
            if not self._known(notice) and (line := sentence(notice, self._session)) is not None:
                self._bar.console.print(line, markup=False, highlight=False)

    def _known(self, notice: Notice) -> bool:
        """Whether the same agents are missing as in the round before."""
        from tacit.protocol.effects import RoundClosed

        if not isinstance(notice, RoundClosed):
            return False
        known, self._without = self._without == notice.missing, notice.missing
        return known

    def say(self, event: str, text: str) -> None:
        """Show and log one sentence that is not a notice."""
        self._write({"event": event, "text": text})
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)

    def _write(self, what: dict[str, Any]) -> None:
        told = {"time": round(time.time(), 3)} | self._whose | what
        if self._file is not None:
            self._file.write(told)
        elif self._bar is None:
            say(json.dumps(told, ensure_ascii=False))

    def close(self) -> None:
        """End the bar and the log file."""
        if self._bar is not None:
            self._bar.stop()
        if self._file is not None:
            self._file.close()


def _shouted(notice: Notice) -> Hashable:
    """Return a key for notices that a sender can trigger; None for others."""
    from tacit.protocol.effects import LostHistory, Refused

    match notice:
        case Refused():
            return notice
        case LostHistory():
            return LostHistory, notice.who
    return None


def _bar(rounds: int) -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from tacit.cli.output import console

    columns = (TextColumn("round"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}"))
    bar = Progress(*columns, console=console(stderr=True))
    bar.add_task("waiting for the others", total=rounds)
    return bar


def as_dict(notice: Notice, session: Session) -> dict[str, Any]:
    """Return a notice ready for JSON, with the names of members."""
    from tacit.protocol.effects import Cost

    what: dict[str, Any] = {"event": _dashed(type(notice).__name__)}
    for field in dataclasses.fields(notice):
        value = getattr(notice, field.name)
        if field.name in _MEMBERS and value is not None:
            value = session.member_name(value)
        elif field.name in _MEMBER_LISTS:
            value = [session.member_name(i) for i in value]
        elif isinstance(value, Enum):
            value = _dashed(value.name)
        what[field.name] = value
    if isinstance(notice, Cost):
        what["adjacency"] = session.adjacency
    return what


def _dashed(name: str) -> str:
    if name.isupper():
        return name.lower().replace("_", "-")
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")


@contextmanager
def prepared(session: Session, who: int, given: Options, sign: Sign | None = None) -> Iterator[Run]:
    """Open the log, transcript and status of a member.

    An exception becomes a sentence and an exit code. `sign` is for the frames that only the member's own
    transcript has: see `TranscriptWriter`.
    """
    from tacit.runtime.limits import leave_no_core
    from tacit.runtime.status.status import Status

    leave_no_core()
    with exits(), ExitStack() as stack:
        given.require_apart()
        log = Log(session, given.log, who)
        stack.callback(log.close)
        takers: list[Taker] = []
        if given.transcript is not None:
            from tacit.runtime.transcript import TranscriptWriter

            # The transcript is not flushed: what a crash loses here is restored from the ledger at a restart.
            writer = TranscriptWriter(given.transcript, session, who, durable=False, sign=sign)
            takers.append(stack.enter_context(writer))
        status = Status(session, who)
        if given.place.at is not None:
            takers.append(status)
        yield Run(given, log, status, takers)


@final
@dataclasses.dataclass
class Run:
    """What a member needs (`takers`, `watch`, `trouble`); `drive` runs it."""

    given: Options
    log: Log
    status: Status
    takers: list[Taker]

    def watch(self, notice: Notice) -> None:
        """Show and log a notice."""
        if self.given.place.at is not None:
            self.status.notice(notice)
        self.log.notice(notice)

    def trouble(self, why: str) -> None:
        """Show and log why there is no connection."""
        self.log.say("trouble", why)

    def drive(self, member: Participant) -> Any:
        """Run a member and return its result; `OutOfTime` after `--timeout`."""
        return run(lambda: self._driven(member))

    async def _driven(self, member: Any) -> Any:
        async with AsyncExitStack() as stack:
            self.status.watch_network(member.network)
            if self.given.place.at is not None:
                # Imported early: once the process has run out of file descriptors, none can be opened.
                import prometheus_client.core
                import prometheus_client.registry  # noqa: F401

                server = await stack.enter_async_context(self.given.place.server(self.status))
                self.log.say("status", f"status at {server.url}/status and {server.url}/metrics")
            await stack.enter_async_context(member)
            try:
                async with asyncio.timeout(self.given.timeout):
                    return await member.result()
            except TimeoutError:
                raise OutOfTime from None


@contextmanager
def exits(stopped: int = STOPPED) -> Iterator[None]:
    """Turn exceptions that end a run into a sentence and an exit code.

    `stopped` is the exit code after Ctrl-C or SIGHUP.
    """
    try:
        yield
    except CapExceeded as error:
        leave(f"Refused: {error}", REFUSED)
    except SessionOver:
        raise  # `failures` turns it into an exit code; the caller may have something to save first
    except LedgerError as error:
        leave(f"Error: {error}", DISK)
    except Disputed as error:
        leave(f"Stopped: {error}", UNFINISHED)
    except TacitError as error:
        leave(f"Error: {error}", UNUSABLE)
    except OutOfTime:
        leave("The session did not end in time; run the same command again to continue.", UNFINISHED)
    except StoppedBySignal as signalled:
        # SIGTERM is how a supervisor ends a service: nothing has failed.
        code = FINISHED if signalled.number == signal.SIGTERM else stopped
        leave("Stopped; run the same command again to resume.", code)


def leave(sentence: str, code: int) -> NoReturn:
    """Print one sentence and exit with a code."""
    click.echo(" ".join(sentence.split()), err=True)
    raise click.exceptions.Exit(code)


class OutOfTime(Exception):
    """The session did not end within `--timeout`."""


class StoppedBySignal(Exception):
    """SIGTERM, SIGINT or SIGHUP was received; `number` says which."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run(main: Callable[[], Awaitable[T]], hangup: Callable[[], None] | None = None) -> T:
    """Run until done; a signal cancels the task, which then cleans up.

    `hangup` is called at SIGHUP instead, unless this is a terminal that was closed.
    """

    async def guarded() -> T:
        task = asyncio.ensure_future(main())
        loop, received = asyncio.get_running_loop(), list[int]()

        def stop(number: int) -> None:
            received.append(number)
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)
        if hangup is not None and not sys.stderr.isatty():
            loop.add_signal_handler(signal.SIGHUP, hangup)
        try:
            return await task
        except asyncio.CancelledError:
            if received:
                raise StoppedBySignal(received[0]) from None
            raise

    return asyncio.run(guarded())
