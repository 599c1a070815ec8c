"""`epochmq cluster config get` and `set`: options of running brokers."""

from typing import TYPE_CHECKING

import click

from epochmq.admin.asking import ask
from epochmq.admin.lazy import nearest
from epochmq.admin.nouns.noun_base import NounGroup, cluster_option
from epochmq.admin.output import JSON, output_option, show
from epochmq.admin.where import namesrv_option
from epochmq.base.errors import NotFound, Refused, UsageError

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

Row = dict[str, object]
_broker_option = click.option(
    "-b", "--broker", metavar="NAME|HOST:PORT", help="One broker; else all masters."
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
@namesrv_option
@output_option
def set_config(
    settings: tuple[str, ...], broker: str | None, cluster: str | None, namesrv: str, output: str
) -> None:
    """Change options of running brokers; not every option may change."""
    changes: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UsageError(f"'{setting}' is no setting; write KEY=VALUE")
        changes[key] = value

    async def work(admin: "Admin") -> list[Row]:
        rows: list[Row] = []
        for name, address in (await targets(admin, broker, cluster)).items():
            try:
                await admin.update_broker_config(address, changes)
            except Refused as error:
                raise UsageError(f"{name} refuses it: {error.remark}") from None
            now = await admin.broker_config(address)
            rows += [{"broker": name, "key": key, "value": now.get(key)} for key in changes]
        return rows

    show(output, ("broker", "key", "value"), ask(namesrv, work))
