"""`epochmq user`: the users of a cluster."""

import os
from typing import TYPE_CHECKING

import click

from epochmq.admin.nouns.noun_base import NounGroup, Row, cluster_option, masters_of, shows
from epochmq.admin.shared.output import note
from epochmq.admin.shared.passwords import new_password
from epochmq.base.errors import NotFound, UsageError

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.wire.bodies.auth_bodies import UserInfo

_TYPE = click.Choice(["Super", "Normal"], case_sensitive=False)


@click.group(cls=NounGroup, short_help="Users: create, list, change, delete.")
def command() -> None:
    """Users, on brokers with authenticationEnabled=true; `epochmq acl` says what they may do.

    Passwords are asked for at the terminal, or read from standard input.
    """


def _info(name: str, **given: str | None) -> "UserInfo":
    from epochmq.wire.bodies.auth_bodies import UserInfo

    return UserInfo(username=name, **{key: text for key, text in given.items() if text is not None})


@command.command("create")
@click.argument("name")
@click.option("--type", "type_", type=_TYPE, default="Normal", show_default=True)
@cluster_option
@shows("user", "type", "broker")
async def create(admin: "Admin", name: str, type_: str, cluster: str | None) -> list[Row]:
    """Create a user on all masters of a cluster, or of all clusters."""
    masters = await masters_of(admin, cluster)
    user = _info(name, password=new_password(name), user_type=type_)
    for address in masters.values():
        await admin.create_user(address, user)
    return [{"user": name, "type": type_, "broker": broker} for broker in masters]


@command.command("update")
@click.argument("name")
@click.option("--password", is_flag=True, help="Set a new password.")
@click.option("--type", "type_", type=_TYPE, help="A new type.")
@click.option("--enable/--disable", default=None, help="Accept or refuse the user's requests.")
@cluster_option
@shows("user", "broker")
async def update(
    admin: "Admin",
    name: str,
    password: bool,
    type_: str | None,
    enable: bool | None,
    cluster: str | None,
) -> list[Row]:
    """Change the password, the type or the status of a user."""
    if not password and type_ is None and enable is None:
        raise click.UsageError("nothing is changed; give --password, --type, --enable or --disable")
    masters = await masters_of(admin, cluster)
    user = _info(
        name,
        password=new_password(name) if password else None,
        user_type=type_,
        user_status=None if enable is None else "enable" if enable else "disable",
    )
    for address in masters.values():
        await admin.update_user(address, user)
    return [{"user": name, "broker": broker} for broker in masters]


@command.command("delete")
@click.argument("name")
@cluster_option
@shows("user", "broker")
async def delete(admin: "Admin", name: str, cluster: str | None) -> list[Row]:
    """Delete a user and its permissions."""
    masters = await masters_of(admin, cluster)
    for broker, address in masters.items():
        if await admin.user(address, name) is None:
            raise NotFound(f"there is no user {name} on broker {broker}")
    for address in masters.values():
        await admin.delete_user(address, name)
    return [{"user": name, "broker": broker} for broker in masters]


@command.command("new-key")
@click.argument("file", type=click.Path(dir_okay=False))
def make_key(file: str) -> None:
    """Make a key FILE for authKeyFile, which only its owner can read.

    All brokers of a group need the same file. It encrypts the passwords on disk.
    """
    from epochmq.auth.password_cipher import new_key
    from epochmq.runtime.private_files import create_private

    if os.path.exists(file):
        raise UsageError(f"{file} is there already; passwords may be encrypted with it")
    create_private(file, new_key(), "the key file")
    note(f"{file} is made; copy it to all brokers of the group, and keep a copy elsewhere")


@command.command("list")
@cluster_option
@shows("user", "type", "status", "broker")
async def list_(admin: "Admin", cluster: str | None) -> list[Row]:
    """List all users."""
    return [
        {
            "user": user.username,
            "type": user.user_type,
            "status": user.user_status,
            "broker": broker,
        }
        for broker, address in (await masters_of(admin, cluster)).items()
        for user in await admin.users(address)
    ]
