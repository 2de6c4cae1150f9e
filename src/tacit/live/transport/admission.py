"""Who may connect: members with the same session file.

TLS has already checked that our authority signed the certificate and that its owner has the key. Refusals are
sentences for the other side, so they contain only public information.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, final

from tacit.base.errors import TacitError
from tacit.core.protocol.roster import COORDINATOR
from tacit.live.transport.link import ConnectionRefused

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session
    from tacit.live.identity.certificates import Certificate

MALFORMED, FORBIDDEN, OTHER_SESSION, OTHER_CONTENTS, CONNECTED, UNABLE = 400, 403, 404, 409, 423, 503
"""The HTTP statuses of refusals."""
_PATH = re.compile(r"/tacit/1/([A-Za-z0-9._-]{1,64})/([0-9a-f]{64})/([A-Za-z0-9._-]{1,64})")


@final
class Admission:
    """Decides who may connect to one member of a session.

    Parameters
    ----------
    session : Session
    who : int
        The number of this member, or `COORDINATOR`. Only its neighbours may connect.
    revoked : callable
        Returns whether a certificate was revoked.
    """

    def __init__(self, session: Session, who: int, revoked: Callable[[Certificate], bool]) -> None:
        self._session, self._who, self.revoked = session, who, revoked
        self._keys = {session.key(j): j for j in session.neighbours(who)}

    def path(self, name: str) -> str:
        """Return the HTTP path that a member requests when it connects."""
        return f"/tacit/1/{self._session.name}/{self._session.id.hex()}/{name}"

    def member(self, certificate: Certificate, path: str | None) -> int:
        """Return the member of a certificate, or raise `ConnectionRefused`.

        `path` is what the other side requested; None if we connected to it.
        """
        if path is not None:
            self._require_session(certificate, path)
        who = self._listed(certificate)
        # If the list cannot be read, nobody is let in: the certificate may be one that was stolen. The status
        # says that the fault is here, so the other side tries again later.
        try:
            revoked = self.revoked(certificate)
        except TacitError:
            me = self._session.member_name(self._who)
            raise ConnectionRefused(UNABLE, f"{me} cannot read its list of revoked certificates.") from None
        if revoked:
            raise ConnectionRefused(FORBIDDEN, f"the certificate of {certificate.name} is revoked.")
        return who

    def _require_session(self, certificate: Certificate, path: str) -> None:
        # The path is the other side's text. The pattern allows only plain characters and short names, so that
        # what is repeated in a refusal or a log cannot control a terminal.
        found, ours, me = _PATH.fullmatch(path), self._session, self._session.member_name(self._who)
        if found is None:
            raise ConnectionRefused(
                MALFORMED, "this is a member of a tacit session: request /tacit/1/SESSION/ID/MEMBER."
            )
        name, identity, member = found.groups()
        if name != ours.name:
            raise ConnectionRefused(
                OTHER_SESSION,
                f"{me} takes part in {self._which} here, and {certificate.name} asks for session {name} "
                f"({short(identity)}).",
            )
        # The id is a hash of the whole session. Members that differ in one parameter would compute with
        # different noise or ranges, so they are told apart here, before the first frame.
        if identity != ours.id.hex():
            raise ConnectionRefused(
                OTHER_CONTENTS,
                f"session {name} is {short(ours.id.hex())} for {me} and {short(identity)} for "
                f"{certificate.name}: their session files differ. All must use the same file.",
            )
        if member != certificate.name:
            raise ConnectionRefused(
                FORBIDDEN, f"the certificate is for {certificate.name}, not for {member}."
            )

    def _listed(self, certificate: Certificate) -> int:
        """Return the member; name and signing key must both be as in the roster.

        The authority alone does not decide: it may sign certificates for others, or a second one with another
        key for a member's name. The roster's key is the one that signs frames.
        """
        session, name, subject = self._session, certificate.name, certificate.subject
        key = b"" if subject is None else subject.public_key
        who = self._keys.get(key)
        if who == COORDINATOR or (who is not None and session.member_name(who) == name):
            return who
        if self._keys.keys() == {session.coordinator}:
            raise ConnectionRefused(
                FORBIDDEN, f"{name} answers, and is not the coordinator of {self._which}."
            )
        keys = {member.name: member.key for member in session.roster}
        if name not in keys:
            raise ConnectionRefused(FORBIDDEN, f"{name} is not on the roster of {self._which}.")
        if keys[name] != key:
            raise ConnectionRefused(
                FORBIDDEN, f"the roster of {self._which} has another key for {name} than its certificate."
            )
        raise ConnectionRefused(FORBIDDEN, f"{name} is not a neighbour of {session.member_name(self._who)}.")

    @property
    def _which(self) -> str:
        return f"session {self._session.name} ({short(self._session.id.hex())})"


def short(identity: str) -> str:
    """Return the short form of a session's id, for people to compare."""
    return identity[:16]
