"""Bodies of topic administration."""

from msgspec import UNSET, UnsetType

from epochmq.model.data_version import DataVersion
from epochmq.model.topic import TopicConfig
from epochmq.wire.bodies.body import Body, MaybeText

# Static topics -------------------------------------------------------------------------------
# Bodies about static topics: the mapping of logical queues to physical queues.


class TopicQueueMappingInfo(Body):
    """One broker's part of a static topic; `curr_id_map` maps logical to physical queue ids."""

    topic: str = ""
    scope: MaybeText = UNSET
    total_queues: int = 0
    bname: str = ""
    epoch: int = 0
    dirty: bool = False
    curr_id_map: dict[int, int] = {}


class LogicQueueMappingItem(Body):
    """One range of a logical queue on one physical queue."""

    gen: int = 0
    queue_id: int = 0
    bname: str = ""
    logic_offset: int = 0
    start_offset: int = 0
    end_offset: int = -1
    time_of_start: int = -1
    time_of_end: int = -1


class TopicQueueMappingDetail(TopicQueueMappingInfo):
    """The mapping with its history, as the broker stores it."""

    hosted_queues: dict[int, list[LogicQueueMappingItem]] = {}


# Topic bodies --------------------------------------------------------------------------------


class TopicConfigTable(Body):
    """Answer to GET_ALL_TOPIC_CONFIG 21, and part of a registration. 4.9 has no mapping fields."""

    topic_config_table: dict[str, TopicConfig] = {}
    data_version: DataVersion = DataVersion()
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] = {}
    topic_queue_mapping_detail_map: dict[str, TopicQueueMappingDetail] = {}
    mapping_data_version: DataVersion = DataVersion()
    epochmq_removed: list[str] | UnsetType = UNSET
    """Topics that were deleted, in a part with changes (`wire/table_parts.py`)."""


class TopicConfigList(Body):
    """UPDATE_AND_CREATE_TOPIC_LIST 18 (5.3)."""

    topic_config_list: list[TopicConfig] = []


class TopicOffset(Body):
    """First and last offset of one queue. `last_update_timestamp` is the last store
    time, Unix ms.
    """

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
