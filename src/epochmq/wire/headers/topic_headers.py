"""Headers of topic administration: 17, 18, 202, 215, 300, 303, 351."""

from epochmq.model.names import DEFAULT_TOPIC
from epochmq.model.topic import TopicConfig
from epochmq.wire.header import I32, TopicHeader


class CreateTopicHeader(TopicHeader):
    """UPDATE_AND_CREATE_TOPIC 17. `attributes` is a list of `+key=value` and `-key`,
    with commas.
    """

    topic: str
    defaultTopic: str
    readQueueNums: I32
    writeQueueNums: I32
    perm: I32
    topicFilterType: str
    topicSysFlag: I32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


def creation(config: TopicConfig, attributes: str | None = None) -> CreateTopicHeader:
    """Return the request that creates a topic as in `config`.

    Args:
        config: the configuration; its own attributes are not sent.
        attributes: changes of attributes, as `+key=value` and `-key`, separated by commas.
    """
    return CreateTopicHeader(
        topic=config.topic_name,
        defaultTopic=DEFAULT_TOPIC,
        readQueueNums=config.read_queue_nums,
        writeQueueNums=config.write_queue_nums,
        perm=config.perm,
        topicFilterType=config.topic_filter_type,
        topicSysFlag=config.topic_sys_flag,
        order=config.order,
        attributes=attributes,
    )


class DeleteTopicHeader(TopicHeader):
    """DELETE_TOPIC_IN_BROKER 215."""

    topic: str


class GetTopicConfigHeader(TopicHeader):
    """GET_TOPIC_CONFIG 351."""

    topic: str


class GetTopicStatsHeader(TopicHeader):
    """GET_TOPIC_STATS_INFO 202."""

    topic: str


class QueryTopicConsumeByWhoHeader(TopicHeader):
    """QUERY_TOPIC_CONSUME_BY_WHO 300; the answer's body is a GroupList."""

    topic: str


class QueryConsumeTimeSpanHeader(TopicHeader):
    """QUERY_CONSUME_TIME_SPAN 303."""

    topic: str
    group: str
