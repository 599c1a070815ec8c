"""`epochmq produce`: usage, input, summary."""

import json
from pathlib import Path

import pytest
from tests.admin.world import World


def consumed(world: World, topic: str) -> list[dict[str, object]]:
    ended = world.run("consume", topic, "--exit", "-o", "json")
    assert ended.code == 0
    return ended.rows


def test_lines_of_a_file(world: World, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("one\ntwo\nthree\n")
    ended = world.run("produce", "P_file", str(path), "-k", "order", "--tags", "A", "-o", "json")
    assert ended.code == 0
    assert ended.rows[0]["sent"] == 3
    rows = consumed(world, "P_file")
    assert [row["body"] for row in rows] == ["one", "two", "three"]
    assert {(row["tags"], row["key"], row["queue_id"]) for row in rows} == {
        ("A", "order", rows[0]["queue_id"])
    }
    assert len({row["msg_id"] for row in rows}) == 3


def test_what_was_consumed_can_be_produced(world: World, tmp_path: Path) -> None:
    path = tmp_path / "messages"
    first = {"body": "b", "tags": "T", "keys": ["k1"], "properties": {"n": "5"}, "key": "k"}
    path.write_text(json.dumps(first) + "\n\n")
    assert world.run("produce", "P_json", "--json", str(path)).code == 0
    path.write_text("\n".join(world.run("consume", "P_json", "--exit", "-o", "json").lines))
    assert world.run("produce", "P_again", "--json", str(path)).code == 0
    (row,) = consumed(world, "P_again")
    properties = row["properties"]
    assert isinstance(properties, dict)
    assert (row["body"], row["tags"], row["keys"], row["key"]) == ("b", "T", ["k1"], "k")
    assert properties["n"] == "5"


def test_count_rate_and_summary(world: World, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("x\n" * 100)
    ended = world.run("produce", "P_count", str(path), "--count", "20", "--rate", "1000")
    assert ended.code == 0
    assert ended.err.startswith("sent 20 messages, 20 B, in ")
    assert "p99" in ended.err


def test_a_time_in_the_past_is_told(world: World, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("x\n")
    ended = world.run("produce", "P_past", str(path), "--at", "2020-01-01T00:00")
    assert ended.code == 0
    assert "--at 2020-01-01T00:00 is in the past: messages are delivered at once" in ended.err
    assert [row["body"] for row in consumed(world, "P_past")] == ["x"]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["a b", "IN"], 2, "forbidden character"),
        (["t", "none"], 1, "none"),
        (["t", "IN", "--json"], 2, "line 1: "),
        (["t", "IN", "--delay", "19"], 2, "'19' is not a delay"),
        (["t", "IN", "--at", "noon"], 2, "'noon' is not a time"),
        (["t", "IN", "--at", "@1", "--delay", "1s"], 2, "give one"),
        (["t", "IN", "-n", "127.0.0.1:1"], 3, "`epochmq dev` starts one here"),
        (["t", "IN", "-n", "nonsense"], 2, "is not a name server address"),
        (["P_far", "IN", "--delay", "96h"], 1, "timerMaxDelaySec is 259200 here"),
    ],
)
def test_faults(world: World, tmp_path: Path, args: list[str], code: int, said: str) -> None:
    (tmp_path / "IN").write_text("hello\n")
    ended = world.run("produce", *(str(tmp_path / "IN") if arg == "IN" else arg for arg in args))
    assert ended.code == code
    assert said in ended.err
