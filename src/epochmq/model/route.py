"""Routes: where the queues of a topic are (TopicRouteData)."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType


class QueueData(Struct, rename="camel"):
    """How many queues of the topic one broker group has, and what may be done with them."""

    broker_name: str
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0
    topic_sys_flag: int = 0


class BrokerData(Struct, rename="camel"):
    """One broker group; in `broker_addrs` id 0 is the master. Written with quoted ids."""

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[int, str] = {}
    enable_acting_master: bool = False
    zone_name: str | UnsetType | None = UNSET


class TopicRouteData(Struct, rename="camel"):
    """Fields that are UNSET (falsy) are left out, as upstream leaves out nulls."""

    queue_datas: list[QueueData] = []
    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    order_topic_conf: str | UnsetType | None = UNSET
    topic_queue_mapping_by_broker: dict[str, Any] | UnsetType | None = UNSET
