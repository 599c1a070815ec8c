"""The one-way ends of a turn, taken together: their messages are made and written as one run.

The native code has read the requests and compares each with the half message it names. What it does
not take is ended one by one, by `TransactionEndings`, which is where every refusal comes from: ends
of what is not open, rollbacks, copies, ends that wait, unusual messages. Those commits are written
behind the others of their turn.
"""

from typing import cast

from epochmq.broker.internal_writes.internal_writer import WriteOutcome
from epochmq.broker.transaction.ending import EndRequest, TransactionEndings, nobody
from epochmq.broker.transaction.half_reading import Reading
from epochmq.broker.transaction.open_transactions import Half, HalfMessageState
from epochmq.broker.transaction.transaction_context import TransactionContext
from epochmq.store.native.native_send import HALF, Ended, StagedEnds
from epochmq.store.native.remake import Remade, Source
from epochmq.wire.headers.fast_headers import EndEnvelope, EndFields, decode_hot
from epochmq.wire.headers.transaction_headers import COMMIT

MISSES_MAX = 16
"""Ends of one turn that the native code does not take after all; then the rest goes one by one."""


class BatchEnds:
    """The short way around `TransactionEndings`."""

    def __init__(
        self, context: TransactionContext, reading: Reading, ending: TransactionEndings
    ) -> None:
        self._context = context
        self._reading = reading
        self._ending = ending

    def end_all(self, ends: StagedEnds, now: int) -> None:
        """End all of them, in order as far as they are alike."""
        halves: list[Half] = []
        sources: list[Source] = []
        others: list[int] = []
        at, busy, up_to = self._context.core.at, self._context.core.busy, self._reading.up_to
        short = not self._context.escapes
        for number, end in enumerate(ends.ends):
            half = at(end.queue_offset) if short and up_to(end.queue_offset) else None
            if (
                half is None
                or end.how != COMMIT
                or half.state is not HalfMessageState.OPEN
                or half.doubted
                or half.offset != end.offset
            ):
                others.append(number)
                continue
            busy(half)
            halves.append(half)
            sources.append((half.offset, half.size, number))
        self._commit(ends, halves, sources, others, now)
        for number in sorted(others):
            self._ending.end_transaction(
                _fields(ends, ends.ends[number]), now, nobody, wanted=False
            )

    def _commit(
        self,
        ends: StagedEnds,
        halves: list[Half],
        sources: list[Source],
        others: list[int],
        now: int,
    ) -> None:
        """Write the messages of what the native code takes; the numbers of the rest join
        `others`."""
        node, core = self._context.node, self._context.core
        wall = node.clock.wall_ms()
        at = misses = 0
        while at < len(sources):
            remade = None
            if misses < MISSES_MAX:
                remade = node.store.remake(HALF, sources[at:], wall, ends)
            if remade is None:
                misses += 1
                core.again(halves[at])
                others.append(sources[at][2])
                at += 1
                continue
            some, at = slice(at, at + len(remade)), at + len(remade)
            self._put(remade, halves[some], [ends.ends[n] for _, _, n in sources[some]], ends, wall)

    def _put(
        self, remade: Remade, halves: list[Half], named: list[Ended], ends: StagedEnds, wall: int
    ) -> None:
        core, counts = self._context.core, self._ending.counts
        clock = self._context.node.clock

        def settled(number: int, outcome: WriteOutcome) -> None:
            now = clock.now_ms()
            if outcome is WriteOutcome.STORED:
                core.done(halves[number], now, committed=True)
                counts["committed"] += 1
            else:
                end = EndRequest(_fields(ends, named[number]), nobody, False, now)
                self._ending.written(halves[number], end, outcome, now)

        self._context.put(remade, settled, wall)


def _fields(ends: StagedEnds, end: Ended) -> EndFields:
    """The request, as Python reads it."""
    envelope = decode_hot(ends.header(end))
    return cast(
        EndEnvelope, envelope
    ).extFields  # the native code takes none that Python cannot read
