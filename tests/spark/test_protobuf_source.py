"""Descriptor sets of Protobuf schemas, from source text and from descriptors."""

import base64

import pytest
from google.protobuf import descriptor_pb2
from tests.spark.typed_bodies import serialized_file

from epochmq.spark import protobuf_source
from epochmq.spark.protobuf_source import MAIN, descriptor_set, messages_by_index

ADDRESS = """
syntax = "proto3";
package geo;
message Country { string code = 1; }
message Address { string street = 1; Country country = 2; }
"""
ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "geo/address.proto";
message Order {
  message Line { message Price { int64 cents = 1; } string item = 1; }
  message Note { string text = 1; }
  int64 id = 1;
  geo.Address to = 2;
  google.protobuf.Timestamp at = 3;
}
message Refund { int64 order = 1; }
"""
IMPORTED = {"geo/address.proto": ADDRESS}


def files_of(encoded: str) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    found = descriptor_pb2.FileDescriptorSet()
    found.ParseFromString(base64.b64decode(encoded))
    return {file.name: file for file in found.file}


def test_source_text_is_compiled_with_what_it_imports() -> None:
    files = files_of(descriptor_set(ORDER, IMPORTED))
    assert list(files)[-1] == MAIN
    assert set(files) == {MAIN, "geo/address.proto", "google/protobuf/timestamp.proto"}


def test_descriptors_give_the_same() -> None:
    given = {"geo/address.proto": serialized_file(ADDRESS)}
    encoded = descriptor_set(serialized_file(ORDER, IMPORTED), given)
    compiled = descriptor_set(ORDER, IMPORTED)
    assert files_of(encoded)[MAIN] == files_of(compiled)[MAIN]
    assert messages_by_index(encoded) == messages_by_index(compiled)


def test_messages_by_their_indexes() -> None:
    assert messages_by_index(descriptor_set(ORDER, IMPORTED)) == {
        (0,): "shop.Order",
        (0, 0): "shop.Order.Line",
        (0, 0, 0): "shop.Order.Line.Price",
        (0, 1): "shop.Order.Note",
        (1,): "shop.Refund",
    }
    assert messages_by_index(descriptor_set('syntax = "proto3"; message A {}', {})) == {(0,): "A"}


@pytest.mark.parametrize(
    ("text", "imported", "says"),
    [
        (ORDER, {}, "cannot compile it: geo/address.proto: File not found"),
        ("message {", {}, f"cannot compile it: {MAIN}:1:9"),
        (ORDER, {"geo/address.proto": ""}, '"geo.Address" is not defined'),
        ("message A {}", {"a": "message B {}", "a/b": "message C {}"}, "a directory of others"),
        ("message A {}", {"../a.proto": ""}, "no name of a file to import"),
        ("message A {}", {"/etc/a.proto": ""}, "no name of a file to import"),
        ("message A {}", {"x" * 251: ""}, "no name of a file to import"),
        ("message A {}", {MAIN: ""}, "no name of a file to import"),
    ],
)
def test_schemas_that_cannot_be_used(text: str, imported: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        descriptor_set(text, imported)
    assert len(str(caught.value)) < 1_000
    assert "/tmp" not in str(caught.value)


def test_text_and_descriptors_do_not_mix() -> None:
    with pytest.raises(ValueError, match=r"geo/address\.proto is source text, and other parts"):
        descriptor_set(serialized_file(ORDER, IMPORTED), IMPORTED)


def test_a_compiler_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf_source, "COMPILE_S", 0.001)
    with pytest.raises(ValueError, match="did not end within"):
        descriptor_set(ORDER, IMPORTED)
