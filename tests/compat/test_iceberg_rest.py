"""Archives and lake tables in a REST catalog: Apache Iceberg's own server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from tests.tables.made import APP, SCHEMA, files_of, offsets

from epochmq.base.errors import EnvironmentFault, NotReachable, UsageError
from epochmq.tables.archive_table import TableConflict
from epochmq.tables.opening import open_table

from .conftest import had
from .contract import unique
from .peers import admin
from .peers.cache import PROJECT
from .peers.cluster import Cluster
from .peers.ports import free_port
from .peers.process import Process, is_listening
from .peers.rest_catalog import RestCatalog

TOKEN = "a-token-of-this-test"


@pytest.fixture(scope="module")
def catalog() -> Iterator[RestCatalog]:
    with had(RestCatalog) as running:
        yield running


def epochmq(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "epochmq", *argv],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def done(*argv: str) -> str:
    ran = epochmq(*argv)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def rows_of(catalog: RestCatalog, name: str, **properties: str) -> list[tuple[int, int, bytes]]:
    """What another program reads of the table."""
    other = load_catalog("other", type="rest", uri=catalog.url, **properties)
    found = other.load_table(name).scan(selected_fields=("queueId", "queueOffset", "body"))
    return sorted(tuple(row.values()) for row in found.to_arrow().to_pylist())


def stage(cluster: Cluster, name: str, count: int) -> tuple[str, list[tuple[int, int, bytes]]]:
    topic = admin.create_topic(cluster.broker_addr, unique(name), 2)
    return topic, more(cluster, topic, 0, count)


def more(cluster: Cluster, topic: str, start: int, end: int) -> list[tuple[int, int, bytes]]:
    """Send message `start` to `end`; the rows that they become."""
    sent = []
    for number in range(start, end):
        body = f"{topic} {number}".encode()
        offset = admin.send(cluster.broker_addr, topic, body, number % 2)
        sent.append((number % 2, offset, body))
    return sent


def test_an_archive_that_other_programs_read(
    cluster: Cluster, catalog: RestCatalog, tmp_path: Path
) -> None:
    topic, sent = stage(cluster, "rest_archive", 20)
    place = ["--table", str(tmp_path), "--catalog", catalog.url, "--name", "sales.day-orders"]
    job = ["pipeline", "archive", topic, "-n", cluster.namesrv_addr, "--master", "none", *place]
    assert "dry-run" in done(*job, "--dry-run")
    done(*job)
    sent += more(cluster, topic, 20, 30)
    done(*job)
    assert rows_of(catalog, "sales.day-orders") == sorted(sent)
    check = ["pipeline", "verify", str(tmp_path), *place[2:], "-n", cluster.namesrv_addr]
    done(*check)
    (damaged, *_) = sorted(tmp_path.rglob("*.metadata.json"))
    damaged.write_bytes(damaged.read_bytes().replace(b"queueOffset", b"queueOffzet"))
    ran = epochmq(*check)
    assert (ran.returncode, damaged.name in ran.stdout + ran.stderr) == (4, True), ran.stdout


def test_topics_of_a_lake_share_a_catalog(
    cluster: Cluster, catalog: RestCatalog, tmp_path: Path
) -> None:
    staged = [stage(cluster, f"rest-lake-{number}", 6) for number in range(2)]
    for topic, _ in staged:
        done("topic", "update", topic, "-n", cluster.namesrv_addr, "--table", "iceberg")
    lake = ["lake", "-n", cluster.namesrv_addr, "--warehouse", str(tmp_path), "--once"]
    done(*lake, "--catalog", catalog.url)
    for topic, sent in staged:
        assert rows_of(catalog, f"lake.{topic}") == sorted(sent)
        done("topic", "update", topic, "-n", cluster.namesrv_addr, "--table", "none")


def test_a_stale_run_commits_nothing(catalog: RestCatalog, tmp_path: Path) -> None:
    place = {"name": f"stale.{unique('t')}", "catalog": catalog.url}
    first = open_table(str(tmp_path), "iceberg", schema=SCHEMA, app=APP, **place)
    first.claim(APP, {})
    second = open_table(str(tmp_path), **place)
    second.claim(APP, {})
    with pytest.raises(TableConflict):
        first.commit(APP, 1, offsets(4), files_of(first, 1, 0, 4))
    assert second.commit(APP, 1, offsets(4), files_of(second, 1, 0, 4))
    assert [each[1] for each in rows_of(catalog, place["name"])] == [0, 1, 2, 3]


@contextmanager
def losing_answers(catalog: RestCatalog) -> Iterator[str]:
    """The URL of a proxy that loses the answer to the first commit of each table."""
    port = free_port()
    argv = [sys.executable, "-m", "tests.tables.faulty_proxy", "--port", str(port)]
    argv += ["--target", f"127.0.0.1:{catalog.port}", "--share", "0"]
    argv += ["--unanswered", "/tables/", "--method", "POST"]
    proxy = Process("proxy", argv, catalog.root / "proxy.log", {"PYTHONPATH": str(PROJECT)})
    proxy.start()
    try:
        proxy.wait_ready(lambda: is_listening(port), 30)
        yield f"http://127.0.0.1:{port}"
    finally:
        proxy.kill9()


def test_a_commit_whose_answer_was_lost_is_not_repeated(
    catalog: RestCatalog, tmp_path: Path
) -> None:
    name = f"lost.{unique('t')}"
    made = open_table(str(tmp_path), "iceberg", schema=SCHEMA, name=name, catalog=catalog.url)
    made.claim(APP, {})
    with losing_answers(catalog) as url:
        table = open_table(str(tmp_path), name=name, catalog=url)
        with pytest.raises(NotReachable, match="does not answer"):
            table.commit(APP, 1, offsets(4), files_of(table, 1, 0, 4))
        again = open_table(str(tmp_path), name=name, catalog=url)
        assert again.last_batch(APP) == (1, offsets(4))
        again.claim(APP, offsets(4))
        assert not again.commit(APP, 1, offsets(4), files_of(again, 1, 0, 4))
        assert again.commit(APP, 2, offsets(6), files_of(again, 2, 4, 6))
    assert [each[1] for each in rows_of(catalog, name)] == [0, 1, 2, 3, 4, 5]


def test_a_token_comes_from_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with had(lambda: RestCatalog(TOKEN)) as guarded:
        make = {"schema": SCHEMA, "app": APP, "name": "a.b"}
        with pytest.raises(EnvironmentFault, match="PYICEBERG_CATALOG__EPOCHMQ__TOKEN"):
            open_table(str(tmp_path), "iceberg", catalog=guarded.url, **make)
        monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
        config = f"catalog:\n  team:\n    uri: {guarded.url}\n    token: {TOKEN}\n"
        (tmp_path / ".pyiceberg.yaml").write_text(config)
        table = open_table(str(tmp_path / "w"), "iceberg", catalog="team", **make)
        table.claim(APP, {})
        table.commit(APP, 1, offsets(3), files_of(table, 1, 0, 3))
        assert len(rows_of(guarded, "a.b", token=TOKEN)) == 3


def test_a_table_elsewhere_and_a_catalog_that_is_away(catalog: RestCatalog, tmp_path: Path) -> None:
    name = f"away.{unique('t')}"
    open_table(str(tmp_path / "a"), "iceberg", schema=SCHEMA, name=name, catalog=catalog.url)
    with pytest.raises(UsageError, match=f"has the table {name} at {tmp_path}/a/away"):
        open_table(str(tmp_path / "b"), name=name, catalog=catalog.url)
    with pytest.raises(NotReachable, match="Connection refused"):
        open_table(str(tmp_path), name=name, catalog="http://127.0.0.1:1")
