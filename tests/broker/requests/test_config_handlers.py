"""Reading and changing the configuration, and what strangers must not reach by it."""

import json

import pytest
from tests.broker.broker_harness import BrokerHarness
from tests.broker.fake_node import FakeNode
from tests.broker.requests.helpers import answer, bytes_of, ext_of

from epochmq.base.java_properties import parse_properties
from epochmq.broker.config.options import load_options
from epochmq.broker.config.overrides import FILE
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command

UPDATE = RequestCode.UPDATE_BROKER_CONFIG


def test_get() -> None:
    reply = answer(FakeNode(), RequestCode.GET_BROKER_CONFIG)
    version = json.loads(ext_of(reply)["version"])
    assert version == {"stateVersion": 0, "counter": 0, "timestamp": 0}
    options = parse_properties(bytes_of(reply).decode())
    assert options["brokerName"] == "b"
    assert options["autoCreateTopicEnable"] == "true"
    assert options["listenPort"] == "10911"


def test_update() -> None:
    node = FakeNode()
    text = b"autoCreateTopicEnable=false\nenablePropertyFilter=true\n"
    assert answer(node, UPDATE, None, text).code == 0
    assert not node.options.auto_create_topic_enable
    assert not node.topics.auto_create
    assert node.filters.enabled
    assert node.fake_disk.files[FILE].startswith(
        b"autoCreateTopicEnable=false\nenablePropertyFilter=true\n# epochmqSaved "
    )
    reply = answer(node, RequestCode.GET_BROKER_CONFIG)
    assert json.loads(ext_of(reply)["version"])["counter"] == 1
    answer(node, UPDATE, None, b"slaveReadEnable=true")
    kept = parse_properties(node.fake_disk.files[FILE].decode())
    assert kept.keys() == {"autoCreateTopicEnable", "enablePropertyFilter", "slaveReadEnable"}


def test_how_long_files_are_kept() -> None:
    harness = BrokerHarness()
    text = b"fileReservedTime=24\ndeleteWhen=02;14\ndiskMaxUsedSpaceRatio=60\n"
    assert harness.client().ask(Command(UPDATE, body=text)).code == 0
    kept = harness.store.retention._options
    assert (kept.reserved_hours, kept.delete_when, kept.disk_used_ratio) == (24, (2, 14), 0.6)


def test_permission_is_told_to_name_servers() -> None:
    node = FakeNode()
    answer(node, UPDATE, None, b"autoCreateTopicEnable=false")
    assert node.topics.version.counter == 0
    answer(node, UPDATE, None, b"brokerPermission=4")
    assert node.topics.version.counter == 1


def test_nothing_to_change() -> None:
    node = FakeNode()
    assert answer(node, UPDATE, None, b"# only a comment\n").code == 0
    assert node.fake_disk.writes == []


@pytest.mark.parametrize(
    "text",
    [
        b"rocketmqHome=-c $@|sh . echo touch /tmp/x;\nfilterServerNums=1",
        b"storePathRootDir=/etc",
        b"brokerConfigPath=/etc/cron.d/x",
        b"configStorePathName=/etc/cron.d/x",
        b"configBlackList=",
        b"namesrvAddr=10.6.6.6:9876",
        b"bindAddress=0.0.0.0",
        b"brokerIP1=10.6.6.6",
        b"listenPort=1",
        b"maxMessageSize=1",
        b"flushDiskType=SYNC_FLUSH",
        b"brokerPermission=9",
        b"brokerPermission=six",
        b"autoCreateTopicEnable=maybe",
        b"deleteWhen=noon",
        b"deleteWhen=04;/etc/cron.d/x",
        b"deleteWhen=" + b"4" * 5_000,
        b"fileReservedTime=0",
        b"diskMaxUsedSpaceRatio=99",
        b"noSuchOption=1",
        b"autoCreateTopicEnable=false\nlistenPort=1",
    ],
)
def test_what_may_not_change(text: bytes) -> None:
    # The first rows are the shapes of CVE-2023-33246 and CVE-2023-37582.
    node = FakeNode()
    before = node.options
    reply = answer(node, UPDATE, None, text)
    assert reply.code == 16
    assert node.options is before
    assert node.fake_disk.writes == []


@pytest.mark.parametrize("text", [b"\xff\xfe", b"a=\\u00zz", b"x=" + b"y" * 70_000])
def test_what_is_no_properties_text(text: bytes) -> None:
    assert answer(FakeNode(), UPDATE, None, text).code == 1


def test_keys_without_effect_are_taken_with_a_warning_as_in_the_file(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = FakeNode()
    keys = (
        "enableNotifyAfterPopOrderLockRelease",
        "enableDetailStat",
        "enableSingleTopicRegister",
        "enableSplitRegistration",
        "isScanAvailableNameSrv",
    )
    for key in keys:
        assert answer(node, UPDATE, None, f"{key}=true".encode()).code == 0
        assert f"option '{key}' has no effect" in caplog.text
        assert load_options({key: "true"}, env={})
    assert FILE not in node.fake_disk.files
    assert answer(node, UPDATE, None, b"enableDetailStat=true\nslaveReadEnable=true").code == 0
    assert node.options.slave_read_enable
    assert answer(node, UPDATE, None, b"aclEnable=true").code == 16
    assert answer(node, UPDATE, None, b"estimateAccumulaton=true").code == 16
