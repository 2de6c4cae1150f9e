"""`tacit keys`: keys and certificates; a private key never leaves the machine it was made on."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options, output

if TYPE_CHECKING:
    from tacit.runtime.identity.certificates import Certificate, CertificateSubject
    from tacit.runtime.identity.revocation import Revocations

EPILOG = """\b
Examples:
  tacit keys authority --out authority              once, by the organiser of the session
  tacit keys new alice --out alice                  each agent, on its own machine
  tacit keys sign alice/request.pem --authority authority --out alice.crt
  tacit keys install alice.crt --keys alice         back on the agent's machine
  tacit keys show alice
  tacit keys revoke alice --authority authority     then give revoked.crl to everyone
  tacit keys rotate alice                           a new signing key; then sign and install
"""

DIRECTORY = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)


@click.group("keys", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Make, sign, renew, rotate, revoke and show the keys of agents and of their authority.

    Each agent makes its own keys. Only two files travel: its request to the authority, and the
    certificate back. Both are public. Directories of keys have mode 700, private files 600.
    Every command takes --json.
    """


@command.command(epilog="\b\nExample:\n  tacit keys authority --out authority --name plant-7 --days 365\n")
@click.option("--out", type=DIRECTORY, default="authority", show_default=True, help="Directory to make.")
@click.option("--name", default="authority", show_default=True, help="Its name in certificates.")
@click.option("--days", type=options.NUMBER, default=365.0, show_default=True, help="Days until it expires.")
@options.force_option
@options.json_option
def authority(*, out: Path, name: str, days: float, force: bool, as_json: bool) -> None:
    """Make an authority, which decides who may connect.

    Compare its fingerprint over another channel with what agents see when they install.
    """
    from tacit.runtime.identity.identity import new_authority

    made = new_authority(name, out, days=days, force=force)
    _report(
        "Authority", out, _certificate(made.certificate), as_json, [f"Keep {out} where only you can read it."]
    )


@command.command(
    epilog="\b\nExample:\n  tacit keys new alice --out alice\n  tacit keys new coordinator --host 192.0.2.1\n"
)
@click.argument("name")
@click.option("--out", type=DIRECTORY, help="Directory to make.  [default: NAME]")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="A host name or address where it listens; may be repeated. Only a coordinator and peers on a "
    "graph listen.  [for `coordinator`: this machine]",
)
@options.force_option
@options.json_option
def new(*, name: str, out: Path | None, hosts: tuple[str, ...], force: bool, as_json: bool) -> None:
    """Make an agent's keys, and a request for the authority to sign.

    Run it on the agent's own machine. A server's coordinator has the name `coordinator`.
    """
    from tacit.runtime.identity.certificates import LOOPBACK, Request
    from tacit.runtime.identity.identity import new_agent

    folder = Path(name) if out is None else out
    if not hosts and name == "coordinator":
        hosts = LOOPBACK
    request = new_agent(name, folder, hosts=hosts, force=force)
    subject = Request.parse(request.read_bytes(), str(request)).subject
    notes = [
        f"Send {request} to the authority: it is public. Nothing else in {folder} may leave this machine."
    ]
    _report("Keys", folder, {**_subject(subject), "request": request}, as_json, notes)


SIGN_EPILOG = """\b
Examples:
  tacit keys sign alice/request.pem --authority authority --out alice.crt
  tacit keys sign requests --authority authority --out certificates      all *.pem in the directory
"""


