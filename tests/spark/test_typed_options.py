"""Options for typed columns: which fit together, and what they select."""

from pathlib import Path

import pytest
from pyspark.sql.types import StringType, StructField, StructType
from tests.spark.registry_server import RegistryServer

from epochmq.base.errors import EpochError, UsageError
from epochmq.spark.options import parse_source
from epochmq.spark.source import columns_of, schema

BASE = {"nameServer": "127.0.0.1:9876", "subscribe": "flights"}
JSON = {**BASE, "typed": "json", "typed.schema": "carrier string, delay double"}


def test_typed_columns_follow_those_of_messages() -> None:
    found = schema(JSON)
    assert found.startswith("topic string, ")
    assert found.endswith("msgId string, `carrier` string, `delay` double")
    assert schema({**JSON, "columns": "delay,body"}) == "`delay` double, body binary"
    errors = schema({**JSON, "typed.errors": "column", "columns": "typedError,carrier"})
    assert errors == "`typedError` string, `carrier` string"
    assert schema({**JSON, "typed.prefix": "f_", "columns": "f_delay"}) == "`f_delay` double"
    named = {**JSON, "typed.schema": "error string, typedError int", "columns": "typedError,error"}
    assert schema(named) == "`typedError` int, `error` string"


def test_a_users_schema_may_have_typed_columns() -> None:
    wanted = StructType([StructField("carrier", StringType())])
    assert columns_of(wanted, parse_source(JSON)) == ("carrier",)
    with pytest.raises(UsageError, match="there is no column 'carrier'"):
        columns_of(wanted, parse_source(BASE))
    with pytest.raises(UsageError, match="column delay is double, the schema says string"):
        columns_of(StructType([StructField("delay", StringType())]), parse_source(JSON))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"typed.schema": "a int"}, "typed.schema without option typed"),
        ({"typed.errors": "column"}, "typed.errors without option typed"),
        ({"typed": "xml"}, "option typed=.xml.: it must be one of json, avro, protobuf"),
        ({"typed": "json"}, "typed=json needs typed.schema or typed.registry"),
        ({"typed": "avro", "typed.schema": "@/nowhere"}, "typed.schema: /nowhere cannot be read"),
        ({"typed": "avro", "typed.schema": "{"}, "the Avro schema is not JSON"),
        ({"typed": "json", "typed.schema": "a money"}, "'a money' is not a column"),
        ({"typed": "json", "typed.schema": "body string"}, "option typed.prefix"),
        (
            {"typed": "json", "typed.schema": "typedError int", "typed.errors": "column"},
            "typed columns typedError have names of other columns",
        ),
        ({"typed": "json", "typed.schema": "a int", "typed.prefix": "a b"}, "letters, digits"),
        ({"typed": "protobuf", "typed.schema": "x"}, "needs typed.message=package.Message"),
        ({"typed": "json", "typed.schema": "a int", "typed.subject": "s"}, "has no use"),
        (
            {"typed": "avro", "typed.registry": "http://h", "subscribe": "a,b"},
            "needs a subject or a schema, unless one topic",
        ),
        ({"typed": "avro", "typed.registry": "h:8081"}, "not an address of a schema registry"),
        ({"type": "json"}, "did you mean 'typed'"),
    ],
)
def test_options_that_do_not_fit(given: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        schema({**BASE, **given})


def test_a_schema_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "flight.avsc"
    file.write_text('{"type": "record", "name": "F", "fields": [{"name": "n", "type": "long"}]}')
    found = schema({**BASE, "typed": "avro", "typed.schema": f"@{file}", "columns": "n"})
    assert found == "`n` bigint"


def test_the_newest_schema_of_the_topic(schema_server: RegistryServer) -> None:
    schema_server.add(
        "flights-value",
        '{"properties": {"n": {"type": "integer"}, "s": {"type": ["null", "string"]},'
        ' "o": {"type": "object"}, "x": {"type": "number"}, "b": {"type": "boolean"}}}',
        1,
    )
    given = {**BASE, "typed": "json", "typed.registry": schema_server.url}
    names = "n,s,o,x,b"
    expected = "`n` bigint, `s` string, `o` string, `x` double, `b` boolean"
    assert schema({**given, "columns": names}) == expected
    with pytest.raises(EpochError, match=r"has nothing at .*/subjects/other/versions/latest"):
        schema({**given, "typed.subject": "other"})
    schema_server.add("empty", '{"type": "object"}', 2)
    with pytest.raises(UsageError, match="the JSON Schema has no properties"):
        schema({**given, "typed.subject": "empty"})
