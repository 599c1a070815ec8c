"""Commands of RocketMQ 5.3.3's mqadmin that are not here: what to use, or why there is none."""

_COLD = "EpochMQ does not limit reads of cold data; `epochmqLoopTurnMaxMs` shows their cost"
_ROCKS = "EpochMQ keeps its tables in JSON files and its queues in RocketMQ's file format"
_STATIC = "EpochMQ does not serve static topics (RIP-21); queues belong to one broker group"

ABSENT = {
    "checkRocksdbCqWriteProgress": _ROCKS,
    "cleanExpiredCQ": "EpochMQ deletes queue files with the log that they point to, by itself",
    "cleanUnusedTopic": "use `epochmq topic delete TOPIC`; a restart does not bring topics back",
    "dumpCompactionLog": "EpochMQ has no compaction topics; see `epochmq lake` for tables by key",
    "exportMetadataInRocksDB": _ROCKS,
    "exportPopRecord": _ROCKS,
    "getColdDataFlowCtrInfo": _COLD,
    "remappingStaticTopic": _STATIC,
    "removeColdDataFlowCtrGroupConfig": _COLD,
    "rocksDBConfigToJson": _ROCKS,
    "setCommitLogReadAheadMode": "EpochMQ leaves read-ahead to the kernel",
    "startMonitoring": "use the alert rules for Prometheus in examples/monitoring",
    "updateColdDataFlowCtrGroupConfig": _COLD,
    "updateStaticTopic": _STATIC,
}
