"""Commands to controllers: metadata, sync-state sets, elections, options, forgetting replicas.

`-a` names any member of the controller group, or some of them separated by `;`.
"""

from typing import TYPE_CHECKING, Any

import click

from epochmq.admin.mqadmin.running import Out, flag, interval, mq_command, opt, repeat
from epochmq.base.errors import EpochError

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.wire.bodies.controller_bodies import ReplicaIdentity, ReplicasInfo

_CONTROLLER = opt("a", "controllerAddress", "The controllers.", required=True)


def _one(addresses: str) -> str:
    return addresses.split(";")[0].strip()


@mq_command("getControllerMetaData", _CONTROLLER)
async def get_controller_meta_data(admin: "Admin", out: Out, controller_address: str) -> None:
    """Print who leads the controllers, and who they are."""
    found = await admin.controller_metadata(_one(controller_address))
    out.line(
        f"\n#ControllerGroup\t{found.group}"
        f"\n#ControllerLeaderId\t{found.controllerLeaderId}"
        f"\n#ControllerLeaderAddress\t{found.controllerLeaderAddress}",
        {
            "group": found.group,
            "leader_id": found.controllerLeaderId,
            "leader_address": found.controllerLeaderAddress,
            "peers": _peers(found.peers),
        },
    )
    for peer in _peers(found.peers):
        out.line(f"#Peer:\t{peer}")


def _peers(text: str | None) -> list[str]:
    return [peer for peer in (text or "").split(";") if peer]


@mq_command(
    "getSyncStateSet",
    _CONTROLLER,
    opt("b", "brokerName", "One broker group."),
    opt("c", "clusterName", "All broker groups of a cluster."),
    interval(),
)
async def get_sync_state_set(
    admin: "Admin",
    out: Out,
    controller_address: str,
    broker_name: str | None,
    cluster_name: str | None,
    interval: int | None,
) -> None:
    """Print the master, the epochs and the replicas in sync of broker groups."""
    if broker_name is None and cluster_name is None:
        raise click.UsageError("give one of -b BROKERNAME, -c CLUSTERNAME")

    async def once() -> None:
        names = [broker_name] if broker_name else list(await admin.broker_groups(cluster_name))
        states = await admin.sync_states(_one(controller_address), names)
        for name in sorted(states):
            _print_state(out, name, states[name])

    await repeat(once, interval)


def _print_state(out: Out, name: str, state: "ReplicasInfo") -> None:
    inside, outside = state.in_sync_replicas, state.not_in_sync_replicas
    master_id, master = state.master_broker_id or None, state.master_address or None
    out.line(
        f"\n#brokerName\t{name}"
        f"\n#MasterBrokerId\t{_java(master_id)}"
        f"\n#MasterAddr\t{_java(master)}"
        f"\n#MasterEpoch\t{state.master_epoch}"
        f"\n#SyncStateSetEpoch\t{state.sync_state_set_epoch}"
        f"\n#SyncStateSetNums\t{len(inside)}",
        {
            "broker_name": name,
            "master_broker_id": master_id,
            "master_address": master,
            "master_epoch": state.master_epoch,
            "sync_state_set_epoch": state.sync_state_set_epoch,
            "in_sync": [_row(replica) for replica in inside],
            "not_in_sync": [_row(replica) for replica in outside],
        },
    )
    for title, replicas in (("InSyncReplica", inside), ("NotInSyncReplica", outside)):
        for replica in replicas:
            out.line(f"\n{title}:\t{_identity(replica)}")


def _row(replica: "ReplicaIdentity") -> dict[str, Any]:
    return {
        "broker_id": replica.broker_id,
        "broker_address": replica.broker_address or None,
        "alive": replica.alive,
    }


def _identity(replica: "ReplicaIdentity") -> str:
    return (
        f"ReplicaIdentity{{brokerName='{replica.broker_name}', brokerId={replica.broker_id},"
        f" brokerAddress='{_java(replica.broker_address or None)}', alive={_java(replica.alive)}}}"
    )


