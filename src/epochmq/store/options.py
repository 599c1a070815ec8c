"""Sizes, intervals and policies of a store as plain values; the broker maps RocketMQ's names here.

Defaults are upstream's (sections 1 and 2).
"""

from dataclasses import dataclass

DEFAULT_DELAYS_MS = tuple(
    seconds * 1000
    for seconds in (
        1,
        5,
        10,
        30,
        60,
        120,
        180,
        240,
        300,
        360,
        420,
        480,
        540,
        600,
        1200,
        1800,
        3600,
        7200,
    )
)


@dataclass(frozen=True)
class StoreOptions:
    """Everything that may be set about a store; checked by the broker's own options."""

    commit_log_dir: str = "commitlog"
    commit_log_file_bytes: int = 1 << 30
    """mappedFileSizeCommitLog"""
    consume_queue_file_bytes: int = 300_000 * 20
    """mappedFileSizeConsumeQueue times the unit's 20 bytes; rounded up to whole units"""
    batch_queue_file_bytes: int = 300_000 * 46
    """mapperFileSizeBatchConsumeQueue times the unit's 46 bytes; rounded up to whole units"""
    message_bytes_max: int = 4 * 1024 * 1024
    """maxMessageSize"""
    memory_window_bytes: int = 0
    """memoryWindowBytes: what this run wrote last; so many bytes count as in memory."""
    preallocate: bool = True
    """Reserve the space of a log file when it is created, so that appends cannot run out of it."""

    replicated: bool = False
    """Readers wait for `limit_confirm` from the start: other brokers hold copies (RIP-44)."""
    sync_flush: bool = False
    """flushDiskType = SYNC_FLUSH"""
    flush_interval_ms: int = 500
    """flushIntervalCommitLog"""
    flush_least_pages: int = 4
    """flushCommitLogLeastPages"""
    flush_thorough_interval_ms: int = 10_000
    """flushCommitLogThoroughInterval"""
    zero_fill: bool = False
    """Write zeros into the next log file ahead of its use: a sync is cheaper there."""

    transient_pool: bool = False
    """transientStorePoolEnable"""
    transient_pool_bytes: int = 256 * 1024 * 1024
    """How much may wait in memory before an append must commit first"""
    transient_fail_fast: bool = False
    """fastFailIfNoBufferInStorePool"""
    commit_interval_ms: int = 200
    """commitIntervalCommitLog"""

    queue_write_interval_ms: int = 1000
    """flushIntervalConsumeQueue: recent units live in memory no longer than this"""
    queue_sync_interval_ms: int = 60_000
    """flushConsumeQueueThoroughInterval: how much log a crash makes us read again"""
    queue_files_open_max: int = 256
    index: bool = True
    """messageIndexEnable"""
    index_slots: int = 5_000_000
    """maxHashSlotNum"""
    index_items: int = 20_000_000
    """maxIndexNum"""
    index_sync_interval_ms: int = 10_000
    checkpoint_interval_ms: int = 1000

    check_crc_on_recover: bool = True
    reserved_hours: int = 72
    """fileReservedTime"""
    delete_when: tuple[int, ...] = (4,)
    """deleteWhen: hours of the local day"""
    disk_used_ratio: float = 0.75
    """diskMaxUsedSpaceRatio: above, old files go at any hour"""
    disk_warning_ratio: float = 0.90
    """diskSpaceWarningLevelRatio: above, writes are refused"""
    disk_forcibly_ratio: float = 0.85
    """diskSpaceCleanForciblyRatio: above, files go whatever their age"""
    delete_batch: int = 10
    """deleteFileBatchMax"""
    clean_interval_ms: int = 10_000
    """cleanResourceInterval"""
    disk_check_interval_ms: int = 1000

    delays_ms: tuple[int, ...] = DEFAULT_DELAYS_MS
    """messageDelayLevel, for the delivery time in the delay topic's queues"""
    wide_topics: bool = True
    """autoMessageVersionOnTopicLen: topics over 127 bytes are written as V2 records"""
