"""The topics of the system and those of users."""

from epochmq.admin.shared.own_topics import is_own


def test_own_topics() -> None:
    own = {"DefaultCluster", "broker-a"}
    for name in ("TBW102", "rmq_sys_x", "%RETRY%g", "%DLQ%g", "broker-a", "C_REPLY_TOPIC"):
        assert is_own(name, own)
    assert not is_own("orders", own)
