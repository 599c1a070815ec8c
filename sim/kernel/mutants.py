"""Mutants: functions that remove one safeguard of a broker process, to test the checkers (INV-92).

The safeguards concern messages that a broker moves on later, and the sync-state set. Each function
changes a new process before it runs; the product has no code for this.
"""

from collections.abc import Callable, Sequence
from typing import Any

from epochmq.broker.internal_writes.internal_writer import Done, Origin, WriteOutcome
from epochmq.broker.pop.broker_pop_state import PoppedCheckPoint, Stored
from epochmq.broker.pop.pop_records import CheckPoint, Key
from epochmq.broker.pop.pop_windows import PopWindow, QueueKey
from epochmq.broker.pop.revive import OpenCheckPoint, Revive
from epochmq.broker.pop.revive_driver import _Lost
from epochmq.broker.serving.roles import Role
from epochmq.broker.transaction.open_transactions import OpProgress
from epochmq.model.message import StoredMessage
from epochmq.replication.ack_policy import AckStatus
from epochmq.replication.in_sync import NEVER, InSync
from epochmq.replication.replication_effects import SetProposal
from epochmq.replication.replication_node import ReplicationNode
from epochmq.store.draft import Draft
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command


def outlet_advances_after_ack(broker: Any) -> None:
    """Appended messages count as stored at once, on disk and at replicas."""
    broker.owned.when_kept = lambda _end, done: done(True)  # type: ignore[method-assign]


def put_once(broker: Any) -> None:
    """A message that is appended but not stored in time is appended again."""
    pending_writes = broker.owned.pending_writes
    pending_writes.wait = pending_writes._kept  # type: ignore[method-assign]


def timer_tries_again(broker: Any) -> None:
    """A failed delivery counts as successful (rocketmq#7927)."""
    core = broker.timer.driver.core
    settled = core.batch_put

    def all_held(held: Sequence[bool], wall: int, position: int) -> None:
        settled([True] * len(held), wall, position)

    core.batch_put = all_held  # type: ignore[method-assign]


def transaction_asks_the_log(broker: Any) -> None:
    """A half message from another master's time counts as open."""
    broker.owned.transactions._context.is_over = lambda *_: False  # type: ignore[method-assign]


def transaction_progress_is_read_back(broker: Any) -> None:
    """Both transaction queues count as processed up to where they were read."""
    core = broker.owned.transactions._context.core
    core.progress = lambda: OpProgress(core.seen, core.op_at)  # type: ignore[method-assign]


def pop_acks_are_kept(broker: Any) -> None:
    """An acknowledgement is confirmed though it was not stored, as in RocketMQ."""
    pop = broker.owned.pop
    ack = pop.ack

    def acked(
        key: Key,
        queue_id: int,
        offsets: list[int],
        wall: int,
        done: Callable[[bool], None],
        *,
        invisible_ms: int = 0,
    ) -> None:
        ack(key, queue_id, offsets, wall, lambda _kept: done(True), invisible_ms=invisible_ms)

    pop.ack = acked  # type: ignore[method-assign]


def pop_offset_waits(broker: Any) -> None:
    """The group's offset advances when messages are handed out, as in RocketMQ."""
    pop = broker.owned.pop
    keep = pop.keep

    def kept(taken: Sequence[PoppedCheckPoint], now: int, wall: int, done: Stored) -> None:
        keep(taken, now, wall, done)
        for one in taken:
            if one.window is not None:
                pop.finish_window(one.window, wall)

    pop.keep = kept  # type: ignore[method-assign]


def pop_windows_in_order(broker: Any) -> None:
    """A complete window is committed before an earlier incomplete one."""
    windows = broker.owned.pop.windows
    settled = windows.offset_to_commit

    def settle(window: PopWindow) -> int | None:
        live = window.live
        found = settled(window)
        return window.after if live else found

    windows.offset_to_commit = settle  # type: ignore[method-assign]


def pop_progress_waits(broker: Any) -> None:
    """The revive queue counts as processed up to where it was read."""
    driver = broker.owned.pop.driver
    keep = driver._keep

    def kept(core: Revive, queue_id: int, wall: int) -> None:
        core._places.clear()
        keep(core, queue_id, wall)

    driver._keep = kept  # type: ignore[method-assign]


