"""`tacit keys`: keys and certificates; private keys stay on their machine."""

from __future__ import annotations

from pathlib import Path

import click

from tacit.cli import options, output

EPILOG = """\b
Examples:
  tacit keys authority --out authority              once, by the organiser of the session
  tacit keys new alice --out alice                  each agent, on its own machine
  tacit keys sign alice/request.pem --authority authority --out alice.crt
  tacit keys install alice.crt --keys alice         back on the agent's machine
  tacit keys show alice
  tacit keys revoke alice --authority authority     then give revoked.crl to everyone
"""

DIRECTORY = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)


@click.group("keys", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Make, sign, revoke and show keys and certificates.

    Each agent makes its own keys. Only two files travel: its request to the authority, and the
    certificate back. Both are public. Directories of keys have mode 700, private files 600.
    Every command takes --json.
    """


AUTHORITY_EPILOG = """\b
Examples:
  tacit keys authority --out authority --name plant-7 --days 365
  tacit keys authority --out authority --renew
"""


@command.command(epilog=AUTHORITY_EPILOG)
@click.option("--out", type=DIRECTORY, default="authority", show_default=True, help="Directory to make.")
@click.option("--name", default="authority", show_default=True, help="The authority's name in certificates.")
@click.option("--days", type=options.NUMBER, default=365.0, show_default=True, help="Days until it expires.")
@click.option("--renew", is_flag=True, help="Extend the authority in this directory; its key stays.")
@options.force_option
@options.json_option
def authority(*, out: Path, name: str, days: float, renew: bool, force: bool, as_json: bool) -> None:
    """Make an authority, which decides who may connect.

    Agents see its fingerprint when they install a certificate: compare the two over another channel. With
    --renew, certificates that it signed stay valid, and agents get its new one with their next.
    """
    from tacit.live.identity.identity import new_authority, renew_authority
    from tacit.live.identity.key_report import KeyReport

    if renew:
        if more := options.given("name", "force"):
            raise click.UsageError(f"--renew keeps name and key: leave out {', '.join(more)}.")
        output.print_result(KeyReport.of_authority(out, renew_authority(out, days=days)), as_json)
        return
    made = new_authority(name, out, days=days, force=force)
    note = f"Keep {out} where only you can read it."
    output.print_result(KeyReport.of_authority(out, made, note), as_json)


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
    from tacit.live.identity.certificates import LOOPBACK
    from tacit.live.identity.identity import new_agent
    from tacit.live.identity.key_report import KeyReport

    folder = Path(name) if out is None else out
    if not hosts and name == "coordinator":
        hosts = LOOPBACK
    request = new_agent(name, folder, hosts=hosts, force=force)
    note = f"Send {request} to the authority: it is public. Nothing else in {folder} may leave this machine."
    output.print_result(KeyReport.of_request(folder, request, note), as_json)


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
    help="File for the certificate, or directory for many.  [default: NAME.crt, or DIRECTORY]",
)
@click.option("--days", type=options.NUMBER, default=90.0, show_default=True, help="Days until it expires.")
@click.option("--listen", is_flag=True, help="Allow the agent to listen at the hosts in its request.")
@click.option(
    "--key", help="The agent's public key, from another channel; a request for another key is refused."
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
    """Sign an agent's request, or all requests in a directory.

    The certificate is for the agent to install. First make sure, over another channel, that the name and
    the key belong together. To renew a certificate, sign the same request again. A name has one signing key:
    a request for another key is refused until the old one is revoked. In a directory, all requests are signed
    or none.
    """
    from tacit.base.errors import InputError
    from tacit.base.files import PUBLIC, read_public, write_whole
    from tacit.live.identity.certificates import Request
    from tacit.live.identity.identity import bundle, load_authority
    from tacit.live.identity.key_report import KeyReport
    from tacit.live.identity.register import opened

    if request.is_dir():
        if key is not None:
            raise click.UsageError("--key is for one request, and this is a directory of requests.")
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
        made = register.sign(asked, days, listen=listen)
        # Before the certificate is written: after a crash, the name must still be bound to this key.
        register.save()
        write_whole(path, bundle(made, signer), mode=PUBLIC, force=force)
    note = f"Give {path} to {made.name}: it is public. Collect these files for the session's roster."
    output.print_result(KeyReport.of_certificate(path, made, note), as_json)


def _sign_all(
    folder: Path, home: Path, out: Path, *, days: float, listen: bool, force: bool, as_json: bool
) -> None:
    """Sign all requests in a directory, or none, and write NAME.crt for each."""
    from tacit.base.errors import FileError
    from tacit.base.files import PUBLIC, read_public, write_whole
    from tacit.live.identity.certificates import Request
    from tacit.live.identity.identity import bundle, load_authority
    from tacit.live.identity.key_report import SignedRequests
    from tacit.live.identity.register import opened

    files = [file for file in sorted(folder.glob("*.pem")) if file.is_file()]
    if not files:
        raise FileError(f"{folder} must contain requests (*.pem), and holds none.")
    asked = [Request.parse(read_public(file), str(file)) for file in files]
    if out.is_dir():
        for one in asked:
            output.require_writable(out / f"{one.subject.name}.crt", force)
    else:
        output.require_writable(out, force=False)
    signer = load_authority(home)
    with opened(home, signer) as register:
        made = [register.sign(one, days, listen=listen) for one in asked]
        out.mkdir(exist_ok=True)
        register.save()  # before any certificate leaves
        for signed in made:
            write_whole(out / f"{signed.name}.crt", bundle(signed, signer), mode=PUBLIC, force=force)
    note = f"Give each agent its file in {out}: they are public."
    output.print_result(SignedRequests(out, made, (note,)), as_json)


@command.command(epilog="\b\nExample:\n  tacit keys install alice.crt --keys alice\n")
@click.argument("certificate", type=FILE)
@click.option("--keys", "home", type=DIRECTORY, required=True, help="The agent's directory.")
@click.option("--new-authority", is_flag=True, help="Trust this authority instead of the previous one.")
@options.json_option
def install(*, certificate: Path, home: Path, new_authority: bool, as_json: bool) -> None:
    """Install a certificate, or a list of revoked ones, from the authority.

    The first authority is trusted from then on: compare its fingerprint over another channel. A list
    (revoked.crl) must be newer than the installed one; a running process applies it within seconds.
    """
    from tacit.base.files import read_public
    from tacit.live.identity.identity import install as put
    from tacit.live.identity.key_report import KeyReport
    from tacit.live.identity.revocation import MARK

    data = read_public(certificate)
    if MARK in data:
        _install_list(data, home, as_json)
        return
    made = put(data, home, new_authority=new_authority)
    output.print_result(KeyReport.of_identity(made, f"{made.name} is ready to join."), as_json)


def _install_list(data: bytes, home: Path, as_json: bool) -> None:
    from tacit.live.identity.identity import install_revocations
    from tacit.live.identity.key_report import KeyReport

    identity, found = install_revocations(data, home)
    out = identity.revoked(identity.certificate)
    notes = [f"{identity.name} itself is revoked: it cannot join."] if out else []
    output.print_result(KeyReport.of_list(home, found, *notes), as_json)


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
    """Revoke an agent's signing key and all its certificates.

    It writes a list of all revoked certificates. Give it to everyone, for `tacit keys install`. `tacit
    session new` uses a list that is in the directory of the roster. Earlier signatures stay valid.
    """
    from tacit.base.errors import FileError
    from tacit.base.files import PUBLIC, read_public, write_whole
    from tacit.live.identity.certificates import read_certificates
    from tacit.live.identity.identity import load_authority
    from tacit.live.identity.key_report import KeyReport
    from tacit.live.identity.register import opened
    from tacit.live.identity.revocation import MARK

    # Before anything is revoked: the list must not replace a file that is something else.
    output.require_writable(out, force=True)
    if out.exists() and MARK not in read_public(out):
        raise FileError(f"{out} exists already and is not a list of revoked ones: choose another --out.")
    with opened(home, load_authority(home)) as register:
        if Path(agent).is_file():
            register.revoke_certificate(read_certificates(read_public(Path(agent)), agent)[0])
        else:
            register.revoke(agent)
        register.save()
        found = register.revoked
    assert found is not None
    write_whole(out, found.pem(), mode=PUBLIC, force=True)
    note = f"Give {out} to everyone: it is public."
    output.print_result(KeyReport.of_list(out, found, note), as_json)


@command.command(epilog="\b\nExample:\n  tacit keys show alice --json\n")
@click.argument("path", type=click.Path(path_type=Path))
@options.json_option
def show(*, path: Path, as_json: bool) -> None:
    """Show the public facts of keys, a certificate or a request."""
    from tacit.live.identity.key_report import KeyReport

    output.print_result(KeyReport.read(path), as_json)
