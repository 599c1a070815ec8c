"""Metrics of a controller: RocketMQ 5's names without a prefix, and EpochMQ's own (`epochmq_`).

The members of a group of controllers know the same state; who is alive only its leader knows.
"""

from collections.abc import Iterator, Mapping

from epochmq.controller.controller_state import Key
from epochmq.controller.options import ControllerOptions
from epochmq.controller.server.controller_node import ControllerNode
from epochmq.observe.families import COUNTER, GAUGE, HISTOGRAM, Family
from epochmq.raft.outbox import RaftRole
from epochmq.runtime.health_server import Checks, Health

_GROUP = ("cluster", "broker_set")
_OPERATION = ("dledger_operation", "dLedger_operation_status")
_ROLES = {
    RaftRole.PRE_CANDIDATE: 1, RaftRole.CANDIDATE: 1, RaftRole.FOLLOWER: 2, RaftRole.LEADER: 3
}  # fmt: skip
"""RocketMQ's numbers; 0 is any other role."""


def controller_labels(options: ControllerOptions) -> dict[str, str]:
    """Return the labels of every sample of a controller."""
    peers = options.peers()
    return {
        "address": peers.own_address,
        "group": options.controller_d_leger_group,
        "peer_id": peers.self_id,
    }


class ControllerMetrics:
    """Reads the metrics of one controller."""

    def __init__(self, node: ControllerNode, labels: Mapping[str, str]) -> None:
        """Create the reader; `labels` are address, group and peer_id of the controller."""
        self._node = node
        self._labels = labels

    def common_labels(self) -> Mapping[str, str]:
        """Return the labels of every sample."""
        return self._labels

    def checks(self) -> Checks:
        """Return what the health endpoint answers: ready is a controller that knows a leader."""

        def ready() -> Health:
            leader = self._node.raft.core.leader_id
            return Health(bool(leader), {"reason": "" if leader else "no leader is known"})

        return {"/-/healthy": lambda: Health(True, {"reason": ""}), "/-/ready": ready}

    def families(self) -> Iterator[Family | None]:
        """Yield all metrics."""
        yield from self._raft()
        yield from self._groups()
        yield from self._requests()

    def _requests(self) -> Iterator[Family]:
        counts = self._node.core.context.counts
        yield Family(
            "request", COUNTER, "Requests that were answered.",
            ("request_type", "request_handle_status"), list(counts.requests.items()),
        )  # fmt: skip
        yield Family(
            "request_latency_microseconds", HISTOGRAM, "Time until the answer.", ("request_type",),
            [((name,), each) for name, each in counts.latency.items()],
        )  # fmt: skip
        operation = "append"
        yield Family(
            "dledger_op", COUNTER, "Commands proposed to the group.", _OPERATION,
            [((operation, status), count) for status, count in counts.appends.items()],
        )  # fmt: skip
        yield Family(
            "dledger_op_latency_microseconds", HISTOGRAM, "Time until a command is applied.",
            _OPERATION,
            [((operation, status), each) for status, each in counts.append_latency.items()],
        )  # fmt: skip
        yield Family(
            "election", COUNTER, "Elections of masters that this controller decided.",
            ("election_result",), [((name,), count) for name, count in counts.elections.items()],
        )  # fmt: skip

    def _raft(self) -> Iterator[Family]:
        raft = self._node.raft
        core, log = raft.core, raft.core.log
        for name, help_text, value in (
            ("role", "0 unknown, 1 candidate, 2 follower, 3 leader.", _ROLES.get(core.role, 0)),
            ("dledger_disk_usage_bytes", "Bytes of the journal.", raft.journal_bytes),
            ("epochmq_raft_term", "Term of this controller.", core.term),
            ("epochmq_raft_last_index", "Last entry of the log.", log.last_index),
            ("epochmq_raft_commit_index", "Last entry that is committed.", log.commit),
            ("epochmq_raft_applied_index", "Last entry that is applied.", log.applied),
            ("epochmq_raft_voters", "Voting members.", len(core.members.voters)),
            ("epochmq_raft_has_leader", "1 while a leader is known.", int(bool(core.leader_id))),
        ):
            yield Family(name, GAUGE, help_text, (), [((), value)])

        yield Family(
            "epochmq_raft_leader_changes", COUNTER, "Times that another leader became known.", (),
            [((), self._node.leader_changes)],
        )  # fmt: skip

    def _groups(self) -> Iterator[Family]:
        node = self._node
        groups = list(node.machine.groups.values())
        if node.raft.core.role is RaftRole.LEADER:
            live = node.core.context.live
            yield Family(
                "active_broker_num", GAUGE, "Brokers whose heartbeats arrive.", _GROUP,
                [(group.key, len(live.of_group(group.key))) for group in groups],
            )  # fmt: skip
            yield Family(
                "epochmq_last_election_milliseconds", GAUGE,
                "From the decision to elect a master until it reported its epoch.", _GROUP,
                list(self._last_elections().items()),
            )  # fmt: skip
        yield Family(
            "epochmq_group_without_master_milliseconds", COUNTER,
            "From the last heartbeat of a master to the first one of its successor, at the"
            " elections that this controller decided.", _GROUP,
            list(node.core.context.counts.without_master_ms.items()),
        )  # fmt: skip
        for name, help_text, rows in (
            ("epochmq_group_has_master", "1 for a group with a master.",
             [(group.key, int(group.master is not None)) for group in groups]),
            ("epochmq_group_master_epoch", "Epoch of the master; each election raises it.",
             [(group.key, group.epoch) for group in groups]),
            ("epochmq_group_sync_state_set_size", "Members of the sync-state set.",
             [(group.key, len(group.members)) for group in groups]),
            ("epochmq_group_replicas", "Registered replicas.",
             [(group.key, len(group.replicas)) for group in groups]),
        ):  # fmt: skip
            yield Family(name, GAUGE, help_text, _GROUP, rows)

    def _last_elections(self) -> dict[Key, int]:
        """Return how long the last completed election of each group took (ms)."""
        took: dict[Key, int] = {}
        for failover in self._node.core.context.timeline.failovers:
            if failover.applied_ms >= 0:
                took[failover.key] = failover.applied_ms - failover.detected_ms
        return took
