"""Which topics a broker has from the start."""

from epochmq.broker.state.topic_table import Wishes, system_topics


def by_name(wishes: Wishes) -> dict[str, tuple[int, int]]:
    return {
        topic.topic_name: (topic.write_queue_nums, topic.perm) for topic in system_topics(wishes)
    }


def test_as_upstream_has_them() -> None:
    assert by_name(Wishes("C", "b")) == {
        "SELF_TEST_TOPIC": (1, 6),
        "TBW102": (8, 7),
        "BenchmarkTest": (1024, 6),
        "C": (16, 7),
        "b": (1, 7),
        "OFFSET_MOVED_EVENT": (1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 6),
        "C_REPLY_TOPIC": (1, 6),
        "rmq_sys_REVIVE_LOG_C": (8, 6),
        "rmq_sys_SYNC_BROKER_MEMBER_b": (1, 1),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6),
        "TRANS_CHECK_MAX_TIME_TOPIC": (1, 6),
    }


def test_wishes() -> None:
    wishes = Wishes(
        "C",
        "b",
        auto_create=False,
        cluster_topic=False,
        broker_topic=False,
        trace_topic="TRACES",
        timer=True,
    )
    topics = by_name(wishes)
    assert "TBW102" not in topics
    assert topics["C"] == (16, 1)
    assert topics["b"] == (1, 1)
    assert topics["TRACES"] == (1, 6)
    assert topics["rmq_sys_wheel_timer"] == (1, 6)
