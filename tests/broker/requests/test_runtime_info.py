"""How a broker is doing, under upstream's keys."""

import pytest
from tests.broker.fake_node import WALL, FakeNode
from tests.broker.requests.helpers import answer, json_of

from epochmq.broker.requests.runtime_info import bytes_text, span_text
from epochmq.wire.codes import RequestCode

# What mqadmin's clusterList and brokerStatus, and the usual dashboards, look for.
_NEEDED = """
    brokerActive brokerVersion brokerVersionDesc bootTimestamp runtime putTps getTransferredTps
    getFoundTps getMissTps getTotalTps msgPutTotalYesterdayMorning msgPutTotalTodayMorning
    msgPutTotalTodayNow msgGetTotalYesterdayMorning msgGetTotalTodayMorning msgGetTotalTodayNow
    dispatchBehindBytes pageCacheLockTimeMills earliestMessageTimeStamp commitLogDiskRatio
    consumeQueueDiskRatio commitLogMinOffset commitLogMaxOffset commitLogDirCapacity
    remainHowManyDataToFlush remainTransientStoreBufferNumbs startAcceptSendRequestTimeStamp
    sendThreadPoolQueueSize sendThreadPoolQueueCapacity sendThreadPoolQueueHeadWaitTimeMills
    pullThreadPoolQueueSize pullThreadPoolQueueCapacity pullThreadPoolQueueHeadWaitTimeMills
    queryThreadPoolQueueSize litePullThreadPoolQueueSize ackThreadPoolQueueSize
    EndTransactionQueueSize EndTransactionThreadPoolQueueCapacity timerReadBehind
    timerOffsetBehind timerCongestNum timerEnqueueTps timerDequeueTps putMessageTimesTotal
    putMessageSizeTotal putMessageAverageSize putMessageDistributeTime
    putMessageFailedTimes putMessageEntireTimeMax
"""
NEEDED = set(_NEEDED.split())


def info(node: FakeNode) -> dict[str, str]:
    table: dict[str, str] = json_of(answer(node, RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
    return table


def test_all_keys_are_there_as_text() -> None:
    table = info(FakeNode())
    assert set(table) >= NEEDED
    assert all(isinstance(value, str) for value in table.values())


def test_values() -> None:
    node = FakeNode()
    node.fake_clock.wall = WALL + 65_000
    node.fake.put("T", 0, b"hello")
    node.stats.put.total = 4
    node.stats.put_bytes.total = 10
    table = info(node)
    assert table["runtime"] == "[ 0 days, 0 hours, 1 minutes, 5 seconds ]"
    assert table["msgPutTotalTodayNow"] == "4"
    assert table["putMessageAverageSize"] == "2.5"
    assert table["commitLogMaxOffset"] == str(node.fake.pointers.appended)
    assert table["commitLogDiskRatio"] == "0.6"
    assert table["commitLogDirCapacity"] == "Total : 1000 B, Free : 400 B."
    assert table["brokerActive"] == "true"
    assert len(table["getTotalTps"].split()) == 3


def test_a_store_that_takes_no_more_is_told() -> None:
    node = FakeNode()
    assert (info(node)["storeFenced"], info(node)["storeDiskFull"]) == ("", "false")
    node.fake.fenced, node.fake.disk_full = "fsync failed: EIO", True
    table = info(node)
    assert (table["storeFenced"], table["storeDiskFull"]) == ("fsync failed: EIO", "true")


def test_delay_levels() -> None:
    node = FakeNode()
    node.schedule.restore({3: 2})
    node.fake.put("SCHEDULE_TOPIC_XXXX", 2, b"a", b"b", b"c")
    assert info(node)["scheduleMessageOffset_3"] == "2,3"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1 << 30, "1.0 GiB"),
        (1 << 62, "4.0 EiB"),
        (1 << 75, "32768.0 EiB"),
    ],
)
def test_bytes_text(count: int, text: str) -> None:
    assert bytes_text(count) == text


def test_span_text() -> None:
    assert span_text(90_061_999) == "[ 1 days, 1 hours, 1 minutes, 1 seconds ]"


# What apache/rocketmq-exporter (e1ab2dd569, BrokerRuntimeStats) reads: one key that it cannot parse
# fails all metrics of the broker.
_READ_NUMBERS = """
    msgPutTotalTodayNow msgGetTotalTodayNow msgPutTotalTodayMorning msgGetTotalTodayMorning
    msgPutTotalYesterdayMorning msgGetTotalYesterdayMorning bootTimestamp commitLogMinOffset
    commitLogMaxOffset dispatchMaxBuffer dispatchBehindBytes brokerVersion pageCacheLockTimeMills
    getMessageEntireTimeMax putMessageEntireTimeMax putMessageTimesTotal putMessageSizeTotal
    startAcceptSendRequestTimeStamp earliestMessageTimeStamp remainTransientStoreBufferNumbs
    sendThreadPoolQueueSize sendThreadPoolQueueCapacity sendThreadPoolQueueHeadWaitTimeMills
    pullThreadPoolQueueSize pullThreadPoolQueueCapacity pullThreadPoolQueueHeadWaitTimeMills
    queryThreadPoolQueueSize queryThreadPoolQueueCapacity queryThreadPoolQueueHeadWaitTimeMills
"""
_READ_FRACTIONS = ["consumeQueueDiskRatio", "commitLogDiskRatio", "putMessageAverageSize"]
_READ_RATES = ["putTps", "getMissTps", "getTotalTps", "getTransferredTps", "getFoundTps"]


def test_rocketmqs_exporter_can_read_every_key_that_it_asks_for() -> None:
    node = FakeNode()
    node.schedule.restore({3: 2})
    node.fake.put("SCHEDULE_TOPIC_XXXX", 2, b"a", b"b", b"c")
    table = info(node)
    for key in _READ_NUMBERS.split():
        int(table[key])
    for key in _READ_FRACTIONS:
        float(table[key])
    for key in _READ_RATES:
        assert len([float(part) for part in table[key].split(" ")]) == 3, key
    float(table["remainHowManyDataToFlush"].split(" ")[0])
    words = table["commitLogDirCapacity"].split(" ")
    assert float(words[2]) >= float(words[6])
    bounds = [part.split(":") for part in table["putMessageDistributeTime"].split(" ")]
    assert all(len(pair) == 2 and int(pair[1]) >= 0 for pair in bounds)
    assert table["brokerVersionDesc"]
    assert table["runtime"]
    delayed, there = table["scheduleMessageOffset_3"].split(",")
    assert int(delayed) <= int(there)
