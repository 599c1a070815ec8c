"""Bodies of requests to name servers: routes, clusters, and registration of brokers."""

import zlib
from collections.abc import Generator
from struct import Struct

from msgspec import UNSET, field

from epochmq.base.errors import HeaderError
from epochmq.base.limits import (
    REGISTER_BODY_BYTES_MAX,
    REGISTER_MAPPINGS_MAX,
    ROUTE_TOPICS_MAX,
)
from epochmq.base.ports import Buffer
from epochmq.model.data_version import DataVersion
from epochmq.model.topic import BrokerData, TopicConfig
from epochmq.wire.bodies.body import Body, MaybeText, decode_body
from epochmq.wire.bodies.topic_bodies import TopicConfigTable, TopicQueueMappingInfo

# Namesrv bodies ------------------------------------------------------------------------------
# Bodies of registration and routes; a route itself is model/route's.


class RegisterBrokerBody(Body):
    """REGISTER_BROKER 103 from version 37 on; older brokers send a `TopicConfigTable`."""

    topic_config_serialize_wrapper: TopicConfigTable = field(default_factory=TopicConfigTable)
    filter_server_list: list[str] = []


class ClusterInfo(Body):
    """Answer to GET_BROKER_CLUSTER_INFO 106. RocketMQ writes the broker ids as bare integers."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class BrokerMemberGroup(Body):
    """The living members of one broker group: address by broker id."""

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[int, str] = {}


class BrokerMemberGroupBody(Body):
    """Answer to GET_BROKER_MEMBER_GROUP 901."""

    broker_member_group: BrokerMemberGroup = field(default_factory=BrokerMemberGroup)


class KVTable(Body):
    """Answer to GET_KVLIST_BY_NAMESPACE 219, GET_BROKER_RUNTIME_INFO 28 and other requests."""

    table: dict[str, str] = {}


class TopicList(Body):
    """Answer to all requests for lists of topics: 206, 224, 304, 305, 311 to 313, 343."""

    topic_list: list[str] = []
    broker_addr: MaybeText = UNSET


# Register bodies -----------------------------------------------------------------------------
# The compressed body of REGISTER_BROKER: a zlib stream.
#
# Inflated, all lengths int32: n, DataVersion JSON; number of topics, each n and the text "name
# read write perm filter attributes"; n, JSON list of filter servers; number of mappings, each n
# and TopicQueueMappingInfo JSON.


TOPICS_A_STEP = 4_000
MAPPINGS_A_STEP = 100
INFLATED_A_STEP = 1024 * 1024
SETTINGS_KEPT_MAX = 1_000
"""Different settings of topics that are parsed once and then shared by topics with the
same text."""

_INT32 = Struct(">i")
_FIELDS_BEFORE_5 = 5


def decode_compressed(
    data: Buffer, bytes_max: int = REGISTER_BODY_BYTES_MAX
) -> Generator[None, None, RegisterBrokerBody]:
    """Decode a compressed registration in steps; the generator returns it at the end.

    Raises:
        HeaderError: it cannot be decoded, inflates to more than `bytes_max`, or has too many
            entries.
    """
    plain = yield from _inflate(data, bytes_max)
    reader = _Reader(plain)
    version = decode_body(DataVersion, reader.block())
    topics: dict[str, TopicConfig] = {}
    settings: dict[bytes, TopicConfig] = {}
    for number in range(reader.count(ROUTE_TOPICS_MAX, "topics")):
        if number and number % TOPICS_A_STEP == 0:
            yield
        topic = _parse_topic(reader.block(), settings)
        topics[topic.topic_name] = topic
    filters = decode_body(list[str], reader.block())
    count = 0 if reader.at_end else reader.count(REGISTER_MAPPINGS_MAX, "mappings")
    infos: dict[str, TopicQueueMappingInfo] = {}
    for number in range(count):
        if number and number % MAPPINGS_A_STEP == 0:
            yield
        info = decode_body(TopicQueueMappingInfo, reader.block())
        infos[info.topic] = info
    return RegisterBrokerBody(
        TopicConfigTable(
            topic_config_table=topics,
            data_version=version,
            topic_queue_mapping_info_map=infos,
        ),
        filters,
    )


def _parse_topic(line: bytes, settings: dict[bytes, TopicConfig]) -> TopicConfig:
    """Parse the line of one topic; `settings` caches results by the text behind the name."""
    name, _, text = line.partition(b" ")
    found = settings.get(text)
    if found is None:
        found = _parse_settings(line)
        if len(settings) < SETTINGS_KEPT_MAX:
            settings[text] = found
    return TopicConfig(
        name.decode("utf-8", "replace"),
        found.read_queue_nums,
        found.write_queue_nums,
        found.perm,
        found.topic_filter_type,
        attributes=found.attributes,
    )


def _parse_settings(line: bytes) -> TopicConfig:
    fields = line.decode("utf-8", "replace").split(" ", _FIELDS_BEFORE_5)
    if len(fields) < _FIELDS_BEFORE_5:
        raise HeaderError("a topic of a compressed registration has too few fields")
    try:
        read, write, perm = (int(text) for text in fields[1:4])
    except ValueError:
        raise HeaderError("a topic of a compressed registration has a bad number") from None
    text = fields[_FIELDS_BEFORE_5] if len(fields) > _FIELDS_BEFORE_5 else "{}"
    attributes = decode_body(dict[str, str], text.encode())
    return TopicConfig(fields[0], read, write, perm, fields[4], attributes=attributes)


def _inflate(data: Buffer, bytes_max: int) -> Generator[None, None, bytes]:
    inflater = zlib.decompressobj()
    plain = bytearray()
    rest = bytes(data)
    while True:
        try:
            piece = inflater.decompress(rest, min(INFLATED_A_STEP, bytes_max - len(plain) + 1))
        except zlib.error as error:
            raise HeaderError(f"the registration does not inflate: {error}") from None
        plain += piece
        rest = inflater.unconsumed_tail
        if len(plain) > bytes_max:
            raise HeaderError(f"the registration is larger than {bytes_max} bytes")
        if inflater.eof:
            return bytes(plain)
        if not rest and not piece:
            raise HeaderError("the registration is cut short")
        if len(plain) > INFLATED_A_STEP:
            yield


class _Reader:
    """Reads the inflated bytes, never beyond their end."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._data)

    def count(self, most: int, of_what: str) -> int:
        """Read a number of blocks. Raises `HeaderError` if it is over `most` or cannot fit."""
        count = self._int32()
        if count > most:
            raise HeaderError(f"{count} {of_what} in one registration are more than {most}")
        if not 0 <= count <= (len(self._data) - self._at) // _INT32.size:
            raise HeaderError(f"{count} entries do not fit the registration")
        return count

    def block(self) -> bytes:
        size = self._int32()
        if not 0 <= size <= len(self._data) - self._at:
            raise HeaderError(f"an entry of {size} bytes does not fit the registration")
        self._at += size
        return self._data[self._at - size : self._at]

    def _int32(self) -> int:
        if len(self._data) - self._at < _INT32.size:
            raise HeaderError("the registration ends too early")
        (value,) = _INT32.unpack_from(self._data, self._at)
        self._at += _INT32.size
        return int(value)
