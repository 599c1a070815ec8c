"""`epochmq cluster move-master` and `forget` on a real group."""

import time
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from tests.admin.world import Ran

from epochmq import Message, errors
from epochmq.admin.cli import cli
from epochmq.admin.nouns.noun_cluster import replica_of
from epochmq.client.sync import Producer
from epochmq.testing.mini_cluster import MiniCluster, broker_context


@pytest.fixture
def cluster() -> Iterator[MiniCluster]:
    with MiniCluster(3) as running:
        yield running


def run(cluster: MiniCluster, *args: str) -> Ran:
    env = {"NAMESRV_ADDR": cluster.namesrv, "COLUMNS": "120"}
    result = CliRunner(env=env).invoke(cli, ("cluster", *args))
    assert result.exception is None or isinstance(result.exception, SystemExit), result
    return Ran(result.exit_code, result.stdout, result.stderr)


def ids(cluster: MiniCluster) -> dict[str, int]:
    return {
        name: broker_context(cluster, name).group_position.own_id
        for name in cluster.servers
        if name.startswith("broker")
    }


def test_the_master_moves_and_nothing_is_lost(cluster: MiniCluster) -> None:
    with Producer(cluster.namesrv, "P") as producer:
        producer.send(Message("T", b"before"))
        known = ids(cluster)
        before = cluster.wait_for_master()
        target = next(name for name in known if name != before)
        (row,) = run(cluster, "move-master", f"broker-a:{known[target]}", "-o", "json").rows
        assert (row["group"], row["master"]) == ("broker-a", known[target])
        assert cluster.wait_for_master() == target
        producer.send(Message("T", b"after"))
        cluster.wait_until_ready()
        moved = run(cluster, "move-master", "broker-a", "-o", "json")
        assert moved.code == 0, moved.err
        assert cluster.wait_for_master() != target
        producer.send(Message("T", b"last"))
    bodies = sorted(message.body for message in cluster.messages("T"))
    assert bodies == [b"after", b"before", b"last"]


def test_a_dead_replica_is_forgotten_a_living_one_is_not(cluster: MiniCluster) -> None:
    known = ids(cluster)
    name = cluster.kill("slave")
    living = cluster.wait_for_master()
    forget = ("forget", f"broker-a:{known[name]}", "-y")
    ran = run(cluster, "forget", f"broker-a:{known[living]}", "-y")
    assert ran.code == 2
    assert "is alive at 127.0.0.1:" in ran.err
    end = time.monotonic() + 20
    while "is alive at" in (ran := run(cluster, *forget, "-o", "json")).err:  # by its heartbeats
        assert time.monotonic() < end
    assert ran.code == 0, ran.err
    assert ran.rows[0]["forgotten"] == f"broker-a:{known[name]}"
    ran = run(cluster, "forget", f"broker-a:{known[name]}", "-y")
    assert ran.code == 5
    assert f"the controllers know no replica broker-a:{known[name]}; they know " in ran.err


def test_mistakes_get_a_clear_error(cluster: MiniCluster) -> None:
    master = ids(cluster)[cluster.wait_for_master()]
    for args, code, text in (
        (("move-master", "broker-b"), 5, "there is no broker group 'broker-b'"),
        (("move-master", f"broker-a:{master}"), 2, "is the master already"),
        (("move-master", "broker-a:99"), 2, "is not in sync, so it would lose messages; in sync: "),
        (("move-master", "broker-a:x"), 2, "'broker-a:x' is not a broker; write GROUP:ID"),
        (("forget", "broker-a", "-y"), 2, "give GROUP:ID"),
        (("forget", "broker-a:99", "-y"), 5, "the controllers know no replica broker-a:99"),
    ):
        ran = run(cluster, *args)
        assert text in ran.err
        assert ran.code == code


def test_a_group_without_controllers_has_no_elections() -> None:
    with MiniCluster() as cluster:
        ran = run(cluster, "move-master", "broker-a")
        assert ran.code == 2
        assert "group broker-a has no controllers: its roles are in its brokers' files" in ran.err


def test_names_of_replicas() -> None:
    assert replica_of("broker-a") == ("broker-a", None)
    assert replica_of("broker-a:12") == ("broker-a", 12)
    for wrong in (":1", "broker-a:", "broker-a:-1"):
        with pytest.raises(errors.UsageError):
            replica_of(wrong)
