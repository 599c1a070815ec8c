"""The archive job on topics in memory: exactly once whatever kills it, and clear errors."""

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.spark.jobs.lake import (
    BROKER,
    DAY_MS,
    FORMATS,
    START_MS,
    FakeCluster,
    FakeRunner,
    NeverAsked,
    Topic,
    archive,
    content,
    names_on_disk,
    topic,
)

from epochmq.base.errors import EnvironmentFault, NotFound, StoreDamaged, UsageError
from epochmq.model import record
from epochmq.model.topic import MessageQueue
from epochmq.spark.archive_reader import ArchiveReader
from epochmq.spark.jobs import archive as job
from epochmq.spark.jobs.archive import Archive, ArchiveOptions, check, rehearse
from epochmq.spark.jobs.job_report import CheckpointInUse, no_progress
from epochmq.spark.jobs.verify_table import VerifyOptions, verify
from epochmq.spark.options import ArchiveAddress
from epochmq.spark.typed import Typing
from epochmq.tables.archive_table import TableConflict
from epochmq.tables.opening import open_table


class Killed(BaseException):
    """Nothing of the run goes on after this, as after SIGKILL."""


@pytest.fixture(params=FORMATS)
def options(request: pytest.FixtureRequest, tmp_path: Path) -> ArchiveOptions:
    return ArchiveOptions("", ("T",), str(tmp_path / "table"), request.param, max_rows=20)


def once(ids: set[str]) -> Counter[str]:
    return Counter(dict.fromkeys(ids, 1))


def killer(step: str, nth: int = 1) -> Any:
    """Kills at the nth time that the run says `step`."""
    seen: Counter[str] = Counter()

    def on_step(name: str) -> None:
        seen[name] += 1
        if name == step and seen[name] == nth:
            raise Killed

    return on_step


def test_all_messages_are_in_the_table_once_and_a_second_run_adds_nothing(
    options: ArchiveOptions,
) -> None:
    cluster = FakeCluster(made := topic(count=33))
    report = archive(options, cluster)
    assert content(options.table) == once(made.ids)
    assert (report.rows, report.details["missing"], report.details["batch"]) == (66, 0, 4)
    assert report.ranges == {"T": {f"{BROKER}:0": [0, 33], f"{BROKER}:1": [0, 33]}}
    assert archive(options, cluster).rows == 0
    made.add(5)
    assert archive(options, cluster).rows == 10
    assert content(options.table) == once(made.ids)


@pytest.mark.parametrize("step", ["claimed", "planned", "written", "committed"])
@pytest.mark.parametrize("nth", [1, 2])
def test_killed_anywhere_the_next_run_makes_it_whole(
    options: ArchiveOptions, step: str, nth: int
) -> None:
    cluster = FakeCluster(made := topic(count=33))
    with pytest.raises(Killed):
        archive(options, cluster, killer(step, nth if step != "claimed" else 1))
    made.add(3)
    archive(options, cluster)
    assert content(options.table) == once(made.ids)
    table = open_table(options.table)
    assert names_on_disk(table) == set(job.paths_of(table)), "no orphans are left"


def test_killed_within_a_task_no_reader_sees_the_files(options: ArchiveOptions) -> None:
    class Dies(FakeCluster):
        def fetch(self, one: Any) -> Any:
            yield from super().fetch(one)
            if one.start > 5:
                raise Killed

    made = topic(count=33)
    with pytest.raises(Killed):
        archive(options, Dies(made))
    archive(options, FakeCluster(made))
    assert content(options.table) == once(made.ids)


def test_dead_letters_are_exactly_once_with_their_rows(options: ArchiveOptions) -> None:
    """Killed between the two transactions, the very same batch is done again."""
    made = topic(queues=1, count=10)
    made.add(10, b"no json")
    made.add(10, b'{"n": 7}')
    cluster = FakeCluster(made)
    options = replace(options, typing=Typing("json", "n bigint"))
    with pytest.raises(Killed):
        archive(options, cluster, killer("dead"))
    # More has come, and the limit is another: the batch must not be cut elsewhere.
    made.add(4, b"no json")
    report = archive(replace(options, max_rows=1000), cluster)
    assert report.details["deadLetters"] == 4 + 10
    more = {"name": f"{options.name}_dead"} if options.format == "iceberg" else {}
    dead = content(options.dead_table, **more)
    assert dead == once({f"T-0-{at}" for at in [*range(10, 20), *range(30, 34)]})
    good = content(options.table)
    assert good == once({f"T-0-{at}" for at in [*range(10), *range(20, 30)]})
    assert content(options.table, "n") == Counter({None: 10, 7: 10})


