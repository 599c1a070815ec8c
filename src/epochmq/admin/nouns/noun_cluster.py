"""`epochmq cluster`: brokers and name servers, how they are, what they run with."""

import asyncio
import time
from typing import TYPE_CHECKING

import click

from epochmq.admin.local.name_completion import complete_options, complete_settings
from epochmq.admin.local.where import namesrv_option
from epochmq.admin.nouns.noun_base import (
    NounGroup,
    Row,
    cluster_option,
    confirm,
    shows,
    yes_option,
)
from epochmq.admin.shared.asking import ask
from epochmq.admin.shared.exits import Unhealthy, nearest
from epochmq.admin.shared.output import JSON, Bar, note, output_option, show
from epochmq.base.errors import EpochError, NotFound, NotReachable, Refused, UsageError

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
@click.argument("keys", nargs=-1, metavar="[KEY]...", shell_complete=complete_options)
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
@click.argument(
    "settings",
    nargs=-1,
    required=True,
    metavar="KEY=VALUE...",
    shell_complete=complete_settings,
)
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
            raise UsageError(f"'{setting}' is not a setting; write KEY=VALUE")
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


# Masters and replicas ------------------------------------------------------------------------
# Changes that the controllers make: another master, a replica less.


_MOVE_WAIT_S = 10.0
_LOOK_S = 0.05


def replica_of(text: str) -> tuple[str, int | None]:
    """Read "GROUP:ID" or "GROUP" (id None); raises `UsageError`."""
    name, colon, number = text.rpartition(":")
    if not colon:
        return text, None
    if not name or not number.isdecimal():
        raise UsageError(
            f"'{text}' is not a broker; write GROUP:ID, as `epochmq cluster show` does"
        )
    return name, int(number)


async def _controller(admin: "Admin", group: str) -> tuple[str, str]:
    """Return the address of a controller, and the cluster of a broker group."""
    groups = await admin.broker_groups()
    if group not in groups:
        raise NotFound(f"there is no broker group '{group}'{nearest(group, groups)}")
    for address in groups[group].broker_addrs.values():
        try:
            config = await admin.broker_config(address)
        except EpochError:
            continue
        controllers = config.get("controllerAddr", "")
        if config.get("enableControllerMode") != "true" or not controllers:
            raise UsageError(
                f"group {group} has no controllers: its roles are in its brokers' files"
            )
        for each in filter(None, map(str.strip, controllers.split(";"))):
            try:
                await admin.controller_leader(each)
            except EpochError:
                continue
            return each, groups[group].cluster
        raise NotReachable(f"no controller of {controllers} answers, or none leads")
    raise NotReachable(f"no broker of group {group} answers")


@command.command("move-master")
@click.argument("broker", metavar="GROUP[:ID]")
@shows("group", "master", "address", "epoch")
async def move_master(admin: "Admin", broker: str) -> list[Row]:
    """Make replica ID of GROUP its master; without ID, any other one that is in sync.

    The present master resigns first, so sends pause for a fraction of a second.
    """
    group, broker_id = replica_of(broker)
    controller, cluster = await _controller(admin, group)
    states = await admin.sync_states(controller, [group])
    if group not in states:
        raise NotFound(f"the controllers do not know the group '{group}'")
    state = states[group]
    master_id = state.master_broker_id
    others = sorted(r.broker_id for r in state.in_sync_replicas if r.broker_id != master_id)
    if broker_id is None:
        if not others:
            raise UsageError(f"no other replica of {group} is in sync with its master {master_id}")
        broker_id = others[0]
    elif broker_id == master_id:
        raise UsageError(f"{group}:{broker_id} is the master already")
    elif broker_id not in others:
        in_sync = ", ".join(map(str, others)) or "none"
        raise UsageError(
            f"{group}:{broker_id} is not in sync, so it would lose messages; in sync: {in_sync}"
        )
    try:
        elected, _ = await admin.elect_master(controller, cluster, group, broker_id)
    except Refused as error:
        raise UsageError(f"the controllers refuse it: {error.remark}") from None
    await _serves(admin, group, elected.masterAddress or "")
    return [
        {
            "group": group,
            "master": elected.masterBrokerId,
            "address": elected.masterAddress,
            "epoch": elected.masterEpoch,
        }
    ]


