"""`epochmq cluster`: brokers and name servers, how they are, what they run with."""

import time
from typing import TYPE_CHECKING

import click

from epochmq.admin.local.where import namesrv_option
from epochmq.admin.nouns.noun_base import NounGroup, Row, cluster_option, shows
from epochmq.admin.shared.asking import ask
from epochmq.admin.shared.exits import Unhealthy, nearest
from epochmq.admin.shared.output import JSON, note, output_option, show
from epochmq.base.errors import EpochError, NotFound, Refused, UsageError

if TYPE_CHECKING:
    from epochmq.admin.shared.broker_figures import BrokerFigures
    from epochmq.client.aio import Admin


# Cluster config ------------------------------------------------------------------------------
# `epochmq cluster config get` and `set`: options of running brokers.


_FIGURES = ("cluster", "broker", "id", "address", "version", "in_tps", "out_tps", "in_today")
_broker_option = click.option(
    "-b", "--broker", metavar="NAME|HOST:PORT", help="One broker.  [default: all masters]"
)


@click.group("config", cls=NounGroup)
def config() -> None:
    """Read and change the options of running brokers."""


@config.command("get")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@_broker_option
@cluster_option
@namesrv_option
@output_option
def get_config(
    keys: tuple[str, ...], broker: str | None, cluster: str | None, namesrv: str, output: str
) -> None:
    """Show options by RocketMQ's names, all or those given."""

    async def work(admin: "Admin") -> list[Row]:
        rows: list[Row] = []
        for name, address in (await targets(admin, broker, cluster)).items():
            found = await admin.broker_config(address)
            for key in keys or sorted(found):
                if key not in found:
                    raise NotFound(f"{name} has no option '{key}'{nearest(key, found)}")
                rows.append({"broker": name, "key": key, "value": found[key]})
        return rows

    rows = ask(namesrv, work)
    one = len({row["broker"] for row in rows}) == 1 and output != JSON
    show(output, ("key", "value") if one else ("broker", "key", "value"), rows)


async def targets(admin: "Admin", broker: str | None, cluster: str | None) -> dict[str, str]:
    """Addresses by name: the one broker (a name is its master's), or all masters."""
    if broker is not None and ":" in broker:
        return {broker: broker}
    masters = await admin.masters(cluster)
    if broker is None:
        return masters
    if broker not in masters:
        raise NotFound(f"there is no broker '{broker}' with a master{nearest(broker, masters)}")
    return {broker: masters[broker]}


@config.command("set")
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
@_broker_option
@cluster_option
@shows("broker", "key", "value")
async def set_config(
    admin: "Admin", settings: tuple[str, ...], broker: str | None, cluster: str | None
) -> list[Row]:
    """Change options of running brokers; not every option may change."""
    changes: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UsageError(f"'{setting}' is no setting; write KEY=VALUE")
        changes[key] = value
    rows: list[Row] = []
    for name, address in (await targets(admin, broker, cluster)).items():
        try:
            await admin.update_broker_config(address, changes)
        except Refused as error:
            raise UsageError(f"{name} refuses it: {error.remark}") from None
        now = await admin.broker_config(address)
        rows += [{"broker": name, "key": key, "value": now.get(key)} for key in changes]
    return rows


# Noun cluster --------------------------------------------------------------------------------


@click.group(cls=NounGroup, short_help="Brokers and name servers: list, health, config.")
def command() -> None:
    """Brokers and name servers: list, health, config."""


command.add_command(config)


@command.command("show")
@cluster_option
@namesrv_option
@output_option
def show_cluster(cluster: str | None, namesrv: str, output: str) -> None:
    """Show every name server and broker and whether it is well; exit code 4 if one is not."""

    async def work(admin: "Admin") -> list[Row]:
        from epochmq.admin.shared.broker_figures import brokers

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
@shows(*_FIGURES, "out_today", "disk_used")
async def list_brokers(admin: "Admin", cluster: str | None) -> list[Row]:
    """List brokers with their rates, totals and disks."""
    from epochmq.admin.shared.broker_figures import brokers

    now = int(time.time() * 1000)
    found = await brokers(admin, cluster)
    for broker in found:
        if broker.trouble:
            note(f"{broker.address}: {broker.trouble}")
    return [broker.row(now) for broker in found]
