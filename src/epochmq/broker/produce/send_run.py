"""Staging of single sends by the native code, from the receive buffer, without Python objects.

The native code takes ordinary messages, and the usual half messages, delayed messages and timed
messages. It also collects END_TRANSACTION requests between them. One call stages the frames of a
read; another call at the end of the turn makes the records, consume queue units, keys and answers.
The native code stops at the first frame of another kind: `SendStage.stage_message` takes that frame
and the rest of the read. When the log cannot append the staged messages as one run, they become
drafts.
"""

import ctypes
from typing import NamedTuple

from epochmq.base.limits import ANSWER_HEADER_BYTES_MAX
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.produce.send_answers import SendAnswers, Ticket
from epochmq.broker.produce.send_topics import SendTopic, SendTopics
from epochmq.broker.serving.acknowledgement import failure
from epochmq.broker.state.broker_stats import MESSAGE_TYPES
from epochmq.model.names import HALF_TOPIC, REVIVE_TOPIC_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from epochmq.model.record import TRAILING_BLANK_BYTES
from epochmq.native.library import Library
from epochmq.store.dispatch import index_keys
from epochmq.store.draft import Appended, Draft
from epochmq.store.native_send import ANY_KIND, HALF, LEVELS, TIMED, SendRun, SendTexts
from epochmq.store.timer.wheel import SLOT_COUNT_MAX
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply, decode
from epochmq.wire.frame import FrameReader
from epochmq.wire.header import decode_header
from epochmq.wire.headers.send_headers import SendResponseHeader
from epochmq.wire.session import Session

SEND_CODE = RequestCode.SEND_MESSAGE_V2
"""The only request code of the sends that the native code stages."""


class RunAnswers(NamedTuple):
    """The answers to a run of sends."""

    by_read: list[tuple[Session, bytes]]
    """A session and the encoded answers to one of its reads."""
    messages: int
    """Number of messages that they answer."""
    arrived_ms: int
    """When the messages arrived (monotonic time)."""
    stored_ms: int
    """When the messages were in the log (monotonic time)."""


