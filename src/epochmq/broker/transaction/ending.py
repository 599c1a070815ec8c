"""END_TRANSACTION: finds the half message of a commit or rollback, checks it, and ends it once.

The checks, their order and the response codes are RocketMQ's. For a repeated request RocketMQ
writes the message again; EpochMQ gives the same answer as before and writes nothing.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, cast

from epochmq.base.errors import Refused
from epochmq.base.limits import TRANSACTION_ENDS_HELD_MAX
from epochmq.broker.internal_writes.internal_writer import WriteOutcome
from epochmq.broker.transaction.half_messages import (
    is_committed,
    is_given_up,
    is_named,
    read_half,
    real,
)
from epochmq.broker.transaction.open_transactions import Half, HalfMessageState
from epochmq.broker.transaction.transaction_context import Reading, TransactionContext
from epochmq.model import record
from epochmq.model.message import StoredMessage
from epochmq.model.names import HALF_TOPIC
from epochmq.store.draft import Draft
from epochmq.store.native_send import HALF, Ended, StagedEnds
from epochmq.store.remake import Remade, Source
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Reply
from epochmq.wire.headers.fast_headers import AnyEnd, EndEnvelope, EndFields, decode_hot
from epochmq.wire.headers.send_headers import COMMIT

HELD_MS = 2_500
"""How long (ms) a request waits for its half message; clients wait 3 s for the answer."""

_AWAY = (
    "it is not known here how the transaction ends: the acting master forwarded it to a"
    " master of another group, and that master asks its producer"
)

log = logging.getLogger(__name__)

Answer = Callable[[Reply], None]


class EndRequest(NamedTuple):
    """One END_TRANSACTION request; `wanted` is False for a one-way request."""

    header: AnyEnd
    answer: Answer
    wanted: bool
    until_ms: int

    @property
    def commits(self) -> bool:
        return self.header.commitOrRollback == COMMIT


class TransactionEndings:
    """Handles END_TRANSACTION requests one by one.

    The messages of commits are staged and written together by `flush`. A request is answered when
    its result is stored.
    """

    def __init__(self, context: TransactionContext, reading: Reading) -> None:
        self._context = context
        self._reading = reading
        self._staged: list[tuple[Half, Draft, EndRequest]] = []
        self._held: deque[EndRequest] = deque()
        self._named: dict[int, list[Answer]] = {}
        self.counts = {"committed": 0, "rolled_back": 0, "repeated": 0, "refused": 0}

    def begin(self) -> None:
        """Start with a new role: answer all waiting requests with SYSTEM_BUSY."""
        waiting = [end.answer for *_, end in self._staged] + [end.answer for end in self._held]
        waiting += [answer for answers in self._named.values() for answer in answers]
        self._staged, self._named = [], {}
        self._held.clear()
        for answer in waiting:
            answer(_busy("this broker's part in its group has changed"))

    def end_transaction(self, header: AnyEnd, now: int, answer: Answer, *, wanted: bool) -> None:
        """Commit or roll back a transaction, now or when its half message can be ended.

        `now` is monotonic ms. `answer` is called once with the reply, at once or later.
        """
        self._try(EndRequest(header, answer, wanted, now + HELD_MS), now)

    def look(self, now: int) -> None:
        """Try again the requests that wait for their half message."""
        for _ in range(len(self._held)):
            self._try(self._held.popleft(), now)

    @property
    def waits(self) -> bool:
        return bool(self._held)

    def _try(self, end: EndRequest, now: int) -> None:
        core = self._context.core
        if not self._reading.up_to(end.header.tranStateTableOffset):
            pointers = self._context.node.store.pointers
            if pointers.readable >= pointers.appended:
                self._refuse(end, "Find prepared transaction message failed")
            else:
                self._hold(end, now)
            return
        try:
            half = core.at(end.header.tranStateTableOffset)
            if half is not None:
                _check(end.header, half)
            else:
                raw, named = self._earlier(end.header)
                half = core.find(named.origin)
                if half is None:
                    self._over(end, raw)
                    return
            if half.state is HalfMessageState.BUSY:
                self._hold(end, now)
            elif half.state is HalfMessageState.DONE:
                self._repeat(end, half, now)
            elif not self._context.may_end(half, now):
                self._hold(end, now)
            else:
                self._open(end, half, now)
        except Refused as error:
            self._refuse(end, error.remark or "")

    def _hold(self, end: EndRequest, now: int) -> None:
        if now >= end.until_ms or len(self._held) >= TRANSACTION_ENDS_HELD_MAX:
            end.answer(_busy("the half message is being worked at, or not confirmed yet"))
            return
        self._held.append(end)

    def _refuse(self, end: EndRequest, remark: str, code: int = ResponseCode.SYSTEM_ERROR) -> None:
        self.counts["refused"] += 1
        header = end.header
        log.info(
            "END_TRANSACTION of %(producerGroup)s for %(tranStateTableOffset)d at"
            " %(commitLogOffset)d refused: %(remark)s",
            {
                "producerGroup": header.producerGroup,
                "tranStateTableOffset": header.tranStateTableOffset,
                "commitLogOffset": header.commitLogOffset,
                "remark": remark,
            },
        )
        end.answer(Reply(code, remark))

    # Finding the half message ----------------------------------------------------------------

    def _earlier(self, header: AnyEnd) -> tuple[memoryview, Half]:
        """Read a half message that is over, or that a copy has replaced.

        Returns its record and the decoded half message. It is read by its queue offset, not by the
        log offset that the client sends: a client could have sent a message whose body contains a
        forged record. Raises `Refused` if the request does not match.
        """
        node = self._context.node
        at = header.tranStateTableOffset
        found = node.store.read_queue(HALF_TOPIC, 0, max(at, 0), 1, 1)
        raw = found.chunks[0] if found.count and at >= 0 else None
        if raw is None or record.queue_offset_at(raw, 0) != at:
            raise _wrong("Find prepared transaction message failed")
        named = read_half(raw)
        _check(header, named)
        return raw, named

    # Ending the transaction ------------------------------------------------------------------

    def _open(self, end: EndRequest, half: Half, now: int) -> None:
        context = self._context
        raw = context.node.store.message_at(half.offset, half.size)
        if raw is None and not context.is_gone(half):
            self._refuse(end, "the half message is damaged; end it again once it is repaired")
            return
        if raw is None:
            context.core.gone(half)
            self._refuse(end, "Find prepared transaction message failed")
            return
        if context.is_over(half, raw, now):
            self._repeat(end, half, now)
            return
        message = record.decode(raw)
        if end.header.commitLogOffset == half.offset:
            _check_id(end.header, message)
        if not end.commits:
            context.done(half, now, committed=False)
            self.counts["rolled_back"] += 1
            half.counts.rolled_back += 1
            self._when_named(end, half, now)
            return
        draft = real(message)
        if draft is None:
            self._refuse(end, "the half message names no topic")
            return
        context.core.busy(half)
        self._staged.append((half, draft, end))

    def _repeat(self, end: EndRequest, half: Half, now: int) -> None:
        """Answer a request for a transaction that is over: the same result is a success."""
        raw = self._context.node.store.message_at(half.offset, half.size)
        if raw is not None and self._followed(end, raw):
            return
        self.counts["repeated"] += 1
        if end.commits is not half.committed:
            self._refuse(end, _other(end))
        elif half.committed or half.named:
            end.answer(Reply())
        else:
            self._when_named(end, half, now)

    def _followed(self, end: EndRequest, raw: memoryview) -> bool:
        """Forward the request if this acting master handed the half message over; return whether.

        The transaction then ends at a master of another group.
        """
        if not self._context.escapes:
            return False
        key = record.decode(raw).uniq_key or ""
        return self._context.node.end_elsewhere(end.header, key, end.answer)

    def _over(self, end: EndRequest, raw: memoryview) -> None:
        """Answer a request for a transaction that is not in memory any more.

        The log shows whether it was committed.
        """
        if self._followed(end, raw):
            return
        self.counts["repeated"] += 1
        if not end.wanted:
            return
        node = self._context.node
        indexed = node.options.message_index_enable
        if is_committed(node.store, raw, indexed=indexed):
            self._finish_end(end, committed=True)
        elif self._ended_here(raw, indexed=indexed):
            self._finish_end(end, committed=False)
        else:
            self._refuse(end, _AWAY)

    def _ended_here(self, raw: memoryview, *, indexed: bool) -> bool:
        """Return whether a transaction that is over and not committed ended at this broker group.

        If not, an acting master handed it over to another group.
        """
        node = self._context.node
        if not node.options.enable_slave_acting_master:
            return True
        return is_named(node.store, raw) or is_given_up(node.store, raw, indexed=indexed)

    def _finish_end(self, end: EndRequest, *, committed: bool) -> None:
        if end.commits is committed:
            end.answer(Reply())
        else:
            self._refuse(end, _other(end))

    def _when_named(self, end: EndRequest, half: Half, now: int) -> None:
        """Answer a rollback when its op message is stored, since a crash before would undo it."""
        if end.wanted:
            self._named.setdefault(half.queue_offset, []).append(end.answer)
            self._context.core.hurry(now)

    def named(self, offsets: list[int]) -> None:
        """Answer the rollbacks of the half messages at queue offsets `offsets`.

        Their op message is stored.
        """
        for at in offsets:
            for answer in self._named.pop(at, ()):
                answer(Reply())

    # Writing ---------------------------------------------------------------------------------

    @property
    def is_staged(self) -> bool:
        """Whether `flush` has anything to write."""
        return bool(self._staged)

    def flush(self, now: int, wall: int) -> None:
        """Write the messages of all commits of this turn of the loop in one batch."""
        if not self._staged:
            return
        staged, self._staged = self._staged, []

        def settled(number: int, outcome: WriteOutcome) -> None:
            half, _, end = staged[number]
            self.written(half, end, outcome, self._context.node.clock.now_ms())

        self._context.put([draft for _, draft, _ in staged], settled, wall)

    def written(self, half: Half, end: EndRequest, outcome: WriteOutcome, now: int) -> None:
        core = self._context.core
        if outcome is WriteOutcome.STORED:
            self._context.done(half, now, committed=True)
            self.counts["committed"] += 1
            half.counts.commit(self._context.node.clock.wall_ms() - half.born_wall_ms)
            end.answer(Reply())
            return
        core.again(half)
        if outcome is WriteOutcome.ILLEGAL:
            self._refuse(
                end, "the message is illegal as it would be stored", ResponseCode.MESSAGE_ILLEGAL
            )
        else:
            self._refuse(
                end,
                "service not available now, the message was not written",
                ResponseCode.SERVICE_NOT_AVAILABLE,
            )


def nobody(reply: Reply) -> None:
    """Drop the answer to a one-way request."""


def _check(header: AnyEnd, half: Half) -> None:
    if half.group != header.producerGroup:
        raise _wrong("The producer group wrong")
    if half.offset != header.commitLogOffset:
        raise _wrong("The commit log offset wrong")


def _check_id(header: AnyEnd, message: StoredMessage) -> None:
    """Raise `Refused` if the ids in the request belong to another message.

    Clients put the unique key or the offset message id into either field. RocketMQ checks neither.
    """
    given = {text for text in (header.msgId, header.transactionId) if text}
    if given and message.uniq_key not in given and message.offset_msg_id not in given:
        raise _wrong(f"the half message is not of transaction {header.transactionId}")


def _wrong(remark: str) -> Refused:
    return Refused(ResponseCode.SYSTEM_ERROR, remark)


def _other(end: EndRequest) -> str:
    if end.commits:
        return "the transaction is over: it was rolled back, or given up"
    return "the transaction is over: it was committed"


def _busy(why: str) -> Reply:
    return Reply(ResponseCode.SYSTEM_BUSY, f"{why}; end the transaction again")


# Batch ends ----------------------------------------------------------------------------------
# The fast path for one-way END_TRANSACTION requests: the messages of one turn are made by native
# code and written as one run.
#
# The native code has parsed the requests, and compares each with the half message that it names.
# All requests that it does not handle go one by one to `TransactionEndings`, which makes every
# refusal: transactions that are not open, rollbacks, copies, requests that must wait, unusual
# messages. Those commits are written behind the others of their turn.


MISSES_MAX = 16
"""After this many requests of a turn that the native code rejects, the rest is ended one by one."""


class BatchEnds:
    """Ends many one-way requests together; falls back to `TransactionEndings`."""

    def __init__(
        self, context: TransactionContext, reading: Reading, ending: TransactionEndings
    ) -> None:
        self._context = context
        self._reading = reading
        self._ending = ending

    def end_all(self, ends: StagedEnds, now: int) -> None:
        """End all requests of a turn: plain commits first, in order, then the others in order."""
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
        """Write the messages that the native code can make.

        The numbers of the other requests are added to `others`.
        """
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
                half = halves[number]
                core.done(half, now, committed=True)
                counts["committed"] += 1
                half.counts.commit(wall - half.born_wall_ms)
            else:
                end = EndRequest(_fields(ends, named[number]), nobody, False, now)
                self._ending.written(halves[number], end, outcome, now)

        self._context.put(remade, settled, wall)


def _fields(ends: StagedEnds, end: Ended) -> EndFields:
    """Decode the header fields of a request in Python."""
    envelope = decode_hot(ends.header(end))
    return cast(
        EndEnvelope, envelope
    ).extFields  # the native code takes none that Python cannot read