def pop_copies_know(broker: Any) -> None:
    """A finished check point is forgotten while its copy is being written."""
    driver = broker.owned.pop.driver
    start = driver.start

    def started(count: int) -> None:
        start(count)
        for core in driver.queues.values():
            _forget_early(core)

    driver.start = started  # type: ignore[method-assign]


def _forget_early(core: Revive) -> None:
    def look(entry: OpenCheckPoint) -> bool:
        if entry.finished:
            core._entries.pop(entry.check_point.key, None)
        return entry.finished

    core._look = look  # type: ignore[method-assign]


def pop_time_is_monotonic(broker: Any) -> None:
    """Invisible times end by the wall clock (rocketmq#7914)."""
    driver, clock = broker.owned.pop.driver, broker.owned.clock
    start = driver.start
    base = clock.wall_ms() - clock.now_ms()

    def started(count: int) -> None:
        start(count)
        for core in driver.queues.values():
            _by_wall(core)

    def _by_wall(core: Revive) -> None:
        due = core.due

        def by_wall(now: int, most: int) -> list[OpenCheckPoint]:
            return due(clock.wall_ms() - base, most)

        core.due = by_wall  # type: ignore[method-assign]

    driver.start = started  # type: ignore[method-assign]


def pop_drops_with_its_topic(broker: Any) -> None:
    """Messages in flight in a queue stay so when its topic is deleted."""
    broker.owned.pop.windows.drop = lambda unwanted: None  # type: ignore[method-assign]


def pop_knows_what_is_gone(broker: Any) -> None:
    """A message that is not in its queue is searched for again and again (rocketmq#8479)."""
    driver = broker.owned.pop.driver
    find = driver._find

    def found(check_point: CheckPoint, offset: int, before: int) -> StoredMessage | _Lost:
        there = find(check_point, offset, before)
        return _Lost.HERE if there is _Lost.GONE else there

    driver._find = found  # type: ignore[method-assign]


def order_one_batch_out(broker: Any) -> None:
    """The next batch of a queue is handed out while another one is in flight."""
    broker.owned.pop.orders.blocked = lambda *_: False  # type: ignore[method-assign]


def order_leaves_out_acked(broker: Any) -> None:
    """Acknowledged messages of a batch are handed out again together with its rest."""
    broker.owned.pop.orders.done_with = lambda key: frozenset()  # type: ignore[method-assign]


def order_known_first(broker: Any) -> None:
    """Consumers get a batch before the replicas know of it (ADR 0055)."""

    def at_once(_code: int, _now: int, done: Callable[[], None], _count: int | None = None) -> None:
        done()

    broker.owned.watchers.when_taken = at_once  # type: ignore[method-assign]


def order_acks_of_its_batch(broker: Any) -> None:
    """An acknowledgement counts for any batch, as in RocketMQ after a crash."""
    orders = broker.owned.pop.orders
    ack = orders.ack

    def any_batch(key: QueueKey, offset: int, pop_time: int):  # type: ignore[no-untyped-def]
        batch = orders._batches.get(key)
        return ack(key, offset, pop_time if batch is None else batch.pop_time)

    orders.ack = any_batch  # type: ignore[method-assign]


def order_settles_first(broker: Any) -> None:
    """Batches and offsets are used as they were copied, each independently (ADR 0055)."""
    broker.owned.pop.apply_committed_orders = lambda now, wall: None  # type: ignore[method-assign]


def order_told_by_who_leads(broker: Any) -> None:
    """Replicas copy batches from any process at the address of their master (ADR 0055)."""
    by_table, owned = broker._by_table, broker.owned

    def told(command: Command, session: Any) -> None:
        role = owned.serving.role
        if command.code == RequestCode.GET_ALL_CONSUMER_ORDER_INFO:
            owned.serving.role = Role.MASTER
        by_table(command, session)
        owned.serving.role = role

    broker._by_table = told  # type: ignore[method-assign]