def _java(value: object) -> str:
    """`null`, `true` and `false` as Java prints them."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


@mq_command(
    "electMaster",
    _CONTROLLER,
    opt("b", "brokerId", "Id of the replica to become master.", int, required=True),
    opt("bn", "brokerName", "Its broker group.", required=True),
    opt("c", "clusterName", "Its cluster.", required=True),
)
async def elect_master(
    admin: "Admin",
    out: Out,
    controller_address: str,
    broker_id: int,
    broker_name: str,
    cluster_name: str,
) -> None:
    """Make a replica of a group its master."""
    chosen, body = await admin.elect_master(
        _one(controller_address), cluster_name, broker_name, broker_id
    )
    members = dict(body.broker_member_group.broker_addrs) if body.broker_member_group else {}
    out.line(
        f"\n#ClusterName\t{cluster_name}"
        f"\n#BrokerName\t{broker_name}"
        f"\n#BrokerMasterAddr\t{chosen.masterAddress}"
        f"\n#MasterEpoch\t{chosen.masterEpoch}"
        f"\n#SyncStateSetEpoch\t{chosen.syncStateSetEpoch}",
        {
            "cluster": cluster_name,
            "broker_name": broker_name,
            "master_address": chosen.masterAddress,
            "master_epoch": chosen.masterEpoch,
            "sync_state_set_epoch": chosen.syncStateSetEpoch,
            "members": {str(member): address for member, address in sorted(members.items())},
        },
    )
    for member, address in sorted(members.items()):
        out.line(f"\t#Broker\t{member}\t{address}")


@mq_command("getControllerConfig", _CONTROLLER)
async def get_controller_config(admin: "Admin", out: Out, controller_address: str) -> None:
    """Print the options that controllers run with."""
    for address in _each(controller_address):
        config = await admin.controller_config(address)
        out.line(f"============{address}============", {"controller": address, **config})
        for key, value in config.items():
            out.line(f"{key:<50}=  {value}")


@mq_command(
    "updateControllerConfig",
    _CONTROLLER,
    opt("k", "key", "Name of the option.", required=True),
    opt("v", "value", "Its new value.", required=True),
)
async def update_controller_config(
    admin: "Admin", out: Out, controller_address: str, key: str, value: str
) -> None:
    """Change an option of running controllers; each keeps its own."""
    addresses = _each(controller_address)
    problem: EpochError | None = None
    for address in addresses:
        try:
            await admin.update_controller_config(address, {key: value})
        except EpochError as error:
            problem = problem or error
    if problem is not None:
        raise problem
    row = {"controllers": addresses, "key": key, "value": value}
    listed = f"[{', '.join(addresses)}]"
    out.line(f"update controller config success!{listed}\n{key} : {value}", row)


def _each(addresses: str) -> list[str]:
    return [address.strip() for address in addresses.split(";") if address.strip()]


@mq_command(
    "cleanBrokerMetadata",
    _CONTROLLER,
    opt("b", "brokerControllerIdsToClean", "Ids of replicas, as 1;2;3. None: the whole group."),
    opt("bn", "brokerName", "The broker group.", required=True),
    opt("c", "clusterName", "Its cluster; needed without -l."),
    flag("l", "cleanLivingBroker", "Forget them even while they are alive."),
)
async def clean_broker_metadata(
    admin: "Admin",
    out: Out,
    controller_address: str,
    broker_controller_ids_to_clean: str | None,
    broker_name: str,
    cluster_name: str | None,
    clean_living_broker: bool,
) -> None:
    """Make the controllers forget replicas of a group, or the group."""
    ids = broker_controller_ids_to_clean
    if not clean_living_broker and cluster_name is None:
        raise click.UsageError("give the cluster with -c, or -l to forget living brokers too")
    if ids is not None and not all(part.strip().isdigit() for part in ids.split(";")):
        raise click.BadParameter(f"ids are numbers separated by ';', not '{ids}'")
    await admin.clean_broker_data(
        _one(controller_address), cluster_name, broker_name, ids, clean_living_broker
    )
    row = {"broker_name": broker_name, "ids": ids}
    out.line(f"clear broker {broker_name} metadata from controller success! ", row)


COMMANDS = {
    "getControllerMetaData": get_controller_meta_data,
    "getSyncStateSet": get_sync_state_set,
    "electMaster": elect_master,
    "getControllerConfig": get_controller_config,
    "updateControllerConfig": update_controller_config,
    "cleanBrokerMetadata": clean_broker_metadata,
}
