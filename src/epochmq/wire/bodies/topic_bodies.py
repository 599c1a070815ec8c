"""Bodies of topic administration."""

from epochmq.model.data_version import DataVersion
from epochmq.model.topic import TopicConfig
from epochmq.wire.bodies.body import Body
from epochmq.wire.bodies.mapping import TopicQueueMappingDetail, TopicQueueMappingInfo


class TopicConfigTable(Body):
    """Answer to GET_ALL_TOPIC_CONFIG 21, and part of a registration. 4.9 has no mapping fields."""

    topic_config_table: dict[str, TopicConfig] = {}
    data_version: DataVersion = DataVersion()
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] = {}
    topic_queue_mapping_detail_map: dict[str, TopicQueueMappingDetail] = {}
    mapping_data_version: DataVersion = DataVersion()


class TopicConfigList(Body):
    """UPDATE_AND_CREATE_TOPIC_LIST 18 (5.3)."""

    topic_config_list: list[TopicConfig] = []


class TopicOffset(Body):
    """Bounds of one queue; `last_update_timestamp` is the last message's store time (wall ms)."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


class TopicStatsTable(Body):
    """Answer to GET_TOPIC_STATS_INFO 202; `offset_table` is keyed by queue (`mq_map_decode`)."""

    offset_table: dict[str, TopicOffset] = {}
    topic_put_tps: float = 0.0


class GroupList(Body):
    """Answer to QUERY_TOPIC_CONSUME_BY_WHO 300."""

    group_list: list[str] = []
