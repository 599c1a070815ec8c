"""Finding messages."""

import tempfile
from pathlib import Path

import pytest
from tests.admin.world import OFFLINE, ONLINE, TOPIC, World


@pytest.fixture(autouse=True)
def _scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))


def test_by_either_id(world: World) -> None:
    sent = world.sent[3]
    for msg_id in (sent.msg_id, sent.offset_msg_id):
        lines = world.mqadmin("queryMsgById", "-t", TOPIC, "-i", msg_id, "-f", "UTF-8").lines
        assert lines[0] == f"OffsetID:            {sent.offset_msg_id}"
        assert lines[2:4] == ["Tags:                [odd]", "Keys:                [k3 all]"]
        assert lines[14].startswith("Message Body Path:   ")
        assert lines[15:18] == ["Message Body:        body-3", "", ""]
        tracks = [line for line in lines[18:] if line.startswith("MessageTrack [")]
        (of_group,) = [line for line in tracks if f"[consumerGroup={OFFLINE}," in line]
        assert " trackType=UNKNOWN," in of_group


def test_two_ids_as_json(world: World) -> None:
    ids = ",".join(sent.msg_id for sent in world.sent[:2])
    rows = world.mqadmin("queryMsgById", "-t", TOPIC, "-i", ids, "-o", "json").rows
    assert [row["body"] for row in rows] == ["body-0", "body-1"]
    assert OFFLINE in {track["group"] for track in rows[0]["tracks"]}  # other tests' are, too


def test_by_key(world: World) -> None:
    lines = world.mqadmin("queryMsgByKey", "-t", TOPIC, "-k", "all").lines
    assert lines[0] == (
        "#Message ID                                        #QID                                 "
        " #Offset"
    )
    assert lines[1] == (
        f"{world.sent[0].msg_id}                      0                                        0"
    )
    assert [line.split()[0] for line in lines[1:7]] == [sent.msg_id for sent in world.sent]
    assert world.mqadmin("queryMsgByKey", "-t", TOPIC, "-k", "all", "-b", "1", "-e", "2").code == 5


def test_by_unique_key(world: World) -> None:
    for extra in ([], ["-a"]):
        args = ("queryMsgByUniqueKey", "-t", TOPIC, "-i", world.sent[2].msg_id, *extra)
        lines = world.mqadmin(*args).lines
        assert lines[:2] == ["Topic:               orders", "Tags:                [null]"]


def test_by_offset(world: World) -> None:
    args = ("queryMsgByOffset", "-t", TOPIC, "-b", "broker-a", "-i", "1", "-o", "2", "-f", "utf8")
    assert "Message Body:        body-5" in world.mqadmin(*args).lines


def test_nothing_found(world: World) -> None:
    at = ("-t", TOPIC, "-b", "broker-a", "-i", "1", "-o")
    assert world.mqadmin("queryMsgById", "-t", TOPIC, "-i", "0" * 32).code == 5
    assert world.mqadmin("queryMsgByKey", "-t", TOPIC, "-k", "nothing").code == 5
    assert world.mqadmin("queryMsgByUniqueKey", "-t", TOPIC, "-i", "0" * 32).code == 5
    assert world.mqadmin("queryMsgByOffset", *at, "9999").code == 5
    assert world.mqadmin("queryMsgByOffset", *at[:3], "x", "-i", "1", "-o", "0").code == 2


def test_a_member_consumes_one_now(world: World) -> None:
    with world.member() as client_id:
        args = ("-t", TOPIC, "-i", world.sent[1].msg_id, "-g", ONLINE, "-d", client_id)
        for name in ("queryMsgById", "queryMsgByUniqueKey"):
            ran = world.mqadmin(name, *args)
            assert ran.out.startswith(
                "ConsumeMessageDirectlyResult [order=false, autoCommit=true,"
                " consumeResult=CR_SUCCESS, remark=null, spentTimeMills="
            )
    assert world.mqadmin("queryMsgById", "-t", TOPIC, "-i", "x", "-g", ONLINE).code == 2
