"""Staging of sends: all messages that arrive in one loop turn are appended together.

`stage_message` checks a message and stages a draft of it; the body is copied once, out of the
shared receive buffer. `flush`, at the end of the turn, appends all drafts with one write to the log
and queues the answers (batching is 2.6 times faster). The checks, their codes and their order are
RocketMQ's.

With synchronous flush, the answers of a turn wait together for the fsync that covers them (group
commit). Where replicas must have the messages too, the same groups wait for the replicas.
"""

from collections import Counter

from epochmq.base.errors import Refused
from epochmq.base.limits import PROPERTIES_BYTES_MAX
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.delay.timed import recall_handle
from epochmq.broker.produce.send_answers import SendAnswers, Ticket, refusal
from epochmq.broker.produce.send_properties import (
    MARKED,
    NORMAL,
    NOTHING_SPECIAL,
    RARE,
    Completer,
    Parsed,
    message_type,
    read,
)
from epochmq.broker.produce.send_run import RunStage
from epochmq.broker.produce.send_sink import Repeats, SinkGate, answer_repeat, appended_at, furthest
from epochmq.broker.produce.send_special import special_draft
from epochmq.broker.produce.send_topics import AnySendHeader, SendTopic, SendTopics, invalid_code
from epochmq.broker.serving.acknowledgement import Acknowledge, SyncWaits, failure
from epochmq.model.host import V4_SIZE
from epochmq.model.names import TIMER_TOPIC
from epochmq.model.properties import PAIR_END, decode
from epochmq.model.sink_mark import escape_mark, mark_of
from epochmq.model.sys_flag import INNER_BATCH, TX_PREPARED
from epochmq.native import library
from epochmq.store.draft import Appended, Draft, PutStatus
from epochmq.store.native_send import StagedEnds
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command
from epochmq.wire.session import Session

Result = Appended | PutStatus

_SPECIAL_FLAGS = TX_PREPARED | INNER_BATCH


