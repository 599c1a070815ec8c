from tests.nameserver.world import Asker, told

from epochmq.nameserver.kv_config import ORDER_TOPIC_CONFIG
from epochmq.nameserver.options import NamesrvOptions


def test_new_options_reach_the_table_and_the_encoded_routes() -> None:
    node = Asker().node
    node.table.register(told(0), 0)
    node.kv.put(ORDER_TOPIC_CONFIG, "A", "b:4")
    before = node.routes.encoded("A", bare=False)
    node.options = NamesrvOptions(order_message_enable=True)
    assert node.table.options is node.options
    assert b"b:4" not in (before or b"")
    assert b"b:4" in (node.routes.encoded("A", bare=False) or b"")


def test_it_is_ready_at_once_or_after_the_time_asked_for() -> None:
    assert Asker().node.ready(0)
    node = Asker(need_wait_for_service=True, wait_seconds_for_service=2).node
    assert not node.ready(1_999)
    assert node.ready(2_000)


def test_a_silent_broker_whose_connection_is_gone_already() -> None:
    node = Asker().node
    node.table.register(told(0, timeout_ms=10, session_id=99), 0)
    node.expire(11)
    assert node.table.brokers.groups == {}


def test_a_silent_broker_does_not_take_its_living_neighbours_along() -> None:
    """H27: the brokers of a container register over one connection."""
    asker = Asker()
    node, session = asker.node, asker.session
    node.watch(session)
    node.table.register(told(0, timeout_ms=10, session_id=session.id), 0)
    node.table.register(told(0, "10.0.1.0:1", name="x", timeout_ms=20, session_id=session.id), 0)
    node.expire(11)
    assert list(node.table.brokers.groups) == ["x"]
    assert not asker.line.reason
    node.expire(21)
    assert "silent" in asker.line.reason


def test_a_session_is_watched_once() -> None:
    asker = Asker()
    asker.node.watch(asker.session)
    asker.node.watch(asker.session)
    assert len(asker.session.on_close) == 1
    asker.session.lost()
    assert asker.node.broker_sessions == {}
