"""906, 907, 908, 1007 and 1008: what a broker tells of its place, and what it is told."""

from dataclasses import replace

from tests.broker.become import become
from tests.broker.fake_node import FakeNode
from tests.broker.fake_session import FakeSession
from tests.broker.requests.helpers import answer, call, json_of

from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.serving.group_position import GroupPosition
from epochmq.broker.serving.roles import Role
from epochmq.wire.bodies.controller_bodies import (
    EpochEntryBody,
    HAClientInfo,
    HAConnectionInfo,
    HARuntimeInfo,
)
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Reply
from epochmq.wire.headers.admin_headers import MasterStateHeader


def state_of(reply: Reply) -> tuple[object, ...]:
    header = reply.header
    assert isinstance(header, MasterStateHeader)
    return header.writable, header.acting, header.epoch, header.brokerName


def test_the_state_of_a_master_and_what_changes_it() -> None:
    node, session = FakeNode(), FakeSession()
    node.move_to(GroupPosition(1, epoch=4))
    first = answer(node, RequestCode.MASTER_STATE, {})
    assert state_of(first) == (True, False, 4, "b")
    assert isinstance(first.header, MasterStateHeader)
    wait = {"sinceStamp": first.header.stamp, "waitMillis": "5000"}
    assert call(node, RequestCode.MASTER_STATE, wait, session=session) is HELD
    node.announce()
    assert session.replies == []
    node.serving.grant_lease(0)
    node.announce()
    assert state_of(session.replies.pop()) == (False, False, 4, "b")
    become(node, Role.ACTING_MASTER)
    assert state_of(answer(node, RequestCode.MASTER_STATE, wait)) == (False, True, 4, "b")
    become(node, Role.SLAVE)
    assert state_of(answer(node, RequestCode.MASTER_STATE, {})) == (False, False, 4, "b")


def test_a_state_that_does_not_change_is_answered_in_the_end() -> None:
    node, session = FakeNode(), FakeSession()
    first = answer(node, RequestCode.MASTER_STATE, {})
    assert isinstance(first.header, MasterStateHeader)
    wait = {"sinceStamp": first.header.stamp, "waitMillis": "5000"}
    assert call(node, RequestCode.MASTER_STATE, wait, session=session) is HELD
    node.fake_clock.now += 5_000
    node.announce()
    assert state_of(session.replies.pop()) == state_of(first)


