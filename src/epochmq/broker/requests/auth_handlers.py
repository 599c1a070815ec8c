"""Requests about users and policies (ACL 2.0): 3001 to 3010, 34012, and 34009 for replicas.

Users and policies belong to the cluster: the master of each group stores them, and its replicas
copy them before a change is answered. RocketMQ stores them on each broker, and its tools send each
change to all brokers; a replica therefore answers a change as done.

Passwords are never answered. A Super user can be made, changed and deleted only by a Super user.
"""

from collections.abc import Callable
from functools import partial

from epochmq.auth.accounts import Account
from epochmq.auth.policies import (
    BadPolicy,
    Policies,
    PolicyEntry,
    parse_actions,
    parse_decision,
    parse_policy_type,
    parse_resource,
    parse_source_ips,
)
from epochmq.auth.users import (
    BadUser,
    UserStatus,
    UserType,
    parse_user_status,
    parse_user_type,
)
from epochmq.base.errors import Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.requests.common import NodeHandler, ok, version_stamp, watched
from epochmq.broker.state.stamps import stamped
from epochmq.wire.bodies.auth_bodies import (
    MASKED,
    SUBJECT,
    AclInfo,
    AuditEntries,
    AuditEntryInfo,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
)
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.auth_headers import (
    AclHeader,
    DeleteAclHeader,
    ListAclHeader,
    ListUserHeader,
    UserHeader,
)
from epochmq.wire.session import Session

Change = Callable[[BrokerContext, Command], None]


def changing(change: Change) -> NodeHandler:
    """Return a handler that makes a change, and answers it when the replicas have copied it."""

    def handle(node: BrokerContext, command: Command, session: Session, now: int) -> Reply | Held:
        if not node.serving.rights.changes:
            return Reply(remark="nothing is changed at a replica: it copies its master")
        if not node.accounts.is_unlocked:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                "this broker has no users: set innerClientAuthenticationCredentials, and then"
                " authenticationEnabled",
            )
        if node.options.acl_enable:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                "the users are the accounts of files (aclEnable): change the files of all brokers"
                " of the group",
            )
        before = node.accounts.version
        try:
            change(node, command)
        except (BadUser, BadPolicy) as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None
        if node.accounts.version is before:
            return Reply()
        copied = partial(session.answer, command, Reply())

        def saved() -> None:
            code = RequestCode.GET_ALL_ACCOUNTS
            node.watchers.when_taken(code, node.clock.now_ms(), copied)

        node.keeper.when_saved(saved)
        return HELD

    return handle


def _check_rights(node: BrokerContext, command: Command, *types: UserType | None) -> None:
    """Raise `Refused` if one of the users is a Super user and the caller is not."""
    access = node.access
    if UserType.SUPER in types and access is not None and not access.principal_of(command).is_super:
        raise Refused(ResponseCode.NO_PERMISSION, "only a Super user may change Super users")


def _user_name(command: Command) -> str:
    name = decode_header(UserHeader, command.ext).username or ""
    if not name.strip():
        raise Refused(ResponseCode.INVALID_PARAMETER, "the user name is missing")
    return name


def _user_info(command: Command) -> tuple[str | None, UserType | None, UserStatus | None]:
    """Return password, type and status of the body; None for what is not given."""
    info = decode_body(UserInfo, command.body)
    password = info.password or None
    return (
        None if password == MASKED else password,
        parse_user_type(info.user_type) if info.user_type else None,
        parse_user_status(info.user_status) if info.user_status else None,
    )


def create_user(node: BrokerContext, command: Command) -> None:
    """Create a user (AUTH_CREATE_USER 3001)."""
    name = _user_name(command)
    password, type_, status = _user_info(command)
    _check_rights(node, command, type_)
    if node.accounts.get(name) is not None:
        raise Refused(ResponseCode.INVALID_PARAMETER, f"the user {name} exists already")
    wall = node.clock.wall_ms()
    node.accounts.put_user(name, wall, password=password or "", type=type_, status=status)


def update_user(node: BrokerContext, command: Command) -> None:
    """Change what the request gives of a user (AUTH_UPDATE_USER 3002)."""
    account = _known(node, _user_name(command))
    password, type_, status = _user_info(command)
    _check_rights(node, command, account.type, type_)
    wall = node.clock.wall_ms()
    node.accounts.put_user(account.name, wall, password=password, type=type_, status=status)


def delete_user(node: BrokerContext, command: Command) -> None:
    """Delete a user and its policies (AUTH_DELETE_USER 3003); an unknown user is no error."""
    name = _user_name(command)
    account = node.accounts.get(name)
    if account is not None:
        _check_rights(node, command, account.type)
        node.accounts.delete_user(name, node.clock.wall_ms())


