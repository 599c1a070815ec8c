"""Headers of PULL_MESSAGE 11 and LITE_PULL_MESSAGE 361, and of bulk requests."""

from epochmq.wire.header import I32, I64, Header, TopicHeader

COMMIT_OFFSET = 0x1
SUSPEND = 0x2
SUBSCRIPTION = 0x4
CLASS_FILTER = 0x8
LITE_PULL = 0x10
"""Bits of a pull's `sysFlag`: commits an offset, may be held, has a subscription, uses a class
filter, is a lite pull."""


class PullHeader(TopicHeader):
    """Reads from `queueOffset` on. `suspendTimeoutMillis` is the longest wait in ms.

    RocketMQ's brokers up to 5.3 ignore `maxMsgBytes`.
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
    """Answer with code 0, 19, 20 or 21. The first four fields are always set, as
    clients need them.
    """

    suggestWhichBrokerId: I64
    nextBeginOffset: I64
    minOffset: I64
    maxOffset: I64
    offsetDelta: I64 | None = None
    topicSysFlag: I32 | None = None
    groupSysFlag: I32 | None = None
    forbiddenType: I32 | None = None


# Bulk headers --------------------------------------------------------------------------------
# Headers of EpochMQ's requests for data pipelines: 34003 to 34006, 34013.


class BulkReadHeader(TopicHeader):
    """BULK_READ 34003: records of one queue from queue offset `offset` on.

    `endOffset` limits the queue offsets (exclusive), `maxBytes` the bytes of the records. `tags` is
    a tag expression (`A || B`).
    """

    topic: str
    queueId: I32
    offset: I64
    maxBytes: I32 | None = None
    endOffset: I64 | None = None
    tags: str | None = None
    withoutBodies: bool | None = None
    """The reader wants no bodies: a broker that supports it leaves them out and sets their sizes to
    0."""


class BulkReadResponseHeader(Header):
    """The body holds `count` whole records; the next read begins at `nextOffset`.

    `minOffset` and `maxOffset` are the limits of what can be read. `brokerEpoch` is set in
    controller mode only. If the message at `nextOffset` is damaged (SYSTEM_ERROR), a reader can
    skip it by going on at `behindDamage`, where the next message may be damaged as well.
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


class KeyPlacesHeader(TopicHeader):
    """KEY_PLACES 34013: `key` is one of the keys of a message, or its unique key."""

    topic: str
    key: str


class LogDigestsHeader(Header):
    """LOG_DIGESTS 34005: blocks of the log from `fromOffset` to `toOffset` (exclusive, bytes)."""

    fromOffset: I64
    toOffset: I64 | None = None
    blockBytes: I32 | None = None
    verify: bool | None = None
    """Whether the broker first checks that the bytes are what was written, for 64 KiB at most. The
    answer leaves out damaged bytes."""


class LogDigestsResponseHeader(Header):
    """`verified` is set if the check was done and found no damage. A broker that does not know
    `verify` sends no header.
    """

    verified: bool | None = None


class LogReadHeader(Header):
    """LOG_READ 34006: bytes of the log from `fromOffset` on.

    With `unchecked` damaged bytes too, for a replica that combines them with its own.
    """

    fromOffset: I64
    maxBytes: I32 | None = None
    unchecked: bool | None = None


class LogReadResponseHeader(Header):
    """The body ends at `nextOffset`, never behind `confirmed`; the log begins at `start`."""

    nextOffset: I64
    start: I64
    confirmed: I64
