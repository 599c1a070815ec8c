"""Handler of POP_MESSAGE 200050: hand out messages and write check points, or hold the pop.

The answer is sent when the check points are stored (in the log, or in memory with
`enablePopBufferMerge`). Every message that was handed out therefore comes again unless it is
acknowledged. A pop that finds no message is held (long polling). Woken pops are served one after
the other (`broker.pop.pop_polls`).
"""

from collections.abc import Sequence

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.pop.broker_pop_state import PoppedCheckPoint
from epochmq.broker.pop.pop_polls import PollKey
from epochmq.broker.pop.pop_windows import QueueKey
from epochmq.broker.pop.receipt_handle import Infos
from epochmq.broker.requests.pop_execution import PopExecution, QueuePart, execute_pop
from epochmq.broker.requests.pop_gate import PopRequest, admit_pop
from epochmq.broker.requests.pop_orders import when_copied
from epochmq.store.visibility import Arrivals
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.pop_headers import (
    NotificationResponseHeader,
    PopHeader,
    PopResponseHeader,
)
from epochmq.wire.session import Session

NOT_KEPT = "the check point of the popped messages was not kept; pop again"


TOO_MANY_COPIES = (
    f"{limits.POP_COPIES_BYTES_MAX} bytes of popped messages wait until their check points are"
    " stored; pop again later"
)


