"""Headers of PULL_MESSAGE 11 and LITE_PULL_MESSAGE 361."""

from epochmq.wire.headers.header import I32, I64, Header, TopicHeader

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
