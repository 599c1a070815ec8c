"""Bodies about static topics: logical queues mapped to physical ones."""

from msgspec import UNSET

from epochmq.wire.bodies.body import Body, MaybeText

GLOBAL_SCOPE = "__global__"


class TopicQueueMappingInfo(Body):
    """One broker's share of a static topic; `curr_id_map` goes from logical to physical ids."""

    topic: str = ""
    scope: MaybeText = UNSET
    total_queues: int = 0
    bname: str = ""
    epoch: int = 0
    dirty: bool = False
    curr_id_map: dict[int, int] = {}


class LogicQueueMappingItem(Body):
    """One stretch of a logical queue on one physical queue."""

    gen: int = 0
    queue_id: int = 0
    bname: str = ""
    logic_offset: int = 0
    start_offset: int = 0
    end_offset: int = -1
    time_of_start: int = -1
    time_of_end: int = -1


class TopicQueueMappingDetail(TopicQueueMappingInfo):
    """The mapping with its history, as the broker keeps it."""

    hosted_queues: dict[int, list[LogicQueueMappingItem]] = {}
