"""Shared state of the transaction service: the broker, the open transactions, and queue reading."""

from collections.abc import Callable, Sequence
from typing import Protocol

from epochmq.base.ports import Buffer, Clock
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.consume.client_tables import ProducerManager
from epochmq.broker.consume.consumer_offsets import ConsumerOffsets
from epochmq.broker.consume.ended_transactions import EndedMark
from epochmq.broker.internal_writes.internal_writer import InternalWriter, Origin, WriteOutcome
from epochmq.broker.serving.group_position import GroupPosition
from epochmq.broker.serving.serving_state import Serving
from epochmq.broker.transaction.half_messages import (
    GROUP,
    identity,
    is_committed,
    is_given_up,
    op_offsets,
    read_half,
    records_of,
)
from epochmq.broker.transaction.open_transactions import Half, OpProgress, Terms, Transactions
from epochmq.model import record
from epochmq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from epochmq.store.cold_reads import ColdReads
from epochmq.store.draft import Draft
from epochmq.store.log_memory import NotInMemory
from epochmq.store.read import GetStatus, ReadResult
from epochmq.store.store import Store
from epochmq.wire.command import Reply
from epochmq.wire.headers.fast_headers import AnyEnd

ESCAPE_INTERVAL_MS = 1_000
"""Longest interval (ms) between check rounds at an acting master."""


EndElsewhere = Callable[[AnyEnd, str, Callable[[Reply], None]], bool]
"""Forwards an END_TRANSACTION to the broker that has the half message with that UNIQ_KEY; returns
False if none is known."""


class TransactionBroker(Protocol):
    """The part of the broker that this package uses; `BrokerContext` implements it."""

    options: BrokerOptions
    clock: Clock
    store: Store
    internal_writer: InternalWriter
    offsets: ConsumerOffsets
    producers: ProducerManager
    group_position: GroupPosition
    serving: Serving
    store_host: bytes
    cold_reads: ColdReads

    @property
    def end_elsewhere(self) -> EndElsewhere: ...


def terms_of(options: BrokerOptions, *, escapes: bool = False) -> Terms:
    """Return the transaction terms of the options.

    An acting master (`escapes`) uses a short check interval: it hands half messages over early,
    because its progress, which the master takes back, can pass only ended transactions.
    """
    interval_ms = options.transaction_check_interval
    return Terms(
        timeout_ms=options.transaction_time_out,
        interval_ms=min(interval_ms, ESCAPE_INTERVAL_MS) if escapes else interval_ms,
        checks_max=options.transaction_check_max,
        kept_ms=options.file_reserved_time * 3_600_000,
        op_bytes=options.transaction_op_msg_max_size,
        op_interval_ms=options.transaction_op_batch_interval,
    )


class TransactionContext:
    """The open transactions of the present term, and writes on their behalf.

    `tenure` counts the terms: the outcome of a write from an earlier term is dropped.
    """

    def __init__(self, node: TransactionBroker) -> None:
        self.node = node
        self.core = Transactions(terms_of(node.options))
        self.escapes = False
        """Whether this broker is an acting master, so that the queues are another master's."""
        self.tenure = 0
        self.ended_to = 0
        """End of the half queue when marks of ended transactions were last received. All marked
        half messages lie before it, because no copy is written of a transaction that is over."""
        self._came: int | None = None
        """Value of `EndedTransactions.came` at that time."""

    def begin(self) -> None:
        self.tenure += 1
        self._came = None

    def put(
        self, drafts: Sequence[Draft], settled: Callable[[int, WriteOutcome], None], wall: int
    ) -> None:
        """Write `drafts` through the internal writer.

        `settled` is called once for each draft with its index and outcome, or never if this term
        ends before. LATER means that the draft is not in the log.
        """
        tenure = self.tenure

        def done(outcomes: Sequence[WriteOutcome]) -> None:
            if tenure == self.tenure:
                for number, outcome in enumerate(outcomes):
                    settled(number, outcome)

        self.node.internal_writer.put(drafts, Origin.TRANSACTION, wall, done)

    def is_gone(self, half: Half) -> bool:
        """Return whether retention deleted the half message.

        An unreadable half message that is not gone is damaged and waits for its repair.
        """
        return half.offset < self.node.store.pointers.start

    def is_over(self, half: Half, raw: memoryview, now: int) -> bool:
        """Search the log for the result of a doubted half message; return whether it is over.

        If it was committed or given up, it is marked as done.
        """
        if not half.doubted:
            return False
        half.doubted = False
        store, indexed = self.node.store, self.node.options.message_index_enable
        committed = is_committed(store, raw, indexed=indexed)
        if not committed and not is_given_up(store, raw, indexed=indexed):
            return False
        self.done(half, now, committed=committed)
        return True

    # Ends without op messages at an acting master (ADR 0063) ----------------------------------

    def done(self, half: Half, now: int, *, committed: bool) -> None:
        """End the transaction; an acting master also marks it for the returning master."""
        self.core.done(half, now, committed=committed)
        if not self.escapes:
            return
        raw = self.node.store.message_at(half.offset, half.size)
        if raw is not None:
            mark = EndedMark(half.queue_offset, identity(raw))
            self.node.offsets.note_ended(half.origin, mark)

    def may_end(self, half: Half, now: int) -> bool:
        """Return whether the transaction may end now; always True at a regular master.

        An acting master needs room for a mark. Without room only the oldest transaction may end,
        because the progress alone records that; the others wait.
        """
        if not self.escapes:
            return True
        offsets, core = self.node.offsets, self.core
        progress = offsets.get(GROUP, HALF_TOPIC, 0)
        if offsets.ended.has_room(progress, core.busy_count):
            return True
        core.hurry(now)
        return core.is_oldest(half)

    def is_ended(self, half: Half, raw: Buffer) -> bool:
        """Return whether an acting master has ended the transaction of this record."""
        mark = self.node.offsets.ended.marks.get(half.origin)
        return mark is not None and mark.name == identity(raw)

    def look_at_ended(self) -> None:
        """End open transactions that new marks name; call it when `ready`.

        Some marks arrive after the start, when another replica sends them late.
        """
        ended = self.node.offsets.ended
        if ended.came == self._came:
            return
        self._came = ended.came
        self.ended_to = max(0, self.node.store.queue_bounds(HALF_TOPIC, 0)[1])
        for origin in ended.marks:
            half = self.core.find(origin)
            raw = None if half is None else self.node.store.message_at(half.offset, half.size)
            if half is not None and raw is not None and self.is_ended(half, raw):
                self.core.ended_elsewhere(half)


