"""Rows with typed columns, from a real broker, as Spark's executors read them."""

import json
import re

import pytest
from tests.compat.peers.epochmq import EpochCluster
from tests.spark import topics
from tests.spark.registry_server import RegistryServer
from tests.spark.typed_bodies import NEW, OLD, avro, rows, send

from epochmq.model.message import Message
from epochmq.spark.typed_rows import UnparsableBody

pytestmark = pytest.mark.process


def test_json_columns_beside_those_of_messages(cluster: EpochCluster, topic: str) -> None:
    bodies = [b'{"n": 1, "s": "a", "more": {}}', b'{"s": null}', b'{"n": 3}']
    send(cluster.namesrv_addr, topic, bodies)
    typed = {"typed": "json", "typed__schema": "n int, s string"}
    found = rows(cluster.namesrv_addr, topic, **typed, columns="n,queueOffset,s")
    assert found == [
        {"n": 1, "queueOffset": 0, "s": "a"},
        {"n": None, "queueOffset": 1, "s": None},
        {"n": 3, "queueOffset": 2, "s": None},
    ]
    everything = rows(cluster.namesrv_addr, topic, **typed)
    assert [(row["body"], row["n"]) for row in everything] == [
        (body, json.loads(body).get("n")) for body in bodies
    ]


def test_a_body_that_does_not_fit(cluster: EpochCluster, topic: str) -> None:
    send(cluster.namesrv_addr, topic, [b'{"n": 1}', b'{"n": "x"}', b"\xff", b'{"n": 3000000000}'])
    typed = {"typed": "json", "typed__schema": "n int", "columns": "n"}
    with pytest.raises(UnparsableBody, match=r"offset 1 does not fit .* 'n' is \"x\", no int"):
        rows(cluster.namesrv_addr, topic, **typed)
    typed |= {"typed__errors": "column", "columns": "n,typedError"}
    found = rows(cluster.namesrv_addr, topic, **typed)
    assert [row["n"] for row in found] == [1, None, None, None]
    assert found[0]["typedError"] is None
    assert "no integer" in found[1]["typedError"]
    assert "no JSON" in found[2]["typedError"]
    assert "3000000000" in found[3]["typedError"]


@pytest.mark.parametrize(
    ("path", "id_bytes"), [("", 4), ("/apis/registry/v2", 8), ("/apis/registry/v3", 4)]
)
def test_avro_of_any_version(
    cluster: EpochCluster, topic: str, schema_server: RegistryServer, path: str, id_bytes: int
) -> None:
    """A body is read with the schema that its number names, whatever the newest one is."""
    subject = f"default/{topic}-value" if path else f"{topic}-value"
    schema_server.add(subject, json.dumps(OLD), 11 + id_bytes)
    schema_server.add(subject, json.dumps(NEW), 21 + id_bytes)
    bodies = [
        avro(OLD, 11 + id_bytes, id_bytes, n=1),
        avro(NEW, 21 + id_bytes, id_bytes, n=2, s="two"),
        avro(OLD, 11 + id_bytes, id_bytes, n=3),
        avro(OLD, 99, id_bytes, n=4),
        b"\x02",
    ]
    send(cluster.namesrv_addr, topic, bodies)
    found = rows(
        cluster.namesrv_addr,
        topic,
        typed="avro",
        typed__registry=schema_server.url + path,
        typed__errors="column",
        columns="n,s,typedError",
    )
    assert [(row["n"], row["s"]) for row in found[:3]] == [(1, None), (2, "two"), (3, None)]
    assert [row["typedError"] for row in found[:3]] == [None] * 3
    assert "the schema registry has nothing at" in found[3]["typedError"]
    assert "does not begin with the number of a schema" in found[4]["typedError"]
    by_number = [asked for asked in schema_server.asked if "ds/" in asked]
    assert len(by_number) == len(set(by_number)), "each number is asked for once"


def test_tags_and_typed_columns(cluster: EpochCluster, topic: str) -> None:
    first, _second = topics.create(cluster.namesrv_addr, topic)
    messages = [Message(topic, b'{"n": %d}' % n, "odd" if n % 2 else "even") for n in range(6)]
    topics.send(cluster.namesrv_addr, [(first, message) for message in messages])
    typed = {"typed": "json", "typed__schema": "n int", "columns": "n"}
    found = rows(cluster.namesrv_addr, topic, **typed, tags="odd", rowsPerBatch="1")
    assert [row["n"] for row in found] == [1, 3, 5]


