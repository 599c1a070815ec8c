"""Exports from a real group of processes: found by name, survived by name, copied for an audit."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.compat.peers import admin as peer_admin
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.group import Group
from tests.compat.peers.process import wait_until

from epochmq.base.errors import NotFound, NotReachable, UsageError
from epochmq.spark.log_copy import export_log
from epochmq.spark.log_files import StoreDirectory
from epochmq.spark.log_learner import find_brokers, find_home
from epochmq.spark.log_options import parse_log_options
from epochmq.spark.log_plan import find_replicas, plan
from epochmq.spark.log_rows import RowMaker

pytestmark = pytest.mark.process

TOPIC = "exported"
SMALL = {"mappedFileSizeCommitLog": 1 << 20, "maxMessageSize": 1 << 16}


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with Group(replicas=2, broker_config=SMALL) as running:
        master = running.master()
        assert master is not None
        peer_admin.create_topic(master.address, TOPIC, 2)
        for number in range(60):
            peer_admin.send(master.address, TOPIC, b"%d:" % number + bytes(30_000), number % 2)
        yield running


def store_of(group: Group, number: int) -> Path:
    return group.root / f"broker-{number}" / "store"


def sent(group: Group, body: bytes) -> bool:
    """Whether the present master took a message."""
    master = group.master()
    with suppress(AssertionError, OSError):
        return master is not None and peer_admin.send(master.address, TOPIC, body) >= 0
    return False


def test_the_master_is_found_by_the_names_of_name_server_and_group(group: Group) -> None:
    assert find_brokers(group.namesrv_addr) == [group.broker_name]
    home = find_home(group.namesrv_addr, group.broker_name)
    master = group.master()
    assert master is not None
    assert (home.host, home.port, home.file_bytes) == ("127.0.0.1", master.port + 1, 1 << 20)


def test_wrong_names_are_told(group: Group) -> None:
    with pytest.raises(NotFound, match=r"there is no broker nobody; known .* broker-a"):
        find_home(group.namesrv_addr, "nobody")
    with pytest.raises(NotReachable):
        find_home("127.0.0.1:1", group.broker_name)


def test_a_copy_equals_every_replica_and_goes_on_after_a_failover(
    group: Group, tmp_path: Path
) -> None:
    done = export_log(group.namesrv_addr, group.broker_name, tmp_path / "copy")
    assert done.end > 1_800_000
    for number in (0, 1):
        with (
            StoreDirectory(tmp_path / "copy") as copy,
            StoreDirectory(store_of(group, number)) as replica,
        ):
            assert copy.raw(0, done.end) == replica.raw(0, done.end)
    state = group.sync_state()
    master = group.master()
    assert master is not None
    assert state is not None
    assert len(state.in_sync) == 2  # the learner is in no set
    master.process.kill9()
    wait_until(lambda: sent(group, b"after"), 30, "a new master")
    again = export_log(group.namesrv_addr, group.broker_name, tmp_path / "copy")
    assert again.end > done.end
    with StoreDirectory(tmp_path / "copy") as copy:
        assert [epoch for epoch, _, _ in copy.epochs] == [1, 2]
        assert copy.epochs[1][1] >= done.end


def test_rows_of_two_stores_that_run_are_equal_and_change_nothing(group: Group) -> None:
    given = {
        "path": f"{group.root}/broker-*/store",
        "topic": TOPIC,
        "toOffset": "end",  # a checkpoint lags behind a broker that runs
        "columns": "replica,queueId,queueOffset,body,epoch,commitLogOffset",
    }
    options = parse_log_options(given)
    maker = RowMaker(options)
    by_replica: dict[str, list[tuple[object, ...]]] = {}
    for split in plan(find_replicas(options), options):
        for batch in maker.split(split):
            for row in batch.to_pylist():
                name = row.pop("replica")
                by_replica.setdefault(name, []).append(tuple(row.values()))
    first, second = by_replica.values()
    shorter = min(len(first), len(second))
    assert shorter >= 60
    assert first[:shorter] == second[:shorter]
    assert [row[4] for row in first] == sorted(row[4] for row in first)  # type: ignore[type-var]


def test_a_store_is_read_while_its_broker_takes_messages(tmp_path: Path) -> None:
    """Without controllers: no learners, but the files can be read at any moment."""
    with EpochCluster(tmp_path / "broker") as cluster:
        with pytest.raises(UsageError, match="not in controller"):
            export_log(cluster.namesrv_addr, cluster.broker_name, tmp_path / "copy")
        peer_admin.create_topic(cluster.broker_addr, TOPIC, 1)
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                peer_admin.send(cluster.broker_addr, TOPIC, bytes(9_000))

        writer = threading.Thread(target=write)
        writer.start()
        options = parse_log_options({"path": str(cluster.store), "columns": "queueOffset"})
        maker = RowMaker(options)
        counts = []
        try:
            while len(counts) < 30 or (counts[-1] == counts[0] and len(counts) < 3_000):
                splits = plan(find_replicas(options), options)
                rows = [row for s in splits for b in maker.split(s) for row in b.column(0)]
                assert [row.as_py() for row in rows] == list(range(len(rows)))
                counts.append(len(rows))
        finally:
            stop.set()
            writer.join()
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]