class Replica:
    """Membership and replication as handlers see them."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def epochs(self) -> list[EpochEntryBody]:
        return [EpochEntryBody(1, 0, 500), EpochEntryBody(2, 500)]

    def ha_status(self) -> HARuntimeInfo:
        link = HAConnectionInfo(addr="10.0.0.2:1", slave_ack_offset=400, diff=100, in_sync=True)
        return HARuntimeInfo(
            in_sync_slave_nums=1,
            ha_connection_info=[link],
            ha_client_runtime_info=HAClientInfo(),
        )

    def role_changed(self, now: int) -> None:
        self.heard.append("role")

    def master_announced(self, master_address: str, ha_address: str, *, online: bool) -> None:
        assert not online, "only a name server knows that"
        self.heard.append((master_address, ha_address))

    def hint(self) -> None:
        self.heard.append("hint")

    def options_changed(self) -> None:
        self.heard.append("options")

    @property
    def is_in_sync(self) -> bool:
        return True

    @property
    def owes_progress(self) -> bool:
        return "acted" in self.heard

    def master_returns(self, master_address: str, ha_address: str, *, hand_over: bool) -> bool:
        self.heard.append((master_address, ha_address, hand_over))
        return hand_over

    def figures(self) -> dict[str, str]:
        return {"epochmqLag": "7"}


def node_of(*, controllers: bool = True, role: Role = Role.MASTER) -> FakeNode:
    options = BrokerOptions(
        broker_name="b",
        broker_ip1="127.0.0.1",
        broker_ip2="127.0.0.2",
        ha_listen_port=10912,
        enable_controller_mode=controllers,
    )
    node = FakeNode(options)
    node.replica = Replica()
    become(node, role)
    return node


def ext_of(reply: object) -> dict[str, str]:
    assert isinstance(reply, Reply)
    assert reply.code == 0
    header = reply.header
    return {
        name: str(getattr(header, name))
        for name in getattr(header, "__struct_fields__", ())
        if getattr(header, name) is not None
    }


def test_a_master_tells_where_replicas_reach_it() -> None:
    node = node_of()
    found = ext_of(call(node, RequestCode.EXCHANGE_BROKER_HA_INFO))
    assert found == {
        "masterHaAddress": "127.0.0.2:10912",
        "masterFlushOffset": "0",
        "masterAddress": "127.0.0.1:10911",
    }


def test_a_notice_of_another_smallest_id_is_a_hint_and_no_more() -> None:
    node = node_of(controllers=False, role=Role.SLAVE)
    fields = {"minBrokerId": "0", "minBrokerAddr": "evil:1"}
    assert call(node, RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, fields) == Reply()
    assert isinstance(node.replica, Replica)
    assert node.replica.heard == ["hint"]
    node.replica = None
    assert call(node, RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE) == Reply()


def test_a_slave_tells_the_flush_offset_only() -> None:
    """A Java slave fails on an answer without it."""
    node = node_of(role=Role.SLAVE)
    call(node, RequestCode.RESET_MASTER_FLUSH_OFFSET, {"masterFlushOffset": "77"})
    assert ext_of(call(node, RequestCode.EXCHANGE_BROKER_HA_INFO)) == {"masterFlushOffset": "77"}


def test_a_notice_of_a_former_acting_master_is_a_hint_to_the_master() -> None:
    node = node_of(role=Role.SLAVE, controllers=False)
    assert isinstance(node.replica, Replica)
    node.replica.heard.append("acted")
    assert ext_of(call(node, RequestCode.EXCHANGE_BROKER_HA_INFO))["stoodIn"] == "True"
    become(node, Role.PRE_ONLINE)  # restarted: nobody can take anything from it yet
    assert "stoodIn" not in ext_of(call(node, RequestCode.EXCHANGE_BROKER_HA_INFO))
    node = node_of(controllers=False)
    call(node, RequestCode.EXCHANGE_BROKER_HA_INFO)
    assert isinstance(node.replica, Replica)
    assert node.replica.heard == ["hint"]
    node.replica = None
    assert "masterAddress" in ext_of(call(node, RequestCode.EXCHANGE_BROKER_HA_INFO))


def test_the_flush_offset_is_a_slaves() -> None:
    node = node_of()
    assert call(node, RequestCode.RESET_MASTER_FLUSH_OFFSET, {"masterFlushOffset": "77"}) == Reply()
    assert node.master_flush_offset == 0


def test_a_master_may_tell_where_it_is() -> None:
    node = node_of(role=Role.SLAVE)
    pushed = {"masterHaAddress": "h:2", "masterAddress": "h:1", "masterFlushOffset": "5"}
    found = ext_of(call(node, RequestCode.EXCHANGE_BROKER_HA_INFO, pushed))
    assert found == {"masterFlushOffset": "0", "steppedDown": "True"}
    announced = {**pushed, "handOver": "false"}
    found = ext_of(call(node, RequestCode.EXCHANGE_BROKER_HA_INFO, announced))
    assert found["steppedDown"] == "False"
    assert isinstance(node.replica, Replica)
    assert node.replica.heard == [("h:1", "h:2", True), ("h:1", "h:2", False)]


def test_a_slave_may_remember_its_masters_flush_offset() -> None:
    node = node_of(role=Role.SLAVE)
    pushed = {"masterHaAddress": "h:2", "masterAddress": "h:1", "masterFlushOffset": "5"}
    node.adopt_options(replace(node.options, sync_master_flush_offset_when_startup=True))
    assert isinstance(node.replica, Replica)
    assert node.replica.heard.pop() == "options"
    call(node, RequestCode.EXCHANGE_BROKER_HA_INFO, pushed)
    call(node, RequestCode.EXCHANGE_BROKER_HA_INFO, {**pushed, "masterFlushOffset": "9"})
    assert node.master_flush_offset == 5


def test_ha_status() -> None:
    node = node_of()
    body = json_of(answer(node, RequestCode.GET_BROKER_HA_STATUS))
    assert body["master"] is True
    assert body["inSyncSlaveNums"] == 1
    assert body["haConnectionInfo"][0]["slaveAckOffset"] == 400
    node.replica = None
    assert json_of(answer(node, RequestCode.GET_BROKER_HA_STATUS))["haConnectionInfo"] == []


def test_epochs() -> None:
    node = node_of()
    node.move_to(GroupPosition(own_id=3))
    body = json_of(answer(node, RequestCode.GET_BROKER_EPOCH_CACHE))
    assert body["brokerId"] == 3
    assert body["epochList"] == [
        {"epoch": 1, "startOffset": 0, "endOffset": 500},
        {"epoch": 2, "startOffset": 500, "endOffset": 2**63 - 1},
    ]
    refused = call(node_of(controllers=False), RequestCode.GET_BROKER_EPOCH_CACHE)
    assert isinstance(refused, Reply)
    assert refused.code == ResponseCode.SYSTEM_ERROR


def test_a_notice_is_passed_on_and_answered() -> None:
    node = node_of(role=Role.FENCED)
    ext = {"masterEpoch": "4", "masterBrokerId": "2", "brokerName": "b"}
    assert call(node, RequestCode.NOTIFY_BROKER_ROLE_CHANGED, ext) == Reply()
    assert isinstance(node.replica, Replica)
    assert node.replica.heard == ["role"], "and nothing of what it says"


def test_a_notice_for_another_broker_is_refused() -> None:
    """An address may belong to somebody else by now."""
    node = node_of()
    refused = call(node, RequestCode.NOTIFY_BROKER_ROLE_CHANGED, {"brokerName": "other"})
    assert isinstance(refused, Reply)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    node = node_of(controllers=False)
    refused = call(node, RequestCode.NOTIFY_BROKER_ROLE_CHANGED, {})
    assert isinstance(refused, Reply)
    assert refused.code == ResponseCode.SYSTEM_ERROR


def test_runtime_info_shows_the_place() -> None:
    node = node_of()
    node.move_to(GroupPosition(own_id=2, epoch=5, members=frozenset({2, 1})))
    table = json_of(answer(node, RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
    assert table["epochmqRole"] == "MASTER"
    assert table["epochmqMasterEpoch"] == "5"
    assert table["epochmqSyncStateSet"] == "1,2"
    assert table["epochmqLag"] == "7"
