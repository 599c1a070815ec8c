"""Bodies of registration and routes; a route itself is model/route's."""

from msgspec import UNSET, field

from epochmq.model.route import BrokerData
from epochmq.wire.bodies.body import Body, MaybeText
from epochmq.wire.bodies.topic_bodies import TopicConfigTable


class RegisterBrokerBody(Body):
    """REGISTER_BROKER 103 from version 37 on; older brokers send a bare TopicConfigTable."""

    topic_config_serialize_wrapper: TopicConfigTable = field(default_factory=TopicConfigTable)
    filter_server_list: list[str] = []


class ClusterInfo(Body):
    """Answer to GET_BROKER_CLUSTER_INFO 106. Upstream writes the broker ids as bare integers."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class BrokerMemberGroup(Body):
    """The living members of one broker group, address by id."""

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[int, str] = {}


class BrokerMemberGroupBody(Body):
    """Answer to GET_BROKER_MEMBER_GROUP 901."""

    broker_member_group: BrokerMemberGroup = field(default_factory=BrokerMemberGroup)


class KVTable(Body):
    """Answer to GET_KVLIST_BY_NAMESPACE 219, GET_BROKER_RUNTIME_INFO 28 and some more."""

    table: dict[str, str] = {}


class TopicList(Body):
    """Answer to every list of topics: 206, 224, 304, 305, 311 to 313, 343."""

    topic_list: list[str] = []
    broker_addr: MaybeText = UNSET
