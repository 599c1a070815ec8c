"""Headers about consumer offsets, ends of queues, and message queries: 12, 14, 15, 29 to 33, 321.

Each `offset` is a queue offset, except in `ViewMessageHeader`; timestamps are Unix milliseconds.
"""

import msgspec

from epochmq.wire.header import I32, I64, Header, TopicHeader


class QueryConsumerOffsetHeader(TopicHeader):
    """QUERY_CONSUMER_OFFSET 14. Only 5.x clients send `setZeroIfNotFound`, and only as false."""

    consumerGroup: str
    topic: str
    queueId: I32
    setZeroIfNotFound: bool | None = None


class UpdateConsumerOffsetHeader(TopicHeader):
    """UPDATE_CONSUMER_OFFSET 15; often one-way."""

    consumerGroup: str
    topic: str
    queueId: I32
    commitOffset: I64


class OffsetResponseHeader(Header):
    """Answer to 14, 29, 30 and 31."""

    offset: I64


class SearchOffsetHeader(TopicHeader):
    """SEARCH_OFFSET_BY_TIMESTAMP 29. `boundaryType` (5.3) is LOWER or UPPER, in any case of
    letters.
    """

    topic: str
    queueId: I32
    timestamp: I64
    boundaryType: str | None = None


class GetMaxOffsetHeader(TopicHeader):
    """GET_MAX_OFFSET 30; RocketMQ's brokers ignore `committed`."""

    topic: str
    queueId: I32
    committed: bool | None = None


class GetMinOffsetHeader(TopicHeader):
    """GET_MIN_OFFSET 31."""

    topic: str
    queueId: I32


class GetEarliestStoreTimeHeader(TopicHeader):
    """GET_EARLIEST_MSG_STORETIME 32."""

    topic: str
    queueId: I32


class TimestampResponseHeader(Header):
    """Answer to 32."""

    timestamp: I64


# Query headers -------------------------------------------------------------------------------
# Headers of message queries: 12, 33, 321.


class QueryMessageHeader(TopicHeader):
    """QUERY_MESSAGE 12. Timestamps are Unix milliseconds; `uniqueKey` searches by UNIQ_KEY."""

    topic: str
    key: str
    maxNum: I32
    beginTimestamp: I64
    endTimestamp: I64
    uniqueKey: bool | None = msgspec.field(default=None, name="_UNIQUE_KEY_QUERY")


class QueryMessageResponseHeader(Header):
    """Answer to 12: the end of the index (Unix milliseconds, commit log offset)."""

    indexLastUpdateTimestamp: I64
    indexLastUpdatePhyoffset: I64


class ViewMessageHeader(Header):
    """VIEW_MESSAGE_BY_ID 33. `offset` is a byte position in the commit log."""

    offset: I64
    topic: str | None = None


class QueryConsumeQueueHeader(TopicHeader):
    """QUERY_CONSUME_QUEUE 321: `count` units of a queue from `index` on."""

    topic: str
    queueId: I32
    index: I64
    count: I32
    consumerGroup: str | None = None