class RunStage:
    """The sends that the native code has staged in this turn."""

    def __init__(
        self,
        library: Library,
        node: BrokerContext,
        send_topics: SendTopics,
        answers: SendAnswers,
        tail: str,
    ) -> None:
        self._node = node
        self._send_topics = send_topics
        self.answers = answers
        """Encoder of the answers; a changed object means that the options have changed."""
        options = node.store.options
        middle, end = answers.reply_parts
        texts = SendTexts(
            tail.encode(),
            middle,
            end,
            node.options.max_message_size,
            min(options.message_bytes_max, options.commit_log_file_bytes - TRAILING_BLANK_BYTES),
            options.index,
            node.options.timer_max_delay_sec * 1000,
            node.options.timer_precision_ms,
        )
        self._run = SendRun(library, node.store_host, texts)
        self.reads: list[Session] = []
        """The sessions whose frames were staged, one entry per read."""
        self.cleared = send_topics.cleared
        """Value of `SendTopics.cleared` that the native code knows."""
        self._times = node.request_times.histogram(SEND_CODE, ResponseCode.SUCCESS)
        self._known: set[str] = set()
        self.data = memoryview(b"")
        self.address = 0
        """Memory address of `data`."""
        run = self._run
        self.ends, self.drop_ends = run.ends, run.drop_ends
        self._timed = (
            node.timer is not None
            and node.options.timer_congest_num_each_slot >= SLOT_COUNT_MAX  # no slot is ever full
            and not node.options.recall_message_enable  # its answers carry a recall handle
        )

    def stage_raw(self, address: int, size: int, born_host: bytes, checks: int | None) -> int:
        """Stage the sends at the start of `size` bytes at `address`; returns their bytes.

        `checks`: the address of what checks signatures, None to check nothing.
        """
        if not self.reads:
            self._allow()
        return self._run.stage_raw(address, size, born_host, checks)

    @property
    def has_ends(self) -> bool:
        """Whether END_TRANSACTION requests were collected."""
        return self._run.has_ends

    @property
    def count(self) -> int:
        """Number of staged messages."""
        return self._run.count

    def _allow(self) -> None:
        """Tell the native code, once a turn, the time and which kinds of messages are accepted now.

        Python stages the other kinds, and refuses them with a reason.
        """
        node = self._node
        kinds = 1 << LEVELS | self._timed << TIMED
        if not (node.options.reject_transaction_message or node.transactions.full):
            kinds |= 1 << HALF
        self._run.allow(kinds, node.clock.wall_ms(), ends=True)

    def look_at(self, data: memoryview) -> None:
        """Use `data` as the receive buffer; all connections of a loop share one buffer."""
        self.data = data
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(data))

    def in_step(self) -> bool:
        """Return whether the native code has the present topic states, after updating it."""
        send_topics = self._send_topics
        if self.cleared != send_topics.cleared:
            if self.reads:
                return False  # update the native code after the flush
            self.cleared = send_topics.cleared
            self._run.forget_topics()
            self._known.clear()
        if not self._known:
            self._add_special()
        for send_topic in send_topics.opened:
            self._add(send_topic)
        send_topics.opened.clear()
        return True

    def _add_special(self) -> None:
        """Add the topics for half, delayed and timed messages; clients cannot send to them."""
        levels = self._node.schedule.level_max
        for kind, topic, queues in (
            (HALF, HALF_TOPIC, 1), (LEVELS, SCHEDULE_TOPIC, levels), (TIMED, TIMER_TOPIC, 1)
        ):  # fmt: skip
            self._known.add(topic)
            self._run.add_topic(topic, queues, 0, 0, kind)

    def _add(self, send_topic: SendTopic) -> None:
        if (
            send_topic.retry_group is None
            and not send_topic.batched
            and send_topic.topic not in self._known
        ):
            self._known.add(send_topic.topic)
            kinds = ANY_KIND
            if send_topic.topic.startswith(REVIVE_TOPIC_PREFIX):
                kinds &= ~(1 << TIMED)  # ADR 0047
            self._run.add_topic(send_topic.topic, send_topic.queues, send_topic.sys_flag, kinds)

    def append(self, now: int) -> tuple[RunAnswers, Appended] | None:
        """Append all staged messages as one run; `now` is when they arrived (monotonic ms).

        Returns the answers and the last position; None when they must be appended as `drafts`.
        """
        run, node = self._run, self._node
        store, stats, clock = node.store, node.stats, node.clock
        start = store.pointers.appended
        begun = clock.now_ms()
        end = store.append_run(run, clock.wall_ms())
        if not end:
            return None
        stored_ms = clock.now_ms()
        count = run.count
        stats.put.total += count
        stats.put_times.add(stored_ms - begun, count)
        by_read = list(zip(self.reads, run.answers(), strict=True))
        answers = RunAnswers(by_read, count, now, stored_ms)
        last = Appended(start, end - start, 0, 0)
        self.clear()
        return answers, last

    def drafts(self, now: int) -> tuple[list[Draft], list[Ticket]]:
        """Return the staged messages as drafts and tickets, for Python to append.

        `now` is when they arrived (monotonic ms).
        """
        drafts: list[Draft] = []
        tickets: list[Ticket] = []
        for one in self._run.unpack():
            draft = one.draft
            draft.keys = index_keys(draft.properties)
            session = self.reads[one.read]
            ticket = Ticket(
                session,
                one.opaque,
                None,
                one.queue_id,
                one.uniq_key,
                SEND_CODE,
                now,
                wait=True,
            )
            drafts.append(draft)
            tickets.append(ticket)
        self.clear()
        return drafts, tickets

    def count_sent(self) -> None:
        """Count what was staged since the last call, by queue, and by type and size."""
        node, add = self._node, self._send_topics.add
        for (topic, queue_id), count, size in self._run.pop_sent():
            add(topic, queue_id, count, size)
        for sent in self._run.pop_message_sizes():
            if sent.topic in node.topics:
                key = sent.topic, MESSAGE_TYPES[sent.message_type]
                node.stats.message_sizes.get(key).add(sent.counts, sent.bytes)

    def clear(self) -> None:
        """Drop what is staged."""
        self._run.clear()
        self.reads = []

    def send_answers(self, answers: RunAnswers, code: int, now: int) -> None:
        """Send answers with `code`, at monotonic `now`; their bytes were encoded for SUCCESS."""
        if code == ResponseCode.SUCCESS:
            self._times.observe(now - answers.arrived_ms, answers.messages)
            for session, data in answers.by_read:
                if data:  # else the read had only END_TRANSACTION requests
                    session.send_one(data)
        else:
            _fail(answers, code)


def _fail(answers: RunAnswers, code: int) -> None:
    """Answer with `code` instead."""
    for session, data in answers.by_read:
        for frame in FrameReader(ANSWER_HEADER_BYTES_MAX).feed(data):
            made = decode(frame.header, frame.binary)
            header = decode_header(SendResponseHeader, made.ext)
            reply = failure(code) or Reply(code, header=header)
            request = Command(SEND_CODE, opaque=made.opaque, arrived_ms=answers.arrived_ms)
            session.answer(request, reply)
