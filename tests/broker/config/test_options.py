"""The broker's options: RocketMQ's files are read, dangerous ones are not."""

import pytest

from epochmq.base.errors import ConfigError
from epochmq.base.options import describe
from epochmq.broker.config.options import (
    BrokerOptions,
    change_options,
    load_options,
    reach_warnings,
    resolve,
)
from epochmq.controller.options import load_options as load_controller

ENV = {"HOME": "/data/me"}


def load(**keys: str) -> BrokerOptions:
    return load_options(keys, env=ENV)


def resolved(options: BrokerOptions, name: str = "host.example") -> BrokerOptions:
    return resolve(options, host_name=name, host_address="10.0.0.7", memory_bytes=1000)


def test_defaults_are_upstreams() -> None:
    options = load()
    assert options.listen_port == 10911
    assert options.broker_cluster_name == "DefaultCluster"
    assert options.default_topic_queue_nums == 8
    assert options.auto_create_topic_enable
    assert not options.enable_property_filter
    assert options.broker_permission == 6
    assert options.flush_disk_type == "ASYNC_FLUSH"
    assert options.store_path_root_dir == "/data/me/store"


def test_a_java_brokers_file() -> None:
    lines: list[str] = []
    keys = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": "0",
        "deleteWhen": "04",
        "fileReservedTime": "48",
        "brokerRole": "ASYNC_MASTER",
        "flushDiskType": "SYNC_FLUSH",
        "sendMessageThreadPoolNums": "16",
        "aclEnable": "false",
    }
    options = load_options(keys, env=ENV, warn=lines.append)
    assert options.broker_name == "broker-a"
    assert options.file_reserved_time == 48
    assert len(lines) == 1
    assert "sendMessageThreadPoolNums" in lines[0]


@pytest.mark.parametrize(
    ("key", "text", "word"),
    [
        ("brokerNmae", "b", "did you mean 'brokerName'"),
        ("listenPort", "70000", "between"),
        ("brokerId", "1", "must be 0 for a master"),
        ("brokerId", "-1", "0 or more without enableControllerMode"),
        ("brokerId", "-2", "between"),
        ("brokerName", "a b", "forbidden character"),
        ("brokerName", "../x", "forbidden character"),
        ("brokerName", "x" * 127, "at most"),
        ("brokerClusterName", "a/b", "forbidden character"),
        ("brokerRole", "SLAVE", "brokerId' must be more than 0"),
        ("brokerRole", "LEADER", "must be one of"),
        ("enableLmq", "true", "not served: only 'false' is accepted"),
        ("authenticationEnabled", "True", "needs initAuthenticationUser"),
        ("enableControllerMode", "true", "needs 'controllerAddr'"),
        ("storeType", "defaultRocksDB", "not served"),
        ("deleteWhen", "25", "must be hours"),
        ("messageDelayLevel", "1s never", "delay level"),
    ],
)
def test_faults_are_named(key: str, text: str, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        load(**{key: text})


def test_rocketmqs_samples_for_controller_mode() -> None:
    """The keys of distribution/conf/controller of RocketMQ 5: quick-start and the two clusters."""
    broker = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": "-1",
        "brokerRole": "SLAVE",
        "deleteWhen": "04",
        "fileReservedTime": "48",
        "enableControllerMode": "true",
        "controllerAddr": "127.0.0.1:9878",
        "allAckInSyncStateSet": "true",
        "listenPort": "30911",
        "namesrvAddr": "127.0.0.1:9876;",
        "storePathRootDir": "/tmp/rmqstore/node00",
        "storePathCommitLog": "/tmp/rmqstore/node00/commitlog",
    }
    options = load(**broker)
    assert (options.broker_id, resolved(options).broker_id) == (-1, 0)
    controller = {
        "controllerDLegerGroup": "group1",
        "controllerDLegerPeers": "n0-127.0.0.1:9878;n1-127.0.0.1:9868;n2-127.0.0.1:9858",
        "controllerDLegerSelfId": "n0",
        "controllerStorePath": "/tmp/rmqstore/DledgerController",
        "enableElectUncleanMaster": "false",
        "notifyBrokerRoleChanged": "true",
    }
    load_controller(controller, env=ENV)


