"""Every bit of every table under `config/`, flipped: refused with one clear error, or not believed.

Tables with a journal: `tests/broker/state/test_metadata_journal.py`; those of the timer: beside;
the name server's file: `tests/nameserver/test_kv_config.py`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from tests.broker.fake_disk import FakeDisk

from epochmq.base.errors import StoreDamaged
from epochmq.broker.consume.consumer_filters import ConsumerFilters
from epochmq.broker.consume.consumer_offsets import ConsumerOffsets
from epochmq.broker.consume.queue_locks import QueueLocks
from epochmq.broker.delay.delay_schedule import DelayOffsets, Schedule
from epochmq.broker.delay.timer_metrics import TimerMetrics
from epochmq.broker.pop.ordered_pop import Orders
from epochmq.broker.state.request_modes import RequestModes
from epochmq.broker.state.saved_files import SavedTable, encode_file, load_table
from epochmq.model.sink_mark import SinkKey, SinkMark
from epochmq.store.sink_runs import MessagePosition
from epochmq.store.sinks import SinkMemory, load_snapshot

WALL = 1_700_000_000_000
VERSION = {"counter": 3, "stateVersion": 0, "timestamp": WALL}
LOCK = {"group": "G", "topic": "T", "brokerName": "b", "queueId": 1, "clientId": "c"}
FILTER = {
    "consumerGroup": "G", "topic": "T", "expression": "a > 1", "expressionType": "SQL92",
    "bornTime": WALL, "deadTime": 0, "clientVersion": 5,
}  # fmt: skip
MODE = {"topic": "T", "consumerGroup": "G", "mode": "POP", "popShareQueueNum": 2}
BATCH = {"popTime": WALL, "i": 1000, "o": [5, 2], "ot": {}, "l": WALL, "cm": 2, "a": "a"}

TABLES: list[tuple[Callable[[], Any], dict[str, Any]]] = [
    (ConsumerOffsets, {"offsetTable": {"T@G": {"0": 17, "1": 4}}, "dataVersion": VERSION}),
    (
        lambda: DelayOffsets(Schedule((1000, 5000))),
        {"offsetTable": {"1": 7, "2": 4}, "dataVersion": VERSION},
    ),
    (RequestModes, {"messageRequestModeMap": {"T": {"G": MODE}}}),
    (Orders, {"table": {"T@G": {"0": BATCH}}, "dataVersion": VERSION}),
    (
        ConsumerFilters,
        {"filterDataByTopic": {"T": {"topic": "T", "groupFilterData": {"G": FILTER}}}},
    ),
    (QueueLocks, {"locks": [{**LOCK, "askers": ["x"]}]}),
    (TimerMetrics, {"timingCount": {"T": {"count": 3, "timeStamp": WALL}}, "dataVersion": VERSION}),
]


def state(table: Any) -> Any:
    """All that a table holds."""
    if isinstance(table, Orders):
        table.begin(0, WALL)
    return msgspec.json.decode(table.encode())


def flips(data: bytes) -> Iterator[tuple[int, bytes]]:
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        yield bit, bytes(flipped)


@pytest.mark.parametrize(("make", "content"), TABLES, ids=[make().file for make, _ in TABLES])
def test_no_flipped_bit_of_a_table_is_believed(
    make: Callable[[], SavedTable], content: dict[str, Any]
) -> None:
    table = make()
    table.load(content)
    wanted = state(table)
    assert set(wanted) >= set(content), "the table holds what the test gives it"
    data = encode_file(table)
    refused = 0
    for bit, flipped in flips(data):
        found = make()
        try:
            load_table(FakeDisk({found.file: flipped}), found)
        except StoreDamaged:
            refused += 1
        else:
            assert state(found) == wanted, bit
    assert refused > 6 * len(data)


def test_no_flipped_bit_of_the_memory_of_sinks_is_believed() -> None:
    """Where it says nothing that can be believed, the log is read again."""
    memory = SinkMemory()
    for seq in range(3):
        memory.note(SinkMark(SinkKey("s", 0, "T"), 0, seq), MessagePosition(seq * 100, 100, 1, seq))
    memory.forget_confirmed(200)
    wanted = memory.encode()
    data = encode_file(memory)
    refused = 0
    for bit, flipped in flips(data):
        found = SinkMemory()
        if load_snapshot(FakeDisk({memory.file: flipped}), found) is None:
            assert found.encode() == wanted, bit
        else:
            refused += 1
            assert found.covered == 0
    assert refused > 5 * len(data)
