"""Headers of message look-ups: 12, 33, 321."""

import msgspec

from epochmq.wire.headers.header import I32, I64, Header, TopicHeader


class QueryMessageHeader(TopicHeader):
    """QUERY_MESSAGE 12. Timestamps are wall ms; `uniqueKey` asks by UNIQ_KEY."""

    topic: str
    key: str
    maxNum: I32
    beginTimestamp: I64
    endTimestamp: I64
    uniqueKey: bool | None = msgspec.field(default=None, name="_UNIQUE_KEY_QUERY")


class QueryMessageResponseHeader(Header):
    """Answer to 12: how far the index had come (wall ms, commit-log offset)."""

    indexLastUpdateTimestamp: I64
    indexLastUpdatePhyoffset: I64


class ViewMessageHeader(Header):
    """VIEW_MESSAGE_BY_ID 33. `offset` is a byte position in the commit log."""

    offset: I64
    topic: str | None = None


class QueryConsumeQueueHeader(TopicHeader):
    """QUERY_CONSUME_QUEUE 321: `count` units of a queue from `index`."""

    topic: str
    queueId: I32
    index: I64
    count: I32
    consumerGroup: str | None = None
