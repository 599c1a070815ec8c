"""What a read may be asked for, and how each contradiction is told."""

import pickle
import re
from pathlib import Path

import pytest

from epochmq.base.errors import UsageError
from epochmq.spark.columns import NAMES
from epochmq.spark.encode_columns import WRITTEN
from epochmq.spark.options import (
    SOURCE_ROWS,
    SourceOptions,
    check_batch,
    check_stream,
    parse_source,
)
from epochmq.spark.sink_options import SINK_ROWS

PIPELINE = Path(__file__).parents[2] / "docs" / "PIPELINE.md"
BASE = {"nameServer": "127.0.0.1:9876", "subscribe": "t"}


def test_what_stands_beside_kafkas_options_is_there() -> None:
    """docs/PIPELINE.md matches the Kafka source's table row by row; no row may promise a ghost."""
    section = PIPELINE.read_text().split("## Beside Spark's Kafka source")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row[1])}
    ours = {row.name for row in (*SOURCE_ROWS, *SINK_ROWS)} | {*NAMES, *WRITTEN}
    assert named - ours == {"tls.client.*", "latestOffset.offsetsBehindLatest"}
    assert len(rows) > 40


def parse(**more: str) -> SourceOptions:
    return parse_source({**BASE, **more})


def test_the_least_that_is_needed() -> None:
    options = parse()
    assert options.name_server == "127.0.0.1:9876"
    assert options.selection.topics == ("t",)
    assert options.start is None
    assert options["failOnDataLoss"] is True
    assert options["tags"] is None


def test_options_travel_to_executors() -> None:
    options = parse(startingOffsets='{"t": {"broker-a:0": 5}}', tags="a||b")
    assert pickle.loads(pickle.dumps(options)) == options
    assert options["tags"] == "a || b"


@pytest.mark.parametrize(
    ("given", "kind", "word"),
    [
        ({"startingOffsets": "Latest"}, "Offsets", "latest"),
        ({"startingOffsets": '{"t": {"0": -2}}'}, "Offsets", "earliest"),
        ({"startingTimestamp": "1700000000000"}, "Timestamp", "earliest"),
        ({"startingTimestamp": "2026-11-22T07:00:00Z"}, "Timestamp", "earliest"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": 5}}'}, "OffsetsByTimestamp", "earliest"),
        ({"startingGroup": "g", "startingOffsets": "latest"}, "Group", "latest"),
        ({"startingEpoch": "3"}, "Epoch", "earliest"),
    ],
)
def test_where_to_begin(given: dict[str, str], kind: str, word: str) -> None:
    start = parse(**given).start
    assert start is not None
    assert (start.kind, start.word) == (kind, word)


def test_a_time_with_a_zone_is_ms() -> None:
    start = parse(startingTimestamp="1970-01-01T01:00:01+01:00").start
    assert start is not None
    assert start.wall_ms == 1000


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"subscribe": "a", "subscribePattern": "b"}, "subscribe and subscribePattern are given"),
        ({"startingOffsets": "latest", "startingTimestamp": "5"}, "give one of startingOffsets"),
        ({"startingOffsets": '{"t": {}}', "startingGroup": "g"}, "give one of"),
        ({"startingOffsets": "first"}, "must be earliest, latest, or JSON"),
        ({"startingOffsets": "{"}, "not JSON"),
        ({"startingOffsets": '{"t": 5}'}, "must be JSON as"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "-3 is not an offset"),
        ({"startingTimestamp": "2026-11-22T07:00:00"}, "has no zone"),
        ({"startingTimestamp": "yesterday"}, "neither ms since 1970"),
        ({"assign": "[]"}, "must be JSON as"),
        ({"assign": '{"t": []}'}, "must list queues"),
        ({"subscribePattern": "("}, "not a regular expression"),
        ({"subscribe": "a b"}, "forbidden character"),
        ({"subscribe": "RMQ_SYS_TRANS_HALF_TOPIC"}, "open transactions"),
        ({"nameServer": "localhost"}, "is not a name server address"),
        ({"groupId": "a b"}, "forbidden character"),
        ({"tags": " || "}, "no tag"),
        ({"maxBytesPerRead": "64m"}, "a broker's limit"),
        ({"tls.enable": "true", "tls.client.certPath": "/none"}, "need each other"),
        ({"columns": ""}, "names nothing"),
        ({"readfrom": "leader"}, "must be one of auto, master, follower"),
        ({"startingoffset": "earliest"}, "did you mean 'startingOffsets'?"),
        ({"path": "t"}, "no option 'path'"),
    ],
)
def test_contradictions(given: dict[str, str], says: str) -> None:
    base = dict(BASE)
    if {"assign", "subscribePattern"} & given.keys() and "subscribe" not in given:
        del base["subscribe"]
    with pytest.raises(UsageError) as raised:
        parse_source({**base, **given})
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_is_missing() -> None:
    with pytest.raises(UsageError, match="nameServer is missing"):
        parse_source({"subscribe": "t"})
    with pytest.raises(UsageError, match="none is given"):
        parse_source({"nameServer": "h:1"})


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": "latest"},
        {"endingOffsets": "earliest"},
        {"startingOffsets": '{"t": {"0": -1}}'},
        {"endingOffsets": '{"t": {"0": -2}}'},
    ],
)
def test_a_batch_that_would_be_empty(given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="empty"):
        check_batch(parse(**given))


def test_a_stream_has_no_end() -> None:
    check_stream(parse(startingOffsets="latest"))
    with pytest.raises(UsageError, match="availableNow"):
        check_stream(parse(endingTimestamp="5"))


def test_each_option_says_what_it_is() -> None:
    names = [row.name for row in SOURCE_ROWS]
    assert len({name.lower() for name in names}) == len(names)
    assert all(row.doc for row in SOURCE_ROWS)
