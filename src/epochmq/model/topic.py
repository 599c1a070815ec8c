"""Topics: their configuration on one broker, queues, and routes."""

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

PERM_INHERIT = 0x1
PERM_WRITE = 0x2
PERM_READ = 0x4
PERM_PRIORITY = 0x8
PERM_READ_WRITE = PERM_READ | PERM_WRITE
PERM_MASK = 0xF

ANY_QUEUE = -1
"""Queue number of requests that are about all queues of a topic at a broker, or about the queue
that the broker chooses.
"""

SINGLE_TAG = "SINGLE_TAG"
MULTI_TAG = "MULTI_TAG"
FILTER_TYPES = frozenset({SINGLE_TAG, MULTI_TAG})

TABLE_ATTRIBUTE = "epochmq.table"
"""The attribute of a topic that `epochmq lake` keeps as a table; its value is the table's format.
EpochMQ's own.
"""
TABLE_FORMATS = ("delta", "iceberg", "parquet")


class TopicConfig(msgspec.Struct, rename="camel"):
    """The configuration of a topic. All fields are written, as in RocketMQ; 4.x has no
    `attributes`.
    """

    topic_name: str = ""
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = PERM_READ_WRITE
    topic_filter_type: str = SINGLE_TAG
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = {}


def has_batch_queues(config: TopicConfig) -> bool:
    """Whether the topic stores a batch as one record: its attribute queue.type is BatchCQ."""
    return config.attributes.get("queue.type") == "BatchCQ"


def is_readable(perm: int) -> bool:
    return perm & PERM_READ != 0


def is_writable(perm: int) -> bool:
    return perm & PERM_WRITE != 0


def format_perm(perm: int) -> str:
    """Return the permission as `RW-`, as tools print it."""
    marks = ((PERM_READ, "R"), (PERM_WRITE, "W"), (PERM_INHERIT, "X"))
    return "".join(mark if perm & bit else "-" for bit, mark in marks)


# Queue ---------------------------------------------------------------------------------------
# One queue of one topic on one broker group.


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel", cache_hash=True):
    """A queue. The order (topic, broker name, queue id) is the one that rebalance needs."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"


# Route ---------------------------------------------------------------------------------------
# Routes: where the queues of a topic are (TopicRouteData).


class QueueData(Struct, rename="camel"):
    """How many queues of the topic one broker group has, and their permission."""

    broker_name: str
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0
    topic_sys_flag: int = 0


class BrokerData(Struct, rename="camel"):
    """One broker group: addresses by broker id, where 0 is the master. Ids are written
    with quotes.
    """

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[int, str] = {}
    enable_acting_master: bool = False
    zone_name: str | UnsetType | None = UNSET


class TopicRouteData(Struct, rename="camel"):
    """The route of a topic. UNSET fields are not written, as RocketMQ leaves out nulls."""

    queue_datas: list[QueueData] = []
    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    order_topic_conf: str | UnsetType | None = UNSET
    topic_queue_mapping_by_broker: dict[str, Any] | UnsetType | None = UNSET
