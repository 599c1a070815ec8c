"""Request handlers of name servers, controllers and containers, for Super users only."""

from collections.abc import Collection, Mapping

from epochmq.auth.access_control import AccessControl, AccessRefused
from epochmq.auth.accounts import AccountTable
from epochmq.auth.audit_log import AuditLog
from epochmq.auth.policies import Need, ResourceType
from epochmq.auth.server_keys import ServerAuthKeys, server_rules
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, Held, Reply
from epochmq.wire.dispatcher import Handler
from epochmq.wire.session import Session

_SUPER = (Need(ResourceType.CLUSTER, "*", frozenset()),)


def protected(
    table: Mapping[int, Handler], keys: ServerAuthKeys, free: Collection[int]
) -> dict[int, Handler]:
    """Return the handlers behind a check of signatures, if the options ask for it.

    Args:
        table: handlers by request code.
        keys: the options of the server.
        free: request codes that everyone may send.
    """
    rules = server_rules(keys)
    if rules is None:
        return dict(table)
    access, audit = AccessControl(rules, AccountTable()), AuditLog()
    return {
        code: handler if code in free else _checked(handler, RequestCode(code), access, audit)
        for code, handler in table.items()
    }


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
