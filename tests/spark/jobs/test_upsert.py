"""A table by key equals a dictionary, whatever the batches, repetitions, clocks and kills are."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark.jobs.lake import BROKER, HOST, START_MS, FakeCluster, NeverAsked, Topic
from tests.tiers import choose, examples

from epochmq.base.errors import UsageError
from epochmq.model import record
from epochmq.model.topic import MessageQueue
from epochmq.spark.jobs.upsert import (
    Upsert,
    UpsertOptions,
    UpsertState,
    bucket_of,
    latest_rows,
    live_keys,
    table_schema,
    version_of,
)
from epochmq.tables.keyed_table import FORMATS, open_keyed

CHANGES = choose(sample=4_000, soak=100_000)
GONE = "gone"


class Killed(BaseException):
    """Nothing of the run goes on after this, as after SIGKILL."""


def change(queue_id: int, offset: int, key: str, body: bytes, at_ms: int, tag: str = "t") -> bytes:
    """One change as a broker stores it; an empty key gives a message without one."""
    text = f"UNIQ_KEY\x01{queue_id}-{offset}\x02TAGS\x01{tag}\x02"
    text += f"KEYS\x01{key}\x02__SHARDINGKEY\x01{key}\x02" if key else ""
    return record.encode(
        b"T", body, text.encode(), queue_id, 0, offset, 0, 0, at_ms, HOST, at_ms, HOST, 0, 0
    )


def changes(count: int, keys: int, queues: int, rng: random.Random) -> tuple[Topic, dict[str, Any]]:
    """A topic of changes, some repeated and out of order, and the dictionary that applies them.

    A key is in every queue; the clock of a queue sometimes goes back.
    """
    made = Topic("T", [[] for _ in range(queues)])
    clocks = [START_MS] * queues
    running = [0] * queues
    latest: dict[str, tuple[str, bytes | None]] = {}
    for number in range(count):
        queue_id = rng.randrange(queues)
        clocks[queue_id] += rng.choice((0, 1, 5, 5, -20))
        running[queue_id] = max(running[queue_id], clocks[queue_id])
        offset = len(made.queues[queue_id])
        key = f"k{rng.randrange(keys)}" if rng.random() > 0.02 else ""
        is_deleted = rng.random() < 0.1
        body = b"" if is_deleted and rng.random() < 0.5 else b"%d" % number
        tag = GONE if is_deleted else "t"
        made.queues[queue_id].append(change(queue_id, offset, key, body, clocks[queue_id], tag))
        if key:
            version = version_of(running[queue_id], MessageQueue("T", BROKER, queue_id), offset)
            value = None if is_deleted else body
            latest[key] = max(latest.get(key, ("", None)), (version, value))
    made.low = [0] * queues
    return made, {key: value for key, (_, value) in latest.items() if value is not None}


def upsert(options: UpsertOptions, cluster: FakeCluster, on_step: Any = lambda _step: None) -> Any:
    job = Upsert(options, cluster, cluster.fetch, on_step=on_step)
    job.open()
    return job.run(NeverAsked())  # type: ignore[arg-type]


def table(place: Path) -> dict[str, bytes]:
    """Key and body of each row that is not deleted."""
    rows = live_keys(open_keyed(str(place)).scan())
    return dict(zip(rows["key"].to_pylist(), rows["body"].to_pylist(), strict=True))


@pytest.fixture(params=FORMATS)
def format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("buckets", [0, 8])
def test_a_table_equals_the_dictionary(tmp_path: Path, format: str, buckets: int) -> None:
    made, wanted = changes(CHANGES, CHANGES // 20, 3, random.Random(1))
    options = UpsertOptions("", "T", str(tmp_path), format, tombstone_tag=GONE, max_rows=900,
                            buckets=buckets)  # fmt: skip
    report = upsert(options, FakeCluster(made))
    assert report.rows == CHANGES
    assert report.details["withoutKey"] > 0
    assert table(tmp_path) == wanted
    assert upsert(replace(options, buckets=0), FakeCluster(made)).rows == 0
    rows = open_keyed(str(tmp_path)).scan(["key"])["key"].to_pylist()
    assert len(rows) == len(set(rows)), "a key has one row"


@pytest.mark.parametrize("buckets", [0, 4])
@pytest.mark.parametrize("cluster", [False, True])
def test_compactions_and_kills_make_no_difference(
    tmp_path: Path, format: str, cluster: bool, buckets: int
) -> None:
    made, wanted = changes(300, 40, 2, random.Random(4))
    options = UpsertOptions("", "T", str(tmp_path), format, tombstone_tag=GONE, max_rows=50,
                            compact_every=2, cluster=cluster, buckets=buckets)  # fmt: skip
    seen: list[str] = []

    def on_step(name: str) -> None:
        seen.append(name)
        if seen.count("compacted") == 2 and name == "compacted":
            raise Killed

    with pytest.raises(Killed):
        upsert(options, FakeCluster(made), on_step)
    upsert(options, FakeCluster(made), seen.append)
    assert seen.count("compacted") >= 3
    assert table(tmp_path) == wanted


def test_each_key_is_in_the_file_of_its_bucket(tmp_path: Path, format: str) -> None:
    made, _ = changes(300, 90, 2, random.Random(6))
    options = UpsertOptions("", "T", str(tmp_path), format, buckets=5)
    upsert(options, FakeCluster(made))
    files = [path for path in tmp_path.rglob("*.parquet") if "metadata" not in path.parts]
    assert len(files) == 5
    for path in files:
        (bucket,) = {part[7:] for part in path.parts if part.startswith("bucket=")}
        keys = pq.read_table(path, partitioning=None, columns=["key"])["key"].to_pylist()
        assert {bucket_of(key, 5) for key in keys} == {int(bucket)}


def test_a_number_of_buckets_belongs_to_a_table(tmp_path: Path, format: str) -> None:
    made, _ = changes(20, 3, 1, random.Random(5))
    plain, parts = (UpsertOptions("", "T", str(tmp_path / name), format) for name in "ab")
    upsert(plain, FakeCluster(made))
    upsert(replace(parts, buckets=4), FakeCluster(made))
    with pytest.raises(UsageError, match="has no buckets, not 4: leave --buckets out"):
        upsert(replace(plain, buckets=4), FakeCluster(made))
    with pytest.raises(UsageError, match="has 4 buckets, not 3"):
        upsert(replace(parts, buckets=3), FakeCluster(made))
    for buckets, other in ((0, 2), (2, 0)):
        place = tmp_path / f"empty{buckets}"
        options = UpsertOptions("", "T", str(place), format, buckets=buckets)
        Upsert(options, None, FakeCluster(made).fetch).open()
        with pytest.raises(UsageError, match="is empty and was made with"):
            upsert(replace(options, buckets=other), FakeCluster(made))
    with pytest.raises(UsageError, match="5000 buckets cannot be used"):
        UpsertOptions("", "T", "t", buckets=5000)


def test_buckets_are_those_of_sql() -> None:
    """Spark 4.3.0: SELECT crc32('k1') % 16, crc32('') % 16, crc32('Zürich') % 16."""
    assert [bucket_of(key, 16) for key in ("k1", "", "Zürich")] == [9, 0, 14]


def test_sorting_is_part_of_compactions() -> None:
    with pytest.raises(UsageError, match="give --compact-every N as well"):
        UpsertOptions("", "T", "t", "delta", cluster=True)


def test_kills_and_batches_make_no_difference(tmp_path: Path, format: str) -> None:
    made, wanted = changes(600, 40, 2, random.Random(2))
    rng, kills = random.Random(3), 0
    for _ in range(8):
        left = rng.randrange(1, 4)

        def on_step(_name: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed

        rows = rng.choice((40, 70, 100))
        options = UpsertOptions("", "T", str(tmp_path), format, tombstone_tag=GONE, max_rows=rows)
        try:
            upsert(options, FakeCluster(made), on_step)
        except Killed:
            kills += 1
    assert kills > 5
    upsert(options, FakeCluster(made))
    assert table(tmp_path) == wanted


def test_a_late_older_change_does_not_bring_a_key_back(tmp_path: Path, format: str) -> None:
    made = Topic("T", [[], []])
    made.low = [0, 0]
    made.queues[0].append(change(0, 0, "k", b"", START_MS + 100))
    options = UpsertOptions("", "T", str(tmp_path), format)
    upsert(options, FakeCluster(made))
    assert table(tmp_path) == {}
    made.queues[1].append(change(1, 0, "k", b"old", START_MS + 50))
    upsert(options, FakeCluster(made))
    assert table(tmp_path) == {}
    made.queues[1].append(change(1, 1, "k", b"new", START_MS + 150))
    upsert(options, FakeCluster(made))
    assert table(tmp_path) == {"k": b"new"}


@pytest.mark.parametrize("key", ["orderingKey", "property:__SHARDINGKEY"])
def test_keys_from_properties(tmp_path: Path, key: str) -> None:
    made, wanted = changes(200, 10, 2, random.Random(4))
    options = UpsertOptions("", "T", str(tmp_path), key=key, tombstone_tag=GONE)
    upsert(options, FakeCluster(made))
    assert table(tmp_path) == wanted


def test_a_table_of_something_else_is_refused(tmp_path: Path, format: str) -> None:
    made, _ = changes(20, 3, 1, random.Random(5))
    options = UpsertOptions("", "T", str(tmp_path / "t"), format)
    upsert(options, FakeCluster(made))
    other = UpsertOptions("", "T", str(tmp_path / "t"), format, key="orderingKey")
    with pytest.raises(UsageError, match="has T by keys, not T by orderingKey"):
        upsert(other, FakeCluster(made))
    with pytest.raises(UsageError, match="is not a key"):
        UpsertOptions("", "T", "t", key="name")
    with pytest.raises(UsageError, match="cannot be read"):
        UpsertState.from_json("{")


@settings(max_examples=examples(30))
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=12))
def test_the_largest_version_of_each_key_stays(pairs: list[tuple[str, int]]) -> None:
    rows = [{"key": key, "version": f"{number}", "deleted": False} for key, number in pairs]
    found = latest_rows(table_schema().empty_table() if not rows else _rows(rows)).to_pylist()
    wanted: dict[str, str] = {}
    for key, number in pairs:
        wanted[key] = max(wanted.get(key, ""), f"{number}")
    assert {row["key"]: row["version"] for row in found} == wanted
    assert len(found) == len(wanted)


def _rows(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist(rows, table_schema())
