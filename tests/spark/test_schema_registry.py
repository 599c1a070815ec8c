"""Schemas come from a registry; whatever it answers, the error says what is wrong and where."""

import base64
import io
import json
from pathlib import Path

import fastavro
import pytest
from tests.spark.registry_server import RegistryServer
from tests.spark.typed_bodies import serialized_file

from epochmq.base.errors import EnvironmentFault, EpochError, NotFound, NotReachable, UsageError
from epochmq.spark import schema_registry
from epochmq.spark.protobuf_source import messages_by_index
from epochmq.spark.schema_registry import ANSWER_BYTES_MAX, TRIES, SchemaRegistry

APICURIO = "/apis/registry/v2"
APICURIO_V3 = "/apis/registry/v3"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "_PAUSE_MS", 1)


def test_confluents_protocol(schema_server: RegistryServer) -> None:
    schema_server.add("flights-value", '"int"', 7)
    schema_server.add("flights-value", '"long"', 9)
    registry = SchemaRegistry(schema_server.url + "/")
    assert registry.latest("flights-value") == '"long"'
    assert [registry.by_id(7), registry.by_id(7)] == ['"int"', '"int"']
    assert schema_server.asked.count("/schemas/ids/7") == 1, "a number is asked for once"
    assert registry.split(b"\0\0\0\0\x07body") == (7, b"body")
    assert registry.split(b"\0\0\0\0") is None
    assert registry.split(b"{}   ") is None


def test_apicurios_own_protocol(schema_server: RegistryServer) -> None:
    schema_server.add("default/flights-value", '"int"', 7)
    schema_server.add("aero/flights value", '"long"', 2**40)
    registry = SchemaRegistry(schema_server.url + APICURIO)
    assert registry.latest("flights-value") == '"int"'
    assert registry.latest("aero/flights value") == '"long"'
    assert registry.by_id(2**40) == '"long"'
    assert registry.split(b"\0" + (2**40).to_bytes(8, "big") + b"body") == (2**40, b"body")


def test_version_3_of_apicurios_own_protocol(schema_server: RegistryServer) -> None:
    schema_server.add("default/flights-value", '"int"', 17)
    schema_server.add("aero/flights value", '"long"', 2**32 - 1)
    registry = SchemaRegistry(schema_server.url + APICURIO_V3 + "/")
    assert registry.latest("flights-value") == '"int"'
    assert registry.latest("aero/flights value") == '"long"'
    assert registry.by_id(2**32 - 1) == '"long"'
    assert registry.split(b"\0\0\0\0\x11body") == (17, b"body"), "a content id of four bytes"
    for missing in (lambda: registry.latest("none"), lambda: registry.by_id(18)):
        with pytest.raises(NotFound, match=r"nothing at .*/apis/registry/v3/"):
            missing()


def record(name: str, *kinds: object) -> str:
    """Return a record of Avro with a field of each kind."""
    fields = [{"name": f"f{n}", "type": kind} for n, kind in enumerate(kinds)]
    namespace, _, short = name.rpartition(".")
    return json.dumps({"type": "record", "name": short, "namespace": namespace, "fields": fields})


def refer(name: str, subject: str, version: int = 1) -> dict[str, object]:
    return {"name": name, "subject": subject, "version": version}


def test_avro_types_of_other_schemas_become_part_of_the_text(schema_server: RegistryServer) -> None:
    """Order -> Address -> Country, and Country twice; the version counts, not the newest."""
    add, references = schema_server.add, schema_server.references
    add("country", record("geo.Country", "string"), 1)
    add("country", record("geo.Country", "string", "string"), 2)
    add("address", record("geo.Address", "Country", "geo.Country"), 3)
    references[3] = [refer("geo.Country", "country")]
    nullable = ["null", {"type": "array", "items": "geo.Address"}]
    add("orders-value", record("shop.Order", "long", nullable, "geo.Country"), 4)
    references[4] = [refer("geo.Address", "address"), refer("geo.Country", "country")]
    registry = SchemaRegistry(schema_server.url)
    text = registry.latest("orders-value")
    assert registry.by_id(4) == text
    schema = fastavro.parse_schema(json.loads(text))
    country = {"f0": "NL"}
    order = {"f0": 7, "f1": [{"f0": country, "f1": country}], "f2": country}
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, order)
    assert fastavro.schemaless_reader(io.BytesIO(body.getvalue()), schema, None) == order


def test_references_that_cannot_be_used(schema_server: RegistryServer) -> None:
    registry = SchemaRegistry(schema_server.url)
    schema_server.add("s", record("a.S", "a.T"), 1)
    for references, says in (
        ([refer("a.U", "s")], "no reference defines a.T"),
        ([refer("a.T", "none")], "has nothing at"),
        ([refer("a.T", "s", 2)], "has nothing at"),
        ([refer(f"a.T{n}", "s") for n in range(101)], "more than 100"),
    ):
        schema_server.references[1] = references
        with pytest.raises(EpochError, match=says):
            registry.latest("s")
    schema_server.add("t", record("a.T", "string"), 2)
    schema_server.add("t", record("a.T", "long"), 3)
    schema_server.add("u", record("a.U", "a.T"), 4)
    schema_server.references[1] = [refer("a.T", "t", 1), refer("a.U", "u")]
    schema_server.references[4] = [refer("a.T", "t", 2)]
    with pytest.raises(EnvironmentFault, match=r"two definitions of a\.T"):
        registry.latest("s")
    schema_server.references[1] = [refer("a.T", "s")]
    with pytest.raises(EnvironmentFault, match="form a cycle"):
        registry.latest("s")


