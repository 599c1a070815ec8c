"""Every command of RocketMQ's mqadmin is there, or says what to use instead."""

import re

import pytest
from click.testing import CliRunner
from tests.scripts.test_documented_commands import problem

from epochmq.admin.cli import cli
from epochmq.admin.mqadmin.absent_commands import ABSENT
from epochmq.admin.mqadmin.mqadmin_command import COMMANDS
from epochmq.base.errors import UsageError

UPSTREAM = re.findall(
    r"\w+",
    """
    updateTopic updateTopicList deleteTopic updateSubGroup updateSubGroupList setConsumeMode
    deleteSubGroup updateBrokerConfig updateTopicPerm topicRoute topicStatus topicClusterList
    addBroker removeBroker resetMasterFlushOffset brokerStatus queryMsgById queryMsgByKey
    queryMsgByUniqueKey queryMsgByOffset queryMsgTraceById printMsg printMsgByQueue
    sendMsgStatus brokerConsumeStats producerConnection consumerConnection consumerProgress
    consumerStatus cloneGroupOffset producer clusterList topicList updateKvConfig
    deleteKvConfig wipeWritePerm addWritePerm resetOffsetByTime skipAccumulatedMessage
    updateOrderConf cleanExpiredCQ deleteExpiredCommitLog cleanUnusedTopic startMonitoring
    statsAll allocateMQ checkMsgSendRT clusterRT getNamesrvConfig updateNamesrvConfig
    getBrokerConfig getConsumerConfig queryCq sendMessage consumeMessage updateStaticTopic
    remappingStaticTopic exportMetadata exportConfigs exportMetrics exportMetadataInRocksDB
    exportPopRecord haStatus getSyncStateSet getBrokerEpoch getControllerMetaData
    getControllerConfig updateControllerConfig electMaster cleanBrokerMetadata
    dumpCompactionLog getColdDataFlowCtrInfo updateColdDataFlowCtrGroupConfig
    removeColdDataFlowCtrGroupConfig setCommitLogReadAheadMode createUser updateUser deleteUser
    getUser listUser copyUser createAcl updateAcl deleteAcl getAcl listAcl copyAcl
    rocksDBConfigToJson checkRocksdbCqWriteProgress
    """,
)
"""As the tool of 5.3.3 lists them."""


def test_no_command_of_rocketmq_is_unknown() -> None:
    assert len(UPSTREAM) == 89
    assert set(ABSENT) & set(COMMANDS) == set()
    assert set(UPSTREAM) <= set(ABSENT) | set(COMMANDS)
    assert set(ABSENT) <= set(UPSTREAM)


@pytest.mark.parametrize("name", ABSENT)
def test_an_absent_command_says_what_to_use(name: str) -> None:
    ran = CliRunner().invoke(cli, ["mqadmin", name.lower(), "-n", "127.0.0.1:1", "-t", "x"])
    assert isinstance(ran.exception, UsageError) or ran.exit_code == 2
    text = f"{ran.output}{ran.exception}"
    assert f"mqadmin {name} is not here: {ABSENT[name]}" in text
    for line in re.findall(r"`([^`]+)`", ABSENT[name]):
        if " " in line:
            whole = line if line.startswith("epochmq") else f"epochmq {line}"
            assert problem(whole) == ""
    for other in re.findall(r"mqadmin (\w+)", ABSENT[name]):
        assert other in COMMANDS
