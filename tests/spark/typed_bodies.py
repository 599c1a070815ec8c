"""Bodies with the number of their schema, and what executors make of a topic of them."""

import base64
import io
import pickle
from collections.abc import Mapping
from typing import Any

import fastavro
import pyarrow as pa
from google.protobuf import descriptor_pb2
from pyspark.sql.pandas.types import from_arrow_schema
from tests.spark import topics

from epochmq.model.message import Message
from epochmq.spark import columns
from epochmq.spark.options import parse_source
from epochmq.spark.protobuf_source import descriptor_set
from epochmq.spark.source import batch_reader

OLD = {"type": "record", "name": "F", "fields": [{"name": "n", "type": "int"}]}
NEW = {
    "type": "record",
    "name": "F",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "s", "type": ["null", "string"], "default": None},
    ],
}


def avro(schema: dict[str, Any], number: int, id_bytes: int, **values: object) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), values)
    return b"\0" + number.to_bytes(id_bytes, "big") + body.getvalue()


def serialized_file(text: str, imported: Mapping[str, str] | None = None) -> str:
    """Return what Confluent's registry gives for a Protobuf schema with format=serialized."""
    found = descriptor_pb2.FileDescriptorSet()
    found.ParseFromString(base64.b64decode(descriptor_set(text, imported or {})))
    file = found.file[-1]
    file.name = "default"
    return base64.b64encode(file.SerializeToString()).decode()


def send(namesrv: str, topic: str, bodies: list[bytes]) -> None:
    first, _second = topics.create(namesrv, topic)
    topics.send(namesrv, [(first, Message(topic, body)) for body in bodies])


def rows(namesrv: str, topic: str, **options: str) -> list[dict[str, Any]]:
    """What executors read: the reader is pickled, as Spark does."""
    given = {"nameServer": namesrv, "subscribe": topic, **options}
    given = {name.replace("__", "."): value for name, value in given.items()}
    options = parse_source(given)
    wanted = columns.schema(options["columns"], options["properties"], options.typed.fields())
    reader = batch_reader(given, from_arrow_schema(wanted))
    copy = pickle.loads(pickle.dumps(reader))
    found: list[pa.RecordBatch] = [
        batch for partition in reader.partitions() for batch in copy.read(partition)
    ]
    return [row for batch in found for row in batch.to_pylist()]
