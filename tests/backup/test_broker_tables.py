"""Tables from answers of brokers, and what is refused."""

import pytest

from epochmq.backup.broker_tables import (
    ALL,
    TOPICS,
    checkpoint_of,
    encode_table,
    file_of,
    topics_of,
)
from epochmq.base.errors import EpochError, PeerError
from epochmq.broker.group.replicated_tables import CopiedTable
from epochmq.model.saved_file import check_seal
from epochmq.store.timer import timer_checkpoint
from epochmq.store.timer.timer_checkpoint import TimerCheckpoint
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command


def answer(body: bytes, code: int = 0) -> Command:
    return Command(code, body=body)


def test_a_backup_has_every_table_that_a_replica_copies() -> None:
    derived = {CopiedTable.TIMER_METRICS.value}  # counted again from the timer topic
    assert set(ALL.values()) == {table.value for table in CopiedTable} - derived


def test_a_table_gets_the_checksum_of_its_file() -> None:
    table = encode_table({"topicConfigTable": {"a": {}, "b": {}}, "dataVersion": {}})
    assert topics_of(table) == {"a", "b"}
    assert check_seal(file_of(TOPICS, table)) is not None
    assert topics_of(b"[]") == topics_of(b"{}") == set()


def test_a_broker_without_a_timer() -> None:
    assert checkpoint_of(answer(b"", ResponseCode.SYSTEM_ERROR)) is None


def test_a_timer_checkpoint_is_kept_as_it_is() -> None:
    body = TimerCheckpoint(1, 2, 3, 4).body()
    assert checkpoint_of(answer(body)) == body == file_of(timer_checkpoint.FILE, body)
    with pytest.raises(PeerError, match="not a timer checkpoint"):
        checkpoint_of(answer(b"x"))


def test_a_backup_writes_no_other_file() -> None:
    with pytest.raises(EpochError, match=r"a table for \.\./\.\./x"):
        file_of("../../x", b"")