def handle_get_user(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer a user without the password (AUTH_GET_USER 3004); no body for an unknown user."""
    account = node.accounts.get(_user_name(command))
    return Reply() if account is None else ok(_shown(account))


def handle_list_users(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer the users whose name contains a text (AUTH_LIST_USER 3005); no body for none."""
    part = decode_header(ListUserHeader, command.ext).filter or ""
    found = [_shown(account) for account in node.accounts.all() if part in account.name]
    return ok(found) if found else Reply()


def _shown(account: Account) -> UserInfo:
    return UserInfo(
        username=account.name,
        password=MASKED,
        user_type=str(account.type),
        user_status=str(account.status),
    )


def _known(node: BrokerContext, name: str) -> Account:
    account = node.accounts.get(name)
    if account is None:
        raise Refused(ResponseCode.INVALID_PARAMETER, f"there is no user {name[:128]}")
    return account


# Policies ------------------------------------------------------------------------------------


def _subject(text: str | None) -> str:
    """Return the user name in `User:NAME`."""
    kind, colon, name = (text or "").partition(":")
    if not colon or kind.strip().lower() != "user" or not name.strip():
        raise Refused(ResponseCode.INVALID_PARAMETER, "the subject must be written as User:NAME")
    return name


def put_acl(node: BrokerContext, command: Command) -> None:
    """Add entries to the policies of a user (AUTH_CREATE_ACL 3006, AUTH_UPDATE_ACL 3007).

    An entry replaces the one of the same resource. If one entry is wrong, nothing is changed.
    """
    account = _known(node, _subject(decode_header(AclHeader, command.ext).subject))
    read = [
        (parse_policy_type(policy.policy_type or None), [_entry(e) for e in policy.entries or ()])
        for policy in decode_body(AclInfo, command.body).policies or ()
    ]
    if not any(entries for _, entries in read):
        raise Refused(ResponseCode.INVALID_PARAMETER, "the request has no policy entries")
    node.accounts.put_policies(account, read, node.clock.wall_ms())


def _entry(info: PolicyEntryInfo) -> PolicyEntry:
    return PolicyEntry(
        parse_resource(info.resource or ""),
        parse_actions(info.actions or ()),
        parse_source_ips(info.source_ips),
        parse_decision(info.decision or None),
    )


def delete_acl(node: BrokerContext, command: Command) -> None:
    """Delete one entry of a policy, or all policies of a user (AUTH_DELETE_ACL 3008)."""
    header = decode_header(DeleteAclHeader, command.ext)
    account = _known(node, _subject(header.subject))
    resource = parse_resource(header.resource) if header.resource else None
    kind = parse_policy_type(header.policyType)
    node.accounts.delete_policy(account, kind, resource, node.clock.wall_ms())


def handle_get_acl(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer the policies of a user (AUTH_GET_ACL 3009); no body if there are none."""
    account = node.accounts.get(_subject(decode_header(AclHeader, command.ext).subject))
    return Reply() if account is None or not account.policies else ok(_acl(account, ""))


def handle_list_acls(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer the policies of all users (AUTH_LIST_ACL 3010); no body if there are none.

    The filters are parts of the subject and of the resource.
    """
    header = decode_header(ListAclHeader, command.ext)
    part, resource = header.subjectFilter or "", header.resourceFilter or ""
    found = [
        _acl(account, resource)
        for account in node.accounts.all()
        if part in SUBJECT + account.name and _mentions(account.policies, resource)
    ]
    return ok(found) if found else Reply()


def _mentions(policies: Policies, part: str) -> bool:
    return any(part in str(entry.resource) for entries in policies.values() for entry in entries)


def _acl(account: Account, part: str) -> AclInfo:
    policies = [
        PolicyInfo(policy_type=str(kind), entries=[_entry_info(e) for e in entries])
        for kind, all_entries in account.policies.items()
        if (entries := [entry for entry in all_entries if part in str(entry.resource)])
    ]
    return AclInfo(subject=SUBJECT + account.name, policies=policies)


def _entry_info(entry: PolicyEntry) -> PolicyEntryInfo:
    return PolicyEntryInfo(
        resource=str(entry.resource),
        actions=sorted(entry.actions),
        source_ips=list(entry.source_ips) or None,
        decision=str(entry.decision),
    )


# Replicas ------------------------------------------------------------------------------------


def handle_get_all(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply | Held:
    """Answer all accounts, with encrypted passwords (GET_ALL_ACCOUNTS 34009); a replica may wait
    for changes.
    """

    accounts = node.accounts

    def stamp() -> str:
        return version_stamp(node, accounts.version)

    return watched(
        node,
        command,
        session,
        now,
        stamp,
        lambda: stamped(command, stamp(), accounts.encoded_content),
    )


def handle_read_audit_log(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply:
    """Answer the latest lines of the audit log of this broker (READ_AUDIT_LOG 34012)."""
    entries = [
        AuditEntryInfo(
            wall_ms=each.wall_ms,
            user=each.user,
            peer=each.peer,
            request=each.request,
            resources=each.resources,
            result=each.result,
        )
        for each in node.audit.entries
    ]
    return ok(AuditEntries(entries=entries))


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.AUTH_CREATE_USER: changing(create_user),
    RequestCode.AUTH_UPDATE_USER: changing(update_user),
    RequestCode.AUTH_DELETE_USER: changing(delete_user),
    RequestCode.AUTH_GET_USER: handle_get_user,
    RequestCode.AUTH_LIST_USER: handle_list_users,
    RequestCode.AUTH_CREATE_ACL: changing(put_acl),
    RequestCode.AUTH_UPDATE_ACL: changing(put_acl),
    RequestCode.AUTH_DELETE_ACL: changing(delete_acl),
    RequestCode.AUTH_GET_ACL: handle_get_acl,
    RequestCode.AUTH_LIST_ACL: handle_list_acls,
    RequestCode.GET_ALL_ACCOUNTS: handle_get_all,
    RequestCode.READ_AUDIT_LOG: handle_read_audit_log,
}
