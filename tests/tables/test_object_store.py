"""Tables in an object store: a real S3 server on loopback, all three formats."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.compat.peers.ports import free_port
from tests.compat.peers.process import Process, is_listening
from tests.spark.jobs.lake import FORMATS, FakeCluster, archive, content, topic
from tests.tables.s3_server import make_bucket, s3_environment, s3_server
from tests.tiers import choose

from epochmq.base.errors import EpochError
from epochmq.spark.jobs.archive import ArchiveOptions
from epochmq.tables.archive_table import TableConflict
from epochmq.tables.opening import open_table, paths_of

pytest.importorskip("s3fs")
pytest.importorskip("moto")
pytestmark = pytest.mark.process
BUCKET = "lake"
ROOT = str(Path(__file__).parents[2])


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3")) as found:
        yield found


@pytest.fixture(params=FORMATS)
def options(
    request: pytest.FixtureRequest,
    endpoint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> ArchiveOptions:
    """A new table in the bucket."""
    for name, value in s3_environment(endpoint).items():
        monkeypatch.setenv(name, value)
    make_bucket(endpoint, BUCKET)
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


@contextmanager
def faulty(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, folder: Path, *options: str
) -> Iterator[None]:
    """Put a proxy before the store that spoils requests; all libraries use it in the block."""
    port = free_port()
    target = endpoint.removeprefix("http://")
    argv = [sys.executable, "-m", "tests.tables.faulty_proxy", "--port", str(port)]
    process = Process(
        "proxy", [*argv, "--target", target, *options], folder / "proxy.log", {"PYTHONPATH": ROOT}
    )
    process.start()
    process.wait_ready(lambda: is_listening(port), 60)
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        yield
    process.kill9()


def test_one_request_in_ten_fails(
    options: ArchiveOptions, endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Refused, lost before the store had it, or carried out without an answer: a run ends with a
    clear error or passes, and the next run goes on."""
    options = replace(options, table=f"{options.table}-tenth", compact_every=2)
    made = topic("%DLQ%g", 2, 8)
    cluster = FakeCluster(made)
    with faulty(endpoint, monkeypatch, tmp_path, "--share", "0.1", "--seed", "5"):
        for _round in range(choose(sample=1, soak=5)):
            for _run in range(20):
                with suppress(EpochError):
                    archive(options, cluster)
                    break
            made.add(3)
    assert archive(options, cluster).rows == 6
    assert content(options.table, catalog=options.catalog) == Counter(dict.fromkeys(made.ids, 1))
    open_table(options.table, catalog=options.catalog).check_files()


@pytest.mark.parametrize("options", ["delta", "parquet"], indirect=True)
def test_an_archive_recognises_its_commit_when_the_answer_is_lost(
    options: ArchiveOptions, endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The library tries again and finds the version taken: by itself, not by another run."""
    options = replace(options, table=f"{options.table}-unanswered", compact_every=1)
    commits = "/_delta_log/" if options.format == "delta" else "/_manifest/"
    made = topic("%DLQ%g", 2, 8)
    cluster = FakeCluster(made)
    with faulty(endpoint, monkeypatch, tmp_path, "--share", "0", "--unanswered", commits):
        assert archive(options, cluster).rows == 16
        made.add(2)
        assert archive(options, cluster).rows == 4
        one, other = (open_table(options.table) for _ in range(2))
        one.claim(options.owner, {})
        with pytest.raises(TableConflict):
            other.commit(options.owner, 9, {}, [])
    assert content(options.table) == Counter(dict.fromkeys(made.ids, 1))


def test_a_bucket_that_is_not_there(options: ArchiveOptions) -> None:
    elsewhere = f"s3://no-such-bucket/{options.format}"
    with pytest.raises(EpochError, match=r"no-such-bucket.*there is no such bucket"):
        archive(replace(options, table=elsewhere), FakeCluster(topic("%DLQ%g", 2, 8)))
