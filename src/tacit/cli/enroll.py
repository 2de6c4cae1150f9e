"""`tacit enroll`: get keys, a certificate and a policy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from tacit.cli import options, output

EPILOG = """\b
Examples:
  tacit enroll invitation.txt --value-file reading.txt --low 0 --high 50 --cap 20
  tacit agent alice.toml                            then follow the hub
  tacit enroll invitation.txt --value-file reading.txt --low 0 --high 50 --cap 20
    --hides step:2 --delta 1e-6 --longest 400d      takes part in series of up to 400 days
  tacit enroll - --keeper < invitation.txt
  tacit enroll invitation.txt --name meter-17 --trust north=KEY
"""

_OWNED = ("value_file", "low", "high", "cap", "cap_per_day", "hides", "delta", "trust")
"""Options for agents only."""


@click.command(epilog=EPILOG)
@click.argument("invitation", metavar="FILE|-|INVITATION")
@click.option("--name", help="Your name, if the invitation is for a pattern like meter-*.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Directory of keys.  [default: NAME]"
)
@click.option("--keeper", is_flag=True, help="Write the policy of a keeper.")
@click.option(
    "--value-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="For the policy: a file of mode 600 with the value; it is read again for each session.",
)
@click.option(
    "--low", type=options.NUMBER, help="For the policy: lower end of the range that sessions must have."
)
@click.option(
    "--high", type=options.NUMBER, help="For the policy: upper end of the range that sessions must have."
)
@click.option(
    "--cap", type=options.NUMBER, help="For the policy: maximum loss of this value over all sessions."
)
@click.option("--cap-per-day", type=options.NUMBER, help="For the policy: maximum loss per day.")
@click.option(
    "--hides",
    metavar="reading|window:K|step:D",
    help="For the policy: the change that series must hide; needs --delta. Without it series are refused.",
)
@click.option(
    "--delta",
    type=options.NUMBER,
    help="For the policy: the failure probability of all series together.",
)
@click.option(
    "--longest", metavar="TIME", help="For the policy: how long a session may last, like 400d.  [default: 1d]"
)
@click.option(
    "--trust",
    metavar="NAME=KEY",
    multiple=True,
    help="For the policy: a keeper that you trust; may be repeated.",
)
@options.json_option
def command(
    *, invitation: str, name: str | None, out: Path | None, keeper: bool, as_json: bool, **given: Any
) -> None:
    """Make keys on this machine, and get a certificate from the hub.

    The invitation is in a file, on standard input (-), or the text itself. Other users of this machine
    can read command lines, so prefer a file. Nothing is sent before the hub has proved that it has the
    authority in the invitation. The command then writes NAME.toml, the policy that `tacit agent` reads:
    complete it by hand, or give its numbers here. If it is interrupted, run the same command again.
    """
    from tacit.errors import FileError
    from tacit.runtime.fleet.enrolment import Enrolled, enroll
    from tacit.runtime.fleet.invitation import Invitation

    found = Invitation.parse(_text(invitation))
    _require_readable(keeper, given)
    chosen = name or found.pattern
    keys = out or Path(chosen)
    policy = keys.with_name(f"{keys.name}.toml")
    if policy.exists():
        raise FileError(f"{policy} exists already: choose another directory (--out).")
    made = enroll(found, keys, name)
    _write_policy(policy, found, keys, keeper, given)
    output.print_result(Enrolled(made, found, keys, policy, _missing(keeper, given)), as_json)


def _text(given: str) -> str:
    from tacit.errors import InputError
    from tacit.files import read_public
    from tacit.runtime.fleet.invitation import MARK

    if given == "-":
        return sys.stdin.read(1 << 16)
    if given.startswith(MARK):
        return given
    try:
        return read_public(Path(given)).decode("ascii")
    except UnicodeDecodeError:
        raise InputError(
            f"{given} must contain an invitation, the line that `tacit invite` prints, and does not."
        ) from None


def _require_readable(keeper: bool, given: dict[str, Any]) -> None:
    """Refuse what a policy cannot contain, before anything is sent."""
    from tacit.cli.join_series import accepted
    from tacit.errors import InputError
    from tacit.runtime.fleet.policy import seconds
    from tacit.runtime.ledger.budget import require_amount
    from tacit.runtime.session.trust import parse_trust

    owned = [options.spelled(word) for word in _OWNED if given[word] not in (None, ())]
    if keeper and owned:
        raise click.UsageError(f"A keeper has no value and trusts nobody: leave {', '.join(owned)} out.")
    accepted(given["hides"], given["delta"])
    parse_trust(given["trust"])
    low, high = given["low"], given["high"]
    if low is not None and high is not None and not low < high:
        raise InputError(f"--low must be below --high, got {low:g} and {high:g}.")
    for word in ("cap", "cap_per_day"):
        if given[word] is not None:
            require_amount(given[word], options.spelled(word))
    if given["longest"] is not None:
        seconds(given["longest"], "--longest")


def _missing(keeper: bool, given: dict[str, Any]) -> tuple[str, ...]:
    absent = [word for word in ("value_file", "low", "high", "cap") if given[word] is None]
    if keeper or not absent:
        return ()
    needed = ", ".join(word.replace("_", " ") for word in absent)
    return (f"The policy is not complete: it needs {needed}.",)


def _write_policy(path: Path, found: Any, keys: Path, keeper: bool, given: dict[str, Any]) -> None:
    from tacit.files import write_whole
    from tacit.runtime.fleet.messages import AGENT, KEEPER
    from tacit.runtime.fleet.policy import policy_text

    longest = given["longest"]
    more: dict[str, Any] = {} if longest is None else {"limits": {"longest": longest}}
    if not keeper:
        day = given["cap_per_day"]
        file = given["value_file"]
        more = {
            "value": {
                "file": None if file is None else str(file.resolve()),
                "low": given["low"],
                "high": given["high"],
            },
            "limits": {
                "cap": given["cap"],
                "hides": given["hides"],
                "delta": given["delta"],
                "longest": longest,
                "windows": None if day is None else [{"time": "1d", "cap": day}],
            },
            "trust": dict(pair.split("=", 1) for pair in given["trust"]),
        }
    text = policy_text(
        hub=found.address,
        authority=found.fingerprint,
        keys=Path(keys.name),
        ledger=Path(f"{keys.name}.ledger"),
        role=KEEPER if keeper else AGENT,
        **more,
    )
    write_whole(path, text.encode())
