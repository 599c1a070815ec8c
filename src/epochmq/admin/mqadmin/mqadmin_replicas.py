"""Commands that show a broker's replication: epochs, links, and its return to the group."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from epochmq.admin.mqadmin.running import Out, interval, mq_command, opt, repeat
from epochmq.admin.shared.java_text import moment

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.wire.bodies.controller_bodies import EpochEntryCache, HARuntimeInfo


@mq_command(
    "getBrokerEpoch",
    opt("b", "brokerName", "One broker group."),
    opt("c", "clusterName", "All broker groups of a cluster."),
    interval(),
)
async def get_broker_epoch(
    admin: "Admin",
    out: Out,
    broker_name: str | None,
    cluster_name: str | None,
    interval: int | None,
) -> None:
    """Print the epochs of each broker's log."""

    async def once() -> None:
        for address in await _addresses(admin, broker_name, cluster_name):
            _print_epochs(out, address, await admin.broker_epochs(address))

    await repeat(once, interval)


async def _addresses(admin: "Admin", name: str | None, cluster: str | None) -> list[str]:
    """Return the addresses of the group's replicas, or of the cluster's, masters first."""
    if name is None and cluster is None:
        raise click.UsageError("give one of -b BROKERNAME, -c CLUSTERNAME")
    groups = await admin.broker_groups(cluster)
    if name is not None:
        await admin.check_broker_name(name)
        groups = {name: groups[name]}
    return [a for data in groups.values() for _, a in sorted(data.broker_addrs.items())]


def _print_epochs(out: Out, address: str, found: "EpochEntryCache") -> None:
    entries = [(e.epoch, e.start_offset, e.end_offset) for e in found.epoch_list]
    if entries:
        epoch, start, _ = entries[-1]
        entries[-1] = (epoch, start, found.max_offset)
    out.line(
        f"\n#clusterName\t{found.cluster_name}"
        f"\n#brokerName\t{found.broker_name}"
        f"\n#brokerAddr\t{address}"
        f"\n#brokerId\t{found.broker_id}",
        {
            "cluster": found.cluster_name,
            "broker_name": found.broker_name,
            "broker_address": address,
            "broker_id": found.broker_id,
            "epochs": [
                {"epoch": epoch, "start_offset": start, "end_offset": end}
                for epoch, start, end in entries
            ],
        },
    )
    for epoch, start, end in entries:
        out.line(f"#Epoch: EpochEntry{{epoch={epoch}, startOffset={start}, endOffset={end}}}")


_COLUMNS = (
    f"{'#SlaveAddr':<32}  {'#SlaveAckOffset':<16} {'#Diff':>16} {'#TransferSpeed(KB/s)':>16}"
    f" {'#Status':>16} {'#TransferFromWhere':>16}"
)


async def _show_ha_status(
    admin: "Admin",
    out: Out,
    broker_addr: str | None,
    cluster_name: str | None,
    interval: int | None,
) -> None:
    """Print who copies a master's log, or what a slave copies; and how far a return has come."""
    if broker_addr is None and cluster_name is None:
        raise click.UsageError("give one of -b BROKERADDR, -c CLUSTERNAME")

    async def once() -> None:
        addresses = [broker_addr] if broker_addr else []
        if not broker_addr:
            groups = await admin.broker_groups(cluster_name)
            addresses = [d.broker_addrs[0] for d in groups.values() if 0 in d.broker_addrs]
        for address in addresses:
            found = await admin.ha_status(address)
            _print_status(out, address, found, await admin.runtime_info(address))

    await repeat(once, interval)


def _ha_command(name: str) -> click.Command:
    return mq_command(
        name,
        opt("b", "brokerAddr", "One broker, 'host:port'."),
        opt("c", "clusterName", "The masters of a cluster."),
        interval(),
    )(_show_ha_status)


def _print_status(
    out: Out, address: str, found: "HARuntimeInfo", figures: Mapping[str, str]
) -> None:
    way_back, trouble = figures.get("epochmqPreOnline", ""), figures.get("epochmqLogTrouble", "")
    told = {"broker_address": address, "pre_online": way_back, "log_trouble": trouble}
    if found.master:
        _print_links(out, address, found, told)
    else:
        _print_client(out, found, told)
    if way_back and way_back != "ONLINE":
        out.line(f"#PreOnline\t{way_back}")
    if trouble:
        out.line(f"#LogTrouble\t{trouble}")


def _print_links(out: Out, address: str, found: "HARuntimeInfo", told: dict[str, str]) -> None:
    links = found.ha_connection_info
    out.line(
        f"\n#MasterAddr\t{address}"
        f"\n#MasterCommitLogMaxOffset\t{found.master_commit_log_max_offset}"
        f"\n#SlaveNum\t{len(links)}"
        f"\n#InSyncSlaveNum\t{found.in_sync_slave_nums}",
        {
            **told,
            "master": True,
            "commit_log_max_offset": found.master_commit_log_max_offset,
            "in_sync_slaves": found.in_sync_slave_nums,
            "slaves": [
                {
                    "address": link.addr,
                    "ack_offset": link.slave_ack_offset,
                    "diff": link.diff,
                    "in_sync": link.in_sync,
                    "transfer_from": link.transfer_from_where,
                }
                for link in links
            ],
        },
    )
    out.line(_COLUMNS)
    for link in links:
        speed = link.transferred_byte_in_second / 1024
        status = "OK" if link.in_sync else "Fall Behind"
        out.line(
            f"{link.addr:<32}  {link.slave_ack_offset:<16} {link.diff:>16} {speed:>16.2f}"
            f" {status:>16} {link.transfer_from_where:>16}"
        )


def _print_client(out: Out, found: "HARuntimeInfo", told: dict[str, str]) -> None:
    link = found.ha_client_runtime_info
    master = link.master_addr if isinstance(link.master_addr, str) else "null"
    out.line(
        f"\n#MasterAddr\t{master}"
        f"\n#CommitLogMaxOffset\t{link.max_offset}"
        f"\n#TransferSpeed(KB/s)\t{link.transferred_byte_in_second / 1024:.2f}"
        f"\n#LastReadTime\t{moment(link.last_read_timestamp)}"
        f"\n#LastWriteTime\t{moment(link.last_write_timestamp)}"
        f"\n#MasterFlushOffset\t{link.master_flush_offset}",
        {
            **told,
            "master": False,
            "master_address": master,
            "commit_log_max_offset": link.max_offset,
            "master_flush_offset": link.master_flush_offset,
        },
    )


@mq_command(
    "resetMasterFlushOffset",
    opt("b", "brokerAddr", "The slave, 'host:port'.", required=True),
    opt("o", "offset", "Where its master's log ended.", required=True, kind=int),
)
async def reset_master_flush_offset(
    admin: "Admin", out: Out, broker_addr: str, offset: int
) -> None:
    """Set what a slave shows as its master's flush offset."""
    await admin.reset_master_flush_offset(broker_addr, offset)
    out.line(
        f"reset master flush offset to {offset} success",
        {"broker_address": broker_addr, "master_flush_offset": offset},
    )


COMMANDS = {
    "getBrokerEpoch": get_broker_epoch,
    "haStatus": _ha_command("haStatus"),
    "getBrokerHAStatus": _ha_command("getBrokerHAStatus"),
    "resetMasterFlushOffset": reset_master_flush_offset,
}
