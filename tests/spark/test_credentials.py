"""The pipeline on a cluster that checks signatures: each part signs as the user of its file."""

import asyncio
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.secure import ADMIN, SECURE
from tests.runtime.test_tls import CERT
from tests.spark import topics
from tests.spark.reading import BODY, read_bodies
from tests.spark.sinking import batches

from epochmq.admin.cli import cli
from epochmq.auth.credentials import Credentials, outgoing_credentials
from epochmq.base.errors import EpochError, NotFound, UsageError
from epochmq.client.aio import Admin
from epochmq.client.aio.admin_auth import policy_of
from epochmq.spark.connection_options import ConnectionOptions
from epochmq.spark.jobs.archive import ArchiveOptions, run_archive
from epochmq.spark.jobs.dlq import Dlq, dlq
from epochmq.spark.log_options import parse_log_options
from epochmq.spark.option_table import reach
from epochmq.spark.options import parse_source
from epochmq.spark.publish import PublishOffsets
from epochmq.spark.rows import close_clusters
from epochmq.spark.sink_options import parse_sink
from epochmq.spark.spark_cluster import Cluster
from epochmq.spark.spark_sink import batch_writer
from epochmq.tables.opening import arrow_dataset, open_table
from epochmq.wire.bodies.auth_bodies import UserInfo

TOPIC = "Orders"
SPARK = Credentials("spark", "spark-secret")


def written(folder: Path, user: Credentials) -> ConnectionOptions:
    """Write the credentials file of `user` and return the options that name it."""
    path = folder / f"{user.access_key}.credentials"
    path.write_text(f"accessKey={user.access_key}\nsecretKey={user.secret_key}\n")
    path.chmod(0o600)
    return ConnectionOptions(credentials_path=str(path))


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    """A secured broker; the user `spark` may write and read two topics."""

    async def add_user(address: str) -> None:
        async with Admin(address) as admin:
            (master,) = (await admin.masters()).values()
            info = UserInfo(username="spark", password=SPARK.secret_key, user_type="Normal")
            await admin.create_user(master, info)
            topics_of_user = [f"Topic:{TOPIC}", "Topic:Written"]
            for resources, actions in (
                (topics_of_user, ["Pub", "Sub", "Get"]),
                (["Group:spark-group"], ["Sub"]),
            ):
                await admin.put_acl(master, policy_of("User:spark", resources, actions, "Allow"))

    with EpochCluster(broker_config=SECURE) as cluster:
        before = outgoing_credentials.set(ADMIN)
        try:
            topics.fill(cluster.namesrv_addr, TOPIC, 20)
            topics.create(cluster.namesrv_addr, "Written")
            asyncio.run(add_user(cluster.namesrv_addr))
        finally:
            outgoing_credentials.reset(before)
        yield cluster.namesrv_addr
        close_clusters()


@pytest.mark.process
def test_source_and_sink_sign_as_the_user_of_the_file(namesrv: str, tmp_path: Path) -> None:
    given = reach(namesrv, written(tmp_path, SPARK))
    assert sorted(map(int, read_bodies(given, TOPIC))) == list(range(20))
    writer = pickle.loads(pickle.dumps(batch_writer({**given, "topic": "Written"}, BODY, False)))
    writer.write(iter(batches({"body": [b"1", b"2", b"3"]})))
    assert sorted(read_bodies(given, "Written")) == [b"1", b"2", b"3"]


@pytest.mark.process
def test_others_are_refused(namesrv: str, tmp_path: Path) -> None:
    with pytest.raises(EpochError, match="not signed"):
        read_bodies({"nameServer": namesrv}, TOPIC)
    wrong = written(tmp_path, Credentials("spark", "not-the-password"))
    with pytest.raises(EpochError, match="signature"):
        read_bodies(reach(namesrv, wrong), TOPIC)


@pytest.mark.process
def test_jobs_sign_as_the_user_of_the_file(namesrv: str, tmp_path: Path) -> None:
    spark, admin = written(tmp_path, SPARK), written(tmp_path, ADMIN)
    options = ArchiveOptions(namesrv, (TOPIC,), str(tmp_path / "table"), "parquet", tls=spark)
    assert run_archive(options, master="none").rows == 20
    with pytest.raises(NotFound, match="has no dead letters"):
        dlq(Dlq(namesrv, "some-group", tls=admin))
    listener = PublishOffsets(namesrv, "spark-group", tls=spark)
    with Cluster(namesrv, tls=admin) as view:
        queue, *_ = view.queues(TOPIC)
        listener._publish({queue: 7})
        assert view.committed("spark-group", queue) == 7
    listener.close()


@pytest.mark.process
def test_the_command_line_passes_the_file_on(namesrv: str, tmp_path: Path) -> None:
    def ran(*before: str) -> tuple[int, str]:
        words = ("pipeline", "archive", TOPIC, "--table", table, "--format", "parquet")
        done = CliRunner().invoke(cli, [*before, *words, "--master", "none", "-n", namesrv])
        return done.exit_code, done.output

    table = str(tmp_path / "table")
    code, said = ran()
    assert (code != 0, "not signed" in said, Path(table).exists()) == (True, True, False)
    assert ran("--credentials", written(tmp_path, SPARK).credentials_path)[0] == 0
    assert arrow_dataset(open_table(table)).count_rows() == 20


def test_options_carry_the_path_and_never_the_secret(tmp_path: Path) -> None:
    plain = written(tmp_path, SPARK)
    tls = ConnectionOptions(
        tls_enable=True, tls_client_trust_cert_path=CERT, credentials_path=plain.credentials_path
    )
    for chosen in (plain, tls):
        given = reach("n:1", chosen)
        assert SPARK.secret_key not in str(given)
        assert parse_source({**given, "subscribe": "t"}).tls == chosen
        assert parse_sink({**given, "topic": "t"}).tls == chosen
        learner = parse_log_options({**given, "readFrom": "learner"})
        assert learner.credentials_path == plain.credentials_path
        assert SPARK.secret_key.encode() not in pickle.dumps([chosen, learner])


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    missing = {"nameServer": "n:1", "credentials.path": str(tmp_path / "none")}
    public = written(tmp_path, SPARK)
    Path(public.credentials_path).chmod(0o644)
    open_to_all = {"nameServer": "n:1", "credentials.path": public.credentials_path}
    for given, text in ((missing, "cannot read the credentials file"), (open_to_all, "chmod 600")):
        with pytest.raises(UsageError, match=text):
            parse_source({**given, "subscribe": "t"})
        with pytest.raises(UsageError, match=text):
            parse_sink({**given, "topic": "t"})
        with pytest.raises(UsageError, match=text):
            parse_log_options({**given, "readFrom": "learner"})
    with pytest.raises(UsageError, match=r"credentials\.path"):
        parse_log_options({"path": "/store", "credentials.path": public.credentials_path})
