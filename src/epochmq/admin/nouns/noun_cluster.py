"""`epochmq cluster`: brokers and name servers, how they are, what they run with."""

import time
from typing import TYPE_CHECKING

import click

from epochmq.admin.asking import ask
from epochmq.admin.exits import Unhealthy
from epochmq.admin.nouns import cluster_config
from epochmq.admin.nouns.noun_base import NounGroup, cluster_option
from epochmq.admin.output import note, output_option, show
from epochmq.admin.where import namesrv_option
from epochmq.base.errors import EpochError

if TYPE_CHECKING:
    from epochmq.admin.broker_figures import BrokerFigures
    from epochmq.client.aio import Admin

Row = dict[str, object]


@click.group(cls=NounGroup, short_help="Brokers and name servers: list, health, config.")
def command() -> None:
    """Brokers and name servers: list, health, config."""


command.add_command(cluster_config.config)


@command.command("show")
@cluster_option
@namesrv_option
@output_option
def show_cluster(cluster: str | None, namesrv: str, output: str) -> None:
    """Show every name server and broker and whether it is well; exit code 4 if one is not."""

    async def work(admin: "Admin") -> list[Row]:
        from epochmq.admin.broker_figures import brokers

        rows = [await _name_server_row(admin, address) for address in admin.name_servers]
        found = await brokers(admin, cluster)
        rows += [_broker_row(broker) for broker in found]
        masters = {broker.name for broker in found if broker.broker_id == 0}
        rows += [
            _row("broker", name, None, "it has no master")
            for name in sorted({broker.name for broker in found} - masters)
        ]
        return rows if found else [*rows, _row("broker", "any", None, "none is registered")]

    rows = ask(namesrv, work)
    show(output, ("kind", "name", "address", "well", "problem"), rows)
    sick = [row for row in rows if not row["well"]]
    if sick:
        raise Unhealthy(f"{len(sick)} of {len(rows)} not well: " + "; ".join(map(_say, sick)))


def _row(kind: str, name: str, address: str | None, problem: str | None) -> Row:
    return {
        "kind": kind,
        "name": name,
        "address": address,
        "well": problem is None,
        "problem": problem,
    }


async def _name_server_row(admin: "Admin", address: str) -> Row:
    try:
        await admin.cluster_info(address)
    except EpochError as error:
        return _row("name server", address, address, str(error))
    return _row("name server", address, address, None)


def _broker_row(broker: "BrokerFigures") -> Row:
    name = f"{broker.name}:{broker.broker_id}"
    return _row("broker", name, broker.address, broker.trouble)


def _say(row: Row) -> str:
    return f"{row['kind']} {row['name']}: {row['problem']}"


@command.command("brokers")
@cluster_option
@namesrv_option
@output_option
def list_brokers(cluster: str | None, namesrv: str, output: str) -> None:
    """List brokers with their rates, totals and disks."""

    async def work(admin: "Admin") -> list[Row]:
        from epochmq.admin.broker_figures import brokers

        now = int(time.time() * 1000)
        found = await brokers(admin, cluster)
        for broker in found:
            if broker.trouble:
                note(f"{broker.address}: {broker.trouble}")
        return [broker.row(now) for broker in found]

    columns = ("cluster", "broker", "id", "address", "version", "in_tps", "out_tps", "in_today")
    show(output, (*columns, "out_today", "disk_used"), ask(namesrv, work))
