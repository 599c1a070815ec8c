"""Which transactions are open, what ends them, whom to ask, and how far both queues are done.

A half message lies in queue 0 of RMQ_SYS_TRANS_HALF_TOPIC. It is over when an op message in
RMQ_SYS_TRANS_OP_HALF_TOPIC names its queue offset, or when a later copy of it follows in the half
queue. So everything there is to know is in the two queues, and this class is
fed with nothing else: `took_ops` and `took_half` report what readers may see of them, in order, at
the start of a master's time and ever after. What is below `seen` and not in the window is over;
no memory is kept of it.

A transaction is named by `origin`, the queue offset of its first half message; each copy carries
it. Whoever ends any copy ends the transaction, and it ends once:

- OPEN -> BUSY: something is being written because of it (the real message, a copy, the copy for
  TRANS_CHECK_MAX_TIME_TOPIC). Nothing else may be done to it meanwhile.
- BUSY -> DONE when that is held; -> OPEN when it is certain that it was not written.
- DONE: its op message is to be written, or is on its way; it leaves the window when that op
  message has been read back. Progress, the lowest offset of the window, moves by that alone: so
  whatever is behind it is in a log that readers, and replicas, hold.

A half message from before `begin` is `doubted`: its real message may have been written by who was
master before and not be named by an op message yet. The driver looks for it in the log before they
write one.

Pure: monotonic time paces rounds and op messages, wall time gives ages.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from epochmq.base import limits
from epochmq.base.errors import check

LOOKS_MAX = 64
"""Half messages that one call of `looks` names."""
PASSED_MAX = 2_000
"""Half messages of a round that one call of `looks` goes past."""
SPAN_MAX = 100_000
"""An open half message so far behind the newest is written again, so that both queues, read from
the progress on, stay short to read."""
RETRY_MS = 1_000
"""Pause after an op message that could not be written."""


class HalfMessageState(Enum):
    """How far one transaction is."""

    OPEN = auto()
    BUSY = auto()
    DONE = auto()


class Why(Enum):
    """What is to be done about an open half message."""

    ASK = auto()
    """Write it again with one more check counted, then ask a producer of its group."""
    RENEW = auto()
    """Write it again as it is."""
    GIVE_UP = auto()
    """Keep it in TRANS_CHECK_MAX_TIME_TOPIC; its transaction is over."""


class Half(msgspec.Struct, gc=False):
    """One half message that is not over; sizes and places are its record's."""

    queue_offset: int
    offset: int
    size: int
    origin: int
    group: str
    born_wall_ms: int
    immunity_ms: int = -1
    """What its sender asked for; -1: nothing."""
    checks: int = 0
    doubted: bool = False
    state: HalfMessageState = HalfMessageState.OPEN
    committed: bool = False
    """Once DONE: whether its message was written."""
    named: bool = False
    """Once DONE: whether its op message is held."""


class ReadHalfMessages(NamedTuple):
    half: Half
    why: Why


class OpProgress(NamedTuple):
    """Queue offsets to go on from after a restart."""

    halves: int
    ops: int


@dataclass(frozen=True, slots=True)
class Terms:
    """What the options say; times in ms."""

    timeout_ms: int = 6_000
    interval_ms: int = 30_000
    checks_max: int = 15
    kept_ms: int = 72 * 3_600_000
    """Older half messages are given up: files of their age are deleted."""
    op_bytes: int = 4096
    op_interval_ms: int = 3_000
    open_max: int = limits.TRANSACTIONS_OPEN_MAX


