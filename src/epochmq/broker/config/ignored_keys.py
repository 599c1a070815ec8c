"""RocketMQ's broker keys without effect in EpochMQ, so that RocketMQ's files can be used unchanged.

Keys in `IGNORED` are accepted with a warning: thread pools, JVM and netty settings, and tuning of
parts that work differently here. Keys in `NOT_SERVED` would switch on a missing feature: only the
value that leaves it off is accepted.
"""

from collections.abc import Mapping

NOT_SERVED: Mapping[str, str] = {
    "duplicationEnable": "false",
    "enableConsumeQueueExt": "false",
    "enableDLegerCommitLog": "false",
    "enableLmq": "false",
    "enableMultiDispatch": "false",
    "enabledAppendPropCRC": "false",
    "messageStorePlugIn": "",
    "storeType": "default",
}
"""Each key, and the one value that is accepted."""


def not_served_problems(properties: Mapping[str, str]) -> list[str]:
    """Return one line for each key whose value asks for a missing feature."""
    return [
        f"option '{key}' is not served: only '{accepted}' is accepted, not '{properties[key]}'"
        for key, accepted in NOT_SERVED.items()
        if key in properties and properties[key].strip().lower() != accepted
    ]


_THREADS = """
    ackMessageThreadPoolNums ackThreadPoolQueueCapacity adminBrokerThreadPoolNums
    adminBrokerThreadPoolQueueCapacity batchDispatchRequestThreadPoolNums
    brokerFastFailureEnable clientManageThreadPoolNums clientManagerThreadPoolQueueCapacity
    consumerManageThreadPoolNums consumerManagerThreadPoolQueueCapacity
    endTransactionPoolQueueCapacity endTransactionThreadPoolNums filterServerNums
    heartbeatThreadPoolNums heartbeatThreadPoolQueueCapacity litePullMessageThreadPoolNums
    litePullThreadPoolQueueCapacity loadBalanceProcessorThreadPoolNums
    loadBalanceThreadPoolQueueCapacity processReplyMessageThreadPoolNums
    pullMessageThreadPoolNums pullThreadPoolQueueCapacity putMessageFutureThreadPoolNums
    putThreadPoolQueueCapacity queryMessageThreadPoolNums queryThreadPoolQueueCapacity
    recoverConcurrently recoverThreadPoolNums replyThreadPoolQueueCapacity
    sendMessageThreadPoolNums sendThreadPoolQueueCapacity waitTimeMillsInAckQueue
    waitTimeMillsInAdminBrokerQueue waitTimeMillsInHeartbeatQueue
    waitTimeMillsInLitePullQueue waitTimeMillsInPullQueue waitTimeMillsInSendQueue
    waitTimeMillsInTransactionQueue
"""
_OLD_SAMPLES = """
    abortFile checkTransactionMessageEnable storeCheckpoint storePathConsumeQueue storePathIndex
"""
"""Keys in old sample files that are still copied; no release since 4.x reads them."""

