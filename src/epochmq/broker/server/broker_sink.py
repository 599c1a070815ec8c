"""Dispatches a broker's incoming frames: frequent requests on a fast path, all others by a table.

Sends are staged and appended together at the end of the turn; a pull is answered at once. Before
any other request of a session, the session's staged sends are stored, so that a client that sends
and then asks for the end of the queue sees its own message. The end of a transaction is the
exception: storing first would split a producer's turn into single messages.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from epochmq.auth.connection_signature import challenge_handler
from epochmq.base.errors import HeaderError, PeerError, Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.group.registration import SETTLE_TIMEOUT_MS
from epochmq.broker.produce.send_back import make_send_back
from epochmq.broker.produce.send_batch import handle_batch
from epochmq.broker.produce.send_reply import make_send_reply
from epochmq.broker.produce.send_stage import SendStage
from epochmq.broker.produce.signed_sends import make_signed_sends
from epochmq.broker.requests import request_routing as dispatch
from epochmq.broker.requests.client_handlers import session_closed
from epochmq.broker.requests.end_transaction import end, end_together
from epochmq.broker.requests.native_pulls import NativePulls
from epochmq.broker.requests.pop_handler import PopHandler
from epochmq.broker.requests.pull_handler import PullHandler
from epochmq.model.data_version import DataVersion
from epochmq.runtime.logging_setup import spoken_of
from epochmq.runtime.rng import new_nonce
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import FLAG_ONEWAY, HELD, Command, Held, Reply, decode
from epochmq.wire.dispatcher import Dispatcher, Handler
from epochmq.wire.frame import RawFrame
from epochmq.wire.header import decode_header
from epochmq.wire.headers.fast_headers import (
    EndEnvelope,
    HotEnvelope,
    PullFields,
    SendFields,
    ShortSendFields,
    decode_hot,
)
from epochmq.wire.headers.pull_headers import PullHeader
from epochmq.wire.headers.send_headers import SendHeader, SendHeaderV2
from epochmq.wire.session import Session

NEW_TOPIC_WAIT_MS = 1_000
"""How long the client that created a topic by a send waits for the name servers (ms); clients
usually wait 3 s."""


_STAGED = frozenset({Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE})
"""Requests that are staged, and so need no flush of earlier sends."""


class TopicNews(Protocol):
    """Registers changed topics at the name servers."""

    def tick(self, now: int) -> None: ...

    def when_settled(
        self, now: int, done: Callable[[], None], within_ms: int = SETTLE_TIMEOUT_MS
    ) -> None: ...


class BrokerSink:
    """The `FrameSink` of one broker, for all its ports."""

    def __init__(self, node: BrokerContext, label: str = "") -> None:
        self.node = node
        self._topics = node.topics
        self._keeper = node.keeper
        self._label = label
        self.stage = SendStage(node)
        self.pulls = PullHandler(node)
        is_open = node.access is None  # signatures of pulls are checked in Python
        self._native_pulls = NativePulls.make(node, self.pulls) if is_open else None
        self._pulling: set[int] = set()
        """The ids of the sessions that have pulled: their next request may be a pull too."""
        self.pops = PopHandler(node)
        self._signed = make_signed_sends(node.access, node.accounts, node.clock, self.stage.native)
        self._checks_access = node.access is not None
        """Whether signatures are checked; then each request goes through the table, except the
        sends that the native code accepts."""
        self._accounts = node.accounts.version
        """The version of the users for which the held requests were checked."""
        self._fresh = False
        """Whether the stage has read the options and topics in this turn."""
        self._telling = False
        """Whether a registration of changed topics follows when they are saved."""
        self._waited_for: DataVersion | None = None
        """The version of the topics whose change is answered by `_known_first`, when it is saved
        and registered."""
        self.registrar: TopicNews | None = None
        """Registers at the name servers; None before the broker registers, and in tests."""
        table = dispatch.bind(
            node,
            {
                Code.SEND_MESSAGE: self._send,
                Code.SEND_MESSAGE_V2: self._send,
                Code.SEND_BATCH_MESSAGE: self._send,
                Code.PULL_MESSAGE: self._pull,
                Code.LITE_PULL_MESSAGE: self._pull,
                Code.SEND_REPLY_MESSAGE: make_send_reply(self.stage),
                Code.SEND_REPLY_MESSAGE_V2: make_send_reply(self.stage),
                Code.CONSUMER_SEND_MSG_BACK: make_send_back(node),
                Code.POP_MESSAGE: self.pops.handle_pop,
                Code.AUTH_CHALLENGE: challenge_handler(new_nonce),
            },
        )
        for code in (Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_AND_CREATE_TOPIC_LIST):
            table[code] = self._known_first(table[code])
        self.dispatcher = Dispatcher(table)

    def opened(self, session: Session) -> None:
        """Time the answers; the client is unknown until its first heartbeat."""
        session.time_answers(self.node.request_times.answered)

    def closed(self, session: Session) -> None:
        """Drop the connection's waiting requests, and remove its client from its groups."""
        self._pulling.discard(session.id)
        self.node.long_poll.drop(session.id)
        self.node.pop.polls.polls.drop(session.id)
        self.node.watchers.drop(session.id)
        session_closed(self.node, session)

    def receive_raw(self, session: Session, data: memoryview, start: int, size: int) -> int:
        """Take whole frames at `data[start:size]` before they are cut; return their size.

        Returns 0 while a topic is being saved: a send to it may not be answered before that. It
        returns 0 as well for signed requests that the native code cannot check.
        """
        if self._topics.touched or self._keeper.writing is not None:
            return 0
        if session.id in self._pulling and self._native_pulls is not None:
            if self.stage.has(session):
                self.stage.flush(self.node.clock.now_ms())
            if taken := self._native_pulls.receive(session, data, start, size):
                return taken
        if not self._fresh:
            self._fresh = True
            self.stage.begin()
        if not self._checks_access:
            return self.stage.stage_raw(session, data, start, size)
        checks = self._signed.checks_for(session) if self._signed is not None else None
        if self._signed is None or checks is None:
            return 0
        taken = self.stage.stage_raw(session, data, start, size, checks)
        if taken:
            self._signed.accepted(session)
        return taken

    def receive(self, session: Session, frames: Sequence[RawFrame], now: int) -> None:
        """Handle all frames of one read; an invalid frame closes the connection."""
        if not self._fresh:
            self._fresh = True
            self.stage.begin()
        take = self.stage.stage_message
        topics, groups = self.node.topics, self.node.groups
        versions = topics.version, groups.version
        is_saving = topics.touched or self._keeper.writing is not None
        for frame in frames:
            if self._checks_access:
                self._by_table(session, frame, now)
                if session.closed:
                    return
                continue
            envelope = None if frame.binary else decode_hot(frame.header)
            if isinstance(envelope, EndEnvelope):
                if not frame.body:
                    self._hot_end(session, envelope, now)
                    continue
                envelope = None
            if envelope is None or envelope.flag & FLAG_ONEWAY:
                self._by_table(session, frame, now)
                if session.closed:
                    return
                continue
            fields = envelope.extFields
            if is_saving and not isinstance(fields, PullFields):
                self._hold_for_topic(session, fields.topic)
            try:
                if isinstance(fields, PullFields):
                    self._hot_pull(session, envelope, fields, now)
                elif fields.batch:
                    self._hot_batch(session, envelope, fields, frame, now)
                else:
                    take(
                        session, envelope.code, envelope.version, envelope.opaque, fields,
                        bytes(frame.body), now,
                    )  # fmt: skip
            except (Refused, HeaderError) as error:
                self._refuse(session, envelope, error, now)
        changed = topics.version is not versions[0] and topics.version is not self._waited_for
        if changed or groups.version is not versions[1]:
            self._hold_until_saved(session)

    def _hold_until_saved(self, session: Session) -> None:
        """Hold the answers to `session` until its changes are saved and registered.

        A change that a client was told of must survive a crash. And the client may ask, here or
        elsewhere, for the route of a topic that it just created: by its first send, by a group's
        first heartbeat (the retry topic) or by a dead letter. RocketMQ registers before it answers,
        too.
        """
        session.hold()
        registrar = self.registrar
        if registrar is None or not self.node.topics.changed:
            self.node.keeper.when_saved(session.release)
            return
        known = registrar

        def saved() -> None:
            known.when_settled(self.node.clock.now_ms(), session.release, NEW_TOPIC_WAIT_MS)

        self.node.keeper.when_saved(saved)

    def _hold_for_topic(self, session: Session, topic: str) -> None:
        """Hold the answers to `session`, which sends to a topic that a crash could still remove."""
        keeper = self.node.keeper
        if keeper.is_unsaved(self.node.topics, topic):
            session.hold()
            keeper.when_saved(session.release)

    def _by_table(self, session: Session, frame: RawFrame, now: int) -> None:
        """Handle any other request, after storing the session's staged sends."""
        try:
            command = decode(frame.header, frame.binary, bytes(frame.body))
            command.arrived_ms = now
            if command.code not in _STAGED or command.is_response:
                if self.stage.has(session):
                    self.stage.flush(now)
            self.dispatcher.receive_command(session, command, now)
        except PeerError as error:
            session.close(str(error))
        self.stage.begin()

    def end_of_turn(self, now: int) -> None:
        """End the turn: append the staged sends, wake waiting pulls, and start saving new
        metadata."""
        self._fresh = False
        if self._label:
            spoken_of.set(self._label)  # the end of a turn is common to all brokers of a process
        self.pulls.in_turn = True
        try:
            self.stage.flush(now)
            self._end_transactions(now)
            self.pulls.run_woken()
        finally:
            self.pulls.in_turn = False
        node = self.node
        if node.accounts.version is not self._accounts:
            self._accounts = node.accounts.version
            if self._checks_access:
                self._check_held_again(now)
        node.pop.write_acks(node.clock.wall_ms())
        node.announce()
        if node.keeper.dirty:
            self.save_metadata(now)
        if node.topics.changed and self.registrar is not None and not self._telling:
            self._telling = True
            node.keeper.when_saved(self._tell_changed)

    def _check_held_again(self, now: int) -> None:
        """Answer the requests that wait for messages, after a change of users or policies.

        Their clients ask again, and the new requests are checked. So a user that was removed gets
        no more messages.
        """
        self.pulls.answer_all(now)
        self.pops.answer_all(now)

    def _tell_changed(self) -> None:
        """Register the changed topics: they are saved now."""
        self._telling = False
        if self.registrar is not None:
            self.registrar.tick(self.node.clock.now_ms())

    def _end_transactions(self, now: int) -> None:
        """Write what the transaction ends of this turn require, first those kept by the native
        code."""
        ends = self.stage.ends()
        if ends is not None:
            try:
                end_together(self.node, ends, now)
            finally:
                self.stage.drop_ends()
        self.node.transactions.flush(now, self.node.clock.wall_ms())

    def save_metadata(self, now: int) -> None:
        """Start saving changed topics and groups; their clients wait (`_hold_until_saved`).

        When the disk refuses, they are answered all the same, and the next tick tries again.
        """
        self.node.keeper.save(now, self.node.clock.wall_ms())

    def finish(self, now: int) -> None:
        """Prepare a stop: store staged sends, and answer all requests that wait for messages."""
        self.stage.flush(now)
        self._end_transactions(now)
        self.node.transactions.finish(now, self.node.clock.wall_ms())
        self.pulls.run_woken()
        self.pulls.answer_all(now)
        self.pops.answer_all(now)
        self.node.pop.finish(now, self.node.clock.wall_ms())

    # Fast path -------------------------------------------------------------------------------

    def _hot_batch(
        self,
        session: Session,
        envelope: HotEnvelope,
        fields: SendFields | ShortSendFields,
        frame: RawFrame,
        now: int,
    ) -> None:
        command = Command(
            envelope.code, version=envelope.version, opaque=envelope.opaque, arrived_ms=now
        )
        handle_batch(self.stage, session, command, fields, frame.body, now)

    def _hot_end(self, session: Session, envelope: EndEnvelope, now: int) -> None:
        """End a transaction without flushing sends: its half message was answered, so it is
        stored."""
        command = Command(
            envelope.code,
            version=envelope.version,
            opaque=envelope.opaque,
            flag=envelope.flag,
            arrived_ms=now,
        )
        try:
            reply = end(self.node, envelope.extFields, command, session, now)
        except Refused as error:
            reply = Reply(error.code, error.remark)
        if isinstance(reply, Reply):
            session.answer(command, reply)

    def _hot_pull(
        self, session: Session, envelope: HotEnvelope, fields: PullFields, now: int
    ) -> None:
        if self.stage.has(session):
            self.stage.flush(now)
        if session.fast_port:
            error = Refused(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f" request type {envelope.code} not supported",
            )
            self._refuse(session, envelope, error, now)
            return
        self._pulling.add(session.id)
        self.pulls.pull(session, envelope.code, envelope.version, envelope.opaque, fields, now)

    def _refuse(
        self, session: Session, envelope: HotEnvelope, error: PeerError | Refused, now: int
    ) -> None:
        code = error.code if isinstance(error, Refused) else ResponseCode.SYSTEM_ERROR
        request = Command(envelope.code, opaque=envelope.opaque, arrived_ms=now)
        session.answer(request, Reply(code, str(error)))

    # By the table ----------------------------------------------------------------------------

    def _send(self, command: Command, session: Session, now: int) -> Reply | Held:
        header: SendHeader | SendHeaderV2
        if command.code == Code.SEND_MESSAGE:
            header = decode_header(SendHeader, command.ext)
        else:
            header = decode_header(SendHeaderV2, command.ext)
        self._hold_for_topic(session, header.topic)
        if self._signed is not None:
            self._signed.admit(command, session, header.topic)
        body = bytes(command.body)
        if header.batch:
            handle_batch(self.stage, session, command, header, body, now)
        else:
            # Without the command the answer has the short way of ordinary sends.
            kept = command if command.binary or command.is_oneway else None
            self.stage.stage_message(
                session, command.code, command.version, command.opaque, header, body, now, kept
            )
        return HELD

    def _known_first(self, handler: Handler) -> Handler:
        """Return `handler` with its answer delayed until name servers and replicas know the change.

        A client that created a topic asks for its route next; RocketMQ registers before it answers.
        And a topic whose creation was answered exists after a failover, with the same number of
        queues.
        """

        def handle(command: Command, session: Session, now: int) -> Reply | Held:
            reply = handler(command, session, now)
            if self.registrar is None or not isinstance(reply, Reply):
                return reply
            answer: Reply = reply
            registrar, self._waited_for = self.registrar, self.node.topics.version
            waits = 2

            def known() -> None:
                nonlocal waits
                waits -= 1
                if not waits:
                    session.answer(command, answer)

            def saved() -> None:
                at = self.node.clock.now_ms()
                registrar.when_settled(at, known)
                code, count = Code.GET_ALL_TOPIC_CONFIG, self.node.topics.changes.count
                self.node.watchers.when_taken(code, at, known, count)

            self.node.keeper.when_saved(saved)
            return HELD

        return handle

    def _pull(self, command: Command, session: Session, now: int) -> Reply | Held:
        header = decode_header(PullHeader, command.ext)
        if not command.is_oneway:
            self.pulls.pull(
                session, command.code, command.version, command.opaque, header, now,
                binary=command.binary,
            )  # fmt: skip
        return HELD
