"""The transaction service of a broker: drives open transactions, END_TRANSACTION and check back.

It works only at a master or an acting master. In each new term it reads the op queue and the half
queue from the saved progress on, and so learns which transactions are open. As in RocketMQ, the
progress is the consumer offsets of CID_RMQ_SYS_TRANS in both topics, so replicas copy it.
"""

from contextlib import suppress

from epochmq.base.errors import Refused
from epochmq.broker.internal_writes.internal_writer import WriteOutcome
from epochmq.broker.transaction.check_back import CheckBackDriver
from epochmq.broker.transaction.ending import Answer, BatchEnds, TransactionEndings
from epochmq.broker.transaction.half_messages import GROUP, op
from epochmq.broker.transaction.open_transactions import OpProgress
from epochmq.broker.transaction.transaction_context import (
    Reading,
    TransactionBroker,
    TransactionContext,
    terms_of,
)
from epochmq.broker.transaction.transaction_counts import TransactionCounts
from epochmq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from epochmq.store.native_send import StagedEnds
from epochmq.wire.headers.fast_headers import AnyEnd

HELD_LOOK_MS = 5
"""Pause (ms) before END_TRANSACTION requests that wait for their half message are tried again, and
before half messages that another thread reads from the device are looked for again."""


class TransactionService:
    """The transactions of one broker; idle unless this broker delivers (`Serving.delivers`)."""

    def __init__(self, node: TransactionBroker) -> None:
        self._node = node
        self._context = TransactionContext(node)
        self._reading = Reading(self._context)
        self.ending = TransactionEndings(self._context, self._reading)
        self._batch_ends = BatchEnds(self._context, self._reading, self.ending)
        self.asking = CheckBackDriver(self._context, self._reading)
        self._options = node.options
        self._time: tuple[int, int] | None = None
        """The master epoch and the number of role changes for which the core is filled; None: not
        serving. An epoch below 0 means that this broker is an acting master."""
        self._kept: OpProgress | None = None
        self._to_keep: tuple[OpProgress, int] | None = None

    @property
    def full(self) -> bool:
        """Whether new half messages are refused, because too many transactions are open."""
        return self._context.core.full

    @property
    def ready(self) -> bool:
        """Whether both queues were read, so that the open transactions are known."""
        return self._time is not None and self._context.core.ready

    def serves(self, now: int) -> bool:
        """Return whether this broker may end transactions now.

        Restarts the core when the role or the epoch has changed, and takes over new options.
        """
        node = self._node
        delivers = node.serving.delivers
        escapes = delivers and node.serving.escapes
        epoch = -1 - node.group_position.epoch if escapes else node.group_position.epoch
        time = (epoch, node.serving.role_changes) if delivers else None
        if time != self._time:
            self._time = time
            self._context.escapes = escapes
            self._context.core.terms = terms_of(node.options, escapes=escapes)
            self._kept = self._to_keep = None
            self._context.begin()
            self.ending.begin()
            if time is not None:
                self._reading.begin(now)
        if node.options is not self._options:
            self._options = node.options
            self._context.core.terms = terms_of(node.options, escapes=escapes)
        return time is not None

    def end(self, header: AnyEnd, now: int, answer: Answer, *, wanted: bool) -> None:
        """Handle an END_TRANSACTION request when `ready`; `answer` may be called later."""
        self.ending.end_transaction(header, now, answer, wanted=wanted)

    def end_together(self, ends: StagedEnds, now: int) -> None:
        """Handle many one-way END_TRANSACTION requests together, like `end`."""
        self._batch_ends.end_all(ends, now)

    def flush(self, now: int, wall: int) -> None:
        """Write the staged commits and the op messages that are due, at the end of a turn."""
        if not (self.ending.is_staged or self._context.core.has_ops) or not self.serves(now):
            return
        self.ending.flush(now, wall)
        self._write_ops(now, wall)

    def tick(self, now: int, wall: int) -> None:
        """Do all work that is due, in limited pieces; `now` is monotonic ms, `wall` wall ms."""
        if not self.serves(now):
            return
        self._reading.step_from_memory()
        if not self._context.core.ready:
            return
        self._context.look_at_ended()
        self.ending.look(now)
        self.flush(now, wall)
        self.asking.tick(now, wall)
        self.keep_progress(wall)
        self._forget_ended()

    def next_deadline(self, now: int) -> int | None:
        """Return the monotonic time (ms) of the next tick that has work; None without work."""
        if self._time is None:
            return None
        if self._reading.waits:
            return now + HELD_LOOK_MS
        if self._reading.behind:
            return now
        held = now + HELD_LOOK_MS if self.ending.waits or not self.ready else None
        wanted = [at for at in (self._context.core.next_deadline(), held) if at is not None]
        return min(wanted, default=None)

    def finish(self, now: int, wall: int) -> None:
        """Write all op messages before a clean stop, so that no producer is asked again."""
        if self.serves(now) and self._context.core.ready:
            self.ending.flush(now, wall)
            self._context.core.hurry(now)
            self._write_ops(now, wall)
            self._reading.step()
            self._to_keep = None

    def hand_over(self, now: int, wall: int) -> None:
        """Finish and save the progress before an acting master steps down (ADR 0051).

        The returning master asks for the progress at once.
        """
        self.finish(now, wall)
        self.keep_progress(wall)

    def _write_ops(self, now: int, wall: int) -> None:
        core = self._context.core
        while offsets := core.op_due(now):
            if self._context.escapes:
                self._no_op(offsets, now)
                continue
            written = False

            def settled(number: int, outcome: WriteOutcome, offsets: list[int] = offsets) -> None:
                nonlocal written
                moment = self._node.clock.now_ms()
                if outcome is WriteOutcome.STORED:
                    written = True
                    core.op_held(moment)
                    self.ending.named(offsets)
                else:
                    core.op_failed(moment)

            self._context.put([op(offsets, wall, self._node.store_host)], settled, wall)
            if not written:
                return

    def _no_op(self, offsets: list[int], now: int) -> None:
        """End transactions at an acting master without an op message (INV-32).

        The returning master learns of them from the progress, and from marks for those that ended
        out of order (ADR 0063).
        """
        core = self._context.core
        core.op_held(now)
        core.ended_unnamed(offsets)
        self.ending.named(offsets)

    def keep_progress(self, wall: int) -> None:
        """Commit the progress of both queues, once the log it depends on is synced.

        Otherwise a power cut could remove a message and keep the progress that passed it: the
        message would be lost. An acting master does not wait for a sync: other masters store its
        messages, and its own log may stay unsynced as long as nothing is appended.
        """
        pointers = self._node.store.pointers
        if not self.ready:
            return
        if self._to_keep is None:
            progress = self._context.core.progress()
            if progress == self._kept:
                return
            self._to_keep = (progress, pointers.appended)
        progress, end = self._to_keep
        if pointers.synced < end and not self._context.escapes:
            return
        self._to_keep, self._kept = None, progress
        with suppress(Refused):  # the table is full: the old progress stays valid
            for topic, at in zip((HALF_TOPIC, OP_HALF_TOPIC), progress, strict=True):
                self._node.offsets.commit(GROUP, topic, 0, at, wall)

    def _forget_ended(self) -> None:
        """Forget the marks of an acting master once the own progress covers them (ADR 0063)."""
        kept, context = self._kept, self._context
        if kept is None or context.escapes or not self._node.offsets.ended.marks:
            return
        if kept.halves >= context.ended_to:
            self._node.offsets.forget_ended()

    @property
    def topics(self) -> TransactionCounts:
        """The counts by topic."""
        return self._context.core.topics

    def statistics(self) -> dict[str, int]:
        return {**self._context.core.statistics(), **self.ending.counts, **self.asking.counts}
