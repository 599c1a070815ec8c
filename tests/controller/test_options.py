"""The options of a controller."""

import pytest

from epochmq.base.errors import ConfigError
from epochmq.base.options import describe
from epochmq.controller.options import IGNORED, KEPT_BACK, ControllerOptions, load_options

GIVEN = {
    "controllerDLegerGroup": "g",
    "controllerDLegerPeers": "n0-127.0.0.1:9878",
    "controllerDLegerSelfId": "n0",
}
HOME = {"HOME": "/h"}


def test_a_properties_file_becomes_options() -> None:
    warnings: list[str] = []
    options = load_options(
        GIVEN | {"enableElectUncleanMaster": "true", "mappedFileSize": "1024"},
        env=HOME,
        warn=warnings.append,
    )
    assert options.enable_elect_unclean_master
    assert options.controller_store_path == "/h/DledgerController"
    assert options.changes_path == "/h/DledgerController/controller.properties"
    given = GIVEN | {"configStorePath": "/etc/changed.properties"}
    assert load_options(given, env=HOME).changes_path == "/etc/changed.properties"
    assert options.peers().own_address == "127.0.0.1:9878"
    assert len(warnings) == 1


def test_the_keys_of_rocketmq_are_known() -> None:
    keys = {row.key for row in describe(ControllerOptions)} | IGNORED
    assert {
        "controllerDLegerGroup",
        "controllerDLegerPeers",
        "controllerDLegerSelfId",
        "controllerStorePath",
        "mappedFileSize",
        "scanNotActiveBrokerInterval",
        "controllerThreadPoolNums",
        "controllerRequestThreadPoolQueueCapacity",
        "enableElectUncleanMaster",
        "processReadEvent",
        "notifyBrokerRoleChanged",
        "configStorePath",
        "controllerType",
        "electMasterMaxRetryCount",
        "configBlackList",
        "scanInactiveMasterInterval",
        "metricsExporterType",
        "metricsPromExporterPort",
        "jRaftElectionTimeoutMs",
        "jRaftScanWaitTimeoutMs",
        "jRaftSnapshotIntervalSecs",
        "jRaftGroupId",
        "jRaftServerId",
        "jRaftInitConf",
        "jRaftControllerRPCAddr",
    } <= keys


def test_nothing_that_reaches_the_network_the_disk_or_a_promise_changes_at_runtime() -> None:
    frozen = {row.key for row in describe(ControllerOptions) if not row.mutable}
    assert {"controllerStorePath", "configStorePath", "leaseMillis", "bindAddress"} <= frozen
    mutable = {row.key for row in describe(ControllerOptions) if row.mutable}
    assert not mutable & KEPT_BACK


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"leaseMillis": "5000", "brokerTimeoutMillis": "5000"}, "stay below brokerTimeoutMillis"),
        ({"raftHeartbeatMillis": "400"}, "at least three raftHeartbeatMillis"),
        ({"controllerDLegerSelfId": "n9"}, "must be one of n0"),
        ({"controllerDLegerGrop": "g"}, "did you mean 'controllerDLegerGroup'"),
    ],
)
def test_what_does_not_fit_together(more: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_options(GIVEN | more, env=HOME)
