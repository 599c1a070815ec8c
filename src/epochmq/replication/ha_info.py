"""The state of replication as RocketMQ's administrators see it (HARuntimeInfo, request 907)."""

from collections.abc import Mapping

from epochmq.replication.frames import State
from epochmq.replication.node import ReplicationNode


def ha_info(
    node: ReplicationNode, peers: Mapping[int, str], master_address: str | None, now: int
) -> dict[str, object]:
    """`peers`: the addresses of followers by link."""
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
                    "transferredByteInSecond": 0,
                    "transferFromWhere": link.next,
                    "followerId": link.follower_id,
                    "state": link.state.name,
                    "silentMs": now - link.read_at_ms,
                }
            )
    state = follower.state if follower is not None else State.SHUTDOWN
    return {
        "master": master is not None,
        "masterCommitLogMaxOffset": end if master is not None else 0,
        "inSyncSlaveNums": in_sync,
        "haConnectionInfo": links,
        "haClientRuntimeInfo": {
            "masterAddr": master_address or "",
            "transferredByteInSecond": 0,
            "maxOffset": end if follower is not None else 0,
            "lastReadTimestamp": 0,
            "lastWriteTimestamp": 0,
            "masterFlushOffset": 0,
            "activated": state is State.TRANSFER,
            "state": state.name,
        },
    }