def test_a_replaced_run_stops_at_its_next_commit(options: ArchiveOptions) -> None:
    cluster = FakeCluster(made := topic(count=33))
    old = Archive(options, cluster, no_progress, lambda _step: None)
    old.open()
    archive(options, cluster)
    made.add(1)
    with pytest.raises(TableConflict, match="another archive writes to"):
        old.run(FakeRunner(cluster), NeverAsked())  # type: ignore[arg-type]
    archive(options, cluster)
    assert content(options.table) == once(made.ids)


def test_days_and_topics_are_partitions(options: ArchiveOptions) -> None:
    one, other = topic("T", 1, 3), topic("%DLQ%g", 1, 3)
    one.add(3, at_ms=START_MS + DAY_MS)
    options = replace(options, topics=("T", "%DLQ%g"))
    archive(options, FakeCluster(one, other))
    assert content(options.table) == once(one.ids | other.ids)
    days = {path.rpartition("/")[0] for path in names_on_disk(open_table(options.table))}
    assert days == {
        "topic=T/storeDate=2023-11-14",
        "topic=T/storeDate=2023-11-15",
        "topic=.25DLQ.25g/storeDate=2023-11-14",
    }
    assert content(options.table, "topic") == Counter({"T": 6, "%DLQ%g": 3})


def test_a_new_queue_begins_at_its_first_message(options: ArchiveOptions) -> None:
    cluster = FakeCluster(made := topic(queues=1, count=3))
    archive(replace(options, start="latest"), cluster)
    assert not content(options.table)
    made.queues.append([])
    made.low.append(0)
    made.add(2)
    archive(replace(options, start="latest"), cluster)
    assert content(options.table) == once({"T-0-3", "T-0-4", "T-1-0", "T-1-1"})


def test_the_start_is_kept_when_the_first_batch_fails(options: ArchiveOptions) -> None:
    """Latest is latest of the first try, or what came between would be lost."""
    cluster = FakeCluster(made := topic(queues=1, count=3))
    options = replace(options, start="latest")
    with pytest.raises(Killed):
        archive(options, cluster, killer("claimed"))
    made.add(4)
    archive(options, cluster)
    assert content(options.table) == once({f"T-0-{at}" for at in range(3, 7)})


def test_new_columns_widen_the_table(options: ArchiveOptions) -> None:
    made = topic(queues=1, count=2)
    cluster = FakeCluster(made)
    archive(replace(options, columns=("msgId",)), cluster)
    made.add(2, b'{"n": 7}')
    report = archive(replace(options, typing=Typing("json", "n bigint")), cluster)
    assert "n" in report.details["newColumns"]
    assert content(options.table, "n") == Counter({None: 2, 7: 2})
    assert content(options.table, "body") == Counter({None: 2, b'{"n": 7}': 2})
    made.add(1)
    with pytest.raises(UsageError, match=r"column 'n' of .* is int64, and would be string now"):
        archive(replace(options, typing=Typing("json", "n string")), cluster)


def test_compaction_keeps_the_rows(options: ArchiveOptions) -> None:
    cluster = FakeCluster(made := topic(count=50))
    steps: list[str] = []
    archive(replace(options, compact_every=3), cluster, steps.append)
    assert "compacted" in steps
    assert content(options.table) == once(made.ids)
    made.add(30)
    with pytest.raises(Killed):
        archive(replace(options, compact_every=1), cluster, killer("compacted"))
    archive(options, cluster)
    assert content(options.table) == once(made.ids)


def aged(days: list[int], each: int = 4, queues: int = 2) -> Topic:
    """A topic with `each` messages in each queue that are `days` old, and then the next ones."""
    made = topic(queues=queues)
    for age in days:
        made.add(each, at_ms=int(time.time() * 1000) - age * DAY_MS)
    return made


def left(made: Topic, first: int) -> Counter[str]:
    """The ids of the messages of each queue from queue offset `first` on."""
    return once(
        {f"T-{q}-{at}" for q, rows in enumerate(made.queues) for at in range(len(rows))[first:]}
    )


def begins(options: ArchiveOptions) -> dict[str, int]:
    mark = open_table(options.table).mark
    assert mark is not None
    return {str(queue): offset for queue, offset in mark.begin["T"].items()}


