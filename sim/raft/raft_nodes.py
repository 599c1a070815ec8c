"""How checkers find the Raft node of a host: its process has an attribute `raft`."""

from epochmq.raft.raft_node import RaftNode
from sim.kernel.host import Host


def raft_of(host: Host | None) -> RaftNode | None:
    """The node that runs on `host` now."""
    if host is None or host.process is None:
        return None
    found = getattr(host.process, "raft", None)
    return found if type(found) is RaftNode else None
