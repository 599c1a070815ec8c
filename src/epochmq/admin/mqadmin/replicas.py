"""`getBrokerEpoch`: what brokers themselves say of their replication."""

from typing import TYPE_CHECKING

import click

from epochmq.admin.mqadmin.repeating import interval, repeat
from epochmq.admin.mqadmin.running import Out, mq_command, opt

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.wire.bodies.controller import EpochEntryCache


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
    """All replicas of the group, or of the cluster's groups, masters first."""
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


COMMANDS = {"getBrokerEpoch": get_broker_epoch}
