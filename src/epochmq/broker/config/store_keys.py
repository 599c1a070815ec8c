"""Options of the message store under RocketMQ's names, and their translation for the store."""

import re
from dataclasses import dataclass
from pathlib import PurePath

from epochmq.base import limits
from epochmq.base.errors import ConfigError
from epochmq.base.options import option
from epochmq.model import delay_levels
from epochmq.store.options import StoreOptions

COMMIT_LOG = "commitlog"
_MIB = 1024 * 1024
_GIB = 1024 * _MIB
_HOUR_MS = 3_600_000
_HOUR = re.compile("[01]?[0-9]|2[0-3]")


@dataclass(frozen=True, kw_only=True)
class StoreKeys:
    store_path_root_dir: str = option(
        "${user.home}/store", "Directory of everything the broker keeps.", unit="path"
    )
    store_path_commit_log: str = option(
        "", "Directory of the commit log; empty is commitlog under the root.", unit="path"
    )
    mapped_file_size_commit_log: int = option(
        _GIB, "Size of one commit log file.", low=4096, high=4 * _GIB, unit="bytes"
    )
    mapped_file_size_consume_queue: int = option(
        6_000_000, "Size of one consume queue file.", low=20, high=_GIB, unit="bytes"
    )
    mapper_file_size_batch_consume_queue: int = option(
        13_800_000, "Size of one batch consume queue file.", low=46, high=_GIB, unit="bytes"
    )
    flush_disk_type: str = option(
        "ASYNC_FLUSH",
        "When a message counts as stored: after the write, or after fsync.",
        choices=("ASYNC_FLUSH", "SYNC_FLUSH"),
    )
    sync_flush_timeout: int = option(
        5000,
        "A send waits this long for fsync, then is answered FLUSH_DISK_TIMEOUT.",
        mutable=True,
        low=1,
        high=_HOUR_MS,
        unit="ms",
    )
    flush_interval_commit_log: int = option(
        500, "How often an asynchronous flush looks for work.", low=1, high=_HOUR_MS, unit="ms"
    )
    flush_commit_log_least_pages: int = option(
        4, "Pages of 4 KiB that make an asynchronous flush worth it.", low=0, high=1_000_000
    )
    flush_commit_log_thorough_interval: int = option(
        10_000, "Flush whatever there is after this time.", low=1, high=_HOUR_MS, unit="ms"
    )
    commit_interval_commit_log: int = option(
        200, "How often the transient pool is committed.", low=1, high=_HOUR_MS, unit="ms"
    )
    flush_interval_consume_queue: int = option(
        1000, "How often recent queue units are written.", low=1, high=_HOUR_MS, unit="ms"
    )
    flush_consume_queue_thorough_interval: int = option(
        60_000, "How often consume queues are synced.", low=1, high=_HOUR_MS, unit="ms"
    )
    transient_store_pool_enable: bool = option(
        False, "Append to memory and commit by batch; ASYNC_FLUSH only."
    )
    fast_fail_if_no_buffer_in_store_pool: bool = option(
        False, "Refuse a send at once when the transient pool is full."
    )
    max_message_size: int = option(
        limits.MESSAGE_BYTES_MAX,
        "Largest body of one message.",
        low=1,
        high=limits.FRAME_BYTES_MAX - limits.RECORD_EXTRA_BYTES_MAX,
        unit="bytes",
    )
    auto_message_version_on_topic_len: bool = option(
        True, "Write topics over 127 bytes as records of version 2, which RocketMQ 5.0 cannot read."
    )
    check_crc_on_recover: bool = option(
        True, "Check every record's CRC when recovering.", key="checkCRCOnRecover"
    )
    scrub_bytes_per_second: int = option(
        _MIB,
        "How fast old parts of the log are searched for damage, compared with another replica, and"
        " repaired from one; 0: not at all. EpochMQ's own.",
        low=0,
        high=1 << 30,
        unit="bytes",
    )
    message_index_enable: bool = option(True, "Keep the index for queries by key.")
    max_hash_slot_num: int = option(
        5_000_000, "Hash slots of one index file.", low=1, high=100_000_000
    )
    max_index_num: int = option(20_000_000, "Entries of one index file.", low=2, high=400_000_000)
    max_msgs_num_batch: int = option(
        64, "Most messages one query by key returns.", mutable=True, low=1, high=1024
    )
    default_query_max_num: int = option(
        32, "Most messages one query by unique key returns.", mutable=True, low=1, high=1024
    )
    max_transfer_bytes_on_message_in_memory: int = option(
        256 * 1024, "Most bytes one pull returns.", mutable=True, low=1, high=8 * _MIB, unit="bytes"
    )
    max_transfer_count_on_message_in_memory: int = option(
        256,
        "Most messages one pull returns. RocketMQ's default is 32; its clients ask for 32.",
        mutable=True,
        low=1,
        high=limits.PULL_COUNT_MAX,
    )
    access_message_in_memory_max_ratio: int = option(
        40,
        "Percent of RAM by which a reader may lag and still count as reading from memory.",
        low=1,
        high=95,
        unit="%",
    )
    memory_window_bytes: int = option(
        0,
        "The same in bytes; 0 works it out from the RAM there is. EpochMQ's own.",
        low=0,
        high=1 << 50,
        unit="bytes",
    )
    file_reserved_time: int = option(
        72,
        "Log files older than this go at deleteWhen.",
        mutable=True,
        low=1,
        high=1_000_000,
        unit="h",
    )
    delete_when: str = option(
        "04", "Hours of the day at which old files go, separated by ';'.", mutable=True
    )
    disk_max_used_space_ratio: int = option(
        75,
        "Disk use above which old files go at any hour.",
        mutable=True,
        low=10,
        high=95,
        unit="%",
    )
    disk_space_warning_level_ratio: int = option(
        90, "Disk use above which sends are refused.", low=35, high=99, unit="%"
    )
    disk_space_clean_forcibly_ratio: int = option(
        85, "Disk use above which files go whatever their age.", low=30, high=98, unit="%"
    )
    delete_file_batch_max: int = option(
        10, "Most files one round of deletion removes.", low=1, high=1000
    )
    clean_resource_interval: int = option(
        10_000, "How often old files are looked for.", low=100, high=_HOUR_MS, unit="ms"
    )
    message_delay_level: str = option(
        delay_levels.DEFAULT_TEXT, "The delays of levels 1, 2, ..., as numbers with s, m, h or d."
    )
    flush_delay_offset_interval: int = option(
        10_000, "How often the progress of delay levels is saved.", low=1, high=_HOUR_MS, unit="ms"
    )


