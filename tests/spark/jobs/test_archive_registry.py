"""An archive whose bodies have schemas of a registry: new versions, unknown ones, no answer."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tests.spark.jobs.lake import FORMATS, FakeCluster, archive, content, topic
from tests.spark.registry_server import RegistryServer
from tests.spark.typed_bodies import NEW, OLD, avro

from epochmq.admin.pipeline.archive_command import typing_of
from epochmq.base.errors import NotReachable
from epochmq.spark import schema_registry
from epochmq.spark.jobs.archive import ArchiveOptions
from epochmq.spark.schema_registry import SchemaRegistry
from epochmq.spark.typed import Typing


def typing(schema_server: RegistryServer) -> Typing:
    """What the command makes of its options; it asks for the newest schema at each start."""
    return typing_of("avro", None, "", "a_", SchemaRegistry(schema_server.url), None, ("T",))


@pytest.mark.parametrize("format", FORMATS)
def test_a_new_version_adds_its_column(
    schema_server: RegistryServer, tmp_path: Path, format: str
) -> None:
    old = OLD | {"fields": [{"name": "n", "type": "long"}]}
    schema_server.add("T-value", json.dumps(old), 31)
    table = str(tmp_path / "table")
    options = ArchiveOptions("", ("T",), table, format, typing=typing(schema_server))
    made = topic(queues=1)
    made.add(3, avro(old, 31, 4, n=1))
    cluster = FakeCluster(made)
    archive(options, cluster)
    assert content(table, "a_n") == Counter({1: 3})
    schema_server.add("T-value", json.dumps(NEW), 32)
    made.add(2, avro(NEW, 32, 4, n=2, s="two"))
    made.add(1, avro(old, 31, 4, n=3))
    made.add(1, avro(old, 99, 4, n=4))
    report = archive(replace(options, typing=typing(schema_server)), cluster)
    assert report.details["deadLetters"] == 1, "a number that the registry does not know"
    assert content(table, "a_n") == Counter({1: 3, 2: 2, 3: 1})
    assert content(table, "a_s") == Counter({None: 4, "two": 2})


def test_a_registry_that_does_not_answer_makes_no_dead_letters(
    schema_server: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_registry, "_PAUSE_MS", 1)
    schema_server.add("T-value", json.dumps(NEW), 41)
    table = str(tmp_path / "table")
    options = ArchiveOptions("", ("T",), table, "parquet", typing=typing(schema_server))
    made = topic(queues=1)
    made.add(2, avro(NEW, 41, 4, n=1, s="one"))
    schema_server.failures = [(503, b"")] * schema_registry.TRIES
    with pytest.raises(NotReachable, match="did not answer"):
        archive(options, FakeCluster(made))
    assert archive(options, FakeCluster(made)).details["deadLetters"] == 0
    assert content(table, "a_n") == Counter({1: 2})
