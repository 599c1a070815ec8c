"""The commands of users and policies (ACL 2.0): `createUser` to `copyAcl`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import click

from epochmq.admin.mqadmin.running import Out, mq_command, one_of, opt
from epochmq.admin.shared.passwords import line_of_input
from epochmq.base.errors import NotFound, UsageError

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.wire.bodies.auth_bodies import AclInfo, UserInfo

_WHERE = "-b BROKERADDR, -c CLUSTERNAME"
_USER = "{:<16}  {:<22}  {:<22}  {:<22}"
_USER_HEAD = _USER.format("#UserName", "#Password", "#UserType", "#UserStatus")
_ACL = "{:<16}  {:<10}  {:<22}  {:<20}  {:<24}  {:<10}"
_ACL_HEAD = _ACL.format(
    "#Subject", "#PolicyType", "#Resource", "#Actions", "#SourceIp", "#Decision"
)
_BROKER = opt("b", "brokerAddr", "On one broker, HOST:PORT.")
_ALL_BROKERS = opt("c", "clusterName", "On all brokers of a cluster.")
_MASTERS = opt("c", "clusterName", "Of all masters of a cluster.")
_NAME = opt("u", "username", "The user.", required=True)
_SUBJECT = opt("s", "subject", "The user, as User:NAME.", required=True)
_FROM = opt("f", "fromBroker", "Copy from this broker.", required=True)
_TO = opt("t", "toBroker", "Copy to this broker.", required=True)


async def _change(
    admin: "Admin",
    out: Out,
    where: tuple[str | None, str | None],
    call: Callable[[str], Awaitable[None]],
    done: str,
) -> None:
    """Make a change on one broker, or on masters and slaves of a cluster."""
    broker, cluster = where
    one_of(broker, cluster, _WHERE)
    addresses = [broker] if broker else []
    if cluster is not None:
        groups = await admin.broker_groups(cluster)
        addresses = [a for each in groups.values() for _, a in sorted(each.broker_addrs.items())]
    for address in addresses:
        await call(address)
        out.line(f"{done} to {address} success.", {"broker": address, "done": done})


async def _asked(admin: "Admin", broker: str | None, cluster: str | None) -> list[str]:
    one_of(broker, cluster, _WHERE)
    return [broker] if broker else list((await admin.masters(cluster)).values())


# Users ---------------------------------------------------------------------------------------


@mq_command(
    "createUser",
    _BROKER,
    _ALL_BROKERS,
    _NAME,
    opt("p", "password", "The password; - reads it from standard input.", required=True),
    opt("t", "userType", "Super or Normal."),
)
async def create_user(
    admin: "Admin",
    out: Out,
    broker_addr: str | None,
    cluster_name: str | None,
    username: str,
    password: str,
    user_type: str | None,
) -> None:
    """Create a user."""
    user = _user_info(username, _password(password), user_type)

    async def call(address: str) -> None:
        await admin.create_user(address, user)

    await _change(admin, out, (broker_addr, cluster_name), call, "create user")


@mq_command(
    "updateUser",
    _BROKER,
    _ALL_BROKERS,
    _NAME,
    opt("p", "password", "A new password; - reads it from standard input."),
    opt("t", "userType", "A new type, Super or Normal."),
    opt("s", "userStatus", "A new status, enable or disable."),
)
async def update_user(
    admin: "Admin",
    out: Out,
    broker_addr: str | None,
    cluster_name: str | None,
    username: str,
    password: str | None,
    user_type: str | None,
    user_status: str | None,
) -> None:
    """Change the password, the type or the status of a user."""
    if sum(each is not None for each in (password, user_type, user_status)) != 1:
        raise click.UsageError("give one of -p PASSWORD, -t TYPE, -s STATUS, and only one")
    secret = None if password is None else _password(password)
    user = _user_info(username, secret, user_type, user_status)

    async def call(address: str) -> None:
        await admin.update_user(address, user)

    await _change(admin, out, (broker_addr, cluster_name), call, "update user")


def _password(text: str) -> str:
    """Return the password of an option; `-` reads the first line of standard input."""
    return line_of_input() if text == "-" else text


def _user_info(
    name: str, password: str | None, type_: str | None = None, status: str | None = None
) -> "UserInfo":
    from msgspec import UNSET

    from epochmq.wire.bodies.auth_bodies import UserInfo

    return UserInfo(
        username=name,
        password=password if password is not None else UNSET,
        user_type=type_ if type_ is not None else UNSET,
        user_status=status if status is not None else UNSET,
    )


@mq_command("deleteUser", _BROKER, _ALL_BROKERS, _NAME)
async def delete_user(
    admin: "Admin", out: Out, broker_addr: str | None, cluster_name: str | None, username: str
) -> None:
    """Delete a user and its policies."""

    async def call(address: str) -> None:
        await admin.delete_user(address, username)

    await _change(admin, out, (broker_addr, cluster_name), call, "delete user")


@mq_command("getUser", _BROKER, _MASTERS, _NAME)
async def get_user(
    admin: "Admin", out: Out, broker_addr: str | None, cluster_name: str | None, username: str
) -> None:
    """Print one user."""
    addresses = await _asked(admin, broker_addr, cluster_name)
    found = [await admin.user(address, username) for address in addresses]
    if not any(found):
        raise NotFound(f"there is no user {username}")
    _print_users(out, [user for user in found if user is not None])


@mq_command("listUser", _BROKER, _MASTERS, opt("f", "filter", "A part of the name."))
async def list_user(
    admin: "Admin",
    out: Out,
    broker_addr: str | None,
    cluster_name: str | None,
    filter: str | None,
) -> None:
    """Print all users."""
    for address in await _asked(admin, broker_addr, cluster_name):
        users = await admin.users(address, filter)
        _print_users(out, users)
        if users and cluster_name:
            out.line(f"get user from {address} success.")


def _print_users(out: Out, users: Sequence["UserInfo"]) -> None:
    if users:
        out.line(_USER_HEAD)
    for user in users:
        values = (user.username, user.password, user.user_type, user.user_status)
        shown = [str(value or "") for value in values]
        names = ("username", "password", "userType", "userStatus")
        out.line(_USER.format(*shown), dict(zip(names, shown, strict=True)))


# Policies ------------------------------------------------------------------------------------

_RULE = (
    opt("r", "resources", "Resources, joined by commas: Topic:t, Group:g*, *.", required=True),
    opt("a", "actions", "Actions, joined by commas: Pub, Sub, All.", required=True),
    opt("d", "decision", "Allow or Deny.", required=True),
    opt("i", "sourceIp", "Addresses and ranges, joined by commas."),
)


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


async def _put_acl(
    admin: "Admin",
    out: Out,
    where: tuple[str | None, str | None],
    acl: "AclInfo",
    *,
    update: bool,
) -> None:
    async def call(address: str) -> None:
        await admin.put_acl(address, acl, update=update)

    await _change(admin, out, where, call, "update acl" if update else "create acl")


def _acl_of(subject: str, resources: str, actions: str, decision: str, ip: str | None) -> "AclInfo":
    from epochmq.client.aio.admin_auth import policy_of

    return policy_of(subject, _parts(resources), _parts(actions), decision, _parts(ip))


@mq_command("createAcl", _BROKER, _ALL_BROKERS, _SUBJECT, *_RULE)
async def create_acl(
    admin: "Admin",
    out: Out,
    broker_addr: str | None,
    cluster_name: str | None,
    subject: str,
    resources: str,
    actions: str,
    decision: str,
    source_ip: str | None,
) -> None:
    """Add entries to the policy of a user; an entry replaces the one of its resource."""
    acl = _acl_of(subject, resources, actions, decision, source_ip)
    await _put_acl(admin, out, (broker_addr, cluster_name), acl, update=False)


@mq_command("updateAcl", _BROKER, _ALL_BROKERS, _SUBJECT, *_RULE)
async def update_acl(
    admin: "Admin",
    out: Out,
    broker_addr: str | None,
    cluster_name: str | None,
    subject: str,
    resources: str,
    actions: str,
    decision: str,
    source_ip: str | None,
) -> None:
    """Change entries of the policy of a user, or add them."""
    acl = _acl_of(subject, resources, actions, decision, source_ip)
    await _put_acl(admin, out, (broker_addr, cluster_name), acl, update=True)


@mq_command(
    "deleteAcl",
    _BROKER,
    _ALL_BROKERS,
    _SUBJECT,
    opt("r", "resource", "The entry of this resource only; without it, all policies."),
)
async def delete_acl(
    admin: "Admin",
    out: Out,
    broker_addr: str | None,
    cluster_name: str | None,
    subject: str,
    resource: str | None,
) -> None:
    """Delete an entry of the policy of a user, or all its policies."""

    async def call(address: str) -> None:
        await admin.delete_acl(address, subject, resource)

    await _change(admin, out, (broker_addr, cluster_name), call, "delete acl")


@mq_command("getAcl", _BROKER, _MASTERS, _SUBJECT)
async def get_acl(
    admin: "Admin", out: Out, broker_addr: str | None, cluster_name: str | None, subject: str
) -> None:
    """Print the policies of one user."""
    addresses = await _asked(admin, broker_addr, cluster_name)
    found = [await admin.acl(address, subject) for address in addresses]
    if not any(found):
        raise NotFound(f"there are no policies of {subject}")
    _print_acls(out, [acl for acl in found if acl is not None])


@mq_command(
    "listAcl",
    _BROKER,
    _MASTERS,
    opt("s", "subject", "A part of the subject."),
    opt("r", "resource", "A part of the resource."),
)
async def list_acl(
    admin: "Admin",
    out: Out,
    broker_addr: str | None,
    cluster_name: str | None,
    subject: str | None,
    resource: str | None,
) -> None:
    """Print the policies of all users."""
    for address in await _asked(admin, broker_addr, cluster_name):
        _print_acls(out, await admin.acls(address, subject, resource))


def _print_acls(out: Out, acls: Sequence["AclInfo"]) -> None:
    if acls:
        out.line(_ACL_HEAD)
    for acl in acls:
        for policy in acl.policies or ():
            for entry in policy.entries or ():
                row: dict[str, object] = {
                    "subject": acl.subject,
                    "policyType": policy.policy_type,
                    "resource": entry.resource,
                    "actions": entry.actions or [],
                    "sourceIps": entry.source_ips or [],
                    "decision": entry.decision,
                }
                out.line(_ACL.format(*map(_as_java, row.values())), row)


def _as_java(value: object) -> str:
    """Write a list as Java does, and no list as null."""
    if not isinstance(value, list):
        return str(value)
    return f"[{', '.join(value)}]" if value else "null"


# Copies --------------------------------------------------------------------------------------


@mq_command("copyUser", _FROM, _TO, opt("u", "usernames", "Only these, joined by commas."))
async def copy_user(
    admin: "Admin", out: Out, from_broker: str, to_broker: str, usernames: str | None
) -> None:
    """Copy users to another broker; the source must answer passwords, as RocketMQ's brokers do."""
    from epochmq.wire.bodies.auth_bodies import MASKED

    names = _parts(usernames)
    users = await admin.users(from_broker)
    for user in [each for each in users if not names or each.username in names]:
        name = str(user.username)
        if user.password == MASKED:
            raise UsageError(
                f"{from_broker} does not answer passwords; create user {name} at {to_broker} with"
                " createUser"
            )
        known = await admin.user(to_broker, name)
        await (admin.create_user if known is None else admin.update_user)(to_broker, user)
        text = f"copy user of {name} from {from_broker} to {to_broker} success."
        out.line(text, {"user": name, "from": from_broker, "to": to_broker})


@mq_command("copyAcl", _FROM, _TO, opt("s", "subjects", "Only these, joined by commas."))
async def copy_acl(
    admin: "Admin", out: Out, from_broker: str, to_broker: str, subjects: str | None
) -> None:
    """Copy policies to another broker, which must have the users."""
    wanted = _parts(subjects)
    acls = await admin.acls(from_broker)
    for acl in [each for each in acls if not wanted or each.subject in wanted]:
        await admin.put_acl(to_broker, acl)
        text = f"copy acl of {acl.subject} from {from_broker} to {to_broker} success."
        out.line(text, {"subject": acl.subject, "from": from_broker, "to": to_broker})


COMMANDS = {
    each.name: each
    for each in (
        create_user,
        update_user,
        delete_user,
        get_user,
        list_user,
        create_acl,
        update_acl,
        delete_acl,
        get_acl,
        list_acl,
        copy_user,
        copy_acl,
    )
}
