"""The pipeline on a cluster that takes TLS only: every part of it is told, and heeds it."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.runtime.test_tls import CERT
from tests.spark import topics
from tests.spark.reading import BODY, read_bodies
from tests.spark.sinking import batches
from tests.spark.tls_cluster import TLS, TlsCluster, speaking_tls

from epochmq.admin.cli import cli
from epochmq.base.errors import EpochError, NotFound, NotReachable
from epochmq.spark.jobs.archive import ArchiveOptions, run_archive
from epochmq.spark.jobs.audit_sources import live_replicas
from epochmq.spark.jobs.dlq import Dlq, dlq
from epochmq.spark.log_learner import find_brokers
from epochmq.spark.log_options import parse_log_options
from epochmq.spark.log_source import plan_brokers
from epochmq.spark.option_table import reach
from epochmq.spark.publish import PublishOffsets
from epochmq.spark.rows import close_clusters
from epochmq.spark.spark_cluster import Cluster
from epochmq.spark.spark_sink import batch_writer
from epochmq.tables.opening import arrow_dataset, open_table

pytestmark = pytest.mark.process
TOPIC = "Secret"


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with TlsCluster() as cluster:
        with speaking_tls():
            topics.fill(cluster.namesrv_addr, TOPIC, 20)
        yield cluster.namesrv_addr
        close_clusters()


def test_the_source_and_the_sink_speak_it(namesrv: str) -> None:
    assert sorted(map(int, read_bodies(reach(namesrv, TLS), TOPIC))) == list(range(20))
    with speaking_tls():
        topics.create(namesrv, "Written")
    writer = pickle.loads(
        pickle.dumps(batch_writer({**reach(namesrv, TLS), "topic": "Written"}, BODY, False))
    )
    writer.write(iter(batches({"body": [b"1", b"2", b"3"]})))
    assert sorted(read_bodies(reach(namesrv, TLS), "Written")) == [b"1", b"2", b"3"]


def test_whoever_is_not_told_is_locked_out(namesrv: str) -> None:
    with pytest.raises(NotReachable):
        read_bodies({"nameServer": namesrv, "failoverTimeoutMs": "300"}, TOPIC)
    strict = {"nameServer": namesrv, "tls.enable": "true", "failoverTimeoutMs": "300"}
    with pytest.raises(EpochError):  # signed by itself: no authority of the system knows it
        read_bodies(strict, TOPIC)
    anyone = {**strict, "tls.client.authServer": "false", "failoverTimeoutMs": "2s"}
    assert len(read_bodies(anyone, TOPIC)) == 20


def test_offsets_are_published_through_it(namesrv: str) -> None:
    listener = PublishOffsets(namesrv, "tls-group", tls=TLS)
    with Cluster(namesrv, tls=TLS) as view:
        queue, *_ = view.queues(TOPIC)
        listener._publish({queue: 7})
        assert view.committed("tls-group", queue) == 7
    listener.close()


def test_jobs_speak_it(namesrv: str, tmp_path: Path) -> None:
    options = ArchiveOptions(namesrv, (TOPIC,), str(tmp_path / "table"), "parquet", tls=TLS)
    assert run_archive(options, master="none").rows == 20
    with pytest.raises(NotFound, match="has no dead letters"):
        dlq(Dlq(namesrv, "tls-group", tls=TLS))
    with (
        pytest.raises(NotReachable, match="an audit compares two"),
        live_replicas(namesrv, "broker-a", TLS),
    ):
        pass


def test_the_command_line_hands_it_to_jobs(namesrv: str, tmp_path: Path) -> None:
    def ran(*words: str, tls: bool = True) -> tuple[int, str]:
        more = ["--tls-ca", CERT] if tls else []
        done = CliRunner().invoke(cli, [*more, "pipeline", *words, "-n", namesrv])
        return done.exit_code, done.output

    table = str(tmp_path / "table")
    archive = ("archive", TOPIC, "--table", table, "--format", "parquet", "--master", "none")
    plain = ran(*archive, "--failover-timeout", "0.3", tls=False)
    assert (plain[0], "Traceback" in plain[1]) == (3, False)
    assert not Path(table).exists()
    assert ran(*archive)[0] == 0
    assert arrow_dataset(open_table(table)).count_rows() == 20
    code, said = ran("dlq", "tls-group")
    assert (code, "has no dead letters" in said) == (5, True)
    code, said = ran("audit", "broker-a")
    assert (code, "an audit compares two" in said) == (3, True)


def test_a_learner_asks_through_it(namesrv: str) -> None:
    assert find_brokers(namesrv, TLS) == ["broker-a"]
    given = {"readFrom": "learner", "brokers": "broker-x", **reach(namesrv, TLS)}
    with pytest.raises(NotFound, match=r"there is no broker broker-x; known .*: broker-a"):
        plan_brokers(parse_log_options(given))