_NETTY = """
    channelNotActiveInterval clientAsyncSemaphoreValue clientCallbackExecutorThreads
    clientChannelMaxIdleTimeSeconds clientCloseSocketIfTimeout clientOnewaySemaphoreValue
    clientPooledByteBufAllocatorEnable clientSocketRcvBufSize clientSocketSndBufSize
    clientWorkerThreads connectTimeoutMillis disableCallbackExecutor disableNettyWorkerGroup
    enableReconnectForGoAway enableShutdownGracefully maxReconnectIntervalTimeSeconds
    isScanAvailableNameSrv scanAvailableNameSrv serverAsyncSemaphoreValue
    serverCallbackExecutorThreads
    serverNettyWorkerGroupEnable serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable
    serverSelectorThreads serverSocketRcvBufSize serverSocketSndBufSize
    serverWorkerThreads
    shutdownWaitTimeSeconds socksProxyConfig useEpollNativeSelector useTLS
    writeBufferHighWaterMark writeBufferLowWaterMark
"""
_BROKER = """
    accountStatsEnable accountStatsPrintZeroValues
    appendAckAsync appendCkAsync asyncSendEnable autoDeleteUnusedStats
    broadcastOffsetExpireMaxSecond broadcastOffsetExpireSecond brokerConfigPath
    cgColdReadThreshold cleanOfflineBrokerInterval
    coldCtrStrategyEnable commercialBaseCount commercialBigCount commercialEnable
    commercialSizePerMsg commercialTimerCount commercialTransCount
    compressedRegister configBlackList configManagerVersion consumerFallbehindThreshold
    disableConsumeIfConsumerReadSlowly enableBroadcastOffsetStore
    enableCalcFilterBitMap enableCreateSysGroup enableDetailStat
    enableFastChannelEventProcess enableLmqStats enableNetWorkFlowControl
    enableNotifyAfterPopOrderLockRelease enableNotifyBeforePopCalculateLag enablePopBatchAck
    enablePopLog enablePopMessageThreshold enableRegisterProducer
    enableSingleTopicRegister
    enableSkipLongAwaitingAck enableSplitRegistration
    expectConsumerNumUseFilter fetchNameSrvAddrByDnsLookup
    fetchNamesrvAddrByAddressServer fetchNamesrvAddrInterval filterDataCleanTimeSpan
    filterSupportRetry forceRegister
    flushConsumerOffsetHistoryInterval forwardTimeout globalColdReadThreshold highSpeedMode
    initPopOffsetByCheckMsgInMem isBrokerContainer isInBrokerContainer
    maxDelayTime maxErrorRateOfBloomFilter
    maxStatsIdleTimeInMinutes metricGrpcExporterIntervalInMills
    metricGrpcExporterTimeOutInMills metricLoggingExporterIntervalInMills
    metricsGrpcExporterHeader metricsGrpcExporterTarget metricsInDelta
    popConsumerFSServiceInit popConsumerKVServiceEnable
    popConsumerKVServiceInit popConsumerKVServiceLog
    popInflightMessageThreshold popLongPollingForceNotifyInterval
    popResponseReturnActualRetryTopic popReviveMaxAttemptTimes
    popReviveMaxReturnSizePerRead printChannelGroups printChannelGroupsMinNum
    realTimeNotifyConsumerChange
    reviveAckWaitMs reviveInterval
    reviveMaxSlow reviveScanTime rmqAddressServerDomain rmqAddressServerSubGroup rocketmqHome
    skipWhenCKRePutReachMaxTimes splitRegistrationSize subscriptionExpiredTimeout
    transactionMetricFlushInterval
    transferMsgByHeap updateNameServerAddrPeriod usePIDColdCtrStrategy
"""
_STORE = """
    accessMessageInMemoryHotRatio
    bitMapLengthConsumeQueueExt bottomMostCompressionTypeForConsumeQueueStore
    cleanFileForciblyEnable cleanRocksDBDirtyCQIntervalMin cleanSwapedMapInterval
    coldDataFlowControlEnable coldDataScanEnable commitCommitLogLeastPages
    commitCommitLogThoroughInterval commitLogForceSwapMapInterval commitLogSwapMapInterval
    commitLogSwapMapReserveFileNum compactionCqMappedFileSize compactionMappedFileSize
    compactionScheduleInternal compactionThreadNum correctLogicMinOffsetForceInterval
    correctLogicMinOffsetSleepInterval dLegerGroup dLegerPeers dLegerSelfId
    dataReadAheadEnable debugLockEnable deleteCommitLogFilesInterval
    deleteConsumeQueueFilesInterval destroyMapedFileIntervalForcibly
    disappearTimeAfterStart diskFallRecorded dispatchCqCacheNum dispatchCqThreads
    dispatchFromSenderThread enableAsyncReput enableBatchPush
    enableBuildConsumeQueueConcurrently enableCleanExpiredOffset enableCompaction
    enableRocksDBLog enableScheduleAsyncDeliver enableScheduleMessageStats
    flushCommitLogTimed flushConsumeQueueLeastPages flushLeastPagesWhenWarmMapedFile
    forceVerifyPropCRC
    haSlaveFallbehindMax
    logicQueueForceSwapMapInterval
    logicQueueSwapMapInterval logicQueueSwapMapReserveFileNum
    logicalDiskSpaceCleanForciblyThreshold mappedFileSizeConsumeQueueExt
    mappedFileSwapEnable maxAsyncPutMessageRequests
    maxBatchDeleteFilesNum maxChecksumRange maxFilterMessageSize
    maxLmqConsumeQueueNum maxOffsetMapSize
    maxRecoveryCommitlogFiles maxSlaveResendLength maxTopicLength maxTransferBytesOnMessageInDisk
    maxTransferCountOnMessageInDisk memTableFlushIntervalMs
    messageIndexSafe offsetCheckInSlave osPageCacheBusyTimeOutMills
    preferredLeaderId pullBatchMaxMessageCount putConsumeQueueDataByFileChannel
    putMessageTimeout putMsgIndexHightWater readOnlyCommitLogStorePaths readUnCommitted
    realTimePersistRocksDBConfig recheckReputOffsetFromCq redeleteHangedFileInterval
    replicasPerDiskPartition rocksdbCQDoubleWriteEnable rocksdbCompressionType
    rocksdbFlushWalFrequency rocksdbWalFileRollingThreshold sampleSteps
    scheduleAsyncDeliverMaxPendingLimit scheduleAsyncDeliverMaxResendNum2Blocked
    searchBcqByCacheEnable spinLockCollisionRetreatOptimalDegree
    statRocksDBCQIntervalSec storePathDLedgerCommitLog
    timerCheckMetricsWhen timerColdDataCheckIntervalMs
    timerEnableCheckMetrics timerEnableDisruptor timerEnableRetryUntilSuccess
    timerGetMessageThreadNum timerInterceptDelayLevel
    timerMetricSmallThreshold timerProgressLogIntervalMs
    timerPutMessageThreadNum timerSkipUnknownError
    timerWarmEnable topicQueueLockNum
    transientStorePoolSize
    travelCqFileNumWhenGetMessage useABSLock useReentrantLockWhenPutMessage
    wakeCommitWhenPutMessage wakeFlushWhenPutMessage warmMapedFileEnable
"""
_AUTH = """
    authConfigPath clusterName configName
"""

IGNORED = frozenset(f"{_THREADS} {_OLD_SAMPLES} {_NETTY} {_BROKER} {_STORE} {_AUTH}".split())
