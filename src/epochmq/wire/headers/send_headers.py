"""Headers of sends and transactions: 10, 310, 320, 324, 325, 326, 36, 370, 37, 39, 323.

A batch (320) has one-letter keys, with `batch` true.
"""

from epochmq.wire.header import I32, I64, Header, RpcHeader, TopicHeader


class SendHeader(TopicHeader):
    """SEND_MESSAGE 10 and SEND_REPLY_MESSAGE 324, with long keys.

    `sysFlag` has the bits of `model/sys_flag.py`, `properties` is the encoded text, `bornTimestamp`
    is Unix milliseconds.
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
"""The one-letter keys of the short form; attributes have the long names in both forms."""


class SendHeaderV2(TopicHeader, rename=V2_KEYS):
    """SEND_MESSAGE_V2 310, SEND_BATCH_MESSAGE 320, SEND_REPLY_MESSAGE_V2 325: one-letter keys."""

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

    `sinkRepeats` is of EpochMQ: how many of the messages were repeats of a sink and are stored
    already.
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
    """CONSUMER_SEND_MSG_BACK 36. `offset` is the byte position of the message in the commit log."""

    offset: I64
    group: str
    delayLevel: I32
    originMsgId: str | None = None
    originTopic: str | None = None
    unitMode: bool | None = None
    maxReconsumeTimes: I32 | None = None


class PushReplyHeader(TopicHeader):
    """PUSH_REPLY_MESSAGE_TO_CLIENT 326: a reply on its way to the requester; the body is the
    message.
    """

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
    """RECALL_MESSAGE 370 (5.3): cancels a timer message before it is due."""

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
    """END_TRANSACTION 37; Java clients send it one-way.

    `tranStateTableOffset` is the queue offset of the half message, `commitLogOffset` its byte
    position in the commit log.
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
    """RESUME_CHECK_HALF_MESSAGE 323: asks to check a half message again that was given up."""

    msgId: str | None = None
    topic: str | None = None
