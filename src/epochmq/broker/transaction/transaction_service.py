"""The driver of `Transactions`: reads, writes, answers and asks, where the role's row says so.

Begins anew with each time as master: reads the op queue and the half queue from the saved progress
on, and so knows again what is open. The progress is the consumer offsets of CID_RMQ_SYS_TRANS in
both topics, as RocketMQ keeps it, so replicas copy it and the file is the known one.
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
from epochmq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from epochmq.store.native_send import StagedEnds
from epochmq.wire.headers.fast_headers import AnyEnd

HELD_LOOK_MS = 5
"""How soon it is looked again at ends that wait for their half message."""


class TransactionService:
    """One broker's transactions; does nothing where others move messages on."""

    def __init__(self, node: TransactionBroker) -> None:
        self._node = node
        self._context = TransactionContext(node)
        self._reading = Reading(self._context)
        self.ending = TransactionEndings(self._context, self._reading)
        self._batch_ends = BatchEnds(self._context, self._reading, self.ending)
        self.asking = CheckBackDriver(self._context, self._reading)
        self._options = node.options
        self._time: tuple[int, int] | None = None
        """The master epoch and the tenure that the core knows the queues of; None: nobody's; below
        0 the epoch is one in which this broker stands in."""
        self._kept: OpProgress | None = None
        self._to_keep: tuple[OpProgress, int] | None = None

    @property
    def full(self) -> bool:
        """No more half messages are taken."""
        return self._context.core.full

    @property
    def ready(self) -> bool:
        """Whether it is known which transactions are open."""
        return self._time is not None and self._context.core.ready

    def serves(self, now: int) -> bool:
        """Whether this broker may end transactions now; notices another time as master."""
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
        """END_TRANSACTION for a broker that is `ready`; the answer may come later."""
        self.ending.end_transaction(header, now, answer, wanted=wanted)

    def end_together(self, ends: StagedEnds, now: int) -> None:
        """Many of them that want no answer, as `end`."""
        self._batch_ends.end_all(ends, now)

    def flush(self, now: int, wall: int) -> None:
        """At a turn's end: write what its requests made due."""
        if not self.serves(now):
            return
        self.ending.flush(now, wall)
        self._write_ops(now, wall)

    def tick(self, now: int, wall: int) -> None:
        """Everything whose time has come, in bounded pieces."""
        if not self.serves(now):
            return
        self._reading.step()
        if not self._context.core.ready:
            return
        self._context.look_at_ended()
        self.ending.look(now)
        self.flush(now, wall)
        self.asking.tick(now, wall)
        self.keep_progress(wall)
        self._forget_ended()

    def next_deadline(self, now: int) -> int | None:
        """Monotonic time of the next tick that does something."""
        if self._time is None:
            return None
        if self._reading.behind:
            return now
        held = now + HELD_LOOK_MS if self.ending.waits or not self.ready else None
        wanted = [at for at in (self._context.core.next_deadline(), held) if at is not None]
        return min(wanted, default=None)

    def finish(self, now: int, wall: int) -> None:
        """Before a clean stop: name what is over, so that nobody has to be asked again."""
        if self.serves(now) and self._context.core.ready:
            self.ending.flush(now, wall)
            self._context.core.hurry(now)
            self._write_ops(now, wall)
            self._reading.step()
            self._to_keep = None

    def hand_over(self, now: int, wall: int) -> None:
        """Before a stand-in steps down: the master asks for the progress at once (ADR 0051)."""
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
        """What is over where this broker stands in: nothing is written in the own log (INV-32).

        The progress alone tells the master, so it may hold a little longer what ended out of order.
        """
        core = self._context.core
        core.op_held(now)
        core.ended_unnamed(offsets)
        self.ending.named(offsets)

    def keep_progress(self, wall: int) -> None:
        """Commit how far both queues are, once all that is behind it is on the device.

        Else a power cut could take a message back and keep the progress behind it: lost. What a
        stand-in wrote is held by other masters, whatever becomes of its own log, which may lie
        unsynced for as long as nobody appends to it.
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
        with suppress(Refused):  # the table is full: the old progress is as true, and longer
            for topic, at in zip((HALF_TOPIC, OP_HALF_TOPIC), progress, strict=True):
                self._node.offsets.commit(GROUP, topic, 0, at, wall)

    def _forget_ended(self) -> None:
        """The master's own progress says by now that what a stand-in ended is over (ADR 0063)."""
        kept, context = self._kept, self._context
        if kept is None or context.escapes or not self._node.offsets.ended.marks:
            return
        if kept.halves >= context.ended_to:
            self._node.offsets.forget_ended()

    def statistics(self) -> dict[str, int]:
        return {**self._context.core.statistics(), **self.ending.counts, **self.asking.counts}
