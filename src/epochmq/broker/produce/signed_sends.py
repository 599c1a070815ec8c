"""Signed sends that the native code may accept: those of users that were checked before.

`admit` is called for each send that passed the check in Python. From then on the native code
accepts sends of that user to that topic from that address, if they are signed. A change of users or
policies and a failed login end all of that, so that the native code never accepts what Python would
refuse: after a failed login Python counts the next ones.
"""

from epochmq.auth.access_control import AccessControl
from epochmq.auth.accounts import AccountTable
from epochmq.auth.native_signatures import NativeSignatures, make_native_signatures, place_of
from epochmq.auth.signature import ACCESS_KEY
from epochmq.base.ports import Clock
from epochmq.model.host import host_of
from epochmq.native.library import Library
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command
from epochmq.wire.session import Session


class SignedSends:
    """Passes the decisions of access control to the native code."""

    def __init__(
        self,
        access: AccessControl,
        accounts: AccountTable,
        clock: Clock,
        signatures: NativeSignatures,
    ) -> None:
        self._access = access
        self._accounts = accounts
        self._clock = clock
        self._signatures = signatures
        self._decided_for = accounts.version, access.failed_logins
        self._last_place: tuple[Session | None, bytes] = (None, b"")
        """The session of the last read, and its place."""

    def admit(self, command: Command, session: Session, topic: str) -> None:
        """Let the native code accept such sends, after one that was checked in Python."""
        if command.code != RequestCode.SEND_MESSAGE_V2 or command.binary:
            return
        secret = self._access.secret_of_sender(command)
        if secret is None:
            return
        self._forget_old_decisions()
        user = (command.ext or {})[ACCESS_KEY]
        self._signatures.grant(user, secret, topic, self._place(session))

    def checks_for(self, session: Session) -> int | None:
        """Return the address of the checks for the next bytes of `session`; None without grants."""
        self._forget_old_decisions()
        signatures = self._signatures
        if not signatures.has_grants:
            return None
        signatures.look_at(self._place(session), session.challenge, self._clock.now_ms())
        return signatures.address

    def accepted(self, session: Session) -> None:
        """Note that the native code accepted sends of `session`."""
        if session.challenge is not None:
            self._signatures.note(session.challenge)

    def _forget_old_decisions(self) -> None:
        decided_for = self._accounts.version, self._access.failed_logins
        if decided_for[0] is not self._decided_for[0] or decided_for[1] != self._decided_for[1]:
            self._decided_for = decided_for
            self._signatures.clear()

    def _place(self, session: Session) -> bytes:
        if self._last_place[0] is not session:
            place = place_of(host_of(session.peer), encrypted=session.encrypted)
            self._last_place = session, place
        return self._last_place[1]


def make_signed_sends(
    access: AccessControl | None, accounts: AccountTable, clock: Clock, library: Library | None
) -> SignedSends | None:
    """Return what passes decisions on; None if nothing is checked, or Python checks everything."""
    if access is None:
        return None
    only = access.rules.connection_signatures_only
    signatures = make_native_signatures(library, connection_signatures_only=only)
    return None if signatures is None else SignedSends(access, accounts, clock, signatures)
