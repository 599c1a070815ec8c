"""Metrics of the process of a server."""

import pytest
from tests.observe.test_families import samples_of

from epochmq.observe.families import write_families
from epochmq.observe.process_metrics import (
    memory_by_owner,
    process_families,
    resident_bytes,
    slow_turns,
)


async def test_memory_descriptors_and_log_lines() -> None:
    text = b"".join(write_families(process_families(), {"node_id": "a"}, 100))
    found = {name: value for (name, _), value in samples_of(text).items()}
    assert found["epochmq_resident_memory_bytes"] > 1 << 20
    assert 0 < found["epochmq_open_descriptors"] <= found["epochmq_descriptors_limit"]
    assert found["epochmq_log_lines_dropped_total"] >= 0


def test_slow_turns() -> None:
    assert slow_turns("50:3,100:1") == [(("50",), 3), (("100",), 1)]
    assert slow_turns("") == []


def test_memory_of_this_process() -> None:
    resident = resident_bytes()
    assert resident is not None
    assert resident > 1 << 20


def test_memory_by_owner_adds_up() -> None:
    sizes = {owner: size for (owner,), size in memory_by_owner()}
    assert sizes.keys() == {"process", "files", "shared"}
    resident = resident_bytes()
    assert resident is not None
    assert sum(sizes.values()) == pytest.approx(resident, rel=0.1)
