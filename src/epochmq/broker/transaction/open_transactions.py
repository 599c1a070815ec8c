"""Open transactions: the states of half messages, when to check back, and the progress.

This is the pure core of RocketMQ's TransactionalMessageService. Half messages are stored in queue 0
of RMQ_SYS_TRANS_HALF_TOPIC. A half message is over when an op message in
RMQ_SYS_TRANS_OP_HALF_TOPIC names its queue offset, or when a later copy of it follows in the half
queue. So the two queues contain the whole state, and `took_ops` and `took_half` report their
readable records in order. A half message below `seen` that is not in the window is over, and uses
no memory.

A transaction is identified by `origin`, the queue offset of its first half message; each copy
carries it. Ending any copy ends the transaction, and a transaction ends once:

- OPEN -> BUSY: a message is being written for it (the real message, a copy, or the copy for
  TRANS_CHECK_MAX_TIME_TOPIC). Nothing else may be done to it meanwhile.
- BUSY -> DONE when the message is stored; BUSY -> OPEN when it is certain that it was not written.
- DONE: its op message is to be written, or is being written. The half message leaves the window
  when that op message has been read back. Only this moves the progress, the lowest offset of the
  window. So everything before the progress is decided by records that readers and replicas have.

A half message from before `begin` is `doubted`: an earlier master may have written its real message
without the op message. The driver searches the log for the real message before it writes one.

The module is pure. Monotonic time controls rounds and op messages; wall time gives ages.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from epochmq.base import limits
from epochmq.base.errors import check
from epochmq.broker.transaction.transaction_counts import TopicTransactions, TransactionCounts

LOOKS_MAX = 64
"""Limit of the half messages that one call of `looks` returns."""
PASSED_MAX = 2_000
"""Limit of the half messages of a round that one call of `looks` examines."""
SPAN_MAX = 100_000
"""An open half message that is this many queue offsets behind the newest is written again. So the
part of both queues behind the progress stays short."""
RETRY_MS = 1_000
"""Pause (ms) after an op message that could not be written."""


class HalfMessageState(Enum):
    """State of one transaction; see the module docstring."""

    OPEN = auto()
    BUSY = auto()
    DONE = auto()


class Why(Enum):
    """What to do with an open half message."""

    ASK = auto()
    """Write a copy with one more check counted, then check back with a producer of its group."""
    RENEW = auto()
    """Write a copy with the same number of checks."""
    GIVE_UP = auto()
    """Write a copy to TRANS_CHECK_MAX_TIME_TOPIC; the transaction is over."""


class Half(msgspec.Struct, gc=False):
    """One half message that is not over.

    `queue_offset`, `offset` (log offset) and `size` (bytes) describe its record.
    """

    queue_offset: int
    offset: int
    size: int
    origin: int
    group: str
    born_wall_ms: int
    immunity_ms: int = -1
    """Time (ms) without check back that the producer asked for; -1: not set."""
    checks: int = 0
    doubted: bool = False
    state: HalfMessageState = HalfMessageState.OPEN
    committed: bool = False
    """When DONE: whether the real message was written."""
    named: bool = False
    """When DONE: whether its op message is stored."""
    counts: TopicTransactions = msgspec.field(default_factory=TopicTransactions)
    """The counts of the topic of its real message."""


class ReadHalfMessages(NamedTuple):
    half: Half
    why: Why


class OpProgress(NamedTuple):
    """Queue offsets of the half queue and the op queue at which to continue after a restart."""

    halves: int
    ops: int


@dataclass(frozen=True, slots=True)
class Terms:
    """The options of transactions; times in ms."""

    timeout_ms: int = 6_000
    interval_ms: int = 30_000
    checks_max: int = 15
    kept_ms: int = 72 * 3_600_000
    """Older half messages are given up, because log files of that age are deleted."""
    op_bytes: int = 4096
    op_interval_ms: int = 3_000
    open_max: int = limits.TRANSACTIONS_OPEN_MAX


class Transactions:
    """The open transactions of one half queue.

    Call `begin` first, then report the records of both queues until `ready`.
    """

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.topics = TransactionCounts()
        self.ready = False
        self._rounds = 0
        self.begin(0, OpProgress(0, 0), 0)
        self.ready = False

    def begin(self, now: int, progress: OpProgress, halves_end: int) -> None:
        """Restart for a new term of a master.

        `progress` is the saved progress. Half messages below queue offset `halves_end` are from
        before this term and are doubted.
        """
        self.ready = False
        self.seen = progress.halves
        """Next queue offset of the half queue to read."""
        self.op_at = progress.ops
        """Next queue offset of the op queue to read."""
        self._doubt_to = halves_end
        self._window: dict[int, Half] = {}
        self._order: deque[int] = deque()
        self._newest: dict[int, int] = {}  # origin -> the copy that stands for it
        self._named: set[int] = set()  # named by op messages before their halves were read
        self._ended: OrderedDict[int, None] = OrderedDict()
        """Origins that ended here, and no op message says so."""
        self._unwritten: deque[int] = deque()
        self._flying: list[int] = []
        self._op_at_ms: int | None = None
        self._round_at_ms = now + self.terms.interval_ms
        self._round: deque[int] = deque()
        self._mark: OpProgress | None = None
        self._ops_from = progress.ops
        self.busy_count = 0
        """Number of half messages that are BUSY."""
        self.topics.begin()

    # Records of the queues -------------------------------------------------------------------

    def took_ops(self, next_offset: int, named: Iterable[int]) -> None:
        """Report that op messages before queue offset `next_offset` were read.

        `named` are the half queue offsets in their bodies.
        """
        self.op_at = max(self.op_at, next_offset)
        for at in named:
            if self._window.get(at) is not None:
                self._drop(at)
            elif at >= self.seen or not self.ready:
                self._named.add(at)

    def ended_unnamed(self, offsets: Iterable[int]) -> None:
        """End half messages at an acting master, which writes no op messages.

        A copy that the old master wrote and that is read only later is over as well.
        """
        for at in offsets:
            half = self._window.get(at)
            if half is not None:
                self._ended[half.origin] = None
                self._drop(at)
        while len(self._ended) > self.terms.open_max:
            self._ended.popitem(last=False)

    def ended_elsewhere(self, half: Half) -> None:
        """End a half message that an acting master has ended, unless it is BUSY or DONE."""
        if half.state is HalfMessageState.OPEN:
            self._ended[half.origin] = None
            self._drop(half.queue_offset)

    def took_half(self, half: Half, *, ended: bool = False) -> None:
        """Report that the next half message of the queue was read.

        `ended` is True if an acting master has marked the transaction as ended.
        """
        at = half.queue_offset
        check(at >= self.seen, "transactions: half messages are read in order, each once")
        self.seen = at + 1
        before = self._window.get(self._newest.get(half.origin, half.origin))
        # An op message of RocketMQ's may name the first half message in place of a copy of it.
        over = at in self._named or half.origin in self._named or half.origin in self._ended
        if ended or (before is not None and before.state is HalfMessageState.DONE):
            self._ended[half.origin] = None
            over = True
        if before is not None:
            self._drop(before.queue_offset)
        if over:
            return
        half.doubted = at < self._doubt_to
        self._window[at] = half
        half.counts.open += 1
        self._order.append(at)
        if half.origin != at:
            self._newest[half.origin] = at

    def passed(self, next_offset: int) -> None:
        """Report that nothing is left to read below queue offset `next_offset`.

        The queue has holes there, or retention deleted the records.
        """
        self.seen = max(self.seen, next_offset)

    def caught_up(self) -> None:
        """Report that both queues were read to their ends, the op queue first; now `ready`."""
        self.ready = True
        self._named = {at for at in self._named if at >= self.seen}

    @property
    def full(self) -> bool:
        """Whether the limit of open transactions is reached; no new one may begin."""
        return len(self._order) >= self.terms.open_max

    @property
    def crowded(self) -> bool:
        """Whether three quarters of the limit are used.

        Then checks are also counted while no producer is connected, so that these half messages
        are given up.
        """
        return len(self._order) >= self.terms.open_max * 3 // 4

    def _drop(self, at: int) -> None:
        half = self._window.pop(at)
        if half.state is not HalfMessageState.DONE:
            half.counts.open -= 1
        if self._newest.get(half.origin) == at:
            del self._newest[half.origin]
        while self._order and self._order[0] not in self._window:
            self._order.popleft()

    # Ending ----------------------------------------------------------------------------------

    def find(self, origin: int) -> Half | None:
        """Return the newest half message of a transaction; None if the transaction is over."""
        return self._window.get(self._newest.get(origin, origin))

    def at(self, queue_offset: int) -> Half | None:
        """Return the half message at a queue offset; None if it is over or has a newer copy."""
        return self._window.get(queue_offset)

    def busy(self, half: Half) -> None:
        """Mark `half` as BUSY, because a message is about to be written for it."""
        check(half.state is HalfMessageState.OPEN, "transactions: one thing at a time")
        half.state = HalfMessageState.BUSY
        self.busy_count += 1

    def again(self, half: Half) -> None:
        """Mark a BUSY half message as OPEN again, because its message was not written."""
        if half.state is HalfMessageState.BUSY:
            half.state = HalfMessageState.OPEN
            self.busy_count -= 1

    def done(self, half: Half, now: int, *, committed: bool) -> None:
        """End the transaction and queue its op message.

        `committed` says whether the real message was written.
        """
        check(half.state is not HalfMessageState.DONE, "transactions: each ends once")
        self.busy_count -= half.state is HalfMessageState.BUSY
        half.counts.open -= 1
        half.state = HalfMessageState.DONE
        half.committed = committed
        self._unwritten.append(half.queue_offset)
        if self._op_at_ms is None:
            self._op_at_ms = now + self.terms.op_interval_ms

    def is_oldest(self, half: Half) -> bool:
        """Return whether `half` is the oldest transaction that is not DONE.

        Then the progress can pass it as soon as it ends.
        """
        for at in self._order:
            before = self._window.get(at)
            if before is not None and before.state is not HalfMessageState.DONE:
                return before is half
        return False

    def hurry(self, now: int) -> None:
        """Make the next op message due now, because a request waits for it."""
        if self._op_at_ms is not None and self._unwritten:
            self._op_at_ms = min(self._op_at_ms, now)

    def gone(self, half: Half) -> None:
        """Forget a half message whose record is gone; nothing is left to end."""
        self._drop(half.queue_offset)

    # Op messages -----------------------------------------------------------------------------

    @property
    def has_ops(self) -> bool:
        """Whether an op message is to be written, now or later."""
        return self._op_at_ms is not None

    def op_due(self, now: int) -> list[int]:
        """Return the half queue offsets for the next op message.

        Empty if it is not due or one is being written. Otherwise call `op_held` or `op_failed`
        with the result.
        """
        if self._flying or self._op_at_ms is None:
            return []
        most = max(1, self.terms.op_bytes // (len(str(self.seen)) + 1))
        if now < self._op_at_ms and len(self._unwritten) < most:
            return []
        while self._unwritten and len(self._flying) < most:
            self._flying.append(self._unwritten.popleft())
        return list(self._flying)

    def op_held(self, now: int) -> None:
        for at in self._flying:
            half = self._window.get(at)
            if half is not None:
                half.named = True
        self._flying = []
        self._op_at_ms = now if self._unwritten else None

    def op_failed(self, now: int) -> None:
        """Plan the same offsets for a later op message, because the write failed."""
        self._unwritten.extendleft(reversed(self._flying))
        self._flying = []
        self._op_at_ms = now + RETRY_MS

    # Check back ------------------------------------------------------------------------------

    def looks(self, now: int, wall: int) -> list[ReadHalfMessages]:
        """Return the next open half messages to handle and what to do with each.

        At most `LOOKS_MAX` in all: first those that are far behind, then those of the round.
        """
        if not self.ready:
            return []
        if now >= self._round_at_ms and not self._round:
            self._round_at_ms = now + self.terms.interval_ms
            self._round.extend(self._order)
            self._rounds += 1
        found = self._far_behind()
        far = {look.half.queue_offset for look in found}
        for _ in range(min(len(self._round), PASSED_MAX)):
            if len(found) >= LOOKS_MAX:
                break
            half = self._window.get(self._round.popleft())
            if (
                half is not None
                and half.state is HalfMessageState.OPEN
                and half.queue_offset not in far
            ):
                why = self._judge(half, wall)
                if why is not None:
                    found.append(ReadHalfMessages(half, why))
        return found

    def _judge(self, half: Half, wall: int) -> Why | None:
        age = wall - half.born_wall_ms
        immunity = half.immunity_ms if half.immunity_ms >= 0 else self.terms.timeout_ms
        if 0 <= age < immunity:
            return None
        if half.checks >= self.terms.checks_max or age > self.terms.kept_ms:
            return Why.GIVE_UP
        return Why.ASK

    def _far_behind(self) -> list[ReadHalfMessages]:
        found: list[ReadHalfMessages] = []
        for at in self._order:
            if len(found) >= LOOKS_MAX or self.seen - at <= SPAN_MAX:
                break
            half = self._window.get(at)
            if half is not None and half.state is HalfMessageState.OPEN:
                found.append(ReadHalfMessages(half, Why.RENEW))
            elif half is not None:
                break
        return found

    # Progress --------------------------------------------------------------------------------

    def progress(self) -> OpProgress:
        """Return the queue offsets at which to begin after a restart; everything before is over.

        An op message names only half messages that were read before it was written. So when the
        progress passes everything that had been read at some moment, the op messages from before
        that moment are not needed any more.
        """
        halves = self._order[0] if self._order else self.seen
        if self.ready:
            if self._mark is not None and halves >= self._mark.halves:
                self._ops_from = self._mark.ops
                self._mark = None
            if self._mark is None:
                self._mark = OpProgress(self.seen, self.op_at)
                if halves >= self.seen:
                    self._ops_from = self.op_at
        return OpProgress(halves, self._ops_from)

    def next_deadline(self) -> int | None:
        """Return the monotonic time (ms) of the next op message or round; None before `ready`."""
        if not self.ready:
            return None
        if self._round:
            return 0
        if self._op_at_ms is None or self._flying:
            return self._round_at_ms
        return min(self._op_at_ms, self._round_at_ms)

    def statistics(self) -> dict[str, int]:
        return {
            "open": len(self._window) - len(self._unwritten) - len(self._flying),
            "window": len(self._window),
            "ops_unwritten": len(self._unwritten) + len(self._flying),
            "rounds": self._rounds,
        }
