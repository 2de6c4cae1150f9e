"""Enrolment: how an agent gets a certificate for an invitation.

The agent makes its keys itself. It fetches the authority's certificate from the hub without trusting it, and
continues only if the authority's key has the fingerprint in the invitation. From then on it accepts only TLS
certificates of this authority, with the hub's host name. Only over such a connection does it send the secret.
"""

from __future__ import annotations

import hmac
import http.client
import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from tacit.base.arguments import plain
from tacit.base.errors import FileError, InputError
from tacit.base.files import read_public
from tacit.base.report import Row, Shown, Summary
from tacit.live.fleet.invitation import Invitation, require_invited, secret_digest
from tacit.live.fleet.messages import (
    AUTHORITY_PATH,
    ENROL_PATH,
    STANDS_BY,
    EnrolmentAnswer,
    EnrolmentRequest,
    decode_control,
    encode_control,
)
from tacit.live.identity.certificates import SKEW, Certificate, Request, read_certificates
from tacit.live.identity.identity import (
    NEXT,
    REQUEST,
    TLS,
    Identity,
    bundle,
    install,
    is_authority,
    load_authority,
    new_agent,
)
from tacit.live.identity.register import opened
from tacit.live.transport.connection_diagnosis import require_endpoint, why_not_reached

if TYPE_CHECKING:
    from tacit.live.fleet.store import HubStore
    from tacit.live.identity.certificates import Authority

_SECONDS = 15.0
_MOST_ANSWER, _MOST_SENTENCE = 1 << 16, 200


@final
@dataclass(frozen=True)
class Enrolment:
    """The hub's side: judges invitations and signs with the hub's authority."""

    authority: Path
    store: HubStore

    def grant(self, asked: EnrolmentRequest, now: float) -> tuple[Certificate, bytes]:
        """Return the certificate that an invitation is for, or refuse.

        When this returns, it is on the disk that the invitation is used. An agent that lost the answer may
        ask again with the same keys; other keys are refused.
        """
        # One error for an unknown number and a wrong secret, compared in constant time: a stranger must not
        # learn which numbers exist, or how much of a secret was right.
        known = self.store.invitation(asked.number)
        if known is None or not hmac.compare_digest(known["digest"], secret_digest(asked.secret)):
            raise InputError("this hub does not know the invitation: ask for another one.")
        request = Request.parse(asked.request, "the request")
        name, key = request.subject.name, request.subject.key
        if known["used"] is not None and (known["name"], known["key"]) != (name, key):
            when = datetime.fromtimestamp(known["used"], UTC)
            raise InputError(f"the invitation was used on {when:%Y-%m-%d %H:%M} UTC: ask for another one.")
        if now >= known["expires"]:
            raise InputError("the invitation has expired: ask for another one.")
        require_invited(name, known["pattern"])
        signer = self._signer()
        # Both are on the disk before the certificate leaves. Otherwise a crash could leave an invitation that
        # works a second time, or a certificate in use that the register lacks and cannot revoke. If the
        # answer is lost, the agent asks again with the same keys.
        with opened(self.authority, signer) as register:
            if known["used"] is not None:
                register.require_seldom(name, timedelta(days=known["days"]))
            made = register.sign(request, known["days"])
            if known["used"] is None and not self.store.use_invitation(asked.number, name, key, now):
                raise InputError("the invitation was used a moment ago: ask for another one.")
            register.save()  # before the certificate leaves
            self.store.keep_register(self.authority)
        return made, bundle(made, signer)

    def _signer(self) -> Authority:
        if not is_authority(self.authority):
            raise InputError(
                "the host that leads this hub signs no certificates: try again when another leads."
            )
        return load_authority(self.authority)

    def renew(self, certificate: Certificate, request: bytes) -> bytes:
        """Sign the next certificate of a member, only for its own name.

        Only when it is due, and seldom even then: each one is written into the register.
        """
        if not certificate.renewal_due():
            raise InputError(
                f"the certificate of {certificate.name} is valid until {certificate.expires:%Y-%m-%d %H:%M} "
                "UTC: it is renewed when a third of its life is left."
            )
        asked = Request.parse(request, "the request")
        if asked.subject.name != certificate.name:
            raise InputError(f"{certificate.name} may not ask for a certificate of {asked.subject.name}.")
        signer = self._signer()
        with opened(self.authority, signer) as register:
            life = certificate.expires - certificate.begins - SKEW
            register.require_seldom(asked.subject.name, life)
            made = register.sign(asked, life.total_seconds() / 86_400)
            register.save()
            self.store.keep_register(self.authority)
        return bundle(made, signer)


