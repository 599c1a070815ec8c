"""Bodies of queue locks: LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42."""

from epochmq.model.queue import MessageQueue
from epochmq.wire.bodies.body import Body, camel_but


class LockBatchRequest(Body):
    """Lock or unlock queues for client `client_id`; `only_this_broker` is 5.x's."""

    consumer_group: str
    client_id: str
    mq_set: list[MessageQueue] = []
    only_this_broker: bool = False


class LockBatchResponse(Body, rename=camel_but(lock_ok_mq_set="lockOKMQSet")):
    """The queues that the client holds now."""

    lock_ok_mq_set: list[MessageQueue] = []