# Half reading --------------------------------------------------------------------------------
# Reads both queues into the core, a limited piece in each call, up to the readable end of the log.


STEP_COLD_READS_MAX = 8
"""A step waits for the device so often, then its records are read in the event loop. It needs two
reads: of op messages and of half messages.
"""
HALVES = 256
OPS = 16
BYTES = 1024 * 1024


class Reading:
    """Reads the half queue and the op queue of the store into a `Transactions`."""

    def __init__(self, context: TransactionContext) -> None:
        self._context = context
        self.behind = True
        """Whether the last call left records unread."""
        self._log_end = 0
        """End of the log (log offset) when this term began."""
        self.waits = False
        """Whether another thread reads the next records from the device."""
        self._cold_reads_left = STEP_COLD_READS_MAX

    def begin(self, now: int) -> None:
        """Start at the saved progress, limited to the bounds of the queues."""
        core, node = self._context.core, self._context.node
        places = []
        for topic in (HALF_TOPIC, OP_HALF_TOPIC):
            low, high = node.store.queue_bounds(topic, 0)
            saved = node.offsets.get(GROUP, topic, 0)
            places.append(min(max(saved, low, 0), max(high, 0)))
        _, end = node.store.queue_bounds(HALF_TOPIC, 0)
        core.begin(now, OpProgress(*places), max(end, 0))
        self.behind = True
        self._log_end = node.store.pointers.appended

    def step_from_memory(self) -> None:
        """As `step`; if the records are not in memory, let another thread read them first."""
        node = self._context.node
        if self.waits:
            return
        if not self._cold_reads_left or not node.cold_reads.has_room:
            self.step()
        else:
            try:
                with node.store.reading_memory_only():
                    self.step()
            except NotInMemory as missing:
                self.waits = self.behind = True
                self._cold_reads_left -= 1
                node.cold_reads.run(missing.prefetch, self._are_here)
                return
        self._cold_reads_left = STEP_COLD_READS_MAX

    def _are_here(self) -> None:
        self.waits = False

    def step(self) -> None:
        """Read one piece of both queues, op messages first.

        So a half message that an op message names is never treated as open.
        """
        core = self._context.core
        more_ops = self._ops()
        if more_ops and not core.ready:
            return
        more_halves = self._halves()
        self.behind = more_ops or more_halves
        if not core.ready and not self.behind and self._is_all_shown:
            core.caught_up()

    @property
    def _is_all_shown(self) -> bool:
        """Whether everything that was in the log at the start is readable.

        The real message of a doubted half message may lie at the end of the log, and must be found
        before another one is written (INV-26). An acting master does not wait for this.
        """
        shown = self._context.node.store.pointers.readable >= self._log_end
        return shown or self._context.escapes

    def up_to(self, queue_offset: int) -> bool:
        """Read on up to the half message at `queue_offset`; return whether it was reached."""
        core = self._context.core
        while core.seen <= queue_offset:
            if not self._halves():
                break
        return core.seen > queue_offset

    def _ops(self) -> bool:
        core = self._context.core
        found = self._context.node.store.read_queue(OP_HALF_TOPIC, 0, core.op_at, OPS, BYTES)
        for raw in records_of(found):
            core.took_ops(record.queue_offset_at(raw, 0) + 1, op_offsets(raw))
        core.took_ops(min(found.next_offset, max(found.max_offset, 0)), ())
        return _more(found)

    def _halves(self) -> bool:
        core = self._context.core
        found = self._context.node.store.read_queue(HALF_TOPIC, 0, core.seen, HALVES, BYTES)
        for raw in records_of(found):
            half = read_half(raw, core.topics)
            core.took_half(half, ended=self._context.is_ended(half, raw))
        core.passed(min(found.next_offset, max(found.max_offset, 0)))
        return _more(found)


def _more(found: ReadResult) -> bool:
    more = 0 <= found.next_offset < found.max_offset
    return more and found.status is not GetStatus.DAMAGED
