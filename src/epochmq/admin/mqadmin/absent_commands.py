"""Commands of RocketMQ 5.3.3's mqadmin that are not here: what to use, or why there is none."""

_EXPORT = "use `epochmq topic list -o json`, `group list -o json` and `cluster config get -o json`"
_BACKUP = "use `epochmq backup create`, which has topics, groups, offsets and messages"
_COLD = "EpochMQ does not limit reads of cold data; `epochmqLoopTurnMaxMs` shows their cost"
_ROCKS = "EpochMQ keeps its tables in JSON files and its queues in RocketMQ's file format"
_STATIC = "EpochMQ does not serve static topics (RIP-21); queues belong to one broker group"

ABSENT = {
    "brokerConsumeStats": "use `epochmq group list --sort lag` and `group lag GROUP`",
    "checkMsgSendRT": "pipe lines into `epochmq produce TOPIC`: it prints percentiles at the end",
    "checkRocksdbCqWriteProgress": _ROCKS,
    "cleanExpiredCQ": "EpochMQ deletes queue files with the log that they point to, by itself",
    "cleanUnusedTopic": "use `epochmq topic delete TOPIC`; a restart does not bring topics back",
    "clusterRT": "use the metrics of the brokers, or pipe lines into `epochmq produce TOPIC`",
    "consumerStatus": "use `epochmq group members GROUP` and `group stacks GROUP`",
    "dumpCompactionLog": "EpochMQ has no compaction topics; see `epochmq lake` for tables by key",
    "exportConfigs": _EXPORT,
    "exportMetadata": _BACKUP,
    "exportMetadataInRocksDB": _ROCKS,
    "exportMetrics": "use the metrics for Prometheus (option metricsExporterType=PROM)",
    "exportPopRecord": _ROCKS,
    "getColdDataFlowCtrInfo": _COLD,
    "printMsg": "use `epochmq consume TOPIC --from first --exit`, or mqadmin consumeMessage",
    "printMsgByQueue": "use `epochmq message at TOPIC:QUEUE OFFSET`, or mqadmin consumeMessage -i",
    "producer": "use mqadmin producerConnection, which asks for one group and topic",
    "queryCq": "use `epochmq message at TOPIC:QUEUE OFFSET`; `epochmq store verify` checks queues",
    "remappingStaticTopic": _STATIC,
    "removeColdDataFlowCtrGroupConfig": _COLD,
    "rocksDBConfigToJson": _ROCKS,
    "sendMsgStatus": "use mqadmin sendMessage, or `epochmq produce TOPIC`",
    "setCommitLogReadAheadMode": "EpochMQ leaves read-ahead to the kernel",
    "startMonitoring": "use the alert rules for Prometheus in examples/monitoring",
    "statsAll": "use `epochmq topic stats TOPIC`, `group list`, or the metrics of the brokers",
    "updateColdDataFlowCtrGroupConfig": _COLD,
    "updateStaticTopic": _STATIC,
}
