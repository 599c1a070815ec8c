"""What the parts of the transaction service share: the broker around them, and careful writing."""

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
from epochmq.store.draft import Draft
from epochmq.store.read import GetStatus, ReadResult
from epochmq.store.store import Store
from epochmq.wire.command import Reply
from epochmq.wire.headers.fast_headers import AnyEnd

ESCAPE_INTERVAL_MS = 1_000
"""How often a broker that stands in looks for silent transactions."""


EndElsewhere = Callable[[AnyEnd, str, Callable[[Reply], None]], bool]
"""Ends a transaction whose half message, of that UNIQ_KEY, another has; False: it is unknown."""


class TransactionBroker(Protocol):
    """The broker as this package sees it; `BrokerContext` fits."""

    options: BrokerOptions
    clock: Clock
    store: Store
    internal_writer: InternalWriter
    offsets: ConsumerOffsets
    producers: ProducerManager
    group_position: GroupPosition
    serving: Serving
    store_host: bytes

    @property
    def end_elsewhere(self) -> EndElsewhere: ...


def terms_of(options: BrokerOptions, *, escapes: bool = False) -> Terms:
    """A broker that stands in hands over what is silent soon after it is: its progress, which is
    all that the master gets back, moves only behind that.
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
    """The core of one master's time, and writing for it.

    `tenure` counts those times: what was put in an earlier one comes back to nobody.
    """

    def __init__(self, node: TransactionBroker) -> None:
        self.node = node
        self.core = Transactions(terms_of(node.options))
        self.escapes = False
        """Whether the queues are a master's that this broker stands in for."""
        self.tenure = 0
        self.ended_to = 0
        """Where the half queue ended when marks of ended transactions came: all theirs lie before,
        and nobody writes another copy of what is over."""
        self._came: int | None = None
        """How much had been told of them then."""

    def begin(self) -> None:
        self.tenure += 1
        self._came = None

    def put(
        self, drafts: Sequence[Draft], settled: Callable[[int, WriteOutcome], None], wall: int
    ) -> None:
        """Write `drafts`; `settled` gets each one's number and what became of it, once, or never
        when this master's time ends before. LATER only of what is not in the log.
        """
        tenure = self.tenure

        def done(outcomes: Sequence[WriteOutcome]) -> None:
            if tenure == self.tenure:
                for number, outcome in enumerate(outcomes):
                    settled(number, outcome)

        self.node.internal_writer.put(drafts, Origin.TRANSACTION, wall, done)

    def is_gone(self, half: Half) -> bool:
        """Whether retention has taken it; what is not, and cannot be read, waits for its repair."""
        return half.offset < self.node.store.pointers.start

    def is_over(self, half: Half, raw: memoryview, now: int) -> bool:
        """Whether a doubted half message turns out to be committed, or given up; if so it is over
        now."""
        if not half.doubted:
            return False
        half.doubted = False
        store, indexed = self.node.store, self.node.options.message_index_enable
        committed = is_committed(store, raw, indexed=indexed)
        if not committed and not is_given_up(store, raw, indexed=indexed):
            return False
        self.done(half, now, committed=committed)
        return True

    # Where no op message is written (ADR 0063) -----------------------------------------------

    def done(self, half: Half, now: int, *, committed: bool) -> None:
        """The transaction is over; who stands in notes it for the master that returns."""
        self.core.done(half, now, committed=committed)
        if not self.escapes:
            return
        raw = self.node.store.message_at(half.offset, half.size)
        if raw is not None:
            mark = EndedMark(half.queue_offset, identity(raw))
            self.node.offsets.note_ended(half.origin, mark)

    def may_end(self, half: Half, now: int) -> bool:
        """Whether it can be remembered that this one is over while older ones are open.

        If not, they end in order, and the progress alone says it: the others wait.
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
        """Whether somebody who stood in ended the transaction of this record."""
        mark = self.node.offsets.ended.marks.get(half.origin)
        return mark is not None and mark.name == identity(raw)

    def look_at_ended(self) -> None:
        """Once it is known what is open; some are told later (`pre_online/late`)."""
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
# Reads both queues into the core, a bounded piece a call, never beyond what readers see.


HALVES = 256
OPS = 16
BYTES = 1024 * 1024


class Reading:
    """Feeds a `Transactions` from the store."""

    def __init__(self, context: TransactionContext) -> None:
        self._context = context
        self.behind = True
        """Whether there was more to read than the last call did."""
        self._log_end = 0
        """Of the log when this master's time began."""

    def begin(self, now: int) -> None:
        """Start where the saved progress says, within what the queues hold."""
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

    def step(self) -> None:
        """Op messages first: a half message that one of them names is never taken for open."""
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
        """Whether readers may see all that lay in the log at the start. The real message of a
        doubted half message may lie at its end, and must be found before another one is written
        (INV-26). Who stands in for a master holds nothing back.
        """
        shown = self._context.node.store.pointers.readable >= self._log_end
        return shown or self._context.escapes

    def up_to(self, queue_offset: int) -> bool:
        """Read on until the half message at `queue_offset` was read; whether it was."""
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
            half = read_half(raw)
            core.took_half(half, ended=self._context.is_ended(half, raw))
        core.passed(min(found.next_offset, max(found.max_offset, 0)))
        return _more(found)


def _more(found: ReadResult) -> bool:
    more = 0 <= found.next_offset < found.max_offset
    return more and found.status is not GetStatus.DAMAGED
