"""Transaction check back: asks producers how their open transactions end (CHECK_TRANSACTION_STATE).

Before each check a copy of the half message, with the check counted, is stored. So a crash repeats
a check and never forgets one. While no producer of its group is connected, a half message is
neither counted nor copied, unless memory for open transactions runs short. RocketMQ counts these
checks, and gives the half message up within minutes.
"""

import logging

from epochmq.broker.internal_writes.internal_writer import WriteOutcome
from epochmq.broker.transaction.half_messages import copy, given_up, handed_over, real_place, shown
from epochmq.broker.transaction.open_transactions import Half, ReadHalfMessages, Why
from epochmq.broker.transaction.transaction_context import Reading, TransactionContext
from epochmq.model import record
from epochmq.model.message import StoredMessage
from epochmq.store.draft import Draft
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request
from epochmq.wire.headers.send_headers import CheckTransactionStateHeader

DAMAGED_MAX = 1_000
"""Limit of the damaged half messages that are remembered, so that each is logged once."""

log = logging.getLogger(__name__)


class CheckBackDriver:
    """Carries out the actions that `Transactions.looks` returns for open half messages.

    An acting master writes no copies and sends no checks. It hands each half message over to a
    master of another group, which checks back (RIP-32), and ends it here.
    """

    def __init__(self, context: TransactionContext, reading: Reading) -> None:
        self._context = context
        self._reading = reading
        self.counts = {"asked": 0, "unreachable": 0, "renewed": 0, "given_up": 0, "gone": 0,
                       "damaged": 0, "handed_over": 0}  # fmt: skip
        self._damaged: dict[int, None] = {}
        """Log offsets of damaged half messages that were logged already."""

    def tick(self, now: int, wall: int) -> None:
        work: list[tuple[ReadHalfMessages, StoredMessage, Draft]] = []
        for look in self._context.core.looks(now, wall):
            may_end = self._context.may_end(look.half, now)
            message = self._message(look.half, now) if may_end else None
            if message is None:
                continue
            draft = self._draft(look, message)
            if draft is not None:
                self._context.core.busy(look.half)
                work.append((look, message, draft))
        if not work:
            return

        def settled(number: int, outcome: WriteOutcome) -> None:
            look, message, _ = work[number]
            self._written(look, message, outcome)

        self._context.put([draft for *_, draft in work], settled, wall)

    def _message(self, half: Half, now: int) -> StoredMessage | None:
        """Read the half message; None if it is damaged, gone, or turns out to be over."""
        raw = self._context.node.store.message_at(half.offset, half.size)
        if raw is None and not self._context.is_gone(half):
            self._wait_for_repair(half)
            return None
        self._damaged.pop(half.offset, None)
        if raw is None:
            self.counts["gone"] += 1
            log.error(
                "half message %(queue_offset)d of %(group)s is gone",
                {"queue_offset": half.queue_offset, "group": half.group},
            )
            self._context.core.gone(half)
            return None
        if self._context.is_over(half, raw, now):
            return None
        return record.decode(raw)

    def _wait_for_repair(self, half: Half) -> None:
        """Log a damaged half message once.

        It stays open until it is repaired: END_TRANSACTION is refused meanwhile, and the producer
        is asked after the repair.
        """
        if half.offset in self._damaged:
            return
        if len(self._damaged) >= DAMAGED_MAX:
            self._damaged.pop(next(iter(self._damaged)))
        self._damaged[half.offset] = None
        self.counts["damaged"] += 1
        log.error(
            "half message %(queue_offset)d of %(group)s at %(offset)d of the log is damaged; it"
            " waits for its repair",
            {"queue_offset": half.queue_offset, "group": half.group, "offset": half.offset},
        )

    def _draft(self, look: ReadHalfMessages, message: StoredMessage) -> Draft | None:
        half = look.half
        if self._context.node.serving.escapes:
            return self._away(half, message)
        if look.why is Why.GIVE_UP:
            return given_up(message)
        if look.why is Why.RENEW:
            return copy(message, half, checks=half.checks)
        core, producers = self._context.core, self._context.node.producers
        if producers.pick(half.group) is None and not core.crowded:
            self.counts["unreachable"] += 1
            return None
        return copy(message, half, checks=half.checks + 1)

    def _away(self, half: Half, message: StoredMessage) -> Draft | None:
        home = f"{self._context.node.options.broker_name}@{half.origin}"
        draft = handed_over(message, home)
        if draft is None:
            log.error(
                "half message %(queue_offset)d of %(group)s names no topic",
                {"queue_offset": half.queue_offset, "group": half.group},
            )
            self._context.core.gone(half)
        return draft

    def _written(
        self, look: ReadHalfMessages, message: StoredMessage, outcome: WriteOutcome
    ) -> None:
        core, half = self._context.core, look.half
        if outcome is not WriteOutcome.STORED:
            core.again(half)
        elif self._context.node.serving.escapes:
            self.counts["handed_over"] += 1
            self._context.done(half, self._context.node.clock.now_ms(), committed=False)
        elif look.why is Why.GIVE_UP:
            self.counts["given_up"] += 1
            log.warning(
                "half message %(msg_id)s of group %(group)s was asked for %(checks)d times, now it"
                " is in TRANS_CHECK_MAX_TIME_TOPIC",
                {"msg_id": message.msg_id, "group": half.group, "checks": half.checks},
            )
            core.done(half, self._context.node.clock.now_ms(), committed=False)
        elif look.why is Why.RENEW:
            self.counts["renewed"] += 1
        else:
            self._ask(half, message)

    def _ask(self, half: Half, message: StoredMessage) -> None:
        """Send CHECK_TRANSACTION_STATE (39) to one producer of the group.

        The request names the newest copy of the half message that was read.
        """
        session = self._context.node.producers.pick(half.group)
        place = real_place(message)
        if session is None or place is None:
            return
        self.counts["asked"] += 1
        self._reading.step()
        newest = self._context.core.find(half.origin) or half
        message.offset, message.queue_offset = newest.offset, newest.queue_offset
        header = CheckTransactionStateHeader(
            tranStateTableOffset=newest.queue_offset,
            commitLogOffset=newest.offset,
            msgId=message.uniq_key,
            transactionId=message.uniq_key,
            offsetMsgId=message.offset_msg_id,
            topic=place[0],
        )
        header.bname = self._context.node.options.broker_name
        body = record.encode_stored(shown(message, place, half.origin))
        session.oneway(request(RequestCode.CHECK_TRANSACTION_STATE, header, body))