def test_all_faults_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load(enableLmq="true", listenPort="x", brokerNmae="b")
    assert len(caught.value.problems) == 3


def test_resolve_on_loopback() -> None:
    options = resolved(load())
    assert options.broker_name == "host-example"
    assert options.broker_ip1 == options.broker_ip2 == "127.0.0.1"
    assert (options.fast_listen_port, options.ha_listen_port) == (10909, 10912)
    assert options.memory_window_bytes == 400
    assert reach_warnings(options) == []


def test_resolve_in_the_open() -> None:
    options = resolved(load(bindAddress="0.0.0.0", memoryWindowBytes="7"))
    assert options.broker_ip1 == "10.0.0.7"
    assert options.memory_window_bytes == 7
    assert "without access control" in reach_warnings(options)[0]
    options = resolved(load(bindAddress="localhost", brokerIP2="10.1.1.1"))
    assert (options.broker_ip1, options.broker_ip2) == ("127.0.0.1", "10.1.1.1")


def test_resolve_ports() -> None:
    options = resolved(load(listenPort="0"))
    assert (options.fast_listen_port, options.ha_listen_port) == (-1, 1)
    options = resolved(load(fastListenPort="-1", haListenPort="4000"))
    assert (options.fast_listen_port, options.ha_listen_port) == (-1, 4000)


def test_names_of_hosts() -> None:
    assert resolved(load(), name="...").broker_name == "DEFAULT_BROKER"
    assert resolved(load(brokerName="b")).broker_name == "b"


def test_an_address_nobody_can_reach_is_pointed_out() -> None:
    options = resolved(load(brokerIP1="10.0.0.7"))
    assert "set bindAddress=0.0.0.0" in reach_warnings(options)[0]


def test_change() -> None:
    options = load()
    changed = change_options(options, {"autoCreateTopicEnable": "false"}, 5)
    assert options.auto_create_topic_enable
    assert not changed.auto_create_topic_enable
    assert changed.version.counter == 1
    with pytest.raises(ConfigError):
        change_options(options, {"storePathRootDir": "/etc"}, 5)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {"bindAddress": "no.such.host"},
            "option 'bindAddress' is not an IP address but 'no.such.host'",
        ),
        ({"brokerIP1": "no.such.host"}, "option 'brokerIP1' must be an IP address, not 'no.such"),
    ],
)
def test_a_name_where_an_address_is_told_to_clients(given: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        resolve(load_options(given, env={}), host_name="h", host_address="10.0.0.7")


def test_only_plain_values_may_change() -> None:
    # CVE-2023-33246, CVE-2023-37582: no path, address or name, whoever asks. deleteWhen is a text
    # of hours and nothing else, logLevel one of four words.
    for row in describe(BrokerOptions):
        if row.mutable:
            assert row.type in ("bool", "int") or row.key in ("deleteWhen", "logLevel"), row.key
        assert row.doc.endswith("."), row.key


DEMANDING = {
    "tls.server.mode": "enforcing",
    "tls.server.need.client.auth": "require",
    "tls.server.certPath": "/c.pem",
    "tls.server.keyPath": "/k.pem",
    "tls.server.trustCertPath": "/t.pem",
    "bindAddress": "0.0.0.0",
}


def test_required_certificates_forbid_a_plain_replication_port() -> None:
    """It gives the whole log away, and takes acknowledgements."""
    with pytest.raises(ConfigError, match=r"replication port listens on 0\.0\.0\.0.*haBindAddress"):
        load(**DEMANDING)
    with pytest.raises(ConfigError, match="replication port"):
        load(**{**DEMANDING, "bindAddress": "127.0.0.1", "haBindAddress": "10.0.0.1"})
    load(**{**DEMANDING, "haBindAddress": "127.0.0.1"})
    load(**{**DEMANDING, "tls.server.need.client.auth": "optional"})
    load(**{**DEMANDING, "tls.server.mode": "permissive"})