def store_problems(keys: StoreKeys) -> list[str]:
    """Return the problems of the values taken together, and of values with a syntax of their
    own."""
    problems = []
    if not parse_hours(keys.delete_when):
        problems.append(
            f"option 'deleteWhen' must be hours such as '04' or '04;16', not '{keys.delete_when}'"
        )
    try:
        delay_levels.parse(keys.message_delay_level)
    except ConfigError as error:
        problems += [f"option 'messageDelayLevel': {problem}" for problem in error.problems]
    if "," in keys.store_path_commit_log:
        problems.append("option 'storePathCommitLog' takes one directory; several are not served")
    record = keys.max_message_size + limits.RECORD_EXTRA_BYTES_MAX
    if record > keys.mapped_file_size_commit_log:
        problems.append(
            f"option 'mappedFileSizeCommitLog' {keys.mapped_file_size_commit_log} cannot hold one"
            f" record of maxMessageSize {keys.max_message_size}; raise the one or lower the other"
        )
    if keys.transient_store_pool_enable and keys.flush_disk_type == "SYNC_FLUSH":
        problems.append("options 'transientStorePoolEnable' and SYNC_FLUSH exclude each other")
    return problems


def parse_hours(text: str) -> tuple[int, ...]:
    """Return the hours in a `deleteWhen`; empty when it is not a list of hours."""
    pieces = [piece.strip() for piece in text.split(";") if piece.strip()]
    if not all(_HOUR.fullmatch(piece) for piece in pieces):
        return ()
    return tuple(int(piece) for piece in pieces)


def store_options(keys: StoreKeys, commit_log_dir: str = COMMIT_LOG) -> StoreOptions:
    """Return the store's own options; `commit_log_dir` is the name that its disk uses."""
    return StoreOptions(
        commit_log_dir=commit_log_dir,
        commit_log_file_bytes=keys.mapped_file_size_commit_log,
        consume_queue_file_bytes=keys.mapped_file_size_consume_queue,
        batch_queue_file_bytes=keys.mapper_file_size_batch_consume_queue,
        message_bytes_max=keys.max_message_size,
        memory_window_bytes=keys.memory_window_bytes,
        sync_flush=keys.flush_disk_type == "SYNC_FLUSH",
        flush_interval_ms=keys.flush_interval_commit_log,
        flush_least_pages=keys.flush_commit_log_least_pages,
        flush_thorough_interval_ms=keys.flush_commit_log_thorough_interval,
        transient_pool=keys.transient_store_pool_enable,
        transient_fail_fast=keys.fast_fail_if_no_buffer_in_store_pool,
        commit_interval_ms=keys.commit_interval_commit_log,
        queue_write_interval_ms=keys.flush_interval_consume_queue,
        queue_sync_interval_ms=keys.flush_consume_queue_thorough_interval,
        index=keys.message_index_enable,
        index_slots=keys.max_hash_slot_num,
        index_items=keys.max_index_num,
        check_crc_on_recover=keys.check_crc_on_recover,
        reserved_hours=keys.file_reserved_time,
        delete_when=parse_hours(keys.delete_when),
        disk_used_ratio=keys.disk_max_used_space_ratio / 100,
        disk_warning_ratio=keys.disk_space_warning_level_ratio / 100,
        disk_forcibly_ratio=keys.disk_space_clean_forcibly_ratio / 100,
        delete_batch=keys.delete_file_batch_max,
        clean_interval_ms=keys.clean_resource_interval,
        delays_ms=delay_levels.parse(keys.message_delay_level),
        wide_topics=keys.auto_message_version_on_topic_len,
    )


def log_dir(root: str, configured: str) -> tuple[str, dict[str, str]]:
    """Return the commit log's directory as the store's disk names it, and where that name leads
    to."""
    if not configured:
        return COMMIT_LOG, {}
    if "," in configured:
        raise ConfigError(
            ["option 'storePathCommitLog' names several directories; EpochMQ keeps the log in one"]
        )
    path = PurePath(configured)
    if not path.is_absolute():
        return str(path), {}
    if path.is_relative_to(root):
        return str(path.relative_to(root)), {}
    return COMMIT_LOG, {COMMIT_LOG: configured}
