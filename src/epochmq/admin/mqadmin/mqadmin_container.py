"""`addBroker` and `removeBroker`: the brokers of a container."""

from typing import TYPE_CHECKING

import click

from epochmq.admin.mqadmin.running import Out, mq_command, opt

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

Identity = tuple[str, str, int]


def _identity(ctx: click.Context, option: click.Parameter, text: str) -> Identity:
    """`cluster:brokerName:brokerId`."""
    parts = [part.strip() for part in text.split(":")]
    if len(parts) != 3 or not all(parts) or not (parts[2].isascii() and parts[2].isdecimal()):
        raise click.BadParameter("give clusterName:brokerName:brokerId", ctx, option)
    return parts[0], parts[1], int(parts[2])


def _container() -> click.Option:
    return opt("c", "brokerContainerAddr", "The container, HOST:PORT.", required=True)


@mq_command(
    "addBroker",
    _container(),
    opt("b", "brokerConfigPath", "The broker's file, as the container sees it.", required=True),
)
async def add_broker(
    admin: "Admin", out: Out, broker_container_addr: str, broker_config_path: str
) -> None:
    """Let a container start the broker of a file that lies below its brokerConfigDirs."""
    await admin.add_broker(broker_container_addr, broker_config_path)
    row = {"container": broker_container_addr, "path": broker_config_path}
    out.line(f"add broker to {broker_container_addr} success", row)


@mq_command(
    "removeBroker",
    _container(),
    opt(
        "b",
        "brokerIdentity",
        "clusterName:brokerName:brokerId.",
        required=True,
        convert=_identity,
    ),
)
async def remove_broker(
    admin: "Admin", out: Out, broker_container_addr: str, broker_identity: Identity
) -> None:
    """Let a container stop one of its brokers; its data stays."""
    await admin.remove_broker(broker_container_addr, *broker_identity)
    row = {"container": broker_container_addr, "broker": "_".join(map(str, broker_identity))}
    out.line(f"remove broker from {broker_container_addr} success", row)


COMMANDS = {"addBroker": add_broker, "removeBroker": remove_broker}
