"""Headers about consumer offsets and queue bounds: 14, 15, 29 to 32.

Every `offset` here is a queue offset; timestamps are wall ms.
"""

from epochmq.wire.headers.header import I32, I64, Header, TopicHeader


class QueryConsumerOffsetHeader(TopicHeader):
    """QUERY_CONSUMER_OFFSET 14. Only 5.0 clients send `setZeroIfNotFound`, and only as false."""

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
    """SEARCH_OFFSET_BY_TIMESTAMP 29. `boundaryType` (5.3) is LOWER or UPPER in any case."""

    topic: str
    queueId: I32
    timestamp: I64
    boundaryType: str | None = None


class GetMaxOffsetHeader(TopicHeader):
    """GET_MAX_OFFSET 30; `committed` is ignored by RocketMQ's brokers."""

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
