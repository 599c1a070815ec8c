"""The state of replication in RocketMQ's form for administrators (HARuntimeInfo, request 907)."""

from collections.abc import Mapping

from epochmq.replication.frames import LinkState
from epochmq.replication.in_sync import InSync
from epochmq.replication.link import Speeds
from epochmq.replication.replication_node import ReplicationNode


def ha_info(
    node: ReplicationNode,
    peers: Mapping[int, str],
    master_address: str | None,
    now: int,
    wall: int,
    speeds: Speeds,
) -> dict[str, object]:
    """Return HARuntimeInfo as a dict.

    A follower learns the flush offset of its master in another way
    (`broker/requests/replica_handlers.py`), so it is not included.

    Args:
        node: the node.
        peers: addresses of the followers, by link.
        master_address: address of the master, at a follower.
        now: monotonic ms.
        wall: Unix ms.
        speeds: bytes per second, by link.
    """
    end = node.store.pointers.appended
    master, follower = node.master, node.follower
    links: list[dict[str, object]] = []
    in_sync = 0
    if master is not None:
        in_sync = len(master.in_sync.committed) - 1
        for link in master.links.values():
            links.append(
                {
                    "addr": peers.get(link.number, link.peer),
                    "slaveAckOffset": link.ack,
                    "diff": end - link.ack,
                    "inSync": link.follower_id in master.in_sync.committed,
                    "transferredByteInSecond": speeds.of(link.number),
                    "transferFromWhere": link.next,
                    "epochmqBrokerId": link.follower_id,
                    "state": link.state.name,
                    "silentMs": now - link.read_at_ms,
                    "epochmqLagMs": _lag_ms(master.in_sync, link.follower_id, end, now),
                }
            )
    state = follower.state if follower is not None else LinkState.SHUTDOWN
    return {
        "master": master is not None,
        "masterCommitLogMaxOffset": end if master is not None else 0,
        "inSyncSlaveNums": in_sync,
        "haConnectionInfo": links,
        "haClientRuntimeInfo": {
            "masterAddr": master_address or "",
            "transferredByteInSecond": speeds.of(0),
            "maxOffset": end if follower is not None else 0,
            "lastReadTimestamp": moment(follower.read_at_ms, now, wall) if follower else 0,
            "lastWriteTimestamp": moment(follower.written_at_ms, now, wall) if follower else 0,
            "activated": state is LinkState.TRANSFER,
            "state": state.name,
        },
    }


def _lag_ms(in_sync: InSync, follower_id: int | None, end: int, now: int) -> int:
    """Return how long ago a follower last had the whole log; -1 before it is known."""
    replica = in_sync.replicas.get(follower_id) if follower_id is not None else None
    return -1 if replica is None else replica.lag_ms(end, now)


def moment(at_ms: int, now: int, wall: int) -> int:
    """Return the Unix ms of a monotonic time; 0 for none."""
    return wall - (now - at_ms) if at_ms else 0