ADDRESS = 'syntax = "proto3"; package geo; message Address { string street = 1; }'
ORDER = (
    'syntax = "proto3"; package shop; import "geo/address.proto";'
    " message Order { geo.Address to = 1; }"
)


@pytest.mark.parametrize("serialized", [True, False], ids=["descriptors", "source text"])
def test_protobuf_schemas_with_what_they_import(
    schema_server: RegistryServer, serialized: bool
) -> None:
    """Confluent's registry gives descriptors when it is asked to, Apicurio's ignores that."""
    schema_server.add("address", ADDRESS, 1, "PROTOBUF")
    schema_server.add("orders-value", ORDER, 2, "PROTOBUF")
    schema_server.references[2] = [refer("geo/address.proto", "address")]
    if serialized:
        schema_server.descriptors[1] = serialized_file(ADDRESS)
        schema_server.descriptors[2] = serialized_file(ORDER, {"geo/address.proto": ADDRESS})
    registry = SchemaRegistry(schema_server.url)
    found = registry.latest_protobuf("orders-value")
    assert messages_by_index(found) == {(0,): "shop.Order"}
    assert registry.protobuf_by_id(2) == registry.protobuf_by_id(2) == found
    asked = [path for path in schema_server.asked if "ids/2" in path]
    assert asked == ["/schemas/ids/2?format=serialized"], "a number is asked for once"


def test_protobuf_schemas_that_cannot_be_used(schema_server: RegistryServer) -> None:
    schema_server.add("avro", '"int"', 1)
    schema_server.add("odd", "message {", 2, "PROTOBUF")
    schema_server.add("orders", ORDER, 3, "PROTOBUF")
    registry = SchemaRegistry(schema_server.url)
    for ask, says in (
        (lambda: registry.latest_protobuf("avro"), "the schema is AVRO, not PROTOBUF"),
        (lambda: registry.protobuf_by_id(2), "/schemas/ids/2: protoc cannot compile it"),
        (lambda: registry.latest_protobuf("orders"), "geo/address.proto: File not found"),
    ):
        with pytest.raises(EnvironmentFault, match=says):
            ask()
    with pytest.raises(NotFound):
        registry.latest_protobuf("none")


def artifact(
    name: str, artifact: str, version: str = "1", group: str | None = None
) -> dict[str, object]:
    """A reference as Apicurio's own protocol tells it."""
    return {"name": name, "groupId": group, "artifactId": artifact, "version": version}


OWN = pytest.mark.parametrize("path", [APICURIO, APICURIO_V3], ids=["v2", "v3"])


@OWN
def test_protobuf_by_apicurios_own_protocol(schema_server: RegistryServer, path: str) -> None:
    schema_server.add("geo/address", ADDRESS.replace("street", "road"), 1)
    schema_server.add("geo/address", ADDRESS, 2)
    schema_server.add("default/orders-value", ORDER, 3)
    schema_server.references[3] = [artifact("geo/address.proto", "address", "2", "geo")]
    registry = SchemaRegistry(schema_server.url + path)
    assert registry.names_message
    found = registry.latest_protobuf("orders-value")
    assert messages_by_index(found) == {(0,): "shop.Order"}
    assert b"street" in base64.b64decode(found), "the version that is named"
    assert registry.protobuf_by_id(3) == found


@OWN
def test_avro_types_of_others_by_apicurios_own_protocol(
    schema_server: RegistryServer, path: str
) -> None:
    schema_server.add("default/t", record("a.T", "string"), 1)
    schema_server.add("default/u", record("a.U", "a.T"), 2)
    schema_server.references[2] = [artifact("a.T", "t")]
    registry = SchemaRegistry(schema_server.url + path)
    assert '"a.T"' in registry.latest("u")
    assert json.loads(registry.by_id(2))["fields"][0]["type"]["fields"][0]["type"] == "string"


@OWN
@pytest.mark.parametrize(
    ("references", "says"),
    [
        ([{"name": "a.T"}], "the references are malformed"),
        ([artifact("a.T", "t", "1" * 300)], "the references are malformed"),
        ([artifact("a.T", "none")], "has nothing at"),
        ([artifact("a.T", "t"), artifact("a.T", "u")], "two definitions of a"),
        ([artifact(f"a.T{n}", "t") for n in range(101)], "more than 100"),
        ([artifact("a.X", "t")], "no reference defines a.T"),
    ],
)
def test_bad_references_of_apicurios_own_protocol(
    schema_server: RegistryServer, path: str, references: list[dict[str, object]], says: str
) -> None:
    schema_server.add("default/t", record("a.T", "string"), 1)
    schema_server.add("default/u", record("a.U", "a.T"), 2)
    schema_server.references[2] = references
    with pytest.raises(EpochError, match=says):
        SchemaRegistry(schema_server.url + path).latest("u")


