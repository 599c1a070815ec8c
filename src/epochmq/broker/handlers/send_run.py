"""Single sends by the compiled twin: taken from the receive buffer, no Python object for each.

A read's frames are staged by one call; at the turn's end another makes records, units, keys and
answers. The twin stops at the first frame that is no ordinary send; that one, and what follows in
the same read, is taken by `SendStage.take`. What the log cannot take as one run becomes drafts.
"""

import ctypes

from epochmq.broker.handlers.send_answers import SendAnswers, Ticket
from epochmq.broker.handlers.send_lane import Lane, Lanes
from epochmq.broker.handlers.send_sync import failure
from epochmq.broker.node import BrokerNode
from epochmq.model.record import TRAILING_BLANK_BYTES
from epochmq.store.dispatch import index_keys
from epochmq.store.draft import Appended, Draft
from epochmq.store.twin.library import Library
from epochmq.store.twin.send import SendRun, SendTexts
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, Reply, decode
from epochmq.wire.frame import FrameReader
from epochmq.wire.headers.base import decode_header
from epochmq.wire.headers.send import SendResponseHeader
from epochmq.wire.session import Session

Answer = tuple[Session, bytes]
"""The answers of one read."""


class RunStage:
    """The sends that the twin has taken in this turn."""

    def __init__(
        self, library: Library, node: BrokerNode, lanes: Lanes, answers: SendAnswers, tail: str
    ) -> None:
        self._node = node
        self._lanes = lanes
        self.answers = answers
        """What its answers are made by; another one when options have changed."""
        options = node.store.options
        middle, end = answers.reply_parts
        texts = SendTexts(
            tail.encode(),
            middle,
            end,
            node.options.max_message_size,
            min(options.message_bytes_max, options.commit_log_file_bytes - TRAILING_BLANK_BYTES),
            options.index,
        )
        self._run = SendRun(library, node.store_host, texts)
        self.reads: list[Session] = []
        """Whose frames were taken, read by read."""
        self.cleared = lanes.cleared
        """Up to which clearing of the lanes the twin has followed."""
        self._known: set[str] = set()
        self.data = memoryview(b"")
        self.address = 0
        """Where `data` lies."""
        self.take = self._run.take

    def look_at(self, data: memoryview) -> None:
        """Take from `data` from now on; all connections of a loop share one."""
        self.data = data
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(data))

    def in_step(self) -> bool:
        """Whether the twin knows the lanes as they are now."""
        lanes = self._lanes
        if self.cleared != lanes.cleared:
            if self.reads:
                return False  # after the flush
            self.cleared = lanes.cleared
            self._run.forget_topics()
            self._known.clear()
        for lane in lanes.opened:
            self._add(lane)
        lanes.opened.clear()
        return True

    def _add(self, lane: Lane) -> None:
        if lane.retry_group is None and not lane.batched and lane.topic not in self._known:
            self._known.add(lane.topic)
            self._run.add_topic(lane.topic, lane.queues, lane.sys_flag)

    def append(self) -> tuple[list[Answer], Appended] | None:
        """Append everything staged: its answers, and where it ended; None: `drafts` must be."""
        run, node = self._run, self._node
        start = node.store.pointers.appended
        if not node.store.append_run(run, node.clock.wall_ms()):
            return None
        self._count()
        node.stats.put.total += run.count
        answers = list(zip(self.reads, run.answers(), strict=True))
        last = Appended(start, run.size, 0, 0)
        self._clear()
        return answers, last

    def drafts(self) -> tuple[list[Draft], list[Ticket]]:
        """What is staged, to be appended by Python."""
        drafts: list[Draft] = []
        tickets: list[Ticket] = []
        for one in self._run.unpack():
            draft = one.draft
            draft.keys = index_keys(draft.properties)
            session = self.reads[one.read]
            ticket = Ticket(session, one.opaque, None, draft.queue_id, one.uniq_key, True)
            drafts.append(draft)
            tickets.append(ticket)
        self._count()
        self._clear()
        return drafts, tickets

    def _count(self) -> None:
        run, add = self._run, self._lanes.add
        for (topic, queue_id), (count, size, _) in zip(run.places(), run.rows(), strict=True):
            add(topic, queue_id, count, size)

    def _clear(self) -> None:
        self._run.clear()
        self.reads = []


def settle(answers: list[Answer], code: int) -> None:
    """Send answers that waited, with `code`; they were made for the case of success."""
    for session, data in answers:
        if code == ResponseCode.SUCCESS:
            session.send(data)
            continue
        for frame in FrameReader().feed(data):
            made = decode(frame.header, frame.binary)
            header = decode_header(SendResponseHeader, made.ext)
            reply = failure(code) or Reply(code, header=header)
            session.answer(Command(0, opaque=made.opaque), reply)
