"""`brokerStatus`, `getBrokerConfig`, `updateBrokerConfig`, `deleteExpiredCommitLog`."""

from typing import TYPE_CHECKING

from epochmq.admin.mqadmin.running import Out, mq_command, one_of, opt
from epochmq.admin.shared.output import note
from epochmq.base.errors import EpochError

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

_WHERE = "-b BROKERADDR, -c CLUSTERNAME"


@mq_command(
    "brokerStatus",
    opt("b", "brokerAddr", "One broker, HOST:PORT."),
    opt("c", "clusterName", "All brokers of a cluster."),
)
async def broker_status(
    admin: "Admin", out: Out, broker_addr: str | None, cluster_name: str | None
) -> None:
    """Print all figures of a broker by name."""
    one_of(broker_addr, cluster_name, _WHERE)
    for address in await _addresses(admin, broker_addr, cluster_name):
        figures = await admin.runtime_info(address)
        prefix = "" if broker_addr else f"{address:<24} "
        for key in sorted(figures):
            out.line(f"{prefix}{key:<32}: {figures[key]}")
        out.row({"broker": address, **figures})


async def _addresses(admin: "Admin", address: str | None, cluster: str | None) -> list[str]:
    """The one address, or those of all brokers of the cluster, slaves as well."""
    if address is not None:
        return [address]
    groups = await admin.broker_groups(cluster)
    return [a for data in groups.values() for _, a in sorted(data.broker_addrs.items())]


@mq_command(
    "getBrokerConfig",
    opt("b", "brokerAddr", "One broker, HOST:PORT."),
    opt("c", "clusterName", "All brokers of a cluster."),
)
async def get_broker_config(
    admin: "Admin", out: Out, broker_addr: str | None, cluster_name: str | None
) -> None:
    """Print the options that brokers run with."""
    one_of(broker_addr, cluster_name, _WHERE)
    if broker_addr is not None:
        await _print_config(admin, out, broker_addr, f"============{broker_addr}============")
        return
    for data in (await admin.broker_groups(cluster_name)).values():
        slaves = dict(sorted(data.broker_addrs.items()))
        master = slaves.pop(0, "NO_MASTER")
        title = f"============Master: {master}============"
        if master == "NO_MASTER":
            out.line(title)
        else:
            await _print_config(admin, out, master, title)
        for slave in slaves.values():
            title = f"============My Master: {master}=====Slave: {slave}============"
            await _print_config(admin, out, slave, title)


async def _print_config(admin: "Admin", out: Out, address: str, title: str) -> None:
    config = await admin.broker_config(address)
    out.line(title, {"broker": address, **config})
    for key, value in config.items():
        out.line(f"{key:<50}=  {value}")
    out.line()


@mq_command(
    "updateBrokerConfig",
    opt("b", "brokerAddr", "One broker, HOST:PORT."),
    opt("c", "clusterName", "All masters of a cluster."),
    opt("a", "updateAllBroker", "With -c: slaves as well.", bool),
    opt("k", "key", "Name of the option.", required=True),
    opt("v", "value", "Its new value.", required=True),
)
async def update_broker_config(
    admin: "Admin",
    out: Out,
    broker_addr: str | None,
    cluster_name: str | None,
    update_all_broker: bool | None,
    key: str,
    value: str,
) -> None:
    """Change an option of running brokers; not every option may change."""
    one_of(broker_addr, cluster_name, _WHERE)
    if cluster_name is not None and not update_all_broker:
        addresses = list((await admin.masters(cluster_name)).values())
    else:
        addresses = await _addresses(admin, broker_addr, cluster_name)
    problem: EpochError | None = None
    for address in addresses:
        try:
            await admin.update_broker_config(address, {key: value})
        except EpochError as error:
            if len(addresses) > 1:
                note(f"{address}: {error}")
            problem = problem or error
        else:
            row = {"broker": address, "key": key, "value": value}
            out.line(f"update broker config success, {address}", row)
    if problem is not None:
        raise problem


@mq_command(
    "deleteExpiredCommitLog",
    opt("b", "brokerAddr", "One broker, HOST:PORT."),
    opt("c", "cluster", "All brokers of a cluster; without -b and -c all brokers."),
)
async def delete_expired_commit_log(
    admin: "Admin", out: Out, broker_addr: str | None, cluster: str | None
) -> None:
    """Delete the log files that are older than fileReservedTime now, not at deleteWhen."""
    for address in await _addresses(admin, broker_addr, cluster):
        await admin.delete_expired_log(address)
        out.row({"broker": address, "result": "success"})
    out.line("success")


COMMANDS = {
    "deleteExpiredCommitLog": delete_expired_commit_log,
    "brokerStatus": broker_status,
    "getBrokerConfig": get_broker_config,
    "updateBrokerConfig": update_broker_config,
}
