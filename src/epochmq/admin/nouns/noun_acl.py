"""`epochmq acl`: what users may do."""

from typing import TYPE_CHECKING

import click

from epochmq.admin.nouns.noun_base import NounGroup, Row, cluster_option, masters_of, shows

if TYPE_CHECKING:
    from epochmq.client.aio import Admin


@click.group(cls=NounGroup, short_help="Permissions of users: allow, deny, list, delete.")
def command() -> None:
    """Permissions of users, on brokers with authorizationEnabled=true.

    A RESOURCE is Topic:NAME, Group:NAME or Cluster:NAME, with a star at the end for all names that
    begin so, or * for everything. ACTIONS are Pub, Sub, Create, Update, Delete, Get, List or All,
    joined by commas.
    """


_from_option = click.option(
    "--from", "sources", metavar="IP[,...]", help="Only from these addresses or ranges."
)
_default_option = click.option(
    "--default", "is_default", is_flag=True, help="Count only if no other rule matches."
)


async def _put(
    admin: "Admin",
    name: str,
    resource: str,
    actions: str,
    decision: str,
    sources: str | None,
    is_default: bool,
    cluster: str | None,
) -> list[Row]:
    from epochmq.client.aio.admin_auth import policy_of
    from epochmq.wire.bodies.auth_bodies import SUBJECT

    acl = policy_of(
        SUBJECT + name,
        [resource],
        actions.split(","),
        decision,
        [each for each in (sources or "").split(",") if each],
        policy_type="Default" if is_default else "Custom",
    )
    masters = await masters_of(admin, cluster)
    for address in masters.values():
        await admin.put_acl(address, acl)
    return [
        {"user": name, "resource": resource, "actions": actions, "decision": decision, "broker": at}
        for at in masters
    ]


@command.command("allow")
@click.argument("name")
@click.argument("resource")
@click.argument("actions")
@_from_option
@_default_option
@cluster_option
@shows("user", "resource", "actions", "decision", "broker")
async def allow(
    admin: "Admin",
    name: str,
    resource: str,
    actions: str,
    sources: str | None,
    is_default: bool,
    cluster: str | None,
) -> list[Row]:
    """Allow user NAME these ACTIONS on RESOURCE; replaces the rule of that resource."""
    return await _put(admin, name, resource, actions, "Allow", sources, is_default, cluster)


@command.command("deny")
@click.argument("name")
@click.argument("resource")
@click.argument("actions")
@_from_option
@_default_option
@cluster_option
@shows("user", "resource", "actions", "decision", "broker")
async def deny(
    admin: "Admin",
    name: str,
    resource: str,
    actions: str,
    sources: str | None,
    is_default: bool,
    cluster: str | None,
) -> list[Row]:
    """Deny user NAME these ACTIONS on RESOURCE; replaces the rule of that resource."""
    return await _put(admin, name, resource, actions, "Deny", sources, is_default, cluster)


@command.command("delete")
@click.argument("name")
@click.argument("resource", required=False)
@_default_option
@cluster_option
@shows("user", "broker")
async def delete(
    admin: "Admin", name: str, resource: str | None, is_default: bool, cluster: str | None
) -> list[Row]:
    """Delete the rule of RESOURCE of user NAME; without RESOURCE, all rules of the user."""
    from epochmq.wire.bodies.auth_bodies import SUBJECT

    masters = await masters_of(admin, cluster)
    kind = "Default" if is_default else "Custom"
    for address in masters.values():
        await admin.delete_acl(address, SUBJECT + name, resource, policy_type=kind)
    return [{"user": name, "broker": broker} for broker in masters]


@command.command("list")
@click.argument("name", required=False)
@cluster_option
@shows("user", "type", "resource", "actions", "from", "decision", "broker")
async def list_(admin: "Admin", name: str | None, cluster: str | None) -> list[Row]:
    """List the rules of all users, or of user NAME."""
    from epochmq.wire.bodies.auth_bodies import SUBJECT

    return [
        {
            "user": str(acl.subject).removeprefix(SUBJECT),
            "type": policy.policy_type,
            "resource": entry.resource,
            "actions": ",".join(entry.actions or ()),
            "from": ",".join(entry.source_ips or ()),
            "decision": entry.decision,
            "broker": broker,
        }
        for broker, address in (await masters_of(admin, cluster)).items()
        for acl in await admin.acls(address)
        if name is None or acl.subject == SUBJECT + name
        for policy in acl.policies or ()
        for entry in policy.entries or ()
    ]