@command.command(epilog=SIGN_EPILOG)
@click.argument("request", metavar="REQUEST|DIRECTORY", type=click.Path(path_type=Path))
@click.option(
    "--authority", "home", type=DIRECTORY, default="authority", show_default=True, help="Its directory."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where to write the certificate; for many, a directory.  [default: NAME.crt, or DIRECTORY]",
)
@click.option("--days", type=options.NUMBER, default=90.0, show_default=True, help="Days until it expires.")
@click.option("--listen", is_flag=True, help="Allow the agent to listen at the hosts in its request.")
@click.option(
    "--key", help="The public key you expect, from another channel; a request for another key is refused."
)
@options.force_option
@options.json_option
def sign(
    *,
    request: Path,
    home: Path,
    out: Path | None,
    days: float,
    listen: bool,
    key: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Sign an agent's request, and write the certificate to give back; or all requests in a directory.

    First make sure, over another channel, that the name and the key belong together. A name has one
    signing key: a request for another is refused, unless the old key agrees (`tacit keys rotate`) or was
    revoked. Of a directory all requests are signed, or none.
    """
    from tacit.errors import InputError
    from tacit.files import PUBLIC, read_public, write_whole
    from tacit.runtime.identity.certificates import Request
    from tacit.runtime.identity.identity import bundle, load_authority
    from tacit.runtime.identity.register import REVOKED, opened

    if request.is_dir():
        if key is not None:
            raise click.UsageError("--key goes with one request.")
        _sign_all(request, home, out or request, days=days, listen=listen, force=force, as_json=as_json)
        return
    asked = Request.parse(read_public(request), str(request))
    if key is not None and key != asked.subject.key:
        raise InputError(
            f"{request} is for the key {asked.subject.key}, not for the one in --key: do not sign it."
        )
    signer = load_authority(home)
    path = Path(f"{asked.subject.name}.crt") if out is None else out
    output.require_writable(path, force)
    with opened(home, signer) as register:
        before = register.revoked
        made = register.sign(asked, days, listen=listen)
        # before the certificate is written: after a crash the name must still be bound to this key
        register.save()
        write_whole(path, bundle(made, signer), mode=PUBLIC, force=force)
        rotated = register.revoked is not before
    notes = [f"Give {path} back to {made.name}: it is public. Collect these files for the session's roster."]
    if rotated:
        notes.append(f"The old key of {made.name} is revoked: give {home / REVOKED} to everyone.")
    _report("Certificate", path, _certificate(made), as_json, notes)


def _sign_all(
    folder: Path, home: Path, out: Path, *, days: float, listen: bool, force: bool, as_json: bool
) -> None:
    """Sign all requests in a directory, or none, and write NAME.crt for each."""
    from tacit.errors import FileError
    from tacit.files import PUBLIC, read_public, write_whole
    from tacit.runtime.identity.certificates import Request
    from tacit.runtime.identity.identity import bundle, load_authority
    from tacit.runtime.identity.register import REVOKED, opened

    files = [file for file in sorted(folder.glob("*.pem")) if file.is_file()]
    if not files:
        raise FileError(f"{folder} must hold requests (*.pem), and holds none.")
    asked = [Request.parse(read_public(file), str(file)) for file in files]
    out.mkdir(exist_ok=True)
    for one in asked:
        output.require_writable(out / f"{one.subject.name}.crt", force)
    signer = load_authority(home)
    with opened(home, signer) as register:
        before = register.revoked
        made = [register.sign(one, days, listen=listen) for one in asked]
        register.save()  # before any certificate leaves
        for signed in made:
            write_whole(out / f"{signed.name}.crt", bundle(signed, signer), mode=PUBLIC, force=force)
        rotated = register.revoked is not before
    if as_json:
        output.print_json({"path": out, "certificates": [_certificate(one) for one in made]})
        return
    subjects = [one.subject for one in made if one.subject is not None]
    rows: list[output.Line] = [(subject.name, subject.key, "") for subject in subjects]
    notes = [f"Give each its file in {out}: they are public."]
    notes += [f"Some old keys are revoked: give {home / REVOKED} to everyone."] if rotated else []
    output.print_report(f"{len(made)} certificates in {out}", {"": rows}, notes)


@command.command(epilog="\b\nExample:\n  tacit keys install alice.crt --keys alice\n")
@click.argument("certificate", type=FILE)
@click.option("--keys", "home", type=DIRECTORY, required=True, help="The agent's directory.")
@click.option("--new-authority", is_flag=True, help="Trust another authority than before.")
@options.json_option
def install(*, certificate: Path, home: Path, new_authority: bool, as_json: bool) -> None:
    """Install what the authority sent back: a certificate, or a list of revoked ones.

    The first authority is trusted from then on: compare its fingerprint over another channel. A list
    (revoked.crl) must be newer than the one before; a running process with these keys applies it within
    seconds.
    """
    from tacit.files import read_public
    from tacit.runtime.identity.identity import install as put
    from tacit.runtime.identity.revocation import MARK

    data = read_public(certificate)
    if MARK in data:
        _install_list(data, home, as_json)
        return
    made = put(data, home, new_authority=new_authority)
    facts = {**_certificate(made.certificate), "authority": made.authority.fingerprint}
    _report("Keys", home, facts, as_json, [f"{made.name} is ready to join."])


def _install_list(data: bytes, home: Path, as_json: bool) -> None:
    from tacit.runtime.identity.identity import install_revocations

    identity, found = install_revocations(data, home)
    out = identity.revoked(identity.certificate)
    notes = [f"{identity.name} itself is revoked: it cannot join."] if out else []
    _report("List", home, _list(found), as_json, notes)


@command.command(
    epilog="\b\nExamples:\n  tacit keys revoke alice --authority authority --out revoked.crl\n"
    "  tacit keys revoke certificates/alice.crt\n"
)
@click.argument("agent", metavar="NAME|CERTIFICATE")
@click.option(
    "--authority", "home", type=DIRECTORY, default="authority", show_default=True, help="Its directory."
)
@click.option("--out", type=FILE, default="revoked.crl", show_default=True, help="Where to write the list.")
@options.json_option
def revoke(*, agent: str, home: Path, out: Path, as_json: bool) -> None:
    """Revoke an agent's signing key with all its certificates, and write the list of revoked ones.

    Give the list to everyone: `tacit keys install revoked.crl --keys ...` installs it. `tacit session new`
    uses a list that is beside the certificates of a roster. Connections of revoked members are refused
    and closed. Earlier signatures stay valid.
    """
    from tacit.files import PUBLIC, read_public, write_whole
    from tacit.runtime.identity.certificates import read_certificates
    from tacit.runtime.identity.identity import load_authority
    from tacit.runtime.identity.register import opened

    with opened(home, load_authority(home)) as register:
        if Path(agent).is_file():
            register.revoke_certificate(read_certificates(read_public(Path(agent)), agent)[0])
        else:
            register.revoke(agent)
        register.save()
        found = register.revoked
    assert found is not None
    write_whole(out, found.pem(), mode=PUBLIC, force=True)
    _report("List", out, _list(found), as_json, [f"Give {out} to everyone: it is public."])


@command.command(epilog="\b\nExample:\n  tacit keys rotate alice     then sign and install as for new keys\n")
@click.argument("directory", type=DIRECTORY)
@options.json_option
def rotate(*, directory: Path, as_json: bool) -> None:
    """Replace an agent's signing key, with the old key's agreement.

    Makes a new signing key, a new TLS key and a request that the old key has signed too. The old keys
    are used until the new certificate is installed. Finish or give up running sessions before that:
    they are bound to the old key. The ledgers of this directory stay valid. If the old key is lost or
    stolen, let the authority revoke it instead.
    """
    from tacit.runtime.identity.certificates import Request
    from tacit.runtime.identity.identity import rotate_agent

    request = rotate_agent(directory)
    subject = Request.parse(request.read_bytes(), str(request)).subject
    notes = [f"Send {request} to the authority, then `tacit keys install` what comes back."]
    _report("Keys", directory, {**_subject(subject), "request": request}, as_json, notes)


RENEWALS = """\b
Examples:
  tacit keys renew alice                  then sign and install as for new keys
  tacit keys renew authority --days 365
"""


@command.command(epilog=RENEWALS)
@click.argument("directory", type=DIRECTORY)
@click.option(
    "--days",
    type=options.NUMBER,
    default=365.0,
    show_default=True,
    help="For an authority: days until it expires.",
)
@options.json_option
def renew(*, directory: Path, days: float, as_json: bool) -> None:
    """Renew before a certificate expires.

    For an agent: makes a new TLS key and a request to be signed. The old ones are used until the new
    certificate is installed; the signing key stays the same. For an authority: extends its certificate.
    What it signed stays valid, and agents get the new certificate with their next one.
    """
    from tacit.runtime.identity.certificates import Request
    from tacit.runtime.identity.identity import is_authority, renew_agent, renew_authority

    if is_authority(directory):
        made = renew_authority(directory, days=days)
        _report("Authority", directory, _certificate(made.certificate), as_json)
        return
    request = renew_agent(directory)
    subject = Request.parse(request.read_bytes(), str(request)).subject
    notes = [f"Send {request} to the authority, then `tacit keys install` what comes back."]
    _report("Keys", directory, {**_subject(subject), "request": request}, as_json, notes)


@command.command(epilog="\b\nExample:\n  tacit keys show alice --json\n")
@click.argument("path", type=click.Path(path_type=Path))
@options.json_option
def show(*, path: Path, as_json: bool) -> None:
    """Show a directory of keys, a certificate or a request: only what is public."""
    title, facts, notes = _found(path)
    _report(title, path, facts, as_json, notes)


def _found(path: Path) -> tuple[str, dict[str, Any], list[str]]:
    from tacit.files import read_public
    from tacit.runtime.identity.certificates import Request, read_certificates
    from tacit.runtime.identity.identity import NEXT, REQUEST, TLS, Identity, is_authority, load_authority
    from tacit.runtime.identity.register import opened

    if is_authority(path):
        made = load_authority(path)
        with opened(path, made) as register:
            names = sorted({entry.name for entry in register.entries})
        facts = {**_certificate(made.certificate), "signed": names, **_listed(register.revoked)}
        return "Authority", facts, _expiry([made.certificate])
    if path.is_dir():
        waiting = (path / NEXT).exists()
        note = [f"{path / REQUEST} waits to be signed."] if waiting else []
        if waiting and not (path / TLS).exists():
            subject = Request.parse(read_public(path / REQUEST), str(path / REQUEST)).subject
            return "Keys", _subject(subject), note
        identity = Identity.load(path)
        facts = {**_certificate(identity.certificate), "authority": identity.authority.fingerprint}
        if identity.revoked(identity.certificate):
            note.append(f"The certificate of {identity.name} is revoked: it cannot join.")
        facts |= _listed(identity.revocations)
        return "Keys", facts, note + _expiry([identity.certificate, identity.authority])
    data = read_public(path)
    if b"CERTIFICATE REQUEST" in data:
        return "Request", _subject(Request.parse(data, str(path)).subject), []
    found = read_certificates(data, str(path))
    return "Certificate", _certificate(found[0]), _expiry(found[:1])


def _expiry(certificates: list[Certificate]) -> list[str]:
    now = datetime.now(UTC)
    return [
        f"The certificate of {made.name} has expired: `tacit keys renew` it."
        if made.expires <= now
        else f"The certificate of {made.name} expires in {(made.expires - now).days} days: renew it soon."
        for made in certificates
        if (made.expires - now).days < min(14, (made.expires - made.begins).days / 3)
    ]


def _list(found: Revocations) -> dict[str, Any]:
    return {"number": found.number, "made": found.made.isoformat(), "revoked": _names(found)}


def _listed(found: Revocations | None) -> dict[str, Any]:
    return {} if found is None else {"list": found.number, "revoked": _names(found)}


def _names(found: Revocations) -> list[str]:
    return sorted({entry.name or f"certificate {entry.serial:x}" for entry in found.entries})


def _subject(subject: CertificateSubject) -> dict[str, Any]:
    return {"name": subject.name, "key": subject.key, "hosts": list(subject.hosts)}


def _certificate(certificate: Certificate) -> dict[str, Any]:
    about = {"name": certificate.name} if certificate.subject is None else _subject(certificate.subject)
    if certificate.subject is None:
        about["key_fingerprint"] = certificate.key_fingerprint
    return {
        **about,
        "begins": certificate.begins.isoformat(),
        "expires": certificate.expires.isoformat(),
        "expired": certificate.expires <= datetime.now(UTC),
        "fingerprint": certificate.fingerprint,
    }


_MEANING = {
    "name": "",
    "key": "public signing key, for rosters",
    "hosts": "where it may listen",
    "expires": "",
    "fingerprint": "SHA-256",
    "key_fingerprint": "SHA-256 of its key, as invitations have it",
    "authority": "its SHA-256",
    "request": "to be signed",
    "signed": "names it has signed for",
    "list": "number of the newest list of revoked certificates",
    "number": "of the list; each new list has a higher one",
    "made": "",
    "revoked": "names that are no longer valid",
}


def _report(
    title: str, path: Path, facts: dict[str, Any], as_json: bool, notes: list[str] | None = None
) -> None:
    if as_json:
        output.print_json({"path": path, **facts})
        return
    shown = {name: value for name, value in facts.items() if name in _MEANING and value != []}
    for date in ("expires", "made"):
        if date in shown:
            shown[date] = f"{datetime.fromisoformat(shown[date]):%Y-%m-%d %H:%M} UTC"
    rows = [
        (name, ", ".join(value) if isinstance(value, list) else str(value), _MEANING[name])
        for name, value in shown.items()
    ]
    output.print_report(f"{title} in {path}", {"": rows}, notes or [])