def test_rows_of_expired_days_are_removed(options: ArchiveOptions) -> None:
    cluster = FakeCluster(made := aged([40, 30, 20, 2, 1]))
    archive(options, cluster)
    assert content(options.table) == left(made, 0)
    steps: list[str] = []
    report = archive(replace(options, keep_days=10), cluster, steps.append)
    assert "expired" in steps
    assert content(options.table) == left(made, 12)
    assert begins(options) == {f"{BROKER}:0": 12, f"{BROKER}:1": 12}
    expired = report.details["expired"]
    assert isinstance(expired, dict)
    assert expired["rows"] == 24
    assert verify(VerifyOptions(options.table)).status == "sound"
    reader = ArchiveReader(ArchiveAddress(options.table))
    assert set(reader.bounds().values()) == {(12, 20)}
    # The next run goes on behind the last message, and knows where the archive begins now.
    made.add(3)
    assert archive(options, cluster).rows == 6
    assert content(options.table) == left(made, 12)
    assert begins(options) == {f"{BROKER}:0": 12, f"{BROKER}:1": 12}


def test_a_queue_may_lose_all_its_rows(options: ArchiveOptions) -> None:
    cluster = FakeCluster(made := aged([40], queues=1))
    archive(replace(options, keep_days=10), cluster)
    assert not content(options.table)
    assert begins(options) == {f"{BROKER}:0": 4}
    assert verify(VerifyOptions(options.table)).status == "sound"
    made.add(2)
    archive(options, cluster)
    assert content(options.table) == left(made, 4)


def test_rows_behind_those_that_are_kept_stay(options: ArchiveOptions) -> None:
    """The clock of the broker went back by 11 days: an archive never has a gap."""
    cluster = FakeCluster(made := aged([30, 9, 20, 1]))
    archive(replace(options, keep_days=10), cluster)
    assert content(options.table) == left(made, 4)
    assert verify(VerifyOptions(options.table)).status == "sound"


def test_killed_after_an_expiry_the_next_run_goes_on(options: ArchiveOptions) -> None:
    cluster = FakeCluster(made := aged([40, 1]))
    with pytest.raises(Killed):
        archive(replace(options, keep_days=10), cluster, killer("expired"))
    made.add(3, at_ms=int(time.time() * 1000))
    archive(replace(options, keep_days=10), cluster)
    assert content(options.table) == left(made, 4)
    assert verify(VerifyOptions(options.table)).status == "sound"


def test_dead_letters_expire_with_the_rows(options: ArchiveOptions) -> None:
    made = topic(queues=1)
    for age in (40, 1):
        made.add(2, b"no json", int(time.time() * 1000) - age * DAY_MS)
    options = replace(options, typing=Typing("json", "n bigint"), keep_days=10)
    archive(options, FakeCluster(made))
    more = {"name": f"{options.name}_dead"} if options.format == "iceberg" else {}
    assert content(options.dead_table, **more) == left(made, 2)


def test_a_table_of_another_topic_or_app_or_format_is_refused(options: ArchiveOptions) -> None:
    archive(options, FakeCluster(topic(count=1)))
    other = FakeCluster(topic("Other", count=1))
    with pytest.raises(UsageError, match="belongs to the archive 'archive:T', not to"):
        archive(replace(options, topics=("Other",)), other)
    with pytest.raises(UsageError, match="not to 'mine'"):
        archive(replace(options, app="mine"), FakeCluster(topic(count=1)))
    wrong = "parquet" if options.format == "delta" else "delta"
    with pytest.raises(UsageError, match=f"is {options.format}, not {wrong}"):
        archive(replace(options, format=wrong), FakeCluster(topic(count=1)))
    assert content(options.table) == once(topic(count=1).ids)


def test_an_archive_may_take_up_another_topic(options: ArchiveOptions) -> None:
    one, other = topic(count=3), topic("Other", count=3)
    archive(options, FakeCluster(one))
    more = replace(options, app=options.owner, topics=("T", "Other"))
    archive(more, FakeCluster(one, other))
    assert content(options.table) == once(one.ids | other.ids)


def test_a_place_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "thesis.doc").touch()
    options = ArchiveOptions("", ("T",), str(tmp_path / "table"))
    with pytest.raises(UsageError, match="holds other files and no table"):
        archive(options, FakeCluster(topic()))


def test_a_topic_created_again_is_refused(
    options: ArchiveOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "BELIEVED_AFTER_S", 0.0)
    archive(options, FakeCluster(topic(count=9)))
    with pytest.raises(UsageError, match="was deleted and created again"):
        archive(options, FakeCluster(topic(count=2)))
    assert content(options.table) == once(topic(count=9).ids)


def test_a_topic_created_again_and_grown_past_the_old_place_is_refused(
    options: ArchiveOptions,
) -> None:
    archive(options, FakeCluster(topic(count=5)))
    again = Topic("T", [[], []])
    again.add(9, at_ms=START_MS + 1)
    with pytest.raises(UsageError, match="all its messages are younger than that"):
        archive(options, FakeCluster(again))
    assert sum(content(options.table).values()) == 10
    same = topic(count=5)
    same.add(4, at_ms=START_MS + 1)
    assert archive(options, FakeCluster(same)).rows == 8


