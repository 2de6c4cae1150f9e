"""`tacit ledger`: the loss and the cap of each value."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tacit.cli import options, output

if TYPE_CHECKING:
    from tacit.live.ledger.ledger import Ledger

EPILOG = """\b
Examples:
  tacit ledger show alice.ledger
  tacit ledger cap alice.ledger meter-7 2.5         raise or lower the cap of a value
  tacit ledger settle alice.ledger 5f3a             leave that session permanently
  tacit ledger forget alice.ledger 5f3a             remove its states, keep its loss
  tacit ledger witness alice.ledger /mnt/far/alice  detect restored backups from another disk
  tacit ledger adopt alice.ledger                   use a copy; the original is no longer used
"""

SETTLE_EPILOG = """\b
Examples:
  tacit ledger settle alice.ledger 5f3a
  tacit ledger settle alice.ledger session.toml --cancellation session.cancelled
"""

FILE = click.Path(dir_okay=False, path_type=Path)


@click.group("ledger", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Show the loss of each value in an agent's ledger, and change its caps.

    Stop the agent that uses the ledger first, except for `show`. Nothing private is shown, except by `show
    --private`.
    Every command takes --json.
    """


@command.command(epilog="\b\nExample:\n  tacit ledger show alice.ledger --json\n")
@click.argument("file", type=FILE)
@click.option("--private", is_flag=True, help="Also show in which sessions your value was clamped.")
@options.json_option
def show(*, file: Path, private: bool, as_json: bool) -> None:
    """Show values with their caps, and sessions with their losses.

    An agent may use the ledger meanwhile.
    """
    from tacit.base.errors import LedgerInUse
    from tacit.live.ledger.ledger import Ledger
    from tacit.live.ledger.snapshot import open_snapshot

    try:
        ledger = Ledger(file, create=False)
    except LedgerInUse:
        with open_snapshot(file) as ledger:
            _tell(ledger, file, as_json, private=private)
    else:
        with ledger:
            _tell(ledger, file, as_json, private=private)


@command.command(epilog="\b\nExample:\n  tacit ledger cap alice.ledger meter-7 2.5\n")
@click.argument("file", type=FILE)
@click.argument("value")
@click.argument("cap", type=options.NUMBER)
@click.option(
    "--adjacency",
    type=options.NUMBER,
    help="The cap protects values that differ by at most this.  [default: as before]",
)
@click.option(
    "--hides",
    metavar="reading|window:K|step:D",
    help="Accept series that hide this change of the readings.  [default: as before]",
)
@click.option(
    "--delta",
    type=options.NUMBER,
    help="Maximum sum of the failure probabilities of all series; goes with --hides.",
)
@options.json_option
def cap(
    *,
    file: Path,
    value: str,
    cap: float,
    adjacency: float | None,
    hides: str | None,
    delta: float | None,
    as_json: bool,
) -> None:
    """Set the cap of a value, by its label.

    A lower cap takes effect at once, also in sessions that have begun: an agent stops before it would exceed
    the cap. A series that has sent nothing yet ends; one that has sent has spent its whole loss, and goes on.
    A cap that hides a wider change than an earlier series is refused.
    """
    from tacit.cli.options import accepted
    from tacit.live.ledger.ledger import Ledger

    accepts = accepted(hides, delta)
    with Ledger(file, create=False) as ledger:
        ledger.set_cap(value, cap, adjacency=adjacency, accepts=accepts)
        _tell(ledger, file, as_json)


@command.command(epilog=SETTLE_EPILOG)
@click.argument("file", type=FILE)
@click.argument("session")
@click.option(
    "--cancellation",
    type=FILE,
    help="Leave it only if this file, signed by the coordinator, says that it was cancelled.",
)
@options.json_option
def settle(*, file: Path, session: str, cancellation: Path | None, as_json: bool) -> None:
    """Leave a session permanently; only messages already sent count.

    SESSION is its file, its id or the beginning of the id. The loss reserved for messages that were not
    sent is free again at once, and the session's private key is erased.
    """
    from tacit.live.ledger.ledger import Ledger

    with Ledger(file, create=False) as ledger:
        ledger.settle(_asked(ledger, session, cancellation))
        _tell(ledger, file, as_json)


