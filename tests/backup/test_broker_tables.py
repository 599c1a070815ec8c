"""Tables from answers of brokers, and what is refused."""

import pytest

from epochmq.backup.broker_tables import ALL, TOPICS, file_of, table_of, topics_of
from epochmq.base.errors import EpochError, PeerError
from epochmq.broker.group.metadata_sync import CopiedTable
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
    body = b'{"topicConfigTable":{"a":{},"b":{}},"dataVersion":{}}'
    table = table_of(TOPICS, answer(body))
    assert table is not None
    assert topics_of(table) == {"a", "b"}
    assert check_seal(file_of(TOPICS, table)) is not None
    assert topics_of(b"[]") == topics_of(b"{}") == set()


def test_a_broker_without_the_table() -> None:
    unknown = answer(b"", ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    assert table_of("config/accounts.json", unknown) is None
    assert table_of(timer_checkpoint.FILE, answer(b"", ResponseCode.SYSTEM_ERROR)) is None


def test_a_timer_checkpoint_is_kept_as_it_is() -> None:
    body = TimerCheckpoint(1, 2, 3, 4).body()
    table = table_of(timer_checkpoint.FILE, answer(body))
    assert table == body == file_of(timer_checkpoint.FILE, body)
    with pytest.raises(PeerError, match="not a timer checkpoint"):
        table_of(timer_checkpoint.FILE, answer(b"x"))


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"1"])
def test_what_is_no_table_is_refused(body: bytes) -> None:
    with pytest.raises(PeerError):
        table_of(TOPICS, answer(body))


def test_a_backup_writes_no_other_file() -> None:
    with pytest.raises(EpochError, match=r"a table for \.\./\.\./x"):
        file_of("../../x", b"")
