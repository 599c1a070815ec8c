"""A message as RocketMQ's tool prints it."""

import tempfile
from pathlib import Path

import pytest

from epochmq.admin.mqadmin import queries
from epochmq.admin.shared.java_text import moment
from epochmq.base.errors import EnvironmentFault, UsageError
from epochmq.model.message import StoredMessage

OFFSET_ID = "7F00000100004E220000000000000000"
UNIQ_KEY = "7F0000015017BA4E9B476C59B925908A"


def stored(**changed: object) -> StoredMessage:
    fields: dict[str, object] = {
        "topic": "orders",
        "queue_id": 0,
        "queue_offset": 0,
        "offset": 0,
        "size": 229,
        "body": b"body-0",
        "flag": 0,
        "sys_flag": 0,
        "born_wall_ms": 1795309019429,
        "born_host": ("127.0.0.1", 36982),
        "store_wall_ms": 1795309019470,
        "store_host": ("127.0.0.1", 20002),
        "reconsume_times": 0,
        "prepared_offset": 0,
        "properties": {"KEYS": "k0 all", "UNIQ_KEY": UNIQ_KEY},
        "body_crc": 101430950,
    }
    return StoredMessage(**{**fields, **changed})  # type: ignore[arg-type]


def test_line_by_line() -> None:
    assert queries.detail_lines(stored(), with_id=True) == [
        f"OffsetID:            {OFFSET_ID}",
        "Topic:               orders",
        "Tags:                [null]",
        "Keys:                [k0 all]",
        "Queue ID:            0",
        "Queue Offset:        0",
        "CommitLog Offset:    0",
        "Reconsume Times:     0",
        f"Born Timestamp:      {moment(1795309019429)}",
        f"Store Timestamp:     {moment(1795309019470)}",
        "Born Host:           127.0.0.1:36982",
        "Store Host:          127.0.0.1:20002",
        "System Flag:         0",
        f"Properties:          {{KEYS=k0 all, UNIQ_KEY={UNIQ_KEY}}}",
    ]
    assert queries.body_line(stored(), "UTF-8") == "Message Body:        body-0"
    with pytest.raises(UsageError, match="charset KLINGON is not known"):
        queries.body_line(stored(), "KLINGON")


def test_in_one_line() -> None:
    assert queries.one_line(stored(), "broker-a", "body-0") == (
        f"MSGID: {UNIQ_KEY} MessageExt [brokerName=broker-a, queueId=0, storeSize=229,"
        " queueOffset=0, sysFlag=0, bornTimestamp=1795309019429, bornHost=/127.0.0.1:36982,"
        f" storeTimestamp=1795309019470, storeHost=/127.0.0.1:20002, msgId={OFFSET_ID},"
        " commitLogOffset=0, bodyCRC=101430950, reconsumeTimes=0, preparedTransactionOffset=0,"
        " toString()=Message{topic='orders', flag=0,"
        f" properties={{KEYS=k0 all, UNIQ_KEY={UNIQ_KEY}}}, body=[98, 111, 100, 121, 45, 48],"
        " transactionId='null'}] BODY: body-0"
    )


def test_the_body_goes_to_a_file_of_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    path = queries.save_body(stored(), 1)
    assert (path.name, path.read_bytes()) == (f"{UNIQ_KEY}_1", b"body-0")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert queries.body_path_line(path) == f"Message Body Path:   {path}"


def test_a_producers_id_is_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    path = queries.save_body(stored(properties={"UNIQ_KEY": "../../passwd"}))
    assert path.name == OFFSET_ID


def test_a_link_in_our_place_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    directory = queries.save_body(stored()).parent
    aside = directory.rename(tmp_path / "aside")
    directory.symlink_to(aside)
    with pytest.raises(EnvironmentFault, match="is not a directory of yours"):
        queries.save_body(stored())
