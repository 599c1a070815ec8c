"""The compressed body of REGISTER_BROKER (facts/remoting.md 2.6): a zlib stream.

Inflated, all lengths int32: n, DataVersion JSON; number of topics, each n and the text
"name read write perm filter attributes"; n, JSON list of filter servers; number of mappings, each n
and TopicQueueMappingInfo JSON.
"""

import zlib
from struct import Struct

from epochmq.base.errors import HeaderError
from epochmq.base.limits import REGISTER_BODY_BYTES_MAX
from epochmq.base.types import Buffer
from epochmq.model.data_version import DataVersion
from epochmq.model.topic import TopicConfig
from epochmq.wire.bodies.base import decode_body, encode_body
from epochmq.wire.bodies.mapping import TopicQueueMappingInfo
from epochmq.wire.bodies.namesrv import RegisterBrokerBody
from epochmq.wire.bodies.topic import TopicConfigTable

_INT32 = Struct(">i")
_LEVEL = 9
_FIELDS_BEFORE_5 = 5


def encode_compressed(body: RegisterBrokerBody, mappings: bool = True) -> bytes:
    """`body` as a zlib stream; `mappings` False leaves the last section out, as 4.9 does."""
    table = body.topic_config_serialize_wrapper
    parts = [_block(encode_body(table.data_version)), _INT32.pack(len(table.topic_config_table))]
    parts += [_block(_topic_line(topic)) for topic in table.topic_config_table.values()]
    parts.append(_block(encode_body(body.filter_server_list)))
    if mappings:
        infos = table.topic_queue_mapping_info_map.values()
        parts.append(_INT32.pack(len(infos)))
        parts += [_block(encode_body(info)) for info in infos]
    return zlib.compress(b"".join(parts), _LEVEL)


def decode_compressed(data: Buffer) -> RegisterBrokerBody:
    """Read a compressed registration; `HeaderError` when it is none or inflates too far."""
    reader = _Reader(_inflate(data))
    version = decode_body(DataVersion, reader.block())
    topics = [_parse_topic(reader.block()) for _ in range(reader.count())]
    filters = decode_body(list[str], reader.block())
    count = 0 if reader.at_end else reader.count()
    infos = [decode_body(TopicQueueMappingInfo, reader.block()) for _ in range(count)]
    return RegisterBrokerBody(
        TopicConfigTable(
            topic_config_table={topic.topic_name: topic for topic in topics},
            data_version=version,
            topic_queue_mapping_info_map={info.topic: info for info in infos},
        ),
        filters,
    )


def _block(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


def _topic_line(topic: TopicConfig) -> bytes:
    attributes = encode_body(topic.attributes).decode()
    return (
        f"{topic.topic_name} {topic.read_queue_nums} {topic.write_queue_nums} {topic.perm} "
        f"{topic.topic_filter_type} {attributes}"
    ).encode()


def _parse_topic(line: bytes) -> TopicConfig:
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


def _inflate(data: Buffer) -> bytes:
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(data, REGISTER_BODY_BYTES_MAX)
    except zlib.error as error:
        raise HeaderError(f"the registration does not inflate: {error}") from None
    if not inflater.eof:
        raise HeaderError("the registration is cut short or too large")
    return plain


class _Reader:
    """Walks over the inflated bytes, never past their end."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._data)

    def count(self) -> int:
        """A number of blocks; each takes at least its own length field."""
        count = self._int32()
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
