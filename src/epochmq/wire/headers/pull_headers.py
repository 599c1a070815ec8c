"""Headers of PULL_MESSAGE 11 and LITE_PULL_MESSAGE 361."""

from epochmq.wire.header import I32, I64, Header, TopicHeader

COMMIT_OFFSET = 0x1
SUSPEND = 0x2
SUBSCRIPTION = 0x4
CLASS_FILTER = 0x8
LITE_PULL = 0x10
"""Bits of a pull's `sysFlag`: commit, may be held, carries its subscription, ..., lite."""


class PullHeader(TopicHeader):
    """Read `queueOffset` and following. `suspendTimeoutMillis` is the longest hold in ms.

    `maxMsgBytes` is ignored by RocketMQ's brokers up to 5.3.
    """

    consumerGroup: str
    topic: str
    queueId: I32
    queueOffset: I64
    maxMsgNums: I32
    sysFlag: I32
    commitOffset: I64
    suspendTimeoutMillis: I64
    subVersion: I64
    subscription: str | None = None
    expressionType: str | None = None
    maxMsgBytes: I32 | None = None
    requestSource: I32 | None = None
    proxyFrowardClientId: str | None = None


class PullResponseHeader(Header):
    """Answer with code 0, 19, 20 or 21; clients unbox the first four, so they are always there."""

    suggestWhichBrokerId: I64
    nextBeginOffset: I64
    minOffset: I64
    maxOffset: I64
    offsetDelta: I64 | None = None
    topicSysFlag: I32 | None = None
    groupSysFlag: I32 | None = None
    forbiddenType: I32 | None = None


# Bulk headers --------------------------------------------------------------------------------
# Headers of our own requests for data pipelines: 34003 to 34006.


class BulkReadHeader(TopicHeader):
    """BULK_READ 34003: records of one queue from queue offset `offset`.

    `endOffset` bounds the queue offsets (exclusive), `maxBytes` the records' bytes. `tags` is a tag
    expression (`A || B`).
    """

    topic: str
    queueId: I32
    offset: I64
    maxBytes: I32 | None = None
    endOffset: I64 | None = None
    tags: str | None = None
    withoutBodies: bool | None = None
    """The reader wants no bodies: a broker that can leaves them out, and sets their sizes to 0."""


class BulkReadResponseHeader(Header):
    """The body holds `count` whole records; the reader goes on at `nextOffset`.

    `minOffset` and `maxOffset` are what can be read; `brokerEpoch` only in controller mode. Where
    the message at `nextOffset` is damaged (SYSTEM_ERROR), a reader that leaves it out goes on at
    `behindDamage`; that may be damaged as well.
    """

    nextOffset: I64
    minOffset: I64
    maxOffset: I64
    count: I32
    brokerEpoch: I32 | None = None
    behindDamage: I64 | None = None


class EpochOffsetsHeader(TopicHeader):
    """EPOCH_OFFSETS 34004."""

    topic: str
    epoch: I32


class LogDigestsHeader(Header):
    """LOG_DIGESTS 34005: blocks of `[fromOffset, toOffset)`, log offsets."""

    fromOffset: I64
    toOffset: I64 | None = None
    blockBytes: I32 | None = None
    verify: bool | None = None
    """Look first whether the bytes are what was written there; 64 KiB at most. What is damaged is
    not in the answer."""


class LogDigestsResponseHeader(Header):
    """`verified` when that was done and nothing was wrong. A broker that does not know `verify`
    gives no header."""

    verified: bool | None = None


class LogReadHeader(Header):
    """LOG_READ 34006: the log's bytes from `fromOffset`."""

    fromOffset: I64
    maxBytes: I32 | None = None


class LogReadResponseHeader(Header):
    """The body ends at `nextOffset`, never behind `confirmed`; the log begins at `start`."""

    nextOffset: I64
    start: I64
    confirmed: I64
