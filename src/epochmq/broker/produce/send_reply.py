"""SEND_REPLY_MESSAGE 324/325: forward the reply of request-reply messaging to the requester.

The broker pushes the reply to the client named in REPLY_TO_CLIENT with
PUSH_REPLY_MESSAGE_TO_CLIENT 326, and answers the sender with the outcome. With
`storeReplyMessageEnable` the broker also stores a copy in the reply topic.
"""

from collections.abc import Sequence

from epochmq.broker.internal_writes.internal_writer import Origin, WriteOutcome
from epochmq.broker.produce.send_properties import Parsed, put
from epochmq.broker.produce.send_stage import SendStage
from epochmq.model.properties import decode
from epochmq.model.property_names import PUSH_REPLY_TIME, REPLY_TO_CLIENT
from epochmq.store.draft import Draft, PutStatus
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply, request
from epochmq.wire.dispatcher import Handler
from epochmq.wire.header import decode_header
from epochmq.wire.headers.send_headers import (
    PushReplyHeader,
    SendHeader,
    SendHeaderV2,
    SendResponseHeader,
)
from epochmq.wire.session import Session

PUSH_TIMEOUT_MS = 3000


def make_send_reply(stage: SendStage) -> Handler:
    """Make the handler of SEND_REPLY_MESSAGE 324 and 325."""

    def handle_send_reply(command: Command, session: Session, now: int) -> Reply | Held:
        return _Pushing(stage, command, session).start()

    return handle_send_reply


class _Pushing:
    """The processing of one reply: checks, storing, and the push to the requester."""

    def __init__(self, stage: SendStage, command: Command, session: Session) -> None:
        self._stage = stage
        self._command = command
        self._session = session
        self._header: SendHeader | SendHeaderV2
        if command.code == RequestCode.SEND_REPLY_MESSAGE:
            self._header = decode_header(SendHeader, command.ext)
        else:
            self._header = decode_header(SendHeaderV2, command.ext)

    def start(self) -> Reply | Held:
        """Check the reply, store a copy if configured, and push it; raises `Refused`."""
        stage, header, command = self._stage, self._header, self._command
        send_topic = stage.send_topics.get(header.topic) or stage.open_send_topic(
            header, command.version
        )
        self._queue_id = stage.choose_queue(
            send_topic, header.queueId, self._session, command.version
        )
        if not 0 < len(command.body) <= stage.body_max:
            raise stage.refused(PutStatus.MESSAGE_ILLEGAL)
        wall = stage.node.clock.wall_ms()
        parsed = stage.completer.complete(header.properties)
        text = put(parsed.text, {PUSH_REPLY_TIME: str(wall)})
        client_id = decode(text).get(REPLY_TO_CLIENT)
        if not client_id:
            return Reply(
                ResponseCode.SYSTEM_ERROR, f"the reply message has no {REPLY_TO_CLIENT} property"
            )
        if stage.options.store_reply_message_enable:
            self._store(parsed, text, wall)
        asker = stage.node.producers.find(client_id)
        if asker is None:
            return Reply(
                ResponseCode.SYSTEM_ERROR,
                f"push reply message fail, channel of <{client_id}> not found.",
            )
        asker.request(self._push(text, wall), PUSH_TIMEOUT_MS, self._pushed)
        return HELD

    def _push(self, text: str, wall: int) -> Command:
        header = self._header
        pushed = PushReplyHeader(
            producerGroup=header.producerGroup,
            topic=header.topic,
            defaultTopic=header.defaultTopic,
            defaultTopicQueueNums=header.defaultTopicQueueNums,
            queueId=self._queue_id,
            sysFlag=header.sysFlag,
            bornTimestamp=header.bornTimestamp,
            flag=header.flag,
            bornHost=self._session.peer,
            storeHost=self._stage.node.address,
            storeTimestamp=wall,
            properties=text,
            reconsumeTimes=header.reconsumeTimes,
            unitMode=header.unitMode,
        )
        return request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, pushed, self._command.body)

    def _store(self, parsed: Parsed, text: str, wall: int) -> None:
        header = self._header
        draft = Draft(
            topic=header.topic,
            queue_id=self._queue_id,
            body=bytes(self._command.body),
            properties=text.encode(),
            tags_code=parsed.tag_code,
            keys=(parsed.uniq_key, *parsed.keys),
            flag=header.flag,
            sys_flag=header.sysFlag,
            born_wall_ms=header.bornTimestamp,
            born_host=self._session.peer_packed,
        )
        self._stage.node.internal_writer.put([draft], Origin.REPLY, wall, _stored)

    def _pushed(self, answer: Command | None) -> None:
        """Answer the sender: the requester has the reply, refused it, or did not answer in time."""
        if answer is not None and answer.code == ResponseCode.SUCCESS:
            # Only the push counts; the answer does not say where the copy is stored.
            header = SendResponseHeader(msgId="0", queueId=self._queue_id, queueOffset=0)
            reply = Reply(header=header)
        else:
            reply = Reply(ResponseCode.SYSTEM_ERROR, "push reply message to client failed")
        self._session.answer(self._command, reply)


def _stored(outcomes: Sequence[WriteOutcome]) -> None:
    """Ignore the outcome of storing the copy, which is a record for operators."""