@command.command(epilog="\b\nExample:\n  tacit ledger forget alice.ledger --all\n")
@click.argument("file", type=FILE)
@click.argument("session", required=False)
@click.option("--all", "every", is_flag=True, help="Forget all sessions that are over.")
@options.json_option
def forget(*, file: Path, session: str | None, every: bool, as_json: bool) -> None:
    """Remove states and messages of a finished session; keep its loss.

    SESSION is its id or the beginning of it. Until then, anyone who reads the file has the value. Copies
    of the file, and unused blocks of the disk, may still hold it.
    """
    from tacit.live.ledger.ledger import Ledger

    if (session is None) != every:
        raise click.UsageError("Give one session, or --all for all sessions that are over.")
    with Ledger(file, create=False) as ledger:
        for one in _over(ledger) if session is None else (_one(ledger, session),):
            ledger.forget(one)
        _tell(ledger, file, as_json)


@command.command(epilog="\b\nExample:\n  tacit ledger witness alice.ledger /mnt/far/alice.witness\n")
@click.argument("file", type=FILE)
@click.argument("witness", type=FILE)
@options.json_option
def witness(*, file: Path, witness: Path, as_json: bool) -> None:
    """Make a witness: a file elsewhere that records the ledger's progress.

    Put it on another disk, and name it with --witness or in the policy from then on. It detects that both
    ledger and keys were restored from a backup, so it must not be part of the same backup.
    """
    from tacit.live.ledger.key_guard import take_witness
    from tacit.live.ledger.ledger import Ledger

    with Ledger(file, create=False) as ledger:
        take_witness(ledger, witness, create=True)
        _tell(ledger, file, as_json)


@command.command(epilog="\b\nExample:\n  tacit ledger adopt alice.ledger\n")
@click.argument("file", type=FILE)
@options.json_option
def adopt(*, file: Path, as_json: bool) -> None:
    """Use a ledger that was copied here from another place.

    You confirm that nothing was sent since the copy was made, and that the other copy is never used
    again. Otherwise the agent would draw new noise for messages already sent, and the difference would
    reveal the value.
    """
    from tacit.live.ledger.ledger import Ledger

    with Ledger(file, create=False, copied=True) as ledger:
        if not as_json:
            click.echo(f"{file} is adopted: use it here, and never the copy elsewhere again.")
        _tell(ledger, file, as_json)


def _asked(ledger: Ledger, session: str, cancellation: Path | None) -> bytes:
    """Return the id of a session, given its file or the beginning of its id."""
    if cancellation is None and not Path(session).is_file():
        return _one(ledger, session)
    from tacit.live.sessions.cancellation import require_cancelled
    from tacit.live.sessions.file import read_session

    agreed = read_session(session)
    if cancellation is not None:
        require_cancelled(agreed, cancellation)
    return agreed.id


def _one(ledger: Ledger, beginning: str) -> bytes:
    found = [session for session in ledger.sessions() if session.hex().startswith(beginning.lower())]
    if len(found) != 1:
        raise click.UsageError(
            f"{len(found) or 'No'} sessions begin with {beginning!r}: see `tacit ledger show`."
        )
    return found[0]


def _over(ledger: Ledger) -> list[bytes]:
    """Return the sessions that are over."""
    return [session for session in ledger.sessions() if ledger.is_over(session)]


def _tell(ledger: Ledger, path: Path, as_json: bool, *, private: bool = False) -> None:
    from tacit.live.ledger.overview import overview_of

    found = overview_of(ledger, path, private=private)
    output.print_result(found, as_json)