class Transactions:
    """The window of one half queue. `begin` first; then it is fed until `ready`."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.ready = False
        self._rounds = 0
        self.begin(0, OpProgress(0, 0), 0)
        self.ready = False

    def begin(self, now: int, progress: OpProgress, halves_end: int) -> None:
        """A master's time begins; half messages below `halves_end` are of another one's."""
        self.ready = False
        self.seen = progress.halves
        """Next queue offset of the half queue to report."""
        self.op_at = progress.ops
        """Next queue offset of the op queue to report."""
        self._doubt_to = halves_end
        self._window: dict[int, Half] = {}
        self._order: deque[int] = deque()
        self._newest: dict[int, int] = {}  # origin -> the copy that stands for it
        self._named: set[int] = set()  # named by op messages before their halves were read
        self._ended: dict[int, None] = {}  # origins that ended here, and no op message says so
        self._unwritten: deque[int] = deque()
        self._flying: list[int] = []
        self._op_at_ms: int | None = None
        self._round_at_ms = now + self.terms.interval_ms
        self._round: deque[int] = deque()
        self._mark: OpProgress | None = None
        self._ops_from = progress.ops
        self.busy_count = 0
        """For how many half messages something is being written."""

    # What is in the queues -------------------------------------------------------------------

    def took_ops(self, next_offset: int, named: Iterable[int]) -> None:
        """Op messages up to `next_offset` were read; `named` are the offsets in their bodies."""
        self.op_at = max(self.op_at, next_offset)
        for at in named:
            if self._window.get(at) is not None:
                self._drop(at)
            elif at >= self.seen or not self.ready:
                self._named.add(at)

    def ended_unnamed(self, offsets: Iterable[int]) -> None:
        """They are over where no op message is written: a stand-in. A copy of one that the old
        master wrote, and that comes only now, with the end of its log, is over as well."""
        for at in offsets:
            half = self._window.get(at)
            if half is not None:
                self._ended[half.origin] = None
                self._drop(at)
        while len(self._ended) > self.terms.open_max:
            del self._ended[next(iter(self._ended))]

    def ended_elsewhere(self, half: Half) -> None:
        """Who stood in says, only now, that this one is over; what is written of it goes on."""
        if half.state is HalfMessageState.OPEN:
            self._ended[half.origin] = None
            self._drop(half.queue_offset)

    def took_half(self, half: Half, *, ended: bool = False) -> None:
        """The next half message of the queue was read; `ended`: who stood in says it is over."""
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
        self._order.append(at)
        if half.origin != at:
            self._newest[half.origin] = at

    def passed(self, next_offset: int) -> None:
        """There is nothing to read below `next_offset`: holes, or retention has taken it."""
        self.seen = max(self.seen, next_offset)

    def caught_up(self) -> None:
        """Both queues were read to their ends, the op queue first: it is known what is open."""
        self.ready = True
        self._named = {at for at in self._named if at >= self.seen}

    @property
    def full(self) -> bool:
        """As many transactions are known as memory is given: no more may be begun."""
        return len(self._order) >= self.terms.open_max

    @property
    def crowded(self) -> bool:
        """Near that: those whose producers are gone are counted as checked, and given up."""
        return len(self._order) >= self.terms.open_max * 3 // 4

    def _drop(self, at: int) -> None:
        half = self._window.pop(at)
        if self._newest.get(half.origin) == at:
            del self._newest[half.origin]
        while self._order and self._order[0] not in self._window:
            self._order.popleft()

    # Ending ----------------------------------------------------------------------------------

    def find(self, origin: int) -> Half | None:
        """The half message that stands for the transaction, None when that is over."""
        return self._window.get(self._newest.get(origin, origin))

    def at(self, queue_offset: int) -> Half | None:
        """The half message at a place of the queue, None when it does not stand for one."""
        return self._window.get(queue_offset)

    def busy(self, half: Half) -> None:
        """Something is about to be written because of `half`."""
        check(half.state is HalfMessageState.OPEN, "transactions: one thing at a time")
        half.state = HalfMessageState.BUSY
        self.busy_count += 1

    def again(self, half: Half) -> None:
        """That was not written."""
        if half.state is HalfMessageState.BUSY:
            half.state = HalfMessageState.OPEN
            self.busy_count -= 1

    def done(self, half: Half, now: int, *, committed: bool) -> None:
        """The transaction is over: its message is held, or there is none; the op is to follow."""
        check(half.state is not HalfMessageState.DONE, "transactions: each ends once")
        self.busy_count -= half.state is HalfMessageState.BUSY
        half.state = HalfMessageState.DONE
        half.committed = committed
        self._unwritten.append(half.queue_offset)
        if self._op_at_ms is None:
            self._op_at_ms = now + self.terms.op_interval_ms

    def is_oldest(self, half: Half) -> bool:
        """Whether all before it are over: the progress comes past it as soon as it is."""
        for at in self._order:
            before = self._window.get(at)
            if before is not None and before.state is not HalfMessageState.DONE:
                return before is half
        return False

    def hurry(self, now: int) -> None:
        """Somebody waits for the op message."""
        if self._op_at_ms is not None and self._unwritten:
            self._op_at_ms = min(self._op_at_ms, now)

    def gone(self, half: Half) -> None:
        """Retention has taken its record: nothing is left to end."""
        self._drop(half.queue_offset)

    # Op messages -----------------------------------------------------------------------------

    def op_due(self, now: int) -> list[int]:
        """Offsets for the next op message, none when it is not time or one is on its way.

        Report `op_held` or `op_failed`.
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
        """The same offsets again, later."""
        self._unwritten.extendleft(reversed(self._flying))
        self._flying = []
        self._op_at_ms = now + RETRY_MS

    # Asking ----------------------------------------------------------------------------------

    def looks(self, now: int, wall: int) -> list[ReadHalfMessages]:
        """What to do about open half messages now, a few at a time."""
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

    # How far ---------------------------------------------------------------------------------

    def progress(self) -> OpProgress:
        """Where to begin after a restart: all before is over, and held where it is read from.

        An op message names only half messages that were read before it was written. So when the
        progress has passed all that had been read at some moment, no op message from before that
        moment is needed any more.
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
        """Monotonic time of the next op message or round; None before `ready`."""
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
