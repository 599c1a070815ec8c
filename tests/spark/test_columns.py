"""Columns: one table for Arrow and Spark, and what is said about names that are none."""

import pyarrow as pa
import pytest

from epochmq.base.errors import UsageError
from epochmq.spark import columns


def test_all_columns_stand_in_their_order_and_may_be_null() -> None:
    schema = columns.schema()
    assert tuple(schema.names) == columns.NAMES
    assert len(columns.NAMES) == 19
    assert all(field.nullable for field in schema)
    assert schema.field("properties").type == pa.map_(pa.string(), pa.string())
    assert schema.field("bornTimestamp").type == pa.timestamp("us", tz="UTC")


def test_spark_reads_the_same_types_out_of_the_ddl() -> None:
    assert columns.ddl(["topic", "body", "queueId", "queueOffset", "bornTimestamp"]) == (
        "topic string, body binary, queueId int, queueOffset bigint, bornTimestamp timestamp"
    )
    assert columns.ddl(["properties"]) == "properties map<string,string>"
    assert columns.ddl(["properties"], "raw") == "properties string"
    assert "properties" not in columns.ddl(None, "none")


def test_a_choice_keeps_the_order_it_was_made_in() -> None:
    assert columns.schema(["msgId", "topic"]).names == ["msgId", "topic"]


@pytest.mark.parametrize(
    ("names", "properties", "says"),
    [
        (["queueid"], "map", "did you mean 'queueId'"),
        (["colour"], "map", "there are topic, queueId"),
        (["topic", "topic"], "map", "asked for twice"),
        ([], "map", "no column is left"),
        (["properties"], "none", "no column is left"),
        (None, "dict", "no value of properties 'dict'"),
    ],
)
def test_what_makes_no_sense_is_one_clear_line(
    names: list[str] | None, properties: str, says: str
) -> None:
    with pytest.raises(UsageError, match=says) as error:
        columns.chosen(names, properties)
    assert "\n" not in str(error.value)
