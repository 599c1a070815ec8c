"""Store options under RocketMQ's names, and what they become."""

import dataclasses
from pathlib import Path

import pytest

from epochmq.base.errors import ConfigError
from epochmq.broker.config.store_keys import (
    StoreKeys,
    log_dir,
    parse_hours,
    store_options,
    store_problems,
)
from epochmq.store.options import StoreOptions


def test_defaults_are_the_stores_own() -> None:
    assert store_options(StoreKeys()) == StoreOptions()


def test_mapping() -> None:
    keys = StoreKeys(
        mapped_file_size_commit_log=1 << 20,
        flush_disk_type="SYNC_FLUSH",
        max_message_size=1000,
        disk_max_used_space_ratio=80,
        delete_when="03;15",
        message_delay_level="1s 2m",
        message_index_enable=False,
        fast_fail_if_no_buffer_in_store_pool=True,
        auto_message_version_on_topic_len=False,
    )
    options = store_options(keys, "elsewhere")
    assert options.commit_log_dir == "elsewhere"
    assert options.commit_log_file_bytes == 1 << 20
    assert options.sync_flush
    assert options.message_bytes_max == 1000
    assert options.disk_used_ratio == 0.8
    assert options.delete_when == (3, 15)
    assert options.delays_ms == (1000, 120_000)
    assert not options.index
    assert options.transient_fail_fast
    assert not options.wide_topics


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("04", (4,)),
        ("04;16", (4, 16)),
        (" 4 ; 16 ;", (4, 16)),
        ("24", ()),
        ("", ()),
        ("four", ()),
        ("-1", ()),
        ("٤", ()),
        ("4" * 5_000, ()),
    ],
)
def test_hours(text: str, hours: tuple[int, ...]) -> None:
    assert parse_hours(text) == hours


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"delete_when": "noon"}, "deleteWhen"),
        ({"message_delay_level": ""}, "messageDelayLevel"),
        ({"store_path_commit_log": "/a,/b"}, "several are not served"),
        ({"mapped_file_size_commit_log": 4096}, "cannot hold one record"),
        ({"transient_store_pool_enable": True, "flush_disk_type": "SYNC_FLUSH"}, "exclude"),
    ],
)
def test_what_does_not_go_together(change: dict[str, object], word: str) -> None:
    keys = dataclasses.replace(StoreKeys(), **change)  # type: ignore[arg-type]
    (problem,) = store_problems(keys)
    assert word in problem


def test_defaults_have_no_problem() -> None:
    assert store_problems(StoreKeys()) == []


def test_the_commit_log_may_lie_elsewhere(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert log_dir(root, "") == ("commitlog", {})
    assert log_dir(root, "log") == ("log", {})
    assert log_dir(root, str(tmp_path / "x" / "log")) == ("x/log", {})
    assert log_dir(root, "/elsewhere") == ("commitlog", {"commitlog": "/elsewhere"})
    with pytest.raises(ConfigError, match="several"):
        log_dir(root, "/one,/two")