@OWN
def test_a_registry_that_knows_no_references(schema_server: RegistryServer, path: str) -> None:
    schema_server.add("default/t", record("a.T", "string"), 1)
    schema_server.knows_references = False
    registry = SchemaRegistry(schema_server.url + path)
    assert registry.latest("t") == registry.by_id(1) == schema_server.texts[1]


def test_a_json_schema_may_refer_to_others(schema_server: RegistryServer) -> None:
    """Its properties of these types become JSON text, so the others are not needed."""
    text = json.dumps({"$id": "o", "properties": {"to": {"$ref": "address.json"}}})
    schema_server.add("orders-value", text, 1, "JSON")
    schema_server.references[1] = [refer("address.json", "address")]
    schema_server.add("default/orders-value", text, 2)
    schema_server.references[2] = [artifact("address.json", "address")]
    for path in ("", APICURIO, APICURIO_V3):
        registry = SchemaRegistry(schema_server.url + path)
        assert registry.latest("orders-value") == text == registry.by_id(2 if path else 1)


def test_names_are_quoted(schema_server: RegistryServer) -> None:
    schema_server.add("a/../b?c#d", '"int"', 1)
    assert SchemaRegistry(schema_server.url).latest("a/../b?c#d") == '"int"'


def test_what_is_missing_is_not_found(schema_server: RegistryServer) -> None:
    registry = SchemaRegistry(schema_server.url)
    for ask in (lambda: registry.latest("none"), lambda: registry.by_id(404)):
        with pytest.raises(NotFound, match="the schema registry has nothing at http://127"):
            ask()
    schema_server.add("later", '"int"', 404)
    assert registry.by_id(404) == '"int"', "that it was missing is not remembered"


def test_passing_problems_are_tried_again(schema_server: RegistryServer) -> None:
    schema_server.add("s", '"int"', 1)
    schema_server.failures = [(500, b""), (503, b"busy"), (429, b"")]
    assert SchemaRegistry(schema_server.url).latest("s") == '"int"'
    assert len(schema_server.asked) == 4


def test_lasting_problems_end_the_tries(schema_server: RegistryServer) -> None:
    schema_server.failures = [(500, b"")] * TRIES
    with pytest.raises(NotReachable, match=f"did not answer .* {TRIES} times: HTTP status 500"):
        SchemaRegistry(schema_server.url).latest("s")
    with pytest.raises(NotReachable, match="Connection refused"):
        SchemaRegistry("http://127.0.0.1:1").latest("s")


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (200, b"<html>", "the answer is not JSON"),
        (200, b"[" * 100_000, "the answer is not JSON"),
        (200, b"[]", "the answer has no schema"),
        (200, b'{"schema": 5}', "the answer has no schema"),
        (200, b"\xff\xfe", "the answer is not text"),
        (200, b"x" * (ANSWER_BYTES_MAX + 1), "more than 4194304 bytes"),
        (200, b'{"schema": "x", "references": [{"name": "y"}]}', "references are malformed"),
        (200, b'{"schema": "x", "references": 5}', "references are malformed"),
        (403, b"", "refuses .* HTTP status 403"),
        (302, b"http://127.0.0.1:1/elsewhere", "refuses .* HTTP status 302"),
    ],
)
def test_answers_that_cannot_be_used(
    schema_server: RegistryServer, status: int, body: bytes, says: str
) -> None:
    schema_server.failures = [(status, body)]
    with pytest.raises(EnvironmentFault, match=says):
        SchemaRegistry(schema_server.url).latest("s")
    assert len(schema_server.asked) == 1


def test_a_user_and_a_password_from_a_file(schema_server: RegistryServer, tmp_path: Path) -> None:
    schema_server.user = "me:sec:ret"
    schema_server.add("s", '"int"', 1)
    file = tmp_path / "credentials"
    file.write_text("me:sec:ret\n")
    assert SchemaRegistry(schema_server.url, str(file)).latest("s") == '"int"'
    with pytest.raises(EnvironmentFault, match="HTTP status 401"):
        SchemaRegistry(schema_server.url).latest("s")
    file.write_text("me\n")
    with pytest.raises(UsageError, match="must have one line: user:password"):
        SchemaRegistry(schema_server.url, str(file)).latest("s")
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        SchemaRegistry(schema_server.url, str(tmp_path / "none")).latest("s")


@pytest.mark.parametrize(
    "url",
    [
        "host:8081",
        "ftp://host",
        "http://",
        "http://h?a=b",
        "http://[::1",
        "http://h:x",
        "http://h:99999",
        "http://h:0",
        "",
        "x",
    ],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(UsageError, match="is not an address of a schema registry"):
        SchemaRegistry(url)


@pytest.mark.parametrize("url", ["http://me:secret@host", "http://me:secret@host:x", "me:secret@h"])
def test_an_address_has_no_password(url: str) -> None:
    with pytest.raises(EpochError, match="use a file for them") as refused:
        SchemaRegistry(url)
    assert "secret" not in str(refused.value)
