"""`tacit enroll`: get keys, a certificate and a policy."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options, output

if TYPE_CHECKING:
    from tacit.core.question import Question
    from tacit.live.fleet.enrolment import Enrolled
    from tacit.live.fleet.invitation import Invitation

EPILOG = """\b
Examples:
  tacit enroll invitation.txt --value-file reading.txt --range 0:50 --cap 20
  tacit agent alice.toml                            then follow the hub
  tacit enroll invitation.txt --value-file reading.txt --range 0:50 --cap 20
    --hides step:2 --delta 1e-6 --longest 400d      takes part in series of up to 400 days
  tacit enroll invitation.txt --value-file reading.txt --accept histogram:0,1,2,5,10 --cap 20
  tacit enroll - --keeper < invitation.txt
  tacit enroll invitation.txt --name meter-17 --trust north=KEY
  tacit enroll 50-lines.txt --name 'meter-*' --value-command './read *' --range 0:50 --cap 20
"""

_OWNED = (
    "value_file",
    "value_command",
    "span",
    "accept",
    "cap",
    "cap_per_day",
    "hides",
    "delta",
    "trust",
)
"""Options for agents only."""


@click.command(epilog=EPILOG)
@click.argument("invitation", metavar="FILE|-|INVITATION")
@click.option(
    "--name",
    help="Your name, if the invitation is for a pattern like meter-*. For a file with several: 'meter-*', "
    "which becomes meter-1, meter-2, …",
)
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
    "--value-command",
    metavar="COMMAND",
    help="For the policy: a command that prints the value; it is run for each session.",
)
@options.asked("low", span={"help": "For the policy: the range that sessions must have, like 0:50."})
@click.option(
    "--accept",
    metavar="[FIELDS=]QUESTION",
    multiple=True,
    help="For the policy: a question that sessions may ask, in place of the mean in --range, like "
    "histogram:0,1,2,5,10. FIELDS are its fields of JSON or columns of CSV: town,load=group-by:a,b:sum:0:9. "
    "May be repeated.",
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
    metavar="NAME=KEY|@FILE",
    multiple=True,
    help="For the policy: a keeper that you trust; may be repeated.",
)
@options.json_option
def command(
    *, invitation: str, name: str | None, out: Path | None, keeper: bool, as_json: bool, **given: Any
) -> None:
    """Make keys on this machine, and get a certificate from the hub.

    The invitation is in a file, on standard input (-), or the text itself, which other users of this
    machine could read. Nothing is sent before the hub has proved that it has the authority in the
    invitation. The command then writes NAME.toml, the policy that `tacit agent` reads: complete it by
    hand, or give its numbers here. If it is interrupted, run the same command again.

    The value's file or command is tried first: one that others may read, or that gives no number, is
    refused before the invitation is used. A file with several invitations enrols as many members; `*` in
    --value-file and --value-command then stands for the member's name.
    """
    from tacit.live.fleet.invitation import Invitation

    lines = [line for line in _text(invitation).splitlines() if line.strip()]
    _require_readable(keeper, given)
    if len(lines) > 1:
        invitations = [Invitation.parse(line) for line in lines]
        _enroll_many(invitations, name, out, as_json, keeper=keeper, **given)
        return
    found = Invitation.parse("\n".join(lines))
    made = _enrolled(found, name, out or Path(name or found.pattern), keeper, given)
    output.print_result(made, as_json)


def _enrolled(
    found: Invitation, name: str | None, keys: Path, keeper: bool, given: dict[str, Any]
) -> Enrolled:
    from tacit.base.errors import FileError
    from tacit.live.fleet.enrolment import Enrolled, enroll

    policy = keys.with_name(f"{keys.name}.toml")
    if policy.exists():
        raise FileError(f"{policy} exists already: choose another directory (--out).")
    notes = (*_missing(keeper, given), *_tried(given))
    made = enroll(found, keys, name)
    _write_policy(policy, found, keys, keeper, given)
    return Enrolled(made, found, keys, policy, notes)


def _enroll_many(
    invitations: list[Invitation], name: str | None, out: Path | None, as_json: bool, **given: Any
) -> None:
    """Enrol one member for each invitation; those who are there are left out.

    So the same command, run again after an interruption, enrols the rest.
    """
    if name is not None and "*" not in name:
        raise click.UsageError(f"--name must have a * where there are several invitations, got {name}.")
    names = [
        one.pattern if "*" not in one.pattern else (name or one.pattern).replace("*", str(number))
        for number, one in enumerate(invitations, start=1)
    ]
    if len(set(names)) < len(names):
        raise click.UsageError("Several invitations are for the same name: give each of them alone.")
    made = []
    for one, chosen in zip(invitations, names, strict=True):
        keys = (out or Path()) / chosen
        if keys.with_name(f"{keys.name}.toml").exists():
            continue
        own = {word: _named(word, value, chosen) for word, value in given.items()}
        made.append(_enrolled(one, chosen if "*" in one.pattern else None, keys, own.pop("keeper"), own))
        if not as_json:
            click.echo(" ".join((f"{chosen} is enrolled: {made[-1].policy}", *made[-1].notes)))
    if as_json:
        output.print_json({"enrolled": [one.as_dict() for one in made]})


def _named(word: str, value: Any, name: str) -> Any:
    """Put a member's name into the source of its value."""
    if value is None or word not in ("value_file", "value_command"):
        return value
    written = str(value).replace("*", name)
    return Path(written) if word == "value_file" else written


