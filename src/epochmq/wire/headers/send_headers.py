"""Headers of the sending family: 10, 310, 320, 324, 325, 326, 36, 370.

A batch (320) uses the short-key form with `batch` true.
"""

from epochmq.wire.header import I32, I64, Header, RpcHeader, TopicHeader


class SendHeader(TopicHeader):
    """SEND_MESSAGE 10 and SEND_REPLY_MESSAGE 324: the long names.

    `sysFlag` is model/sys_flag's, `properties` the encoded text, `bornTimestamp` wall ms.
    """

    producerGroup: str
    topic: str
    defaultTopic: str
    defaultTopicQueueNums: I32
    queueId: I32
    sysFlag: I32
    bornTimestamp: I64
    flag: I32
    properties: str | None = None
    reconsumeTimes: I32 | None = None
    unitMode: bool | None = None
    maxReconsumeTimes: I32 | None = None
    batch: bool | None = None


V2_KEYS = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
    "brokerName": "n",
}
"""The one-letter keys of the short form; attributes keep the long names in both forms."""


class SendHeaderV2(TopicHeader, rename=V2_KEYS):
    """SEND_MESSAGE_V2 310, SEND_BATCH_MESSAGE 320, SEND_REPLY_MESSAGE_V2 325: short keys."""

    producerGroup: str
    topic: str
    defaultTopic: str
    defaultTopicQueueNums: I32
    queueId: I32
    sysFlag: I32
    bornTimestamp: I64
    flag: I32
    properties: str | None = None
    reconsumeTimes: I32 | None = None
    unitMode: bool | None = None
    maxReconsumeTimes: I32 | None = None
    batch: bool | None = None
    brokerName: str | None = None


class SendResponseHeader(Header):
    """Answer to every send. `msgId` is the offset message id, `transactionId` the UNIQ_KEY.

    Ours: `sinkRepeats` says how many of the messages were a sink's repeats, and are stored already.
    """

    msgId: str
    queueId: I32
    queueOffset: I64
    transactionId: str | None = None
    batchUniqId: str | None = None
    recallHandle: str | None = None
    MSG_REGION: str | None = None
    TRACE_ON: str | None = None
    sinkRepeats: I32 | None = None


class SendBackHeader(RpcHeader):
    """CONSUMER_SEND_MSG_BACK 36. `offset` is the message's byte position in the commit log."""

    offset: I64
    group: str
    delayLevel: I32
    originMsgId: str | None = None
    originTopic: str | None = None
    unitMode: bool | None = None
    maxReconsumeTimes: I32 | None = None


class PushReplyHeader(TopicHeader):
    """PUSH_REPLY_MESSAGE_TO_CLIENT 326: a reply on its way back to who asked; body = message."""

    producerGroup: str
    topic: str
    defaultTopic: str
    defaultTopicQueueNums: I32
    queueId: I32
    sysFlag: I32
    bornTimestamp: I64
    flag: I32
    bornHost: str
    storeHost: str
    storeTimestamp: I64
    properties: str | None = None
    reconsumeTimes: I32 | None = None
    unitMode: bool | None = None


class RecallHeader(TopicHeader):
    """RECALL_MESSAGE 370 (5.3): take a timer message back before it is due."""

    topic: str
    recallHandle: str
    producerGroup: str | None = None


class RecallResponseHeader(Header):
    """Answer to RECALL_MESSAGE."""

    msgId: str
    MSG_REGION: str | None = None


# Transaction headers -------------------------------------------------------------------------
# Headers of transactions: 37, 39, 323.


UNKNOWN = 0
COMMIT = 8
ROLLBACK = 12
"""Values of `commitOrRollback`: the transaction bits of sys_flag."""


class EndTransactionHeader(RpcHeader):
    """END_TRANSACTION 37, one-way from Java.

    `tranStateTableOffset` is the half message's queue offset, `commitLogOffset` its byte position.
    """

    producerGroup: str
    tranStateTableOffset: I64
    commitLogOffset: I64
    commitOrRollback: I32
    msgId: str
    fromTransactionCheck: bool = False
    transactionId: str | None = None
    topic: str | None = None


class CheckTransactionStateHeader(RpcHeader):
    """CHECK_TRANSACTION_STATE 39 (broker to producer, one-way); the body is one stored message."""

    tranStateTableOffset: I64
    commitLogOffset: I64
    msgId: str | None = None
    transactionId: str | None = None
    offsetMsgId: str | None = None
    topic: str | None = None


class ResumeCheckHalfHeader(Header):
    """RESUME_CHECK_HALF_MESSAGE 323: check a given-up half message again."""

    msgId: str | None = None
    topic: str | None = None
