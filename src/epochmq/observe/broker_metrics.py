"""Metrics of a broker: RocketMQ 5's names, labels and units, and EpochMQ's own (`epochmq_`).

The counters are those of the broker's statistics. Gauges are read at the scrape. What RocketMQ
measures and EpochMQ does not is in docs/OPERATING.md.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from epochmq.base.histogram import Histogram
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.serving.roles import Role
from epochmq.broker.state import broker_stats as counted
from epochmq.model.names import DLQ, RETRY, is_system_group, is_system_topic
from epochmq.observe.delayed_metrics import (
    pop_families,
    popped_messages,
    timer_families,
)
from epochmq.observe.families import COUNTER, GAUGE, HISTOGRAM, Family, Row, bool_label
from epochmq.observe.lag_metrics import LagMeter
from epochmq.observe.request_metrics import request_families
from epochmq.observe.store_times import ColdRead
from epochmq.store.log_end import kept_bytes
from epochmq.wire.bodies.controller_bodies import HAConnectionInfo

_TOPIC_LABELS = ("topic", "message_type", "is_system")
_OUT_LABELS = ("topic", "consumer_group", "is_system", "is_retry")
"""Without `is_retry` for what was pulled, as in RocketMQ."""
_STORE_LABELS = ("storage_type", "storage_medium")
_STORE = ("local", "disk")
_PROTOCOL = "remoting"
_PUSH, _PULL = "push", "pull"
_TRANSACTION_RESULTS = ("committed", "rolled_back", "refused", "given_up")


class BrokerMetrics:
    """Reads the metrics of one broker.

    Args:
        node: the broker.
        buffered_bytes: returns the bytes of requests that are incomplete or wait, and of unsent
            answers.
    """

    def __init__(self, node: BrokerContext, buffered_bytes: Callable[[], tuple[int, int]]) -> None:
        self._node = node
        self._buffered_bytes = buffered_bytes

    def common_labels(self) -> dict[str, str]:
        """Return the labels of every sample."""
        options = self._node.options
        return {
            "cluster": options.broker_cluster_name,
            "node_type": "broker",
            "node_id": options.broker_name,
            "broker_id": str(self._node.group_position.own_id),
        }

    def families(self) -> Iterator[Family | ColdRead | None]:
        """Yield all metrics, None where a long computation can be interrupted, and cold reads."""
        yield from self._messages()
        yield from self._broker()
        yield from self._store()
        yield from timer_families(self._node)
        yield from pop_families(self._node)
        yield from request_families(self._node)
        yield from self._clients()
        yield from self._group()
        popped = yield from popped_messages(self._node)
        lags = LagMeter(self._node, popped)
        for key in list(self._node.offsets.table):
            topic, _, group = key.partition("@")
            yield from lags.measure(topic, group)
        yield from lags.families()

    # Messages --------------------------------------------------------------------------------

    def _messages(self) -> Iterator[Family]:
        stats = self._node.stats
        sizes = stats.message_sizes.items()
        yield Family(
            "rocketmq_messages_in", COUNTER, "Messages stored.", _TOPIC_LABELS,
            ((labels, sum(each.counts)) for labels, each in _by_type(sizes)),
        )  # fmt: skip
        yield Family(
            "rocketmq_throughput_in", COUNTER, "Bytes of messages stored.", _TOPIC_LABELS,
            ((labels, each.total) for labels, each in _by_type(sizes)),
        )  # fmt: skip
        yield Family(
            "rocketmq_messages_out", COUNTER, "Messages delivered.", _OUT_LABELS,
            _delivered(stats, counted.GROUP_GET_NUMS, lambda popped: popped.messages),
        )  # fmt: skip
        yield Family(
            "rocketmq_throughput_out", COUNTER, "Bytes of messages delivered.", _OUT_LABELS,
            _delivered(stats, counted.GROUP_GET_SIZE, lambda popped: popped.bytes),
        )  # fmt: skip
        yield Family(
            "rocketmq_send_to_dlq_messages", COUNTER, "Messages moved to dead-letter topics.",
            ("consumer_group", "topic", "is_system"),
            _to_dlq(stats.items(counted.DLQ_PUT_NUMS)),
        )  # fmt: skip
        yield Family(
            "rocketmq_message_size", HISTOGRAM, "Bytes of the records of messages stored.",
            _TOPIC_LABELS, _by_type(sizes),
        )  # fmt: skip
        yield from self._transactions()
        yield Family(
            "epochmq_sends_failed", COUNTER, "Messages that the store did not take.", (),
            [((), stats.put_failed)],
        )  # fmt: skip
        yield Family(
            "epochmq_sink_repeats", COUNTER, "Messages of Spark sinks that were stored before.", (),
            [((), self._node.store.sinks.repeats)],
        )  # fmt: skip

    def _transactions(self) -> Iterator[Family]:
        transactions = self._node.transactions.statistics()
        topics = self._node.transactions.topics.items()
        yield Family(
            "rocketmq_commit_messages", COUNTER, "Transactions committed.", ("topic",),
            [((topic,), each.committed) for topic, each in topics],
        )  # fmt: skip
        yield Family(
            "rocketmq_rollback_messages", COUNTER, "Transactions rolled back.", ("topic",),
            [((topic,), each.rolled_back) for topic, each in topics],
        )  # fmt: skip
        yield Family(
            "rocketmq_finish_message_latency_milliseconds", HISTOGRAM,
            "SECONDS (as in RocketMQ) from the birth of a transaction to its commit.", ("topic",),
            [((topic,), each.latency) for topic, each in topics],
        )  # fmt: skip
        yield Family(
            "rocketmq_half_messages", GAUGE, "Transactions that are not ended.", ("topic",),
            [((topic,), each.open) for topic, each in topics],
        )  # fmt: skip
        yield _gauge(
            "epochmq_half_messages", "Transactions that are not ended.", transactions["open"]
        )
        yield Family(
            "epochmq_transactions_ended", COUNTER, "Transactions that were ended.", ("result",),
            [((name,), transactions[name]) for name in _TRANSACTION_RESULTS],
        )  # fmt: skip

    # Broker and store ------------------------------------------------------------------------

    def _broker(self) -> Iterator[Family]:
        node = self._node
        yield _gauge(
            "rocketmq_broker_permission", "6 is read and write, 4 is read, 2 is write.",
            node.options.broker_permission,
        )  # fmt: skip
        yield _gauge("rocketmq_topic_number", "Topics.", len(node.topics.table))
        yield _gauge("rocketmq_consumer_group_number", "Consumer groups.", len(node.groups.table))

    def _store(self) -> Iterator[Family]:
        node, pointers = self._node, self._node.store.pointers
        total, free = node.disk.usage()
        wall = node.clock.wall_ms()
        earliest = node.store.earliest_time()
        for name, help_text, value in (
            ("storage_size_bytes", "Used bytes of the file system of the log.", total - free),
            ("storage_flush_behind_bytes", "Bytes of the log that are not synced.",
             max(0, pointers.appended - pointers.synced)),
            ("storage_dispatch_behind_bytes", "Bytes of the log that are not in queues yet.",
             max(0, pointers.confirmed - pointers.dispatched)),
        ):  # fmt: skip
            rows: list[Row] = [(_STORE, value)]
            yield Family(f"rocketmq_{name}", GAUGE, help_text, _STORE_LABELS, rows)
        if earliest > 0:
            yield Family(
                "rocketmq_storage_message_reserve_time_milliseconds", GAUGE,
                "Age of the first message of the log.", _STORE_LABELS,
                [(_STORE, max(0, wall - earliest))],
            )  # fmt: skip
        figures = node.store.statistics()
        for name, help_text, key in (
            ("epochmq_storage_syncs", "Syncs of the log.", "sync_count"),
            ("epochmq_storage_truncations", "Truncations of the log by a new master.",
             "truncations"),
            ("epochmq_storage_truncated_bytes", "Bytes that were cut off and kept in cut/.",
             "truncated_bytes"),
        ):  # fmt: skip
            yield Family(name, COUNTER, help_text, (), [((), int(figures[key]))])
        yield _gauge(
            "epochmq_storage_cut_bytes", "Bytes of the files in cut/; remove files that you do not"
            " need.", kept_bytes(node.disk),
        )  # fmt: skip
        yield Family(
            "epochmq_storage_sync_seconds", HISTOGRAM, "Time of a sync of the log.", (),
            [((), node.store.sync_times)],
        )  # fmt: skip
        yield Family(
            "epochmq_entries", GAUGE, "What this broker keeps in memory, by owner.", ("owner",),
            [((owner,), count) for owner, count in self._entries(figures).items()],
        )  # fmt: skip
        damage = node.store.damage
        yield _gauge(
            "epochmq_storage_damaged_ranges", "Damaged ranges of the log that are not repaired.",
            len(damage.ranges),
        )  # fmt: skip
        yield _gauge(
            "epochmq_storage_disk_full", "1 while the disk is too full for sends.",
            int(node.store.disk_full),
        )  # fmt: skip
        yield _gauge(
            "epochmq_storage_fenced", "1 when the store writes nothing more, after an error.",
            int(bool(node.store.fenced)),
        )  # fmt: skip
        yield _gauge("epochmq_storage_free_bytes", "Free bytes of the file system.", free)

    def _entries(self, figures: Mapping[str, int | bool | str]) -> dict[str, int]:
        """Return the numbers of entries of the parts whose memory grows with use.

        `figures` are those of the store.
        """
        node = self._node
        return {
            "topics": len(node.topics.table),
            "consumer_groups": len(node.groups.table),
            "consumer_offsets": len(node.offsets.table),
            "producers": sum(map(len, node.producers.groups.values())),
            "consumers": sum(len(group.members) for group in node.consumers.groups.values()),
            "held_pulls": len(node.long_poll),
            "held_pops": len(node.pop.polls),
            "pop_check_points": len(node.pop.driver),
            "pop_buffer": len(node.pop.buffer),
            "half_messages": node.transactions.statistics()["window"],
            "consume_queues": int(figures["queues"]),
            "index_entries_unwritten": int(figures["index_staged"]),
            "sink_progress": int(figures["sink_weight"]),
            "statistics": node.stats.statistics()["items"],
        }

    # Clients and groups ----------------------------------------------------------------------

    def _clients(self) -> Iterator[Family]:
        incomplete, unsent = self._buffered_bytes()
        yield Family(
            "epochmq_connection_buffer_bytes", GAUGE, "Memory of the buffers of connections.",
            ("buffer",), [(("incomplete_requests",), incomplete), (("unsent_answers",), unsent)],
        )  # fmt: skip
        producers: dict[tuple[str, ...], int] = {}
        for members in self._node.producers.groups.values():
            for member in members.values():
                of_member = member.language.lower(), str(member.version), _PROTOCOL
                producers[of_member] = producers.get(of_member, 0) + 1
        yield Family(
            "rocketmq_producer_connections", GAUGE, "Connections of producers.",
            ("language", "version", "protocol_type"), list(producers.items()),
        )  # fmt: skip
        consumers: dict[tuple[str, ...], int] = {}
        for group in self._node.consumers.groups.values():
            mode = _PULL if group.manner.consume_type == "CONSUME_ACTIVELY" else _PUSH
            system = bool_label(is_system_group(group.name))
            for member in group.members.values():
                language, version = member.language.lower(), str(member.version)
                key = group.name, language, version, mode, _PROTOCOL, system
                consumers[key] = consumers.get(key, 0) + 1
        yield Family(
            "rocketmq_consumer_connections", GAUGE, "Connections of consumers.",
            ("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"),
            list(consumers.items()),
        )  # fmt: skip

    # Group of brokers ------------------------------------------------------------------------

    def _group(self) -> Iterator[Family]:
        node = self._node
        rights, position, pointers = node.serving.rights, node.group_position, node.store.pointers
        role = node.serving.role
        yield Family(
            "epochmq_role", GAUGE, "1 for the role of this broker.", ("role",),
            [((each.name.lower(),), int(each is role)) for each in Role],
        )  # fmt: skip
        yield _gauge("epochmq_writable", "1 while sends are accepted.", int(rights.writable))
        yield _gauge(
            "epochmq_registers", "1 while this broker is a member of its group.",
            int(rights.registers),
        )  # fmt: skip
        yield _gauge("epochmq_master_epoch", "Epoch of the master.", position.epoch)
        yield _gauge("epochmq_log_appended_bytes", "End of the log.", pointers.appended)
        yield _gauge("epochmq_log_confirmed_bytes", "End of what readers see.", pointers.confirmed)
        if node.replica is None:
            return
        yield _gauge(
            "epochmq_sync_state_set_size", "Members of the sync-state set.", len(position.members)
        )
        status = node.replica.ha_status()
        if status.master:
            links = {  # of two connections of one replica the newer one
                (_replica_name(link), bool_label(link.in_sync)): link
                for link in status.ha_connection_info
            }
            yield Family(
                "epochmq_replica_lag_bytes", GAUGE, "Bytes of the log that a replica lacks.",
                ("replica", "in_sync"),
                [(labels, max(0, link.diff)) for labels, link in links.items()],
            )  # fmt: skip
            yield Family(
                "epochmq_replica_lag_milliseconds", GAUGE,
                "Time since a replica last had the whole log.", ("replica", "in_sync"),
                [
                    (labels, link.epochmq_lag_ms)
                    for labels, link in links.items()
                    if isinstance(link.epochmq_lag_ms, int) and link.epochmq_lag_ms >= 0
                ],
            )  # fmt: skip
        figures = {**node.replica.figures(), **node.escape_figures(node.clock.now_ms())}
        if state := figures.get("epochmqPreOnline"):
            yield Family(
                "epochmq_pre_online", GAUGE, "1 for the state before the broker is online.",
                ("state",), [((state,), 1)],
            )  # fmt: skip
        for name, help_text, key in _REPLICA_GAUGES:
            if (text := figures.get(key, "")) not in ("", "true", "false"):
                yield _gauge(name, help_text, int(text))
        refused = figures.get("epochmqRefusedAcks")
        if refused is not None:
            yield Family(
                "epochmq_acknowledgements_refused", COUNTER,
                "Sends that replicas did not confirm in time.", (), [((), int(refused))],
            )  # fmt: skip


_REPLICA_GAUGES = (
    ("epochmq_lease_left_milliseconds", "Remaining lease of the master.", "epochmqLeaseLeftMillis"),
    (
        "epochmq_unconfirmed_bytes",
        "Bytes that the sync-state set lacks.",
        "epochmqUnconfirmedBytes",
    ),
    ("epochmq_replication_links", "Links of replicas.", "epochmqReplication_links"),
    ("epochmq_escape_waiting_messages", "Messages for other masters.", "epochmqEscapeWaiting"),
    ("epochmq_escape_inflight_messages", "Of these, sent.", "epochmqEscapeInFlight"),
    (
        "epochmq_escape_oldest_milliseconds",
        "Age of the oldest message for other masters.",
        "epochmqEscapeOldestMs",
    ),
    ("epochmq_sends_waiting_for_replicas", "Sends that wait.", "epochmqReplication_waiting"),
)


def _gauge(name: str, help_text: str, value: float) -> Family:
    return Family(name, GAUGE, help_text, (), [((), value)])


def _by_type(
    sizes: Iterable[tuple[tuple[str, str], Histogram]],
) -> Iterator[tuple[Sequence[str], Histogram]]:
    """Return the sizes of messages with the values of `_TOPIC_LABELS`."""
    for (topic, message_type), histogram in sizes:
        if not topic.startswith((RETRY, DLQ)):
            yield (topic, message_type, bool_label(is_system_topic(topic))), histogram


def _delivered(
    stats: counted.Stats, name: str, of_pop: Callable[[counted.PopCount], int]
) -> Iterator[Row]:
    """Yield what was delivered by topic and group; what was popped has the label `is_retry`."""
    for key, item in stats.items(name):
        topic, _, group = key.partition("@")
        if topic.startswith((RETRY, DLQ)):
            continue
        labels = topic, group, bool_label(is_system_topic(topic) or is_system_group(group))
        pulled = item.value
        for is_retry in (False, True):
            if (popped := stats.pops.get((topic, group, is_retry))) is not None:
                pulled -= of_pop(popped)
                yield (*labels, bool_label(is_retry)), of_pop(popped)
        if pulled:
            yield labels, pulled


def _to_dlq(items: Iterable[tuple[str, counted.StatsItem]]) -> Iterator[Row]:
    for key, item in items:
        topic, _, group = key.partition("@")
        yield (group, topic, bool_label(is_system_group(group))), item.value


def _replica_name(link: HAConnectionInfo) -> str:
    """Return a name that stays when the replica connects again: its broker id if it is known.

    The address is that of the connection; its port is another one after each connect.
    """
    known = link.epochmq_broker_id
    return str(known) if isinstance(known, int) else link.addr
