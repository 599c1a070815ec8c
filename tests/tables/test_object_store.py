"""Tables in an object store: a real S3 server on loopback, all three formats."""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.compat.peers.ports import free_port
from tests.compat.peers.process import Process, is_listening
from tests.spark.jobs.lake import FORMATS, FakeCluster, archive, content, topic

from epochmq.base.errors import EpochError
from epochmq.spark.jobs.archive import ArchiveOptions
from epochmq.tables.archive_table import TableConflict
from epochmq.tables.opening import open_table, paths_of

pytest.importorskip("s3fs")
pytest.importorskip("moto")
pytestmark = pytest.mark.process
BUCKET = "lake"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    # A process of its own: delta-rs holds Python's lock while it waits for an answer.
    port = free_port()
    argv = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = Process("s3", argv, tmp_path_factory.mktemp("s3") / "s3.log", {})
    process.start()
    process.wait_ready(lambda: is_listening(port), 60)
    yield f"http://127.0.0.1:{port}"
    process.kill9()


@pytest.fixture(params=FORMATS)
def options(
    request: pytest.FixtureRequest,
    endpoint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> ArchiveOptions:
    """A new table in the bucket."""
    for name, value in (
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    import s3fs

    s3fs.S3FileSystem(endpoint_url=endpoint, skip_instance_cache=True).makedirs(
        BUCKET, exist_ok=True
    )
    catalog = f"sqlite:///{tmp_path}/catalog.db" if request.param == "iceberg" else None
    return ArchiveOptions(
        "", ("%DLQ%g",), f"s3://{BUCKET}/{request.param}", request.param,
        max_rows=10, catalog=catalog,
    )  # fmt: skip


def test_an_archive_in_a_bucket(options: ArchiveOptions) -> None:
    made = topic("%DLQ%g", 2, 8)
    cluster = FakeCluster(made)
    assert archive(options, cluster).rows == 16
    made.add(2)
    report = archive(replace(options, compact_every=1), cluster)
    assert report.rows == 4
    more = {"catalog": options.catalog}
    assert content(options.table, **more) == Counter(dict.fromkeys(made.ids, 1))
    one, other = (open_table(options.table, **more) for _ in range(2))
    one.claim(options.owner, {})
    with pytest.raises(TableConflict):
        other.commit(options.owner, 9, {}, [])
    assert set(paths_of(one)) <= set(one.storage.find())


def test_a_bucket_that_is_not_there(options: ArchiveOptions) -> None:
    elsewhere = f"s3://no-such-bucket/{options.format}"
    with pytest.raises(EpochError, match=r"no-such-bucket.*there is no such bucket"):
        archive(replace(options, table=elsewhere), FakeCluster(topic("%DLQ%g", 2, 8)))