def test_deleted_messages_are_said_exactly(options: ArchiveOptions) -> None:
    made = topic(queues=1, count=5)
    archive(options, FakeCluster(made))
    made.add(5)
    made.low[0] = 8
    with pytest.raises(
        EnvironmentFault, match=r"T@broker-a:0: queue offsets 5 to 7\. --allow-loss"
    ):
        archive(options, FakeCluster(made))
    report = archive(replace(options, allow_loss=True), FakeCluster(made))
    assert report.details["lost"] == ["T@broker-a:0: queue offsets 5 to 7"]
    assert content(options.table) == once({f"T-0-{at}" for at in [*range(5), 8, 9]})


@pytest.mark.parametrize("at", [0, 7, 25])
def test_a_damaged_record_is_named_and_its_batch_is_not_there(
    options: ArchiveOptions, at: int
) -> None:
    made = topic(queues=1, count=30)  # 20 rows a batch
    queue, whole = made.queues[0], made.queues[0][at]
    queue[at] = whole[: record.MAGIC_AT] + bytes(4) + whole[record.MAGIC_AT + 4 :]
    said = f"T@broker-a:0: the message at queue offset {at} is damaged: no magic number"
    for _ in range(2):  # asking again changes nothing
        with pytest.raises(StoreDamaged, match=said):
            archive(options, FakeCluster(made))
        done = set() if at < 20 else {f"T-0-{n}" for n in range(20)}
        assert content(options.table) == once(done)
    queue[at] = whole  # another replica leads, which has it
    archive(options, FakeCluster(made))
    assert content(options.table) == once(made.ids)


def test_a_stream_goes_on_until_it_is_asked_to_stop(options: ArchiveOptions) -> None:
    made = topic(count=3)
    cluster = FakeCluster(made)

    class Stop:
        polls = 0

        @property
        def asked(self) -> bool:
            self.polls += 1
            if self.polls in (3, 6):
                made.add(2)
            return self.polls > 12

    report = archive(replace(options, until_now=False, interval_s=0.0), cluster, stop=Stop())
    assert report.rows == len(made.ids)
    assert content(options.table) == once(made.ids)


@pytest.mark.parametrize("catalog", [None, "sqlite:///{}/catalog.db"])
def test_a_dry_run_touches_nothing(tmp_path: Path, catalog: str | None) -> None:
    uri = catalog and catalog.format(tmp_path)
    options = ArchiveOptions("", ("T",), str(tmp_path / "table"), max_rows=4, catalog=uri)
    report = rehearse(options, FakeCluster(topic(count=5)))
    assert (report.status, report.rows, report.details["batches"]) == ("dry-run", 10, 3)
    assert report.rate == 0
    assert not (tmp_path / "table").exists()


def test_two_runs_on_one_checkpoint(tmp_path: Path) -> None:
    options = ArchiveOptions("", ("T",), str(tmp_path / "table"))
    with job.locked(options), pytest.raises(CheckpointInUse, match="is in use by job archive"):
        job.locked(options).__enter__()
    with job.locked(options):
        pass


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"topics": ()}, "name at least one topic"),
        ({"topics": ("T", "T")}, "named twice"),
        ({"topics": ("a b",)}, "forbidden character"),
        ({"max_rows": 0}, "use 1 or more"),
        ({"start": "soon"}, "use earliest or latest"),
        ({"columns": ("mgsId",)}, "did you mean 'msgId'"),
        ({"typing": Typing("xml", "x")}, "use json, avro, protobuf"),
        ({"typing": Typing("json", "topic string")}, "prefix"),
    ],
)
def test_bad_options(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check(replace(ArchiveOptions("", ("T",), "t"), **change))


def test_no_table_to_read() -> None:
    with pytest.raises(NotFound, match="there is no table at"):
        open_table("/nowhere/at/all")


def test_a_missing_queue_is_waited_for(
    options: ArchiveOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its broker may be changing roles; an archive that ended now would miss messages."""
    made = topic(queues=2, count=3)
    archive(options, FakeCluster(made))
    made.add(2)

    class Hides(FakeCluster):
        asked = 0

        def bounds_of(self, names: list[str], *, master: bool = False) -> Any:
            self.asked += 1
            found = super().bounds_of(names)
            if self.asked < 4:
                del found[MessageQueue("T", BROKER, 1)]
            return found

    monkeypatch.setattr(job, "POLL_S", 0.01)
    archive(options, Hides(made))
    assert content(options.table) == once(made.ids)