class PopHandler:
    """Executes the pops of one broker, at arrival and again when held pops are woken."""

    def __init__(self, node: BrokerContext) -> None:
        self._node = node
        self._news: dict[PollKey, None] = {}
        self._asked = False
        self._cold: set[PopRequest] = set()
        """Pops that wait for messages from the device."""
        self._copies_bytes = 0
        """Bytes of the popped messages that were copied because their answers wait."""
        self._being_read: set[QueueKey] = set()
        """Queues whose next messages are being read from the device."""
        node.arrivals.add(self.arrived)
        node.pop_clients_left.add(self.left)

    def handle_pop(self, command: Command, session: Session, now: int) -> Reply | Held:
        """Pop messages, or hold the request (POP_MESSAGE 200050).

        Returns `HELD`, or POLLING_TIMEOUT when there is no message and the pop must not be held, or
        POLLING_FULL when too many pops are held. Raises `Refused`, also with POLLING_FULL when too
        many bytes of popped messages wait for their check points.
        """
        header = decode_header(PopHeader, command.ext)
        request = admit_pop(self._node, header, command, session, now)
        if self._execute(request, now):
            return HELD
        if request.deadline <= now:
            return _nothing()
        if not self._node.pop.polls.hold(request):
            return Reply(ResponseCode.POLLING_FULL, "polling full")
        return HELD

    # Executing -------------------------------------------------------------------------------

    def _execute(self, request: PopRequest, now: int, *, from_memory: bool = True) -> bool:
        """Pop messages and answer the request; returns False when there are no messages.

        With `from_memory` the answer has messages that are in memory. If there are none, it is
        given later, when messages have been read from the device.
        """
        if self._copies_bytes >= limits.POP_COPIES_BYTES_MAX:
            raise Refused(ResponseCode.POLLING_FULL, TOO_MANY_COPIES)
        node = self._node
        execution = execute_pop(node, request, now, from_memory=from_memory)
        if execution.missing:
            self._read_missing(request, execution)
        if not execution.parts:
            return bool(execution.missing)
        name = node.options.broker_name
        taken = [
            PoppedCheckPoint(
                part.check_point(execution.pop_time, request.invisible_time, name),
                execution.revive_queue,
                part.window,
            )
            for part in execution.parts
            if part.window is not None
        ]
        if not taken:
            self._answer_in_order(request, execution, now)
            return True
        finished = waits = False
        copied = 0

        def done(kept: Sequence[bool]) -> None:
            nonlocal finished
            finished = True
            self._copies_bytes -= copied
            parts = [part for part, one in zip(execution.parts, kept, strict=True) if one]
            self._answer(request, execution, parts)
            if waits:  # other pops found these queues busy meanwhile
                for part in execution.parts:
                    self.arrived([(part.key.topic, part.key.queue_id, 0)])

        node.pop.keep(taken, node.clock.now_ms(), execution.pop_time, done)
        if not finished:
            waits = True
            copied = execution.copy_messages()
            self._copies_bytes += copied
        return True

    def _read_missing(self, request: PopRequest, execution: PopExecution) -> None:
        """Bring the messages that a pop left out into memory, for this pop or for the next one."""
        missing = execution.missing
        if execution.parts:
            missing = {key: each for key, each in missing.items() if key not in self._being_read}
            if not missing:
                return
        self._being_read.update(missing)

        def prefetch() -> None:
            for call in missing.values():
                call()

        def done() -> None:
            self._being_read.difference_update(missing)
            if request not in self._cold:
                return  # it is answered
            self._cold.discard(request)
            if request.session.closed:
                return
            now = self._node.clock.now_ms()
            if not self._again(request, now, from_memory=False):
                if request.deadline <= now or not self._node.pop.polls.hold(request):
                    request.session.answer(request.command, _nothing())
            self._node.announce()

        if not execution.parts:
            self._cold.add(request)
        self._node.cold_reads.run(prefetch, done)

    def _answer_in_order(self, request: PopRequest, execution: PopExecution, now: int) -> None:
        """Answer an ordered pop once the replicas know which messages are handed out.

        The next master must not hand the same messages to another consumer. When this broker loses
        the right to serve pops meanwhile, no messages are sent: the pop is answered with an error.
        """
        finished = False
        copied = 0

        def known(kept: bool) -> None:
            nonlocal finished
            finished = True
            self._copies_bytes -= copied
            self._answer(request, execution, execution.parts if kept else ())

        when_copied(self._node, now, known)
        if not finished:
            copied = execution.copy_messages()
            self._copies_bytes += copied

    def _answer(
        self, request: PopRequest, execution: PopExecution, parts: Sequence[QueuePart]
    ) -> None:
        if not parts:
            reply = Reply(ResponseCode.SYSTEM_ERROR, NOT_KEPT)
            request.session.answer(request.command, reply)
            return
        infos = Infos()
        chunks: list[memoryview | bytes] = []
        for part in parts:
            infos.add(part.mark, part.key.queue_id, part.start, part.offsets)
            if part.counts is not None:
                infos.count(part.mark, part.key.queue_id, *part.counts)
            chunks += part.chunks
        header = PopResponseHeader(
            popTime=execution.pop_time,
            invisibleTime=request.invisible_time,
            reviveQid=execution.revive_queue,
            restNum=execution.rest,
            startOffsetInfo=infos.starts,
            msgOffsetInfo=infos.offsets,
            orderCountInfo=infos.counts,
        )
        request.session.answer(request.command, Reply(0, "FOUND", header, chunks))
        self._count(request, parts)

    def _count(self, request: PopRequest, parts: Sequence[QueuePart]) -> None:
        for part in parts:
            self._node.stats.read(
                request.topic,
                part.key.queue_id,
                request.group,
                len(part.offsets),
                sum(map(len, part.chunks)),
                is_retry=part.key.topic != request.topic,
            )

    # Waking ----------------------------------------------------------------------------------

    def arrived(self, arrivals: Arrivals) -> None:
        """Note the queues that have new messages; their pops are served after this call."""
        polls = self._node.pop.polls
        if not len(polls):
            return
        for topic, queue_id, _ in arrivals:
            for key in polls.news(topic, queue_id):
                self._news[key] = None
        self._run_soon()

    def left(self, group: str, session: Session) -> None:
        """Answer the held pops of a client that leaves its group, without messages.

        Otherwise the next message would be handed to a client that has left, and be invisible for
        its whole invisible time.
        """
        for request in self._node.pop.polls.leave(group, session.id):
            assert isinstance(request, PopRequest)
            session.answer(request.command, _empty(request))
        cold = {one for one in self._cold if one.group == group and one.owner == session.id}
        self._cold -= cold
        for request in cold:
            session.answer(request.command, _empty(request))

    def tick(self, now: int) -> None:
        """Answer the pops whose deadline is over; retry those whose ordered batch became free."""
        node = self._node
        for key in node.pop.orders.freed(now):
            for waiting in node.pop.polls.keys_of(key.group, key.topic):
                self._news[waiting] = None
        self._run_soon()
        for request in node.pop.polls.polls.expire(now):
            assert isinstance(request, PopRequest)
            self._last_time(request, now)

    def answer_all(self, now: int) -> None:
        """Answer every held pop without messages, before a stop or a change of role."""
        cold, self._cold = self._cold, set()
        for request in (*cold, *self._node.pop.polls.polls.pop_all()):
            assert isinstance(request, PopRequest)
            request.session.answer(request.command, _empty(request))

    def _run_soon(self) -> None:
        if self._news and not self._asked:
            self._asked = True
            self._node.ports.soon(self._run)

    def _run(self) -> None:
        self._asked = False
        news, self._news = self._news, {}
        now = self._node.clock.now_ms()
        for key in news:
            self._serve(key, now)
        self._node.announce()

    def _serve(self, key: PollKey, now: int) -> None:
        """Serve the pops that wait at `key`, until one of them finds no message."""
        polls = self._node.pop.polls
        while (request := polls.first(key)) is not None:
            assert isinstance(request, PopRequest)
            if request.session.closed:
                continue
            if key.notify:
                request.session.answer(
                    request.command, Reply(header=NotificationResponseHeader(True, False))
                )
            elif not self._again(request, now):
                if not polls.hold(request):
                    request.session.answer(request.command, _nothing())
                return

    def _again(self, request: PopRequest, now: int, *, from_memory: bool = True) -> bool:
        """Execute a pop that waited again; returns True when it is answered, or will be."""
        node = self._node
        if not node.serving.rights.consumes:
            request.session.answer(request.command, _nothing())
            return True
        try:
            return self._execute(request, now, from_memory=from_memory)
        except Refused as error:
            request.session.answer(request.command, Reply(error.code, error.remark))
            return True

    def _last_time(self, request: PopRequest, now: int) -> None:
        if request.session.closed:
            return
        if request.key.notify or not self._again(request, now):
            request.session.answer(request.command, _empty(request))


def _empty(request: PopRequest) -> Reply:
    if request.key.notify:
        return Reply(header=NotificationResponseHeader(False, False))
    return _nothing()


def _nothing() -> Reply:
    return Reply(ResponseCode.POLLING_TIMEOUT, "no message to pop")
