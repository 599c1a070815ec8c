"""Handler of pulls (PULL_MESSAGE 11, LITE_PULL_MESSAGE 361), with long polling.

A pull that finds no message is held until a message arrives or its deadline passes. A woken pull
is executed again. When all new messages fail its filter, the pull stays held, from behind those
messages. An answer would make the client pull again at once, for messages of other consumers.
"""

import logging

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.consume.long_polling import PullRequest
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.group.lock_ballot import another_holds
from epochmq.broker.requests.pull_gate import AnyPullHeader, Forbidden, admit
from epochmq.model import record
from epochmq.model.names import SCHEDULE_TOPIC
from epochmq.store.read import GetStatus, ReadResult
from epochmq.store.visibility import Arrivals
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.headers.hot_replies import HotReplies
from epochmq.wire.headers.pull_headers import COMMIT_OFFSET, SUSPEND, PullResponseHeader
from epochmq.wire.session import Session

log = logging.getLogger(__name__)

CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    # Clients log the error and pull again after a pause (3 s in Java), from the same offset.
    GetStatus.DAMAGED: ResponseCode.SYSTEM_ERROR,
}
_REMARKS = {status: status.name for status in GetStatus}
_EMPTY = frozenset({GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE})
_HOLDABLE = _EMPTY | {GetStatus.OFFSET_OVERFLOW_ONE}
_RESET = "OFFSET_RESET"
NOT_NOW = Reply(ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST] this broker serves no pulls now")
TOO_MANY = Reply(
    ResponseCode.SYSTEM_BUSY,
    "[REJECTREQUEST] too many pulls came at once, this one was not executed; pull again",
)


