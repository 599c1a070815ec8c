"""Which columns can be written."""

import pyarrow as pa
import pytest

from epochmq.base.errors import UsageError
from epochmq.spark import columns as source
from epochmq.spark.encode_columns import check_columns


def schema(**fields: pa.DataType) -> pa.Schema:
    return pa.schema(list(fields.items()))


def test_what_the_source_gives_can_be_written() -> None:
    found = check_columns(source.schema(), False)
    assert set(found) == {
        "topic",
        "queueId",
        "brokerName",
        "body",
        "tags",
        "keys",
        "properties",
        "flag",
    }
    assert check_columns(source.schema(properties="raw"), False).keys() == found.keys()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"tags": pa.string()}, "no column 'body'.*neither a column 'topic' nor an option"),
        ({"body": pa.binary(), "value": pa.binary()}, "both a column 'body' and a column 'value'"),
        ({"body": pa.int32()}, "column 'body' must be binary or string, not int32"),
        ({"body": pa.binary(), "Tag": pa.string()}, "'Tag' is not one that is written .*'tags'"),
        ({"body": pa.binary(), "carrier": pa.string()}, "'carrier'.*put it into properties"),
        ({"body": pa.binary(), "queueId": pa.string()}, "'queueId' must be int"),
        (
            {"body": pa.binary(), "properties": pa.map_(pa.string(), pa.int32())},
            "'properties' must be map<string,string>",
        ),
    ],
)
def test_every_fault_is_named(fields: dict[str, pa.DataType], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_columns(schema(**fields), False)


def test_two_columns_of_one_name_are_a_fault() -> None:
    doubled = pa.schema([("body", pa.binary()), ("body", pa.binary())])
    with pytest.raises(UsageError, match="two columns 'body'"):
        check_columns(doubled, True)
