from epochmq.replication.ha_info import ha_info

from .pair import group, replicate


def test_a_master_shows_its_followers() -> None:
    a, b = group(2)
    a.lead(1, 1, 2)
    a.write(3)
    cable = replicate(a, b, 1)
    shown = ha_info(a.node, {cable.link: "10.0.0.2:4711"}, None, a.now)
    assert (shown["master"], shown["inSyncSlaveNums"]) == (True, 1)
    assert shown["masterCommitLogMaxOffset"] == a.end
    assert shown["haConnectionInfo"] == [
        {
            "addr": "10.0.0.2:4711",
            "slaveAckOffset": a.end,
            "diff": 0,
            "inSync": True,
            "transferredByteInSecond": 0,
            "transferFromWhere": a.end,
            "followerId": 2,
            "state": "TRANSFER",
            "silentMs": 0,
        }
    ]


def test_a_follower_shows_its_master() -> None:
    a, b = group(2)
    a.lead(1, 1, 2)
    a.write(3)
    replicate(a, b, 1)
    shown = ha_info(b.node, {}, "10.0.0.1:10912", b.now)
    assert shown["master"] is False
    client = shown["haClientRuntimeInfo"]
    assert isinstance(client, dict)
    assert (client["masterAddr"], client["activated"]) == ("10.0.0.1:10912", True)
    assert client["maxOffset"] == b.end