async def _serves(admin: "Admin", group: str, address: str) -> None:
    """Wait until name servers know the new master."""
    until = time.monotonic() + _MOVE_WAIT_S
    while (await admin.broker_groups())[group].broker_addrs.get(0) != address:
        if time.monotonic() > until:
            note(f"{address} is elected; the name server does not say so yet")
            return
        await asyncio.sleep(_LOOK_S)


@command.command("drain")
@click.argument("group")
@click.option("--undo", is_flag=True, help="Accept messages again (brokerPermission=6).")
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    default=3600,
    show_default=True,
    help="Seconds to wait for consumers.",
)
@click.option("--online-only", is_flag=True, help="Do not wait for groups without members.")
@yes_option
@namesrv_option
@output_option
def drain(
    group: str,
    undo: bool,
    timeout: float,
    online_only: bool,
    yes: bool,
    namesrv: str,
    output: str,
) -> None:
    """Send no more messages to broker group GROUP, and wait until consumers have read it empty.

    Afterwards the group can be stopped, and nothing in it waits for a consumer. Other groups of the
    cluster get the messages of producers. Delayed messages, timers and open transactions stay in
    the group; they go on when it is started again. Its brokers stay read-only, also over a restart
    (brokerPermission=4), until --undo.
    """
    from epochmq.admin.nouns.cluster_drain import drain_group, undo_drain

    if undo:
        found = ask(namesrv, lambda admin: undo_drain(admin, group))
    else:
        confirm(f"Let producers leave {group}?", yes)
        with Bar("draining", None) as bar:
            found = ask(
                namesrv,
                lambda admin: drain_group(
                    admin,
                    group,
                    timeout,
                    lambda count, names: bar.set(
                        0, f"{count:,} messages wait in {len(names)} groups"
                    ),
                    online_only=online_only,
                ),
            )
    accepts = "yes" if undo else "no"
    rows = [{"broker": f"{group}:{n}", "address": a, "accepts": accepts} for n, a in found.items()]
    show(output, ("broker", "address", "accepts"), rows)


@command.command("forget")
@click.argument("broker", metavar="GROUP:ID")
@yes_option
@namesrv_option
@output_option
def forget(broker: str, yes: bool, namesrv: str, output: str) -> None:
    """Let the controllers forget a replica that does not come back, as after a lost disk.

    Until then its group waits for it: it counts as a replica that may hold messages.
    """
    group, broker_id = replica_of(broker)
    if broker_id is None:
        raise click.UsageError("give GROUP:ID; `epochmq cluster show` and `epochmq top` list them")

    async def work(admin: "Admin") -> list[Row]:
        controller, cluster = await _controller(admin, group)
        states = await admin.sync_states(controller, [group])
        known = [] if group not in states else [
            *states[group].in_sync_replicas, *states[group].not_in_sync_replicas
        ]  # fmt: skip
        replica = next((each for each in known if each.broker_id == broker_id), None)
        if replica is None:
            ids = ", ".join(str(each.broker_id) for each in known) or "none"
            raise NotFound(f"the controllers know no replica {broker}; they know {ids}")
        if replica.alive:
            raise UsageError(
                f"{broker} is alive at {replica.broker_address}; stop it first, and wait until the"
                " controllers see that (10 s)"
            )
        try:
            await admin.clean_broker_data(controller, cluster, group, str(broker_id), living=False)
        except Refused as error:
            raise UsageError(f"the controllers refuse it: {error.remark}") from None
        return [{"forgotten": broker, "address": replica.broker_address or None}]

    confirm(f"Forget {broker}? It can join again only with an empty store.", yes)
    show(output, ("forgotten", "address"), ask(namesrv, work))
