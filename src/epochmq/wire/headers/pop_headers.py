"""Headers of POP requests: 200050 to 200055.

`bornTime` and `popTime` are Unix milliseconds; `invisibleTime` and `pollTime` are durations in ms.
"""

from epochmq.wire.header import I32, I64, Header, TopicHeader

INIT_MIN = 0
INIT_MAX = 1
"""Values of `initMode`: where a group without an offset begins."""


class PopHeader(TopicHeader):
    """POP_MESSAGE 200050. `queueId` -1 means all queues."""

    consumerGroup: str
    topic: str
    queueId: I32
    maxMsgNums: I32
    invisibleTime: I64
    pollTime: I64
    bornTime: I64
    initMode: I32
    expType: str | None = None
    exp: str | None = None
    order: bool | None = None
    attemptId: str | None = None


class PopResponseHeader(Header):
    """Answer to a pop; `broker/pop/receipt_handle.py` writes its three texts."""

    popTime: I64
    invisibleTime: I64
    reviveQid: I32
    restNum: I64
    startOffsetInfo: str | None = None
    msgOffsetInfo: str | None = None
    orderCountInfo: str | None = None


class AckHeader(TopicHeader):
    """ACK_MESSAGE 200051. `extraInfo` is the receipt handle (POP_CK), `offset` a queue offset."""

    consumerGroup: str
    topic: str
    queueId: I32
    extraInfo: str
    offset: I64


class ChangeInvisibleTimeHeader(TopicHeader):
    """CHANGE_MESSAGE_INVISIBLETIME 200053."""

    consumerGroup: str
    topic: str
    queueId: I32
    extraInfo: str
    offset: I64
    invisibleTime: I64


class ChangeInvisibleTimeResponseHeader(Header):
    """Answer to 200053: the values of the new receipt handle."""

    popTime: I64
    invisibleTime: I64
    reviveQid: I32


class PeekHeader(TopicHeader):
    """PEEK_MESSAGE 200052."""

    consumerGroup: str
    topic: str
    queueId: I32
    maxMsgNums: I32


class NotificationHeader(TopicHeader):
    """NOTIFICATION 200054: the broker answers when there is a message to pop."""

    consumerGroup: str
    topic: str
    queueId: I32
    pollTime: I64
    bornTime: I64
    order: bool | None = None
    attemptId: str | None = None


class NotificationResponseHeader(Header):
    """Answer to 200054."""

    hasMsg: bool
    pollingFull: bool | None = None


class PollingInfoHeader(TopicHeader):
    """POLLING_INFO 200055."""

    consumerGroup: str
    topic: str
    queueId: I32


class PollingInfoResponseHeader(Header):
    """Answer to 200055."""

    pollingNum: I32
