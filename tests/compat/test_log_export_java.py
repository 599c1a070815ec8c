"""RocketMQ's own master and store: exported as by a learner, read as files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from epochmq.spark.log_copy import export_log
from epochmq.spark.log_files import StoreDirectory
from epochmq.spark.log_options import parse_log_options
from epochmq.spark.log_plan import find_replicas, plan
from epochmq.spark.log_rows import RowMaker

from .conftest import had
from .peers import admin
from .peers.group import JAVA, Group

TOPIC = "exported"
BODIES = [b"%d:" % number + bytes(10_000) for number in range(200)]


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with had(lambda: Group(JAVA, JAVA, replicas=2)) as running:
        master = running.master()
        assert master is not None
        admin.create_topic(master.address, TOPIC, 1)
        for body in BODIES:
            admin.send(master.address, TOPIC, body)
        yield running


def rows(**given: str) -> list[bytes]:
    options = parse_log_options({"columns": "body", "topic": TOPIC, **given})
    maker = RowMaker(options)
    splits = plan(find_replicas(options), options)
    return [body.as_py() for s in splits for batch in maker.split(s) for body in batch.column(0)]


def test_a_java_master_takes_us_for_a_learner(group: Group, tmp_path: Path) -> None:
    done = export_log(group.namesrv_addr, group.broker_name, tmp_path / "copy")
    state = group.sync_state()
    assert state is not None
    assert len(state.in_sync) == 2
    with (
        StoreDirectory(tmp_path / "copy") as copy,
        StoreDirectory(group.root / "broker-0" / "store") as replica,
    ):
        assert copy.raw(0, done.end) == replica.raw(0, done.end)
        assert [epoch for epoch, _, _ in copy.epochs] == [1]
    assert rows(path=str(tmp_path / "copy")) == BODIES
    again = export_log(group.namesrv_addr, group.broker_name, tmp_path / "copy")
    assert again.start == 0
    assert again.end >= done.end


def test_a_java_store_is_read_while_it_is_in_use(group: Group) -> None:
    store = group.root / "broker-0" / "store"
    assert rows(path=str(store), toOffset="end") == BODIES
    with StoreDirectory(store) as replica:
        assert replica.epochs[0][:2] == (1, 0)
        assert not replica.stopped_cleanly
        assert replica.tail is None