FLIGHTS = """
syntax = "proto3";
package air;
message Flight { string carrier = 1; message Leg { int32 miles = 1; } repeated Leg legs = 2; }
message Cancelled { string carrier = 1; }
"""
LATER = FLIGHTS.replace(
    "repeated Leg legs = 2;", "repeated Leg legs = 2; optional int64 delay = 3;"
)
CARRIER = b"\x0a\x02UA"  # field 1
DELAY = b"\x18\x05"  # field 3


@pytest.mark.parametrize(("path", "id_bytes"), [("v2", 8), ("v3", 4)])
def test_protobuf_of_apicurios_own_serializers(
    cluster: EpochCluster, topic: str, schema_server: RegistryServer, path: str, id_bytes: int
) -> None:
    """They write the name of the message instead of its indexes."""
    schema_server.add(f"default/{topic}-value", FLIGHTS, 7)
    schema_server.add(f"default/{topic}-value", LATER, 8)
    old, new = (b"\0" + number.to_bytes(id_bytes, "big") for number in (7, 8))
    flight, cancelled = b"\x08\x0a\x06Flight", b"\x0b\x0a\x09Cancelled"
    bodies = [
        old + flight + CARRIER,
        new + flight + CARRIER + DELAY,
        old + cancelled + CARRIER,
        new + b"\x05\x0a\x03Leg" + CARRIER,
        new + flight[:-1],
        new + b"\x08\x12\x06Flight" + CARRIER,
        new + b"\x08\x0a\x05Flight" + CARRIER,
        new + b"\0" + CARRIER,
        new + b"\xff\xff\xff\xff\xff\xff",
        b"plain",
    ]
    send(cluster.namesrv_addr, topic, bodies)
    found = rows(
        cluster.namesrv_addr, topic, typed="protobuf",
        typed__registry=f"{schema_server.url}/apis/registry/{path}",
        columns="carrier,delay,typedError", typed__errors="column",
    )  # fmt: skip
    assert [(row["carrier"], row["delay"]) for row in found[:2]] == [("UA", None), ("UA", 5)]
    expected = [
        "^$",
        "^$",
        r"is a air\.Cancelled, not a air\.Flight",
        "schema 8 of the registry has no message Leg",
        *["cut off"] * 5,
        "does not begin with the number",
    ]
    for row, says in zip(found, expected, strict=True):
        assert re.search(says, row["typedError"] or ""), (says, row["typedError"])


def test_protobuf_of_any_version(
    cluster: EpochCluster, topic: str, schema_server: RegistryServer
) -> None:
    """The indexes before a body say which message of its schema it is."""
    schema_server.add(f"{topic}-value", FLIGHTS, 7, "PROTOBUF")
    schema_server.add(f"{topic}-value", LATER, 8, "PROTOBUF")
    old, new = (b"\0" + number.to_bytes(4, "big") for number in (7, 8))
    bodies = [
        old + b"\0" + CARRIER,
        new + b"\x02\0" + CARRIER + DELAY,
        old + b"\x02\x02" + CARRIER,
        new + b"\x02\x08" + CARRIER,
        new + b"\x04\0\0" + b"\x08\x07",
        new + b"\x80",
        new + b"\0" + b"\x0a\xff",
        b"\0\0\0\0\x63\0",
        b"plain",
    ]
    send(cluster.namesrv_addr, topic, bodies)
    typed = {"typed": "protobuf", "typed__registry": schema_server.url}
    columns = {"columns": "carrier,delay,legs,typedError", "typed__errors": "column"}
    found = rows(cluster.namesrv_addr, topic, **typed, **columns)
    assert [(row["carrier"], row["delay"]) for row in found[:2]] == [("UA", None), ("UA", 5)]
    errors = [row["typedError"] or "" for row in found]
    expected = [
        "^$",
        "^$",
        r"is a air\.Cancelled, not a air\.Flight",
        r"schema 8 of the registry has no message \[4\]",
        r"is a air\.Flight\.Leg, not a air\.Flight",
        "cut off",
        r"no air\.Flight",
        "has nothing at",
        "does not begin with the number",
    ]
    for error, says in zip(errors, expected, strict=True):
        assert re.search(says, error), (says, error)
    legs = rows(
        cluster.namesrv_addr, topic, **typed, typed__message="air.Flight.Leg",
        typed__errors="column", columns="miles",
    )  # fmt: skip
    assert [row["miles"] for row in legs if row["miles"]] == [7]
