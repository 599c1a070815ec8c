"""Typed columns by the schemas of a real registry: Apicurio's, which speaks both protocols.

Played by `make soak`: the server has 140 MB.
"""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.peers.cache import UnavailableError, built, run_tool
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.java import java_command
from tests.compat.peers.ports import free_port
from tests.compat.peers.process import Process
from tests.spark.typed_bodies import NEW, OLD, avro, rows, send

from epochmq.base.errors import NotFound
from epochmq.spark.schema_registry import SchemaRegistry

VERSION = "2.6.13.Final"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
START_S = 120.0
CONFLUENT, OWN = "/apis/ccompat/v7", "/apis/registry/v2"

pytestmark = [pytest.mark.soak, pytest.mark.compat, pytest.mark.process]


def program() -> Path:
    """Return the directory of the server, which keeps its schemas in memory."""

    def get(part: Path) -> None:
        artifact = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
        run_tool(["mvn", "-q", "-B", COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={part}"])
        (archive,) = part.glob("*.tar.gz")
        run_tool(["tar", "xzf", archive, "-C", part])
        archive.unlink()

    return built(f"apicurio-{VERSION}", get)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        (jar,) = program().glob("*-runner.jar")
        java = java_command()
    except UnavailableError as missing:
        pytest.skip(f"Apicurio's registry cannot be had: {missing}")
    port = free_port()
    address = ("-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}")
    log = tmp_path_factory.mktemp("apicurio") / "apicurio.log"
    server = Process("apicurio", [java, *FLAGS, *address, "-jar", jar], log, {})
    server.start()
    try:
        found = f"http://127.0.0.1:{port}"
        server.wait_ready(lambda: answers(f"{found}{OWN}/system/info"), START_S)
        yield found
    finally:
        server.stop()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def register(url: str, subject: str, schema: object) -> int:
    """Register a version of `subject` as Confluent's serializers do; the number of the schema."""
    request = urllib.request.Request(
        f"{url}{CONFLUENT}/subjects/{subject}/versions",
        json.dumps({"schema": json.dumps(schema)}).encode(),
        {"Content-Type": "application/vnd.schemaregistry.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return int(json.load(answer)["id"])


def global_id(url: str, subject: str, version: int) -> int:
    """Return the number that Apicurio's own serializers write for a version of `subject`."""
    path = f"{OWN}/groups/default/artifacts/{subject}/versions/{version}/meta"
    with urllib.request.urlopen(url + path, timeout=30) as answer:
        return int(json.load(answer)["globalId"])


def test_bodies_of_two_versions_by_both_protocols(
    cluster: EpochCluster, topic: str, url: str
) -> None:
    subject = f"{topic}-value"
    numbers = [register(url, subject, schema) for schema in (OLD, NEW)]
    own = [global_id(url, subject, version) for version in (1, 2)]
    expected = [(1, None), (2**40, "two")]
    for path, (old, new), id_bytes in ((CONFLUENT, numbers, 4), (OWN, own, 8)):
        name = f"{topic}_{id_bytes}"
        bodies = [avro(OLD, old, id_bytes, n=1), avro(NEW, new, id_bytes, n=2**40, s="two")]
        send(cluster.namesrv_addr, name, bodies)
        found = rows(
            cluster.namesrv_addr,
            name,
            typed="avro",
            typed__registry=url + path,
            typed__subject=subject,
            columns="n,s",
        )
        assert [(row["n"], row["s"]) for row in found] == expected


def test_what_it_does_not_have(url: str) -> None:
    for path in (CONFLUENT, OWN):
        registry = SchemaRegistry(url + path)
        with pytest.raises(NotFound, match="has nothing at"):
            registry.latest("no-such-subject")
        with pytest.raises(NotFound, match="has nothing at"):
            registry.by_id(999_999)
