"""Typed columns by the schemas of a real registry: Apicurio's, which speaks all protocols.

Played by `make soak`: each version of the server has about 150 MB.
"""

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.compat.peers.cache import UnavailableError, built, run_tool
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.java import java_command
from tests.compat.peers.ports import free_port
from tests.compat.peers.process import Process
from tests.spark.test_schema_registry import ADDRESS, ORDER
from tests.spark.typed_bodies import NEW, OLD, avro, rows, send

from epochmq.base.errors import NotFound
from epochmq.spark.schema_registry import SchemaRegistry

VERSIONS = {"2.6.13.Final": "/apis/registry/v2", "3.0.9": "/apis/registry/v3"}
"""Versions of the server that run on Java 17, and the address of the own protocol of each."""
COPY = "org.apache.maven.plugins:maven-dependency-plugin:2.10:copy"
"""Later versions of the plugin need the POM of the parent too, which mirrors may lack."""
FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
START_S = 120.0
CONFLUENT = "/apis/ccompat/v7"

pytestmark = [pytest.mark.soak, pytest.mark.compat, pytest.mark.process]


@dataclass(frozen=True)
class Apicurio:
    """A running server."""

    url: str
    own: str
    """The path of its own protocol."""


def program(version: str) -> Path:
    """Return the directory of the server, which keeps its schemas in memory."""

    def get(part: Path) -> None:
        artifact = f"io.apicurio:apicurio-registry-app:{version}:tar.gz:all"
        run_tool(["mvn", "-q", "-B", COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={part}"])
        (archive,) = part.glob("*.tar.gz")
        run_tool(["tar", "xzf", archive, "-C", part])
        archive.unlink()

    return built(f"apicurio-{version}", get)


@pytest.fixture(scope="module", params=VERSIONS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Apicurio]:
    try:
        (jar,) = program(request.param).glob("*-runner.jar")
        java = java_command()
    except UnavailableError as missing:
        pytest.skip(f"Apicurio's registry cannot be had: {missing}")
    port = free_port()
    address = ("-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}")
    log = tmp_path_factory.mktemp("apicurio") / "apicurio.log"
    process = Process("apicurio", [java, *FLAGS, *address, "-jar", jar], log, {})
    process.start()
    try:
        found = Apicurio(f"http://127.0.0.1:{port}", VERSIONS[request.param])
        process.wait_ready(lambda: answers(f"{found.url}{found.own}/system/info"), START_S)
        yield found
    finally:
        process.stop()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def register(
    url: str, subject: str, schema: object, *references: dict[str, object], kind: str = "AVRO"
) -> int:
    """Register a version of `subject` as Confluent's serializers do; the number of the schema."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    body = {"schema": text, "schemaType": kind, "references": references}
    request = urllib.request.Request(
        f"{url}{CONFLUENT}/subjects/{subject}/versions",
        json.dumps(body).encode(),
        {"Content-Type": "application/vnd.schemaregistry.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return int(json.load(answer)["id"])


def own_number(server: Apicurio, subject: str, version: int) -> int:
    """Return the number that Apicurio's own serializers write for a version of `subject`."""
    is_3 = server.own.endswith("v3")
    path = f"/groups/default/artifacts/{subject}/versions/{version}" + ("" if is_3 else "/meta")
    with urllib.request.urlopen(server.url + server.own + path, timeout=30) as answer:
        return int(json.load(answer)["contentId" if is_3 else "globalId"])


def test_bodies_of_two_versions_by_each_protocol(
    cluster: EpochCluster, topic: str, server: Apicurio
) -> None:
    subject = f"{topic}-value"
    # Another subject first, so that content ids and global ids of `subject` differ.
    register(server.url, f"{topic}-key", OLD)
    numbers = [register(server.url, subject, schema) for schema in (OLD, NEW)]
    own = [own_number(server, subject, version) for version in (1, 2)]
    expected = [(1, None), (2**40, "two")]
    for path, (old, new) in ((CONFLUENT, numbers), (server.own, own)):
        id_bytes = SchemaRegistry(server.url + path).id_bytes
        name = f"{topic}_{path.rpartition('/')[2]}"
        bodies = [avro(OLD, old, id_bytes, n=1), avro(NEW, new, id_bytes, n=2**40, s="two")]
        send(cluster.namesrv_addr, name, bodies)
        found = rows(
            cluster.namesrv_addr,
            name,
            typed="avro",
            typed__registry=server.url + path,
            typed__subject=subject,
            columns="n,s",
        )
        assert [(row["n"], row["s"]) for row in found] == expected


def test_avro_types_of_another_subject(server: Apicurio, topic: str) -> None:
    country = {"type": "enum", "name": "Country", "namespace": "geo", "symbols": ["NL"]}
    field = {"name": "country", "type": "geo.Country"}
    order = {"type": "record", "name": "Order", "fields": [field]}
    register(server.url, f"{topic}-country", country)
    reference = {"name": "geo.Country", "subject": f"{topic}-country", "version": 1}
    number = register(server.url, f"{topic}-value", order, reference)
    registry = SchemaRegistry(server.url + CONFLUENT)
    text = registry.by_id(number)
    assert text == registry.latest(f"{topic}-value")
    assert [each["type"]["symbols"] for each in json.loads(text)["fields"]] == [["NL"]]


def test_protobuf_bodies_of_two_versions(
    cluster: EpochCluster, server: Apicurio, topic: str
) -> None:
    url, subject = server.url, f"{topic}-value"
    register(url, f"{topic}-address", ADDRESS, kind="PROTOBUF")
    reference = {"name": "geo/address.proto", "subject": f"{topic}-address", "version": 1}
    later = ORDER.replace("Address to = 1;", "Address to = 1; int64 cents = 2;")
    old, new = (register(url, subject, text, reference, kind="PROTOBUF") for text in (ORDER, later))
    to = b"\x0a\x06\x0a\x04Dam1"
    bodies = [
        b"\0" + number.to_bytes(4, "big") + b"\0" + message
        for number, message in ((old, to), (new, to + b"\x10\x07"))
    ]
    send(cluster.namesrv_addr, topic, bodies)
    found = rows(
        cluster.namesrv_addr, topic, typed="protobuf", typed__registry=url + CONFLUENT,
        columns="to,cents",
    )  # fmt: skip
    assert [(json.loads(row["to"]), row["cents"]) for row in found] == [
        ({"street": "Dam1"}, 0), ({"street": "Dam1"}, 7),
    ]  # fmt: skip


def test_protobuf_bodies_of_its_own_serializers(
    cluster: EpochCluster, server: Apicurio, topic: str
) -> None:
    """A name instead of indexes; schemas and their references by the registry's own protocol."""
    url, subject = server.url, f"{topic}-value"
    register(url, f"{topic}-address", ADDRESS, kind="PROTOBUF")
    reference = {"name": "geo/address.proto", "subject": f"{topic}-address", "version": 1}
    later = ORDER.replace("Address to = 1;", "Address to = 1; int64 cents = 2;")
    for text in (ORDER, later):
        register(url, subject, text, reference, kind="PROTOBUF")
    old, new = (own_number(server, subject, version) for version in (1, 2))
    id_bytes = SchemaRegistry(url + server.own).id_bytes
    to = b"\x0a\x06\x0a\x04Dam1"
    bodies = [
        b"\0" + number.to_bytes(id_bytes, "big") + b"\x07\x0a\x05Order" + message
        for number, message in ((old, to), (new, to + b"\x10\x07"))
    ]
    send(cluster.namesrv_addr, topic, bodies)
    found = rows(
        cluster.namesrv_addr, topic, typed="protobuf", typed__registry=url + server.own,
        typed__subject=subject, columns="to,cents",
    )  # fmt: skip
    assert [(json.loads(row["to"]), row["cents"]) for row in found] == [
        ({"street": "Dam1"}, 0), ({"street": "Dam1"}, 7),
    ]  # fmt: skip


def test_what_it_does_not_have(server: Apicurio) -> None:
    for path in (CONFLUENT, server.own):
        registry = SchemaRegistry(server.url + path)
        with pytest.raises(NotFound, match="has nothing at"):
            registry.latest("no-such-subject")
        with pytest.raises(NotFound, match="has nothing at"):
            registry.by_id(999_999)