MUTANTS: dict[str, Callable[[Any], None]] = {
    spoil.__name__: spoil
    for spoil in (
        outlet_advances_after_ack,
        put_once,
        timer_tries_again,
        pop_offset_waits,
        pop_windows_in_order,
        pop_progress_waits,
        pop_copies_know,
        pop_time_is_monotonic,
        pop_drops_with_its_topic,
        pop_knows_what_is_gone,
        order_one_batch_out,
        order_leaves_out_acked,
        order_known_first,
        order_acks_of_its_batch,
        order_settles_first,
        order_told_by_who_leads,
        pop_acks_are_kept,
        transaction_asks_the_log,
        transaction_progress_is_read_back,
    )
}


def silence_decides_nothing(node: ReplicationNode) -> None:
    """A proposal of the sync-state set without an answer counts as refused."""

    def spoil(in_sync: InSync) -> None:
        failed = in_sync.proposal_failed

        def refused(proposal: SetProposal, now: int, refused: bool = False) -> None:
            failed(proposal, now, refused=True)

        in_sync.proposal_failed = refused  # type: ignore[method-assign]

    _with_each_set(node, spoil)


def new_links_begin_again(node: ReplicationNode) -> None:
    """A follower's acknowledgement on its last link counts on the next one."""

    def spoil(in_sync: InSync) -> None:
        plain = in_sync.linked

        def linked(follower_id: int, link: int, learner: bool, now: int) -> int | None:
            known = in_sync.replicas.get(follower_id)
            ack = NEVER if known is None else known.ack
            before = plain(follower_id, link, learner, now)
            in_sync.replicas[follower_id].ack = ack
            return before

        in_sync.linked = linked  # type: ignore[method-assign]

    _with_each_set(node, spoil)


def _with_each_set(node: ReplicationNode, spoil: Callable[[InSync], None]) -> None:
    """Change the sync-state set of each epoch in which `node` is master."""
    start = node.start_master

    def started(*arguments: Any) -> None:
        start(*arguments)
        assert node.master is not None
        spoil(node.master.in_sync)

    node.start_master = started  # type: ignore[method-assign]


REPLICATION_MUTANTS: dict[str, Callable[[ReplicationNode], None]] = {
    spoil.__name__: spoil for spoil in (silence_decides_nothing, new_links_begin_again)
}


def pre_online_version_check(process: Any) -> None:
    """A returning broker copies nothing: its own tables count as the newest."""
    back = process.member.pre_online
    if back is not None:
        back._merge.merge_table = lambda _table, _body, _wall: None  # type: ignore[method-assign]


def escape_advances_after_ack(process: Any) -> None:
    """A message for another group counts as stored there before it is sent."""
    escape = process.watched.escape
    plain = escape.put

    def put(drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        plain(drafts, origin, wall, lambda _outcomes: None)
        done([WriteOutcome.STORED] * len(drafts))

    escape.put = put  # type: ignore[method-assign]


def slaves_copy_offsets(process: Any) -> None:
    """A slave requests its master's offsets, but does not apply them."""
    tables = process.member.sync.core._tables
    tables.apply_offsets = lambda _body, *, delta: None  # type: ignore[method-assign]


def ended_are_handed_over(process: Any) -> None:
    """Transactions that an acting master ended are not reported while an older one is open (ADR
    0063).
    """
    process.node.offsets.note_ended = lambda _origin, _mark: None  # type: ignore[method-assign]


def sends_wait_for_copies(process: Any) -> None:
    """A SYNC_MASTER answers before its slaves have the message."""
    replication = process.member.replication

    def at_once(_offset: int, _deadline_at_ms: int, done: Callable[[AckStatus], None]) -> None:
        done(AckStatus.ACKED)

    replication.when_acked = at_once  # type: ignore[method-assign]


ACTING_MUTANTS: dict[str, Callable[[Any], None]] = {
    spoil.__name__: spoil
    for spoil in (
        pre_online_version_check,
        escape_advances_after_ack,
        slaves_copy_offsets,
        ended_are_handed_over,
        sends_wait_for_copies,
    )
}
"""Mutants of groups without controllers (the worlds `acting` and `hard`)."""
