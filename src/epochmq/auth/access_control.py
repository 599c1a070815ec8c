"""Access control: decides whether a request may be handled, by its signature and by policies.

Authentication: the request must be signed by an enabled user. Authorisation: the policies of that
user must allow everything that the request needs. Super users need no policies. Request codes in a
white list are not checked; each of both checks has its own.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from epochmq.auth.accounts import Account, AccountTable, WrongKey
from epochmq.auth.connection_signature import has_connection_signature, signature_problem
from epochmq.auth.credentials import Credentials
from epochmq.auth.failed_logins import FailedLogins
from epochmq.auth.policies import Need, decide
from epochmq.auth.signature import ACCESS_KEY, is_signed_by
from epochmq.auth.users import UserStatus, UserType
from epochmq.base.errors import Refused
from epochmq.model.data_version import DataVersion
from epochmq.model.host import host_of, is_loopback
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command
from epochmq.wire.session import Session

DECISIONS_MAX = 10_000
NOBODY = "-"
"""The user of a request without a signature, in logs."""
_NO_SECRET = "no user has this password \0"
"""Unknown users are compared with it, so that an answer takes as long as for a known user."""

NeedsOf = Callable[[Command], Iterable[Need]]
"""Returns what a request needs; raises `HeaderError` for a request that cannot be read."""


class AccessRefused(Refused):
    """A request that access control refuses: NO_PERMISSION (16). `reason` is for the log only."""

    def __init__(self, remark: str, user: str, reason: str) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, remark)
        self.user = user
        self.reason = reason


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessRules:
    """What is checked."""

    authenticates: bool
    authorizes: bool
    unauthenticated_codes: frozenset[int] = frozenset()
    unauthorized_codes: frozenset[int] = frozenset()
    allows_plain: bool = False
    """Whether signed requests are accepted off loopback without TLS."""
    connection_signatures_only: bool = False
    """Whether RocketMQ's signatures are refused."""
    supers: tuple[Credentials, ...] = ()
    """Super users that the options name: the servers of the cluster, above all."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who sent a request."""

    name: str
    is_super: bool
    account: Account | None = None


ANYONE = Principal(NOBODY, True)
"""The sender of a request to a server that checks nothing."""
STRANGER = Principal(NOBODY, False)
"""The sender of a request that needs no signature: no permissions, whatever name is given."""


class AccessControl:
    """Checks the requests of one server."""

    def __init__(self, rules: AccessRules, accounts: AccountTable) -> None:
        self.rules = rules
        self._accounts = accounts
        self._failures = FailedLogins()
        self.failed_logins: int = 0
        """Number of failed logins."""
        self._decisions: dict[tuple[str, Need, str], bool] = {}
        self._decided_for: DataVersion | None = None

    def check(self, command: Command, needs_of: NeedsOf, session: Session, now: int) -> Principal:
        """Return who sent the request, if it may be handled; `now` is monotonic ms.

        Raises:
            AccessRefused: the request may not be handled.
            HeaderError: what the request needs cannot be read.
        """
        rules = self.rules
        if not rules.authenticates:
            return ANYONE
        principal = STRANGER
        if command.code == RequestCode.AUTH_CHALLENGE:
            return principal
        if command.code not in rules.unauthenticated_codes:
            principal = self._authenticate(command, session, now)
        if rules.authorizes and command.code not in rules.unauthorized_codes:
            self._authorize(principal, needs_of(command), session)
        return principal

    def principal_of(self, command: Command) -> Principal:
        """Return who sent a request that `check` let pass."""
        if not self.rules.authenticates:
            return ANYONE
        if command.code in self.rules.unauthenticated_codes:
            return STRANGER
        return self._find((command.ext or {}).get(ACCESS_KEY, ""))[0]

    def secret_of_sender(self, command: Command) -> str | None:
        """Return the password that signed a request that `check` let pass; None if its code needs
        no signature.
        """
        rules = self.rules
        if not rules.authenticates or command.code in rules.unauthenticated_codes:
            return None
        return self._find((command.ext or {}).get(ACCESS_KEY, ""))[1]

    # Authentication --------------------------------------------------------------------------

    def _authenticate(self, command: Command, session: Session, now: int) -> Principal:
        name = (command.ext or {}).get(ACCESS_KEY, "")
        address = host_of(session.peer)
        if not self.rules.allows_plain and not session.encrypted:
            if not is_loopback(address):
                raise AccessRefused(
                    "this connection is not encrypted, and signatures could be overheard: use TLS,"
                    " or set allowPlainAuthentication=true on the servers of a private network",
                    name or NOBODY,
                    "not encrypted",
                )
        if not name:
            raise AccessRefused(
                "the request is not signed: set an access key and a secret key in the client",
                NOBODY,
                "not signed",
            )
        if self._failures.is_blocked(name, address, now):
            raise _login_failed(name, "too many failures")
        principal, secret, reason = self._find(name)
        problem = self._signature_problem(command, session, secret, now)
        if reason := reason or problem:
            self.failed_logins += 1
            self._failures.failed(name, address, now)
            raise _login_failed(name, reason)
        self._failures.succeeded(name, address)
        return principal

    def _signature_problem(self, command: Command, session: Session, secret: str, now: int) -> str:
        """Return why the signature is refused; empty if it is accepted."""
        if has_connection_signature(command.ext):
            return signature_problem(command, session, secret, now)
        if self.rules.connection_signatures_only:
            raise AccessRefused(
                "this server accepts signatures of EpochMQ's clients only, because RocketMQ's can"
                " be repeated (option connectionSignaturesOnly)",
                (command.ext or {}).get(ACCESS_KEY, NOBODY),
                "a signature that can be repeated",
            )
        return "" if is_signed_by(command, secret) else "wrong signature"

    def _find(self, name: str) -> tuple[Principal, str, str]:
        """Return the user, the password to compare with, and why the user is refused if it is."""
        for known in self.rules.supers:
            if name == known.access_key:
                return Principal(name, True), known.secret_key, ""
        account = self._accounts.get(name)
        if account is None:
            return Principal(name, False), _NO_SECRET, "unknown user"
        principal = Principal(name, account.type is UserType.SUPER, account)
        try:
            secret = self._accounts.password(account)
        except WrongKey as error:
            return principal, _NO_SECRET, str(error)
        if account.status is not UserStatus.ENABLE:
            return principal, secret, "disabled user"
        return principal, secret, ""

    # Authorisation ---------------------------------------------------------------------------

    def _authorize(self, principal: Principal, needs: Iterable[Need], session: Session) -> None:
        if principal.is_super:
            return
        address = host_of(session.peer)
        for need in needs:
            if not self._is_allowed(principal, need, address):
                raise AccessRefused(
                    f"user {principal.name} has no permission for {need}", principal.name, str(need)
                )

    def _is_allowed(self, principal: Principal, need: Need, address: str) -> bool:
        if principal.account is None:
            return False
        if self._accounts.version is not self._decided_for:
            self._decided_for = self._accounts.version
            self._decisions.clear()
        key = principal.name, need, address
        known = self._decisions.get(key)
        if known is None:
            if len(self._decisions) >= DECISIONS_MAX:
                self._decisions.clear()
            known = self._decisions[key] = decide(principal.account.policies, need, address)
        return known


def _login_failed(name: str, reason: str) -> AccessRefused:
    """The answer does not say whether the user or the signature was wrong; the log does."""
    return AccessRefused("the user or the signature is wrong", name, reason)