class SendStage:
    """The staged sends of the running turn, and the groups of answers that wait for an fsync."""

    def __init__(self, node: BrokerContext) -> None:
        self.node = node
        self.send_topics = SendTopics(node)
        self.syncs = SyncWaits(node.store)
        self.repeats = Repeats(
            node.store.sinks, lambda: (node.serving.role, node.group_position.epoch)
        )
        self.sinks = SinkGate(self.repeats)
        self._drafts: list[Draft] = []
        self._tickets: list[Ticket] = []
        self._sessions: set[int] = set()
        self._newest: Session | None = None
        self.native = library.library()
        """The native code, which is tried first; None when Python does all the work."""
        self._run: RunStage | None = None
        self._adopt()

    def _adopt(self) -> None:
        """Read the options; an options object never changes, it is replaced."""
        self.options = options = self.node.options
        self.completer = Completer(
            options.region_id,
            options.trace_on,
            options.broker_cluster_name,
            self.node.uniq_ids.next,
        )
        self._tail = self.completer.tail
        self._tail_alone = self._tail[1:]
        self.answers = SendAnswers(self.node.store_host, options.region_id, options.trace_on)
        self.body_max = options.max_message_size
        self.sync_flush = options.flush_disk_type == "SYNC_FLUSH"

    def begin(self) -> None:
        """Prepare for the messages of a read: notice changed topics, options and role."""
        if self.node.options is not self.options:
            self._adopt()
        if self.send_topics.is_outdated():
            self.count_sent()
            self.send_topics.drop_all()

    def has(self, session: Session) -> bool:
        """Return whether `session` has staged messages, to be stored before its next request."""
        return session.id in self._sessions

    @property
    def has_drafts(self) -> bool:
        """Whether Python has staged messages."""
        return bool(self._drafts)

    def stage_raw(
        self,
        session: Session,
        data: memoryview,
        start: int,
        size: int,
        checks: int | None = None,
    ) -> int:
        """Let the native code stage the sends at the start of `data[start:size]`.

        `checks`: the address of what checks their signatures, None to check nothing.

        Returns the number of bytes staged. The messages of the native code are appended before this
        turn's drafts, so a session that has drafts is not offered to the native code.
        """
        if self._drafts and session.id in self._sessions:
            return 0
        run, send_topics = self._run, self.send_topics
        if run is None or run.answers is not self.answers:
            run = self._renew_run(run)
        elif (send_topics.opened or run.cleared != send_topics.cleared) and not run.in_step():
            return 0
        host = session.peer_packed
        if run is None or len(host) != V4_SIZE:
            return 0
        if data is not run.data:
            run.look_at(data)
        taken = run.stage_raw(run.address + start, size - start, host, checks)
        if taken:
            run.reads.append(session)
            self._newest = session
            self._sessions.add(session.id)
        return taken

    def _renew_run(self, run: RunStage | None) -> RunStage | None:
        """Make the native staging for the present options.

        Returns None without native code, and while messages of the old options wait for a flush.
        """
        if self.native is None or (run is not None and (run.reads or run.has_ends)):
            return None
        tail = self.completer.tail
        self._run = run = RunStage(self.native, self.node, self.send_topics, self.answers, tail)
        return run if run.in_step() else None

    def ends(self) -> StagedEnds | None:
        """Return the END_TRANSACTION requests that the native code collected, None for none.

        Call `drop_ends` after they are processed.
        """
        run = self._run
        return run.ends() if run is not None and run.has_ends else None

    def drop_ends(self) -> None:
        """Drop the collected END_TRANSACTION requests, which are processed."""
        if self._run is not None:
            self._run.drop_ends()

    # Staging ---------------------------------------------------------------------------------

    def stage_message(
        self,
        session: Session,
        code: int,
        version: int,
        opaque: int,
        header: AnySendHeader,
        body: bytes,
        now: int,
        command: Command | None = None,
    ) -> None:
        """Check one message and stage it; raises `Refused`.

        `code` and `opaque` are the request's, `version` is the client's, `now` the monotonic time
        of arrival (ms); `command` is None for a hot frame.
        """
        send_topic = self.send_topics.get(header.topic) or self.open_send_topic(header, version)
        queue_id = header.queueId
        if not 0 <= queue_id < send_topic.queues:
            queue_id = self.choose_queue(send_topic, queue_id, session, version)
        size = len(body)
        if not 0 < size <= self.body_max:
            raise self.refused(PutStatus.MESSAGE_ILLEGAL)
        text = header.properties or ""
        uniq_key, keys, tag_code, wait, more = read(text)
        asked = NOTHING_SPECIAL
        if more & RARE or not uniq_key:
            asked = self.completer.complete(text)
            text, uniq_key = asked.text, asked.uniq_key
        elif text[-1] == PAIR_END:
            text += self._tail_alone
        else:
            text += self._tail
        properties = text.encode()
        if len(properties) > PROPERTIES_BYTES_MAX:
            raise self.refused(PutStatus.PROPERTIES_SIZE_EXCEEDED)
        draft = Draft(
            send_topic.topic,
            queue_id,
            body,
            properties,
            tag_code,
            (uniq_key, *keys) if keys else (uniq_key,),
            header.flag,
            header.sysFlag | send_topic.sys_flag,
            header.bornTimestamp,
            session.peer_packed,
            header.reconsumeTimes or 0,
        )
        if asked.special or send_topic.retry_group is not None or header.sysFlag & _SPECIAL_FLAGS:
            draft, queue_id = special_draft(self.node, draft, asked, send_topic, header, version)
        ticket = Ticket(session, opaque, command, queue_id, uniq_key, code, now, wait)
        if draft.topic == TIMER_TOPIC and (options := self.node.options).recall_message_enable:
            ticket.recall = recall_handle(draft, send_topic.topic, options.broker_name, uniq_key)
        if (more & MARKED or asked.escape_id) and self._is_repeat(header, asked, ticket):
            return
        if not send_topic.used:
            send_topic.used = True
            self.send_topics.used.append(send_topic)
        record_bytes = size + len(properties) + send_topic.record_bytes
        send_topic.counts[queue_id] += 1
        send_topic.sizes[queue_id] += record_bytes
        send_topic.of_type(message_type(more, asked) if more else NORMAL).add(1, record_bytes)
        self._drafts.append(draft)
        self._tickets.append(ticket)
        if session is not self._newest:
            self._newest = session
            self._sessions.add(session.id)

    def _is_repeat(self, header: AnySendHeader, asked: Parsed, ticket: Ticket) -> bool:
        """Return whether this message repeats an earlier send of a sink or of another broker.

        The repeat is answered at the end of the turn.
        """
        if asked.escape_id:
            mark = escape_mark(asked.escape_id, header.topic)
        else:
            mark = mark_of(header.topic, decode(header.properties or ""))
        if mark is None or self.sinks.admits(mark, ticket):
            return False
        self._sessions.add(ticket.session.id)
        return True

    def open_send_topic(self, header: AnySendHeader, version: int) -> SendTopic:
        """Return the state of a topic that has none yet; raises `Refused`."""
        node = self.node
        wall = node.clock.wall_ms()
        start = node.options.start_accept_send_request_time_stamp
        if wall < start:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"broker unable to service, until wall time {start} ms"
            )
        if not node.serving.rights.writable:
            raise self.refused(PutStatus.SERVICE_NOT_AVAILABLE)
        return self.send_topics.open(header, version, wall)

    def choose_queue(
        self, send_topic: SendTopic, queue_id: int, session: Session, version: int
    ) -> int:
        """Return the requested queue id, or the next one when the client leaves the choice.

        A negative `queue_id` leaves the choice to the broker. Raises `Refused` for an unknown
        queue.
        """
        if 0 <= queue_id < send_topic.queues:
            return queue_id
        if queue_id < 0:
            return self.node.next_number() % send_topic.write_queues
        raise Refused(
            invalid_code(version),
            f"request queueId[{queue_id}] is illegal, topic[{send_topic.topic}] has"
            f" {send_topic.queues} queues, Producer: {session.peer}",
        )

    def refused(self, status: PutStatus) -> Refused:
        """Return the exception for a message that the store would refuse with `status`."""
        reply = refusal(status, self.node.options)
        return Refused(reply.code, reply.remark or "")

    def count(self, topic: str, queue_id: int, messages: int, size: int, common: Parsed) -> None:
        """Count a stored batch of `messages` messages and `size` bytes; `common` is what its header
        says.
        """
        kind = message_type(common.flags, common)
        self.send_topics.add_batch(topic, queue_id, messages, size, kind)
        self.node.stats.put.total += messages

    def count_sent(self) -> None:
        """Add what was counted since the last call to the statistics."""
        if self._run is not None:
            self._run.count_sent()
        self.send_topics.count()

    # Appending -------------------------------------------------------------------------------

    def flush(self, now: int) -> None:
        """Append all staged messages and queue their answers; `now` is monotonic ms."""
        if self._run is not None and self._run.reads:
            self._flush_run(self._run, now)
        drafts = self._drafts
        if not drafts:
            self._sessions.clear()
            self._newest = None
            self._answer_repeats(now)
            return
        tickets = self._tickets
        self._drafts, self._tickets = [], []
        self._sessions.clear()
        self._newest = None
        closed = self.closed()
        if closed is not None:
            for ticket in tickets:
                self.answers.refuse(ticket, refusal(closed, self.node.options))
            self.sinks.refused()
            self._answer_repeats(now)
            return
        clock, stats = self.node.clock, self.node.stats
        begun = clock.now_ms()
        results = self.node.store.append(drafts, clock.wall_ms())
        stats.put.total += len(results)
        stats.put_times.add(clock.now_ms() - begun, len(results))
        self.sinks.appended(tickets, results)
        if self.waits:
            tickets, results = self._park(tickets, results, now)
        self._finish(tickets, results, self.at_once())
        self._answer_repeats(now)

    def _answer_repeats(self, now: int) -> None:
        """Answer the repeats of sinks, not before the first messages are answered."""
        if not self.sinks.repeats:
            return
        found, lost = self.sinks.pop_repeats()
        closed = self.closed()
        for ticket in lost:
            reply = refusal(closed or PutStatus.SERVICE_NOT_AVAILABLE, self.node.options)
            self.answers.refuse(ticket, reply)

        def acknowledge(code: int) -> None:
            failed = failure(code)
            for ticket, place in found:
                if failed is not None:
                    self.answers.refuse(ticket, failed)
                else:
                    answer_repeat(self.answers, ticket, place, code)

        last = furthest([place for ticket, place in found if self.parks(ticket.wait)])
        if last is not None and self.waits and closed is None:
            self.park(appended_at(last), now, acknowledge)
        else:
            acknowledge(self.at_once(settled=True))

    def closed(self) -> PutStatus | None:
        """Return why nothing may be appended now, or None; checked before appends (INV-32)."""
        node = self.node
        if not node.serving.rights.writable:
            return PutStatus.SERVICE_NOT_AVAILABLE
        return None if node.acks is None else node.acks.refusal()

    def at_once(self, *, settled: bool = False) -> int:
        """Return the code for an answer that does not wait.

        It is SUCCESS while this broker may decide alone (`rights.changes`). With `settled` the
        message is acknowledged already, and SUCCESS needs only a writable broker.
        """
        rights = self.node.serving.rights
        may = rights.writable if settled else rights.changes
        return ResponseCode.SUCCESS if may else ResponseCode.SERVICE_NOT_AVAILABLE

    def _finish(self, tickets: list[Ticket], results: list[Result], code: int) -> None:
        """Answer stored messages with `code`, and refused messages with their reason."""
        if code == ResponseCode.SUCCESS:
            self._answer_sends(tickets, results)
            return
        failed = failure(code)
        for ticket, result in zip(tickets, results, strict=True):
            if not isinstance(result, Appended):
                self._refuse(ticket, result)
            elif failed is not None:
                self.answers.refuse(ticket, failed)
            else:
                self.answers.answer(ticket, result, code)

    def _flush_run(self, run: RunStage, now: int) -> None:
        """Append what the native code staged, natively or as drafts before the other drafts."""
        if not run.count:
            run.clear()  # the read had only END_TRANSACTION requests
            return
        done = run.append(now) if self.closed() is None else None
        if done is None:
            drafts, tickets = run.drafts(now)
            self._drafts, self._tickets = drafts + self._drafts, tickets + self._tickets
            return
        answers, last = done
        if self.waits:
            now_ms = self.node.clock.now_ms
            self.park(last, now, lambda code: run.send_answers(answers, code, now_ms()))
        else:
            run.send_answers(answers, self.at_once(), answers.stored_ms)

    def _answer_sends(self, tickets: list[Ticket], results: list[Result]) -> None:
        """Answer the messages; consecutive answers to one session are sent together."""
        times: Counter[tuple[int, int]] = Counter()
        reply = self.answers.reply
        id_format = self.answers.id_format
        chunks: list[bytes] = []
        last: Session | None = None
        for ticket, result in zip(tickets, results, strict=True):
            session = ticket.session
            if session is not last:
                if last is not None and chunks:
                    last.send(*chunks)
                    chunks = []
                last = session
            if type(result) is not Appended:
                self._refuse(ticket, result)
            elif ticket.command is None and not ticket.recall:
                times[ticket.code, ticket.arrived_ms] += 1
                chunks.append(
                    reply(
                        ticket.opaque,
                        id_format % result.offset,
                        ticket.queue_id,
                        result.queue_offset,
                        ticket.uniq_key.encode(),
                    )
                )
            else:
                self.answers.answer(ticket, result, ResponseCode.SUCCESS)
        if last is not None and chunks:
            last.send(*chunks)
        for (code, arrived_ms), count in times.items():
            self.node.request_times.count(code, ResponseCode.SUCCESS, arrived_ms, count)

    def _refuse(self, ticket: Ticket, status: Result) -> None:
        if isinstance(status, PutStatus):
            self.node.stats.put.total -= 1
            self.node.stats.put_failed += 1
            self.answers.refuse(ticket, refusal(status, self.node.options))

    def _park(
        self, tickets: list[Ticket], results: list[Result], now: int
    ) -> tuple[list[Ticket], list[Result]]:
        """Park the stored messages whose answers wait; return the others, to answer at once."""
        unasked = self.parks(False)
        waiting: list[Ticket] = []
        stored: list[Result] = []
        others: list[Ticket] = []
        outcomes: list[Result] = []
        last: Appended | None = None
        for ticket, result in zip(tickets, results, strict=True):
            if (ticket.wait or unasked) and isinstance(result, Appended):
                waiting.append(ticket)
                stored.append(result)
                last = result
            else:
                others.append(ticket)
                outcomes.append(result)
        if last is not None:
            self.park(last, now, lambda code: self._finish(waiting, stored, code))
        return others, outcomes

    def parks(self, wait: bool) -> bool:
        """Return whether the answer to a stored message waits for replicas or the flush.

        `wait` is the message's WAIT property. It is ignored by a master past its lease, whose
        acknowledgements need its whole sync-state set (ADR 0044): every answer waits then.
        """
        return self.waits and (wait or not self.node.serving.rights.changes)

    def park(self, last: Appended, now: int, acknowledge: Acknowledge) -> None:
        """Call `acknowledge` when the log is synced and replicated up to `last`, or too late."""
        options, acks = self.options, self.node.acks
        self.syncs.park(
            last.offset + last.size,
            now + options.sync_flush_timeout,
            acknowledge,
            sync=self.sync_flush,
            acks=acks if acks is not None and acks.waits else None,
            ack_deadline=now + options.slave_timeout,
        )

    @property
    def waits(self) -> bool:
        """Whether answers wait for the flush or for replicas, unless the message has WAIT=false."""
        acks = self.node.acks
        return self.sync_flush or (acks is not None and acks.waits)
