"""Writes the compressed registration of a broker, as Java brokers send it: input for the reader."""

import zlib
from struct import pack

from epochmq.model.topic import TopicConfig
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.namesrv_bodies import RegisterBrokerBody


def encode_compressed(body: RegisterBrokerBody, mappings: bool = True) -> bytes:
    """`body` as a zlib stream; `mappings` False leaves the last section out, as 4.9 does."""
    table = body.topic_config_serialize_wrapper
    parts = [_block(encode_body(table.data_version)), pack(">i", len(table.topic_config_table))]
    parts += [_block(_topic_line(topic)) for topic in table.topic_config_table.values()]
    parts.append(_block(encode_body(body.filter_server_list)))
    if mappings:
        infos = table.topic_queue_mapping_info_map.values()
        parts.append(pack(">i", len(infos)))
        parts += [_block(encode_body(info)) for info in infos]
    return zlib.compress(b"".join(parts), 9)


def _block(data: bytes) -> bytes:
    return pack(">i", len(data)) + data


def _topic_line(topic: TopicConfig) -> bytes:
    attributes = encode_body(topic.attributes).decode()
    return (
        f"{topic.topic_name} {topic.read_queue_nums} {topic.write_queue_nums} {topic.perm} "
        f"{topic.topic_filter_type} {attributes}"
    ).encode()
