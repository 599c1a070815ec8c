"""Topics that are kept as tables: followed, written exactly once, tried again after errors."""

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.spark.jobs.lake import (
    DAY_MS,
    FORMATS,
    FakeCluster,
    FakeRunner,
    NeverAsked,
    Topic,
    content,
    topic,
)
from tests.tables.made import SCHEMA

from epochmq.base.errors import NotFound, NotReachable
from epochmq.model.topic import MessageQueue
from epochmq.spark.jobs.lake_service import (
    GROUP,
    RETRY_S,
    VACUUM_EVERY_S,
    LakeOptions,
    LakeService,
    pause_s,
    wanted_tables,
)
from epochmq.tables.opening import open_table


class Brokers(FakeCluster):
    """A cluster in memory with attributes and committed offsets."""

    def __init__(self, *topics: Topic, format: str = "delta") -> None:
        super().__init__(*topics)
        self.formats = {each.name: format for each in topics}
        self.committed: dict[MessageQueue, int] = {}
        self.down = False

    def attributes(self) -> dict[str, dict[str, str]]:
        if self.down:
            raise NotReachable("no name server answers")
        return {name: {"epochmq.table": format} for name, format in self.formats.items()}

    def bounds_of(
        self, names: list[str], *, master: bool = False
    ) -> dict[MessageQueue, tuple[int, int]]:
        if self.down:
            raise NotReachable("no broker answers")
        return super().bounds_of(names, master=master)

    def commit_all(self, group: str | None, offsets: Mapping[MessageQueue, int]) -> None:
        assert group == GROUP
        self.committed.update(offsets)


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def service(brokers: Brokers, place: Path, clock: Clock | None = None, **more: int) -> LakeService:
    options = LakeOptions("", str(place), **more)  # type: ignore[arg-type]
    return LakeService(options, brokers, FakeRunner(brokers), clock or Clock())


@pytest.mark.parametrize("format", FORMATS)
def test_every_message_once_through_compactions_and_restarts(tmp_path: Path, format: str) -> None:
    one, two = topic("one"), topic("two", queues=1)
    brokers = Brokers(one, two, format=format)
    for _ in range(3):
        lake = service(brokers, tmp_path, compact_every=2)
        for _ in range(3):
            one.add(4)
            two.add(2)
            assert lake.write_all(NeverAsked()) == 10
        assert lake.write_all(NeverAsked()) == 0
        lake.close()
    for made in (one, two):
        assert content(str(tmp_path / made.name)) == Counter(dict.fromkeys(made.ids, 1))
    assert set(brokers.committed.values()) == {36, 18}, "tools see how far the tables are"


def test_topics_share_a_catalog(tmp_path: Path) -> None:
    """Each has a table of its own; the one of an older version keeps its name."""
    one, two = topic("day-one"), topic("two%")
    catalog = f"sqlite:///{tmp_path}/catalog.db"
    place = f"{tmp_path}/lake"
    old = open_table(
        f"{place}/day-one", "iceberg", schema=SCHEMA, app="lake:day-one", catalog=catalog
    )
    old.claim("lake:day-one", {})
    brokers = Brokers(one, two, format="iceberg")
    for _ in range(2):
        one.add(4)
        two.add(2)
        lake = LakeService(LakeOptions("", place, catalog=catalog), brokers, FakeRunner(brokers))
        assert lake.write_all(NeverAsked()) > 0
        lake.close()
    old = open_table(f"{place}/day-one", catalog=catalog)
    assert sum(each.rows for each in old.data_files()) == len(one.ids)
    new = open_table(f"{place}/two.25", name="lake.two_", catalog=catalog)
    assert sum(each.rows for each in new.data_files()) == len(two.ids)
    with pytest.raises(NotFound):
        open_table(place, name="lake.day-one", catalog=catalog)