class PullHandler:
    """Executes the pulls of one broker, at arrival and again when held pulls are woken."""

    def __init__(self, node: BrokerContext) -> None:
        self._node = node
        self._head = HotReplies().pull_reply_head
        self._woken: list[PullRequest] = []
        self._lost_one = False
        """True once an offset could not be committed, so that only the first failure is logged."""
        self._copied_bytes = 0
        """Bytes of messages in the answers of this turn."""
        self._views = 0
        """Messages in the answers of this turn that are made of views."""
        self.in_turn = False
        """True while a turn ends: `run_woken` then serves the woken pulls in the same turn."""
        node.arrivals.add(self.arrived)

    def pull(
        self,
        session: Session,
        code: int,
        version: int,
        opaque: int,
        header: AnyPullHeader,
        now: int,
        *,
        binary: bool = False,
    ) -> None:
        """Serve one pull: answer it or hold it; refusals are answered too.

        `version` is the client's version, `now` the monotonic time in ms, `binary` the encoding of
        the request's header. The pull also commits the client's offset when its flags say so.
        """
        node = self._node
        try:
            request = admit(node, code, version, header, session, opaque, now)
        except Refused as error:
            fields = {"forbiddenType": str(error.kind)} if isinstance(error, Forbidden) else None
            refused = Command(code, opaque=opaque, binary=binary, arrived_ms=now)
            session.answer(refused, Reply(error.code, error.remark, fields))
            return
        request.binary = binary
        if header.sysFlag & SUSPEND:
            wait = header.suspendTimeoutMillis
            if not node.options.long_polling_enable:
                wait = node.options.short_polling_time_mills
            request.deadline = now + min(max(wait, 0), limits.HOLD_MS_MAX)
        if node.offsets.has_resets and self._is_reset(request):
            self._answer_reset(request, now)
            return  # the client's commit would restore the old offset
        is_old = False
        if delivered := node.offsets.delivered_resets:
            key = request.group, request.topic, request.queue_id
            is_old = delivered.hides(*key, header.commitOffset, now)
            delivered.read_from(*key, request.offset)
        self._execute(request, now, first=True)
        if header.sysFlag & COMMIT_OFFSET and not is_old:
            queue = request.group, request.topic, request.queue_id
            self.commit(session, *queue, header.commitOffset, now)

    def commit(
        self, session: Session, group: str, topic: str, queue_id: int, offset: int, now: int
    ) -> None:
        """Commit the offset that came with a pull, unless it is negative or not allowed now."""
        node = self._node
        if offset < 0 or not node.serving.rights.consumes:
            return
        if another_holds(node, session, group, topic, queue_id, now):
            return
        try:
            node.offsets.commit(group, topic, queue_id, offset, node.clock.wall_ms())
        except Refused as error:  # log only: the pull is answered already
            if not self._lost_one:
                self._lost_one = True
                log.warning(
                    "%(peer)s: its offset is not stored: %(remark)s",
                    {"peer": session.peer, "remark": error.remark},
                )

    def _execute(
        self, request: PullRequest, now: int, *, first: bool, from_memory: bool = True
    ) -> None:
        """Answer or hold a pull.

        Without `from_memory` the messages are read although all clients may wait for the device.
        """
        node = self._node
        options = node.options
        count = max(1, min(request.max_count, options.max_transfer_count_on_message_in_memory))
        may_copy = self.copy_room > 0
        if self._views >= limits.PULL_VIEWS_IN_TURN_MAX:
            _answer_plain(request, TOO_MANY)
            return
        result = node.store.read_queue(
            request.topic,
            request.queue_id,
            request.offset,
            count if may_copy else min(count, limits.PULL_VIEWS_MAX),
            options.max_transfer_bytes_on_message_in_memory,
            request.accept,
            request.verify,
            from_memory=from_memory and node.cold_reads.has_room,
            may_copy=may_copy,
        )
        if result.status is GetStatus.FOUND:
            self._copied_bytes += result.size
            self._views += 0 if may_copy else result.count
            stats = node.stats
            stats.pull_hits.total += 1
            stats.read(
                request.topic,
                request.queue_id,
                request.group,
                result.count,
                result.size,
                next_offset=result.next_offset,
            )
            if request.slow_broker and self._is_far_back(result):
                request.suggested_broker = request.slow_broker
            self._answer(request, ResponseCode.SUCCESS, result)
            return
        elif result.prefetch is not None:
            node.cold_reads.run(
                result.prefetch,
                lambda: self._again([request], node.clock.now_ms(), first=first, from_memory=False),
            )
            return
        elif not node.serving.is_master and node.group_position.master_address:
            self._answer(request, ResponseCode.PULL_RETRY_IMMEDIATELY, result)
            return  # the master is online and may have more messages
        elif self._may_wait(request, result, now, first) and self._hold(request):
            return
        self._answer(request, code_of(result, request.offset), result)

    def _is_far_back(self, result: ReadResult) -> bool:
        """Return whether the messages lie outside the part of the log that counts as memory."""
        lag = self._node.store.pointers.readable - record.offset_at(result.chunks[0], 0)
        return lag > self._node.options.memory_window_bytes

    def _may_wait(self, request: PullRequest, result: ReadResult, now: int, first: bool) -> bool:
        """Return whether the pull may be held: no message yet, and time until the deadline."""
        if request.deadline <= now or request.session.closed:
            return False
        if first:
            self._node.stats.pull_misses.total += 1
            return (
                result.status in _HOLDABLE
                and code_of(result, request.offset) == ResponseCode.PULL_NOT_FOUND
            )
        if result.status is GetStatus.NO_MATCHED_MESSAGE:
            request.offset = result.next_offset
            return result.next_offset == result.max_offset
        return False

    def _hold(self, request: PullRequest) -> bool:
        request.was_held = True
        return self._node.long_poll.hold(
            request.topic,
            request.queue_id,
            request.offset,
            request.session.id,
            request.deadline,
            request,
        )

    # Waking ----------------------------------------------------------------------------------

    def arrived(self, arrivals: Arrivals) -> None:
        """Wake the pulls that wait for these queues; they are executed after this call."""
        node = self._node
        woken = self._woken
        before = len(woken)
        for topic, queue_id, new_max in arrivals:
            if topic == SCHEDULE_TOPIC:
                node.delivery.arrived(queue_id)
            if len(node.long_poll):
                woken += node.long_poll.notify(topic, queue_id, new_max)
        if not before and woken and not self.in_turn:
            node.ports.soon(self.run_woken)

    @property
    def copy_room(self) -> int:
        """Bytes of messages that may still be copied into answers in this turn."""
        return limits.PULL_COPIES_BYTES_MAX - self._copied_bytes

    def note_copied(self, size: int) -> None:
        """Note that `size` bytes of messages were copied into answers."""
        self._copied_bytes += size

    def run_woken(self) -> None:
        """Execute the woken requests again, at the end of a turn."""
        self._copied_bytes = self._views = 0
        while self._woken:
            woken, self._woken = self._woken, []
            self._again(woken, self._node.clock.now_ms())

    def expire(self, now: int) -> None:
        """Execute the pulls whose deadline has passed again, and answer them."""
        self._again(self._node.long_poll.expire(now), now)

    def answer_all(self, now: int) -> None:
        """Answer every held pull, before a stop."""
        requests = self._node.long_poll.pop_all()
        for request in requests:
            request.deadline = 0
        self._again(requests, now)

    def _again(
        self,
        requests: list[PullRequest],
        now: int,
        *,
        first: bool = False,
        from_memory: bool = True,
    ) -> None:
        """Execute pulls after a wait for messages, or for the device (without `from_memory`)."""
        for request in requests:
            if request.session.closed:
                continue
            if not self._node.serving.rights.readable:
                _answer_plain(request, NOT_NOW)
            elif self._is_reset(request):
                self._answer_reset(request, now)
            else:
                self._execute(request, now, first=first, from_memory=from_memory)

    # Answering -------------------------------------------------------------------------------

    def _answer(self, request: PullRequest, code: int, result: ReadResult) -> None:
        remark = result.reason or _REMARKS[result.status]
        if request.binary:
            self._answer_binary(request, code, remark, result)
            return
        chunks = result.chunks
        head = self._head(
            request.opaque,
            code,
            remark,
            request.suggested_broker,
            result.next_offset,
            result.min_offset,
            result.max_offset,
            len(chunks[0]) if len(chunks) == 1 else sum(map(len, chunks)),
            request.topic_sys_flag,
            request.group_sys_flag,
        )
        self._node.request_times.count(request.code, code, request.arrived_ms, 1, request.was_held)
        request.session.send(head, *chunks)

    def _answer_binary(
        self, request: PullRequest, code: int, remark: str, result: ReadResult
    ) -> None:
        header = PullResponseHeader(
            request.suggested_broker,
            result.next_offset,
            result.min_offset,
            result.max_offset,
            topicSysFlag=request.topic_sys_flag,
            groupSysFlag=request.group_sys_flag,
        )
        reply = Reply(code, remark, header, result.chunks)
        _answer_plain(request, reply)

    def _is_reset(self, request: PullRequest) -> bool:
        return self._node.offsets.has_reset(request.group, request.topic, request.queue_id)

    def _answer_reset(self, request: PullRequest, now: int) -> None:
        """Answer PULL_OFFSET_MOVED with the offset that an administrator set for the group."""
        node = self._node
        queue = request.group, request.topic, request.queue_id
        offset = node.offsets.pop_reset(*queue)
        if offset is not None and node.options.use_server_side_reset_offset:
            node.offsets.delivered_resets.add(*queue, offset, now)
        low, high = node.store.queue_bounds(request.topic, request.queue_id)
        header = PullResponseHeader(request.suggested_broker, offset or 0, low, high)
        reply = Reply(ResponseCode.PULL_OFFSET_MOVED, _RESET, header)
        _answer_plain(request, reply)


def _answer_plain(request: PullRequest, reply: Reply) -> None:
    command = Command(
        request.code,
        opaque=request.opaque,
        binary=request.binary,
        arrived_ms=request.arrived_ms,
        was_held=request.was_held,
    )
    request.session.answer(command, reply)


def code_of(result: ReadResult, asked_offset: int) -> ResponseCode:
    """Return the response code for a read that began at queue offset `asked_offset`."""
    if result.status in _EMPTY:
        if asked_offset != 0:
            return ResponseCode.PULL_OFFSET_MOVED
        return ResponseCode.PULL_NOT_FOUND
    return CODES[result.status]
