from epochmq.replication.ha_info import ha_info, moment
from epochmq.replication.link import Speeds

from .pair import group, replicate

WALL = 1_700_000_000_000


def test_a_master_shows_its_followers() -> None:
    a, b = group(2)
    a.lead(1, 1, 2)
    a.write(3)
    cable = replicate(a, b, 1)
    speeds = Speeds()
    speeds.sample(0, {cable.link: 0})
    speeds.sample(2_000, a.node.transferred())
    peers = {cable.link: "10.0.0.2:4711"}
    shown = ha_info(a.node, peers, None, a.now, WALL, speeds)
    assert (shown["master"], shown["inSyncSlaveNums"]) == (True, 1)
    assert shown["masterCommitLogMaxOffset"] == a.end
    assert shown["haConnectionInfo"] == [
        {
            "addr": "10.0.0.2:4711",
            "slaveAckOffset": a.end,
            "diff": 0,
            "inSync": True,
            "transferredByteInSecond": a.end // 2,
            "transferFromWhere": a.end,
            "epochmqBrokerId": 2,
            "state": "TRANSFER",
            "silentMs": 0,
            "epochmqLagMs": 0,
        }
    ]


def test_a_follower_shows_its_master() -> None:
    a, b = group(2)
    a.lead(1, 1, 2)
    a.write(3)
    replicate(a, b, 1)
    speeds = Speeds()
    speeds.sample(0, {})
    speeds.sample(1_000, b.node.transferred())
    shown = ha_info(b.node, {}, "10.0.0.1:10912", b.now + 70, WALL, speeds)
    assert shown["master"] is False
    client = shown["haClientRuntimeInfo"]
    assert isinstance(client, dict)
    assert (client["masterAddr"], client["activated"]) == ("10.0.0.1:10912", True)
    assert client["maxOffset"] == client["transferredByteInSecond"] == b.end
    assert 0 < client["lastReadTimestamp"] <= WALL - 70
    assert 0 < client["lastWriteTimestamp"] <= WALL - 70
    assert "masterFlushOffset" not in client  # nobody has told it here


def test_what_never_was_has_no_time() -> None:
    assert (moment(0, 500, WALL), moment(400, 500, WALL)) == (0, WALL - 100)
