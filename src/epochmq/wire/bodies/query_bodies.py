"""Bodies of looking into a consume queue: QUERY_CONSUME_QUEUE 321."""

from msgspec import UNSET, UnsetType

from epochmq.model.subscription import SubscriptionData
from epochmq.wire.bodies.body import Body, MaybeText, camel_but


class ConsumeQueueData(Body, rename=camel_but(evaluated="eval")):
    """One unit of a consume queue: byte position, size and tag hash of its record."""

    physic_offset: int = 0
    physic_size: int = 0
    tags_code: int = 0
    extend_data_json: MaybeText = UNSET
    bit_map: MaybeText = UNSET
    evaluated: bool = False
    msg: MaybeText = UNSET


class QueryConsumeQueueBody(Body):
    """Answer to 321: units from the asked index, and the queue's bounds."""

    queue_data: list[ConsumeQueueData] = []
    min_queue_index: int = 0
    max_queue_index: int = 0
    subscription_data: SubscriptionData | UnsetType | None = UNSET
    filter_data: MaybeText = UNSET
