"""Options are read in any case, and every fault is told at once."""

import pytest

from epochmq.base.errors import UsageError
from epochmq.spark import option_table as table
from epochmq.spark.option_table import SparkOption, parse_options

ROWS = (
    SparkOption("maxOffsetsPerTrigger", table.integer(), None, "rows"),
    SparkOption("failOnDataLoss", table.flag, True, "loss"),
    SparkOption("nameServer", table.text, None, "where", "namesrvAddr"),
    SparkOption("wait", table.milliseconds, 5, "time"),
    SparkOption("size", table.size_bytes, 5, "bytes"),
    SparkOption("form", table.choice("map", "raw"), "map", "form"),
    SparkOption("columns", table.names, None, "list"),
)


def test_names_count_in_any_case_and_by_alias() -> None:
    found = parse_options({"maxoffsetspertrigger": "7", "NamesrvAddr": "h:1"}, ROWS, "it")
    assert found["maxOffsetsPerTrigger"] == 7
    assert found["nameServer"] == "h:1"
    assert found["failOnDataLoss"] is True


def test_all_faults_come_in_one_error() -> None:
    given = {"failOnDataLos": "1", "maxOffsetsPerTrigger": "many", "form": "list"}
    with pytest.raises(UsageError) as raised:
        parse_options(given, ROWS, "it")
    assert str(raised.value) == (
        "it has no option 'failOnDataLos' (did you mean 'failOnDataLoss'?);"
        " option maxOffsetsPerTrigger='many': it is not a whole number;"
        " option form='list': it must be one of map, raw"
    )


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("wait", "30s", 30_000),
        ("wait", "15 m", 900_000),
        ("wait", "250", 250),
        ("size", "64m", 64 << 20),
        ("size", "1KiB", 1024),
        ("columns", "a, b ,a", ("a", "b")),
        ("form", "RAW", "raw"),
        ("failOnDataLoss", "FALSE", False),
    ],
)
def test_values(key: str, text: str, value: object) -> None:
    assert parse_options({key: text}, ROWS, "it")[key] == value


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("wait", "soon"),
        ("wait", "-1"),
        ("size", "0"),
        ("size", "1t"),
        ("columns", " , "),
        ("failOnDataLoss", "yes"),
        ("nameServer", " "),
        ("maxOffsetsPerTrigger", "0"),
        ("maxOffsetsPerTrigger", "9" * 30),
        ("maxOffsetsPerTrigger", "١"),
    ],
)
def test_unreadable_values(key: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"option {key}="):
        parse_options({key: text}, ROWS, "it")


def test_a_long_value_is_shortened() -> None:
    with pytest.raises(UsageError) as raised:
        parse_options({"wait": "x" * 10_000}, ROWS, "it")
    assert len(str(raised.value)) < 250


def test_a_table_of_the_catalog_is_refused_with_what_works_instead() -> None:
    """What Spark hands over for `CREATE TABLE t USING rocketmq OPTIONS (nameServer 'h:1')`."""
    given = {"nameserver": "h:1", "option.nameserver": "h:1", "provider": "rocketmq"}
    with pytest.raises(UsageError, match="use CREATE TEMPORARY VIEW name USING rocketmq"):
        parse_options({**given, "owner": "root"}, ROWS, "it")
    with pytest.raises(UsageError, match="no option 'owner'"):
        parse_options({"owner": "root"}, ROWS, "it")


def test_names_of_kafka_get_a_hint() -> None:
    with pytest.raises(UsageError, match="of Kafka; use nameServer"):
        parse_options({"kafka.bootstrap.servers": "h:1"}, ROWS, "it")