@pytest.mark.parametrize("format", FORMATS)
def test_rows_of_expired_days_leave_the_table(tmp_path: Path, format: str) -> None:
    made = topic("one", queues=1)
    now_ms = int(time.time() * 1000)
    made.add(4, at_ms=now_ms - 40 * DAY_MS)
    made.add(4, at_ms=now_ms)
    lake = service(Brokers(made, format=format), tmp_path, keep_days=10)
    assert lake.write_all(NeverAsked()) == 8
    lake.close()
    left = {f"one-0-{at}" for at in range(4, 8)}
    assert content(str(tmp_path / "one")) == Counter(dict.fromkeys(left, 1))


def test_topics_come_and_go(tmp_path: Path) -> None:
    brokers = Brokers(topic("one", count=3), topic("%RETRY%g", count=1))
    lake = service(brokers, tmp_path)
    assert lake.write_all(NeverAsked()) == 8
    assert sorted(path.name for path in tmp_path.iterdir()) == [".25RETRY.25g", "one"]
    brokers.topics["one"].add(1)
    del brokers.formats["one"]
    assert lake.write_all(NeverAsked()) == 0
    assert list(lake.tables) == ["%RETRY%g"]
    brokers.formats["one"] = "delta"
    assert lake.write_all(NeverAsked()) == 2
    assert content(str(tmp_path / "one")).total() == 8
    lake.close()


def test_a_topic_that_fails_is_tried_again_and_stops_no_other(tmp_path: Path) -> None:
    brokers = Brokers(topic("bad", count=2), topic("good", count=2))
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "file").write_text("of somebody else")
    clock = Clock()
    lake = service(brokers, tmp_path, clock)
    assert lake.write_all(NeverAsked()) == 4
    assert lake.tables["bad"].failures == 1
    (tmp_path / "bad" / "file").unlink()
    assert lake.write_all(NeverAsked()) == 0, "not before the pause is over"
    clock.now_s += RETRY_S[0]
    assert lake.write_all(NeverAsked()) == 4
    assert lake.tables["bad"].failures == 0
    lake.close()


def test_brokers_that_are_away_for_a_while(tmp_path: Path) -> None:
    brokers = Brokers(made := topic("one", count=2))
    clock = Clock()
    lake = service(brokers, tmp_path, clock)
    lake.write_all(NeverAsked())
    brokers.down = True
    for failures in (1, 2, 3):
        lake.write_all(NeverAsked())
        assert lake.tables["one"].failures == failures
        clock.now_s += pause_s(failures)
    brokers.down = False
    made.add(3)
    assert lake.write_all(NeverAsked()) == 6
    assert content(str(tmp_path / "one")) == Counter(dict.fromkeys(made.ids, 1))
    lake.close()


def test_a_second_service_on_this_machine_waits(tmp_path: Path) -> None:
    brokers = Brokers(topic("one", count=2))
    lake, other = service(brokers, tmp_path), service(brokers, tmp_path)
    assert lake.write_all(NeverAsked()) == 4
    assert other.write_all(NeverAsked()) == 0
    assert other.tables["one"].failures == 1
    lake.close()
    other.close()


def test_replaced_files_are_deleted_later(tmp_path: Path) -> None:
    brokers = Brokers(made := topic("one"), format="parquet")
    clock = Clock()
    lake = service(brokers, tmp_path, clock, compact_every=2, vacuum_hours=0)
    for _ in range(4):
        made.add(2)
        lake.write_all(NeverAsked())
    before = len(list(tmp_path.rglob("*.parquet")))
    clock.now_s += VACUUM_EVERY_S
    lake.write_all(NeverAsked())
    assert len(list(tmp_path.rglob("*.parquet"))) < before
    assert content(str(tmp_path / "one")) == Counter(dict.fromkeys(made.ids, 1))
    lake.close()


def test_which_topics() -> None:
    given = {"b": {"epochmq.table": "delta"}, "a": {"message.type": "NORMAL"}, "c": {}}
    assert wanted_tables(given) == {"b": "delta"}
    assert [pause_s(n) for n in (1, 2, 3, 4, 9)] == [5.0, 15.0, 60.0, 300.0, 300.0]
