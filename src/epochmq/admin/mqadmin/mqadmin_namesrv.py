"""`wipeWritePerm`, `addWritePerm`, `getNamesrvConfig`, `updateNamesrvConfig`, `updateKvConfig`,
`deleteKvConfig`."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from epochmq.admin.mqadmin.running import Out, mq_command, opt
from epochmq.admin.shared.output import note
from epochmq.base.errors import EpochError

if TYPE_CHECKING:
    from epochmq.client.aio import Admin


@mq_command("wipeWritePerm", opt("b", "brokerName", "The broker.", required=True))
async def wipe_write_perm(admin: "Admin", out: Out, broker_name: str) -> None:
    """Take a broker's topics from producers, on every name server given by -n."""
    await _on_every(admin, out, "wipe", broker_name, admin.wipe_write_perm)


@mq_command("addWritePerm", opt("b", "brokerName", "The broker.", required=True))
async def add_write_perm(admin: "Admin", out: Out, broker_name: str) -> None:
    """Give a broker's topics back to producers, on every name server given by -n."""
    await _on_every(admin, out, "add", broker_name, admin.add_write_perm)


async def _on_every(
    admin: "Admin",
    out: Out,
    verb: str,
    broker: str,
    change: Callable[[str, str], Awaitable[int]],
) -> None:
    problem: EpochError | None = None
    total = 0
    for address in admin.name_servers:
        text = f"{verb} write perm of broker[{broker}] in name server[{address}]"
        row = {"name_server": address, "broker": broker}
        try:
            count = await change(address, broker)
        except EpochError as error:
            out.line(f"{text} Failed", {**row, "problem": str(error)})
            if len(admin.name_servers) > 1:
                note(f"{address}: {error}")
            problem = problem or error
        else:
            out.line(f"{text} OK, {count}", {**row, "topics": count})
            total += count
    if problem is not None:
        raise problem
    if not total:
        await admin.check_broker_name(broker)


@mq_command(
    "updateNamesrvConfig",
    opt("k", "key", "The option.", required=True),
    opt("v", "value", "Its value.", required=True),
)
async def update_namesrv_config(admin: "Admin", out: Out, key: str, value: str) -> None:
    """Change an option of all name servers while they run."""
    await admin.update_namesrv_config({key: value})
    servers = f"[{', '.join(admin.name_servers)}]"
    row = {"name_servers": admin.name_servers, "key": key, "value": value}
    out.line(f"update name server config success!{servers}\n{key} : {value}", row)


@mq_command("getNamesrvConfig")
async def get_namesrv_config(admin: "Admin", out: Out) -> None:
    """Print the options that name servers run with."""
    for address, config in (await admin.namesrv_configs()).items():
        out.line(f"============{address}============", {"name_server": address, **config})
        for key, value in config.items():
            out.line(f"{key:<50}=  {value}")


@mq_command(
    "updateKvConfig",
    opt("s", "namespace", "The namespace.", required=True),
    opt("k", "key", "The key.", required=True),
    opt("v", "value", "Its value.", required=True),
)
async def update_kv_config(admin: "Admin", out: Out, namespace: str, key: str, value: str) -> None:
    """Set a key of a namespace on all name servers."""
    await admin.put_kv(namespace, key, value)
    row = {"namespace": namespace, "key": key, "value": value}
    out.line("create or update kv config to namespace success.", row)


@mq_command(
    "deleteKvConfig",
    opt("s", "namespace", "The namespace.", required=True),
    opt("k", "key", "The key.", required=True),
)
async def delete_kv_config(admin: "Admin", out: Out, namespace: str, key: str) -> None:
    """Delete a key of a namespace on all name servers."""
    await admin.delete_kv(namespace, key)
    row = {"namespace": namespace, "key": key}
    out.line("delete kv config from namespace success.", row)


COMMANDS = {
    "wipeWritePerm": wipe_write_perm,
    "addWritePerm": add_write_perm,
    "getNamesrvConfig": get_namesrv_config,
    "updateNamesrvConfig": update_namesrv_config,
    "updateKvConfig": update_kv_config,
    "deleteKvConfig": delete_kv_config,
}
