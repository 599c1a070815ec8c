"""Reads both queues into the core, a bounded piece a call, never beyond what readers see."""

from epochmq.broker.transaction.half import GROUP, op_offsets, read_half
from epochmq.broker.transaction.log_lookup import records_of
from epochmq.broker.transaction.open_transactions import OpProgress
from epochmq.broker.transaction.transaction_context import TransactionContext
from epochmq.model import record
from epochmq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from epochmq.store.read import GetStatus, ReadResult

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
