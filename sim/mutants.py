"""Safeguards of what a broker moves on later, and of the sync-state set, taken out of one process,
one at a time (INV-92).

Each is a function that spoils a new process before it runs; the product knows nothing of it.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from sim.acting import BrokerProcess
    from sim.secondary import SecondaryBroker
    from sim.secondary_parts import WatchedSession


def outlet_advances_after_ack(broker: "SecondaryBroker") -> None:
    """What is appended counts as kept at once, by the device and by replicas."""
    broker.owned.when_kept = lambda _end, done: done(True)  # type: ignore[method-assign]


def put_once(broker: "SecondaryBroker") -> None:
    """What was appended and is not held in time is put again."""
    pending_writes = broker.owned.pending_writes
    pending_writes.wait = pending_writes._kept  # type: ignore[method-assign]


def timer_tries_again(broker: "SecondaryBroker") -> None:
    """A delivery that failed counts as made (rocketmq#7927)."""
    core = broker.timer.driver.core
    settled = core.batch_put

    def all_held(held: Sequence[bool], wall: int, position: int) -> None:
        settled([True] * len(held), wall, position)

    core.batch_put = all_held  # type: ignore[method-assign]


def transaction_asks_the_log(broker: "SecondaryBroker") -> None:
    """A half message of another master's time is believed to be open."""
    broker.owned.transactions._context.is_over = lambda *_: False  # type: ignore[method-assign]


def transaction_progress_is_read_back(broker: "SecondaryBroker") -> None:
    """Both queues count as done as far as they were read."""
    core = broker.owned.transactions._context.core
    core.progress = lambda: OpProgress(core.seen, core.op_at)  # type: ignore[method-assign]


def pop_acks_are_kept(broker: "SecondaryBroker") -> None:
    """An acknowledgement is answered as taken though it was not kept, as by RocketMQ."""
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


def pop_offset_waits(broker: "SecondaryBroker") -> None:
    """The group's offset moves when messages are handed out, as in RocketMQ."""
    pop = broker.owned.pop
    keep = pop.keep

    def kept(taken: Sequence[PoppedCheckPoint], now: int, wall: int, done: Stored) -> None:
        keep(taken, now, wall, done)
        for one in taken:
            if one.window is not None:
                pop.finish_window(one.window, wall)

    pop.keep = kept  # type: ignore[method-assign]


def pop_windows_in_order(broker: "SecondaryBroker") -> None:
    """A window that is safe is committed though one before it is not."""
    windows = broker.owned.pop.windows
    settled = windows.offset_to_commit

    def settle(window: PopWindow) -> int | None:
        live = window.live
        found = settled(window)
        return window.after if live else found

    windows.offset_to_commit = settle  # type: ignore[method-assign]


def pop_progress_waits(broker: "SecondaryBroker") -> None:
    """The revive queue counts as done as far as it was read."""
    driver = broker.owned.pop.driver
    keep = driver._keep

    def kept(core: Revive, queue_id: int, wall: int) -> None:
        core._places.clear()
        keep(core, queue_id, wall)

    driver._keep = kept  # type: ignore[method-assign]


def pop_copies_know(broker: "SecondaryBroker") -> None:
    """A check point that is done is forgotten while its copy is on the way."""
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


def pop_time_is_monotonic(broker: "SecondaryBroker") -> None:
    """Invisible times are over when the wall clock says so (rocketmq#7914)."""
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


def pop_drops_with_its_topic(broker: "SecondaryBroker") -> None:
    """What is under way in a queue goes on when its topic is deleted."""
    broker.owned.pop.windows.drop = lambda unwanted: None  # type: ignore[method-assign]


def pop_knows_what_is_gone(broker: "SecondaryBroker") -> None:
    """What is not in its queue is looked for again and again (rocketmq#8479)."""
    driver = broker.owned.pop.driver
    find = driver._find

    def found(check_point: CheckPoint, offset: int, before: int) -> StoredMessage | _Lost:
        there = find(check_point, offset, before)
        return _Lost.HERE if there is _Lost.GONE else there

    driver._find = found  # type: ignore[method-assign]


def order_one_batch_out(broker: "SecondaryBroker") -> None:
    """The next batch of a queue is given while one is out."""
    broker.owned.pop.orders.blocked = lambda *_: False  # type: ignore[method-assign]


def order_leaves_out_acked(broker: "SecondaryBroker") -> None:
    """What is acknowledged of a batch is handed out again with the rest of it."""
    broker.owned.pop.orders.done_with = lambda key: frozenset()  # type: ignore[method-assign]


def order_known_first(broker: "SecondaryBroker") -> None:
    """Consumers are told before the replicas know of it (ADR 0055)."""

    def at_once(_code: int, _now: int, done: Callable[[], None], _count: int | None = None) -> None:
        done()

    broker.owned.watchers.when_taken = at_once  # type: ignore[method-assign]


def order_acks_of_its_batch(broker: "SecondaryBroker") -> None:
    """An acknowledgement counts whichever batch it is of, as in RocketMQ after a crash."""
    orders = broker.owned.pop.orders
    ack = orders.ack

    def any_batch(key: QueueKey, offset: int, pop_time: int):  # type: ignore[no-untyped-def]
        batch = orders._batches.get(key)
        return ack(key, offset, pop_time if batch is None else batch.pop_time)

    orders.ack = any_batch  # type: ignore[method-assign]


def order_settles_first(broker: "SecondaryBroker") -> None:
    """Batches and offsets stay as they were copied, each by itself (ADR 0055)."""
    broker.owned.pop.apply_committed_orders = lambda now, wall: None  # type: ignore[method-assign]


def order_told_by_who_leads(broker: "SecondaryBroker") -> None:
    """Replicas copy batches from whoever has the address of their master (ADR 0055)."""
    by_table, owned = broker._by_table, broker.owned

    def told(command: Command, session: "WatchedSession") -> None:
        role = owned.serving.role
        if command.code == RequestCode.GET_ALL_CONSUMER_ORDER_INFO:
            owned.serving.role = Role.MASTER
        by_table(command, session)
        owned.serving.role = role

    broker._by_table = told  # type: ignore[method-assign]


MUTANTS: dict[str, Callable[["SecondaryBroker"], None]] = {
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
    """A question about the set that nobody answered counts as refused."""

    def spoil(in_sync: InSync) -> None:
        failed = in_sync.proposal_failed

        def refused(proposal: SetProposal, now: int, refused: bool = False) -> None:
            failed(proposal, now, refused=True)

        in_sync.proposal_failed = refused  # type: ignore[method-assign]

    _with_each_set(node, spoil)


def new_links_begin_anew(node: ReplicationNode) -> None:
    """What a follower acknowledged over its last link counts on the next one."""

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
    """Spoil the set of each epoch in which `node` is master."""
    start = node.start_master

    def started(*arguments: Any) -> None:
        start(*arguments)
        assert node.master is not None
        spoil(node.master.in_sync)

    node.start_master = started  # type: ignore[method-assign]


REPLICATION_MUTANTS: dict[str, Callable[[ReplicationNode], None]] = {
    spoil.__name__: spoil for spoil in (silence_decides_nothing, new_links_begin_anew)
}


def pre_online_version_check(process: "BrokerProcess") -> None:
    """A broker that comes back takes nothing over: its own tables count as the newest."""
    back = process.member.pre_online
    if back is not None:
        back._merge.merge_table = lambda _table, _body, _wall: None  # type: ignore[method-assign]


def escape_advances_after_ack(process: "BrokerProcess") -> None:
    """What goes to another group counts as held there before it is sent."""
    escape = process.watched.escape
    plain = escape.put

    def put(drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        plain(drafts, origin, wall, lambda _outcomes: None)
        done([WriteOutcome.STORED] * len(drafts))

    escape.put = put  # type: ignore[method-assign]


def slaves_copy_offsets(process: "BrokerProcess") -> None:
    """A slave asks for its master's offsets, and keeps none of them."""
    tables = process.member.sync.core._tables
    tables.apply_offsets = lambda _body, *, delta: None  # type: ignore[method-assign]


def ended_are_handed_over(process: "BrokerProcess") -> None:
    """What a stand-in ended while an older transaction is open, nobody is told (ADR 0063)."""
    process.node.offsets.note_ended = lambda _origin, _mark: None  # type: ignore[method-assign]


def sends_wait_for_copies(process: "BrokerProcess") -> None:
    """A SYNC_MASTER answers before its slaves have what was sent."""
    replication = process.member.replication

    def at_once(_offset: int, _deadline_at_ms: int, done: Callable[[AckStatus], None]) -> None:
        done(AckStatus.ACKED)

    replication.when_acked = at_once  # type: ignore[method-assign]


ACTING_MUTANTS: dict[str, Callable[["BrokerProcess"], None]] = {
    spoil.__name__: spoil
    for spoil in (
        pre_online_version_check,
        escape_advances_after_ack,
        slaves_copy_offsets,
        ended_are_handed_over,
        sends_wait_for_copies,
    )
}
"""Those of groups without controllers (the worlds `acting` and `hard`)."""
