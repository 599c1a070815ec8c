"""Bodies of client sessions."""

from msgspec import UNSET, UnsetType

from epochmq.model.subscription import SubscriptionData
from epochmq.wire.bodies.body import Body, MaybeText, camel_but

CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
BROADCASTING = "BROADCASTING"
CLUSTERING = "CLUSTERING"
FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class ProducerData(Body):
    """One producer group of a client."""

    group_name: str


class ConsumerData(Body):
    """One consumer group of a client; a pull client is CONSUME_ACTIVELY, a push client PASSIVELY.

    Enumerations stay texts, so that a newer peer's values pass.
    """

    group_name: str
    consume_type: str = CONSUME_PASSIVELY
    message_model: str = CLUSTERING
    consume_from_where: str = FROM_LAST_OFFSET
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False


class HeartbeatData(Body, rename=camel_but(client_id="clientID")):
    """HEART_BEAT 34: everything that one client does. Fingerprint and `withoutSub` are 5.1's."""

    client_id: str
    producer_data_set: list[ProducerData] = []
    consumer_data_set: list[ConsumerData] = []
    heartbeat_fingerprint: int = 0
    without_sub: bool = False


class ConsumerList(Body):
    """Answer to GET_CONSUMER_LIST_BY_GROUP 38."""

    consumer_id_list: list[str] = []


class CheckClientBody(Body):
    """CHECK_CLIENT_CONFIG 46: can this filter be compiled?"""

    client_id: str = ""
    group: str = ""
    namespace: MaybeText = UNSET
    subscription_data: SubscriptionData | UnsetType | None = UNSET


class ClientConnection(Body):
    """One client of a group; `language` is an enumeration name, `version` a number (1.7)."""

    client_id: str = ""
    client_addr: str = ""
    language: str = "OTHER"
    version: int = 0


class ConsumerConnection(Body):
    """Answer to GET_CONSUMER_CONNECTION_LIST 203."""

    connection_set: list[ClientConnection] = []
    subscription_table: dict[str, SubscriptionData] = {}
    consume_type: MaybeText = UNSET
    message_model: MaybeText = UNSET
    consume_from_where: MaybeText = UNSET


class ProducerConnection(Body):
    """Answer to GET_PRODUCER_CONNECTION_LIST 204."""

    connection_set: list[ClientConnection] = []


class ProducerInfo(Body, rename=camel_but(remote_ip="remoteIP")):
    """One producer; `last_update_timestamp` is wall ms."""

    client_id: str = ""
    remote_ip: str = ""
    language: str = "OTHER"
    version: int = 0
    last_update_timestamp: int = 0


class ProducerTable(Body):
    """Answer to GET_ALL_PRODUCER_INFO 328: producers by group."""

    data: dict[str, list[ProducerInfo]] = {}