# ---- the agent's side ------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Enrolled(Shown):
    """A member with its certificate, and where its keys and policy are."""

    identity: Identity
    invitation: Invitation
    keys: Path
    policy: Path
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return {
            "name": self.identity.name,
            "hub": self.invitation.address,
            "authority": self.invitation.fingerprint,
            "key": self.identity.key,
            "expires": self.identity.expires.isoformat(),
            "keys": self.keys,
            "policy": self.policy,
        }

    def summary(self) -> Summary:
        """Return what to compare with the hub's operator, and the next command."""
        authority = "SHA-256 of its key; compare it with what `tacit hub show` prints there"
        key = "your public signing key; compare it with what the hub's operator sees"
        expires = f"{self.identity.expires:%Y-%m-%d %H:%M} UTC"
        rows = [
            Row("hub", ", ".join(self.invitation.addresses)),
            Row("authority", self.invitation.fingerprint, authority),
            Row("key", self.identity.key, key),
            Row("expires", expires, "renewed automatically while the agent runs"),
            Row("policy", str(self.policy), f"what you allow; then: tacit agent {self.policy}"),
        ]
        return Summary(f"{self.identity.name} is enrolled", {"": rows}, self.notes)


def enroll(invitation: Invitation, directory: Path, name: str | None = None) -> Identity:
    """Make keys, send the invitation, and install the certificate.

    If it was interrupted, call it again: it continues with the keys that it made.
    """
    chosen = _chosen(invitation, name)
    if time.time() >= invitation.expires:
        raise InputError(f"the invitation expired on {invitation.expiry}: ask for another one.")
    if (directory / TLS).exists():
        raise FileError(f"{directory} has a certificate already: choose another directory (--out).")
    address, authority = _reached(invitation)
    if not (directory / NEXT).exists():
        new_agent(chosen, directory)
    request = read_public(directory / REQUEST)
    if (found := Request.parse(request, str(directory / REQUEST)).subject.name) != chosen:
        raise FileError(
            f"{directory} holds keys of {found}, not of {chosen}: choose another directory (--out)."
        )
    answer = _asked(invitation, address, authority, request)
    if not answer.bundle:
        raise InputError(f"the hub refuses: {answer.why}")
    if not read_certificates(answer.bundle, "the hub's answer")[-1].same_key(authority):
        raise InputError(
            "the hub's answer is from another authority than the invitation says: tell its operator."
        )
    return install(answer.bundle, directory)


def _chosen(invitation: Invitation, name: str | None) -> str:
    if name is None and "*" in invitation.pattern:
        raise InputError(f"the invitation is for any name like {invitation.pattern}: choose one (--name).")
    chosen = invitation.pattern if name is None else name
    require_invited(chosen, invitation.pattern)
    return chosen


def _reached(invitation: Invitation) -> tuple[str, Certificate]:
    """Return the first address that takes members, and the authority."""
    first: _NotHere | None = None
    for address in invitation.addresses:
        try:
            return address, fetch_authority(address, invitation.authority)
        except _NotHere as error:
            first = first or error
    assert first is not None
    raise first


class _NotHere(InputError):
    """No hub that enrols answers at an address: another one of it may."""


def fetch_authority(address: str, fingerprint: bytes) -> Certificate:
    """Return the hub's authority, checked only by its fingerprint.

    TLS checks nothing here, because the authority is not known yet. So nothing secret is sent: the
    certificate is public, and the fingerprint came with the invitation.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, port = require_endpoint(address)
    connection = http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=context)
    try:
        connection.request("GET", AUTHORITY_PATH)
        answer = connection.getresponse()
        data = answer.read(_MOST_ANSWER)
    except (OSError, http.client.HTTPException) as error:
        raise _NotHere(why_not_reached(address, error)) from None
    finally:
        connection.close()
    if answer.status == STANDS_BY:
        raise _NotHere(f"{address} refuses: {plain(data[:_MOST_SENTENCE].decode(errors='replace'))}")
    if answer.status != http.client.OK:
        raise InputError(f"{address} answers, and is not a hub of tacit.")
    found = read_certificates(data, "the authority's certificate")[0]
    if found.subject is not None or bytes.fromhex(found.key_fingerprint) != fingerprint:
        raise InputError(
            f"{address} has an authority with the key fingerprint {found.key_fingerprint}, and the "
            f"invitation says {fingerprint.hex()}: this is another hub, or someone is in "
            "between. Nothing was sent."
        )
    return found


def _asked(invitation: Invitation, address: str, authority: Certificate, request: bytes) -> EnrolmentAnswer:
    """Send the invitation over TLS, trusting only this authority."""
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import connect

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=authority.pem().decode("ascii"))
    ask = EnrolmentRequest(invitation.number, invitation.secret, request)
    try:
        with connect(
            address + ENROL_PATH, ssl=context, compression=None, proxy=None, open_timeout=_SECONDS
        ) as link:
            link.send(encode_control(ask))
            said = link.recv(timeout=_SECONDS)
    except OSError as error:
        raise InputError(why_not_reached(address, error)) from None
    except WebSocketException as error:
        raise InputError(f"{address} ended the connection ({type(error).__name__}): try again.") from None
    message = decode_control(said if isinstance(said, bytes) else b"")
    if not isinstance(message, EnrolmentAnswer):
        raise InputError(f"{address} answers something else: it is not a hub of this version.")
    return message