def _tried(given: dict[str, Any]) -> tuple[str, ...]:
    """Try the source of the value; refuse one that would fail every session.

    A file that is not there yet is only told: something may write it later.
    """
    import asyncio

    from tacit.live.fleet.sources import CommandSource, FileSource, ValueSource

    file, command = given["value_file"], given["value_command"]
    if file is not None:
        if not file.exists():
            return (f"{file} does not exist yet: write the value into it, with mode 600 (umask 077).",)
        source: ValueSource = FileSource(file)
    elif command is not None:
        source = CommandSource(_words(command))
    else:
        return ()
    source.names = _accepted(given)
    for question in source.names:
        asyncio.run(source.check(question))
    return ()


def _accepted(given: dict[str, Any]) -> dict[Question, tuple[str, ...]]:
    """Return what sessions may ask; without a range, numbers in any."""
    from tacit.core.question import Mean
    from tacit.live.fleet.policy import accepted_question

    if given["accept"]:
        return dict(map(accepted_question, given["accept"]))
    return {Mean(0, 1): ()}


def _text(given: str) -> str:
    from tacit.base.errors import InputError
    from tacit.base.files import read_secret
    from tacit.live.fleet.invitation import MARK

    if given == "-":
        return sys.stdin.read(1 << 16)
    if given.startswith(MARK):
        return given
    try:
        return read_secret(Path(given)).decode("ascii")
    except UnicodeDecodeError:
        raise InputError(
            f"{given} must contain an invitation, the line that `tacit invite` prints, and does not."
        ) from None


def _require_readable(keeper: bool, given: dict[str, Any]) -> None:
    """Refuse what a policy cannot contain, before anything is sent."""
    from tacit.base.errors import InputError
    from tacit.cli.options import accepted
    from tacit.live.fleet.policy import seconds
    from tacit.live.ledger.budget import require_amount
    from tacit.live.sessions.trust import parse_trust

    owned = [options.spelled(word) for word in _OWNED if given[word] not in (None, ())]
    if keeper and owned:
        raise click.UsageError(f"A keeper has no value and trusts nobody: leave {', '.join(owned)} out.")
    if given["value_file"] is not None and given["value_command"] is not None:
        raise click.UsageError("The value comes from one place: give --value-file or --value-command.")
    if given["value_command"] is not None and not _words(given["value_command"]):
        raise click.UsageError("--value-command must name a program.")
    accepted(given["hides"], given["delta"])
    parse_trust(given["trust"])
    if given["accept"] and given["span"] is not None:
        raise click.UsageError("--accept says all that is accepted: give --range as mean:LOW:HIGH.")
    _accepted(given)
    if given["span"] is not None and not given["span"][0] < given["span"][1]:
        raise InputError("--range must begin below its end, got {:g}:{:g}.".format(*given["span"]))
    for word in ("cap", "cap_per_day"):
        if given[word] is not None:
            require_amount(given[word], options.spelled(word))
    if given["longest"] is not None:
        seconds(given["longest"], "--longest")


def _words(command: str) -> list[str]:
    """Split a command as a shell would."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise click.UsageError(f"--value-command cannot be read: {error}.") from None


def _missing(keeper: bool, given: dict[str, Any]) -> tuple[str, ...]:
    needed = ("value_file", "cap") if given["accept"] else ("value_file", "span", "cap")
    absent = [word for word in needed if given[word] is None]
    if given["value_command"] is not None:
        absent.remove("value_file")
    if keeper or not absent:
        return ()
    words = ", ".join(options.spelled(word)[2:].replace("-", " ") for word in absent)
    return (f"The policy is not complete: it needs {words}.",)


def _write_policy(path: Path, found: Any, keys: Path, keeper: bool, given: dict[str, Any]) -> None:
    from tacit.base.files import write_whole
    from tacit.live.fleet.messages import AGENT, KEEPER
    from tacit.live.fleet.policy import policy_text
    from tacit.live.identity.keys import key_text
    from tacit.live.sessions.trust import parse_trust

    longest = given["longest"]
    more: dict[str, Any] = {} if longest is None else {"limits": {"longest": longest}}
    if not keeper:
        day = given["cap_per_day"]
        file = given["value_file"]
        more = {
            "value": {
                "file": None if file is None else str(file.resolve()),
                "command": None if given["value_command"] is None else _words(given["value_command"]),
                **dict(zip(("low", "high"), given["span"] or (None, None), strict=True)),
                "accept": given["accept"] or None,
            },
            "limits": {
                "cap": given["cap"],
                "hides": given["hides"],
                "delta": given["delta"],
                "longest": longest,
                "windows": None if day is None else [{"time": "1d", "cap": day}],
            },
            "trust": {name: key_text(key) for name, key in parse_trust(given["trust"]).items()},
        }
    text = policy_text(
        hub=found.addresses,
        authority=found.fingerprint,
        keys=Path(keys.name),
        ledger=Path(f"{keys.name}.ledger"),
        role=KEEPER if keeper else AGENT,
        **more,
    )
    write_whole(path, text.encode())
