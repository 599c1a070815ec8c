"""Request handlers of name servers, controllers and containers, for Super users only.

Changes by administrators are written to the audit log, whether signatures are checked or not.
"""

from collections.abc import Callable, Collection, Mapping

from epochmq.auth.access_control import NOBODY, AccessControl, AccessRefused
from epochmq.auth.accounts import AccountTable
from epochmq.auth.audit_log import AuditLog
from epochmq.auth.connection_signature import challenge_handler
from epochmq.auth.policies import Need, ResourceType
from epochmq.auth.server_keys import ServerAuthKeys, server_rules
from epochmq.auth.signature import ACCESS_KEY
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, Held, Reply
from epochmq.wire.dispatcher import Handler
from epochmq.wire.session import Session

_NAMES = ("namespace", "key", "topic", "clusterName", "brokerName", "brokerAddress", "brokerId")
"""Header fields that say what is changed; the audit log has their values."""
_SUPER = (Need(ResourceType.CLUSTER, "*", frozenset()),)


def protected(
    table: Mapping[int, Handler],
    keys: ServerAuthKeys,
    free: Collection[int],
    changes: Collection[int],
    new_nonce: Callable[[], bytes],
) -> dict[int, Handler]:
    """Return the handlers behind the audit log, and behind a check if the options ask for it.

    Args:
        table: handlers by request code.
        keys: the options of the server.
        free: request codes that everyone may send.
        changes: request codes of administrators' changes.
        new_nonce: returns 32 bytes that nobody can predict.
    """
    rules, audit = server_rules(keys), AuditLog()
    found = {**table, int(RequestCode.AUTH_CHALLENGE): challenge_handler(new_nonce)}
    for code in changes:
        found[code] = _audited(found[code], RequestCode(code), audit, signed=rules is not None)
    if rules is None:
        return found
    access = AccessControl(rules, AccountTable())
    return {
        code: handler if code in free else _checked(handler, RequestCode(code), access, audit)
        for code, handler in found.items()
    }


def _audited(handler: Handler, code: RequestCode, audit: AuditLog, *, signed: bool) -> Handler:
    def handle(command: Command, session: Session, now: int) -> Reply | Held:
        ext = command.ext or {}
        user = ext.get(ACCESS_KEY, NOBODY) if signed else NOBODY
        return audit.run(
            code.name,
            session.peer,
            user,
            lambda: [f"{name}={ext[name]}" for name in _NAMES if name in ext],
            lambda: handler(command, session, now),
        )

    return handle


def _checked(
    handler: Handler, code: RequestCode, access: AccessControl, audit: AuditLog
) -> Handler:
    def handle(command: Command, session: Session, now: int) -> Reply | Held:
        try:
            access.check(command, lambda _: _SUPER, session, now)
        except AccessRefused as error:
            audit.refused(code.name, session.peer, error, now)
            raise
        return handler(command, session, now)

    return handle
