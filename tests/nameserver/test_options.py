import pytest

from epochmq.base.errors import ConfigError
from epochmq.base.options import describe, load
from epochmq.nameserver.options import IGNORED, NamesrvOptions


def test_names_and_defaults_are_upstreams() -> None:
    rows = {row.key: row for row in describe(NamesrvOptions)}
    for key, default in {
        "listenPort": "9876",
        "bindAddress": "127.0.0.1",
        "orderMessageEnable": "false",
        "returnOrderTopicConfigToBroker": "true",
        "scanNotActiveBrokerInterval": "5000",
        "supportActingMaster": "false",
        "notifyMinBrokerIdChanged": "false",
        "deleteTopicWithBrokerRegistration": "false",
        "enableAllTopicList": "true",
        "enableTopicList": "true",
        "needWaitForService": "false",
        "waitSecondsForService": "45",
    }.items():
        assert rows[key].default == default
    assert not IGNORED & set(rows)


def test_nothing_that_reaches_the_network_or_the_disk_changes_at_runtime() -> None:
    frozen = {row.key for row in describe(NamesrvOptions) if not row.mutable}
    assert {"listenPort", "bindAddress", "kvConfigPath", "logFile"} <= frozen


def test_a_properties_file_becomes_options() -> None:
    warnings: list[str] = []
    (options,) = load(
        (NamesrvOptions,),
        {"listenPort": "19876", "serverWorkerThreads": "8", "enableControllerInNamesrv": "false"},
        ignored=IGNORED,
        env={"HOME": "/h"},
        warn=warnings.append,
    )
    assert isinstance(options, NamesrvOptions)
    assert options.listen_port == 19876
    assert options.kv_config_path == "/h/namesrv/kvConfig.json"
    assert len(warnings) == 1


def test_every_fault_is_one_line() -> None:
    with pytest.raises(ConfigError) as error:
        load(
            (NamesrvOptions,),
            {"listenport": "1", "listenPort": "x", "enableControllerInNamesrv": "maybe"},
            ignored=IGNORED,
        )
    text = str(error.value)
    assert len(error.value.problems) == 3
    assert "enableControllerInNamesrv" in text
    assert "did you mean 'listenPort'?" in text
