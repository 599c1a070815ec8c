"""Group addresses: what clients are given instead of the master's own address (ADR 0082)."""

import json
from typing import Any

import pytest
from tests.nameserver.world import Asker, configs, table, told

from epochmq.model.names import MEMBER_TOPIC_PREFIX
from epochmq.nameserver.route_table import RouteTable
from epochmq.nameserver.routes import Routes

RELAY = "10.9.9.9:11911"


def shown(it: RouteTable, *, own: bool = False) -> dict[int, str]:
    route = it.route("A", own_addresses=own)
    assert route is not None
    return route.broker_datas[0].broker_addrs


def test_clients_get_the_group_address_and_tools_the_masters_own() -> None:
    it = table()
    it.register(told(0, group_addr=RELAY), 0)
    it.register(told(2, group_addr=RELAY), 0)
    assert shown(it) == {0: RELAY, 2: "10.0.0.2:10911"}
    assert shown(it, own=True) == {0: "10.0.0.0:10911", 2: "10.0.0.2:10911"}
    assert it.brokers.groups["b"].as_data().broker_addrs[0] == "10.0.0.0:10911"


def test_the_group_address_stays_while_there_is_no_master() -> None:
    """A client that sees no master in a route forgets the queues of the group."""
    it = table()
    it.register(told(0, group_addr=RELAY), 0)
    it.register(told(2, group_addr=RELAY), 0)
    it.unregister("c", "b", "10.0.0.0:10911")
    assert shown(it) == {0: RELAY, 2: "10.0.0.2:10911"}
    assert shown(it, own=True) == {2: "10.0.0.2:10911"}
    it.register(told(0, addr="10.0.0.2:10911", group_addr=RELAY), 1)
    assert shown(it) == {0: RELAY}
    assert shown(it, own=True) == {0: "10.0.0.2:10911"}


def test_the_smallest_id_decides_and_its_word_goes_with_it() -> None:
    it = table()
    it.register(told(0, group_addr=RELAY), 0)
    it.register(told(2, group_addr="other:1"), 0)
    assert shown(it)[0] == RELAY
    it.register(told(0), 1)
    assert shown(it)[0] == "other:1"
    it.unregister("c", "b", "10.0.0.2:10911")
    assert shown(it) == {0: "10.0.0.0:10911"}


def test_a_change_of_the_group_address_renews_the_kept_routes() -> None:
    it = table()
    routes = Routes(it, {}.get)

    def masters() -> list[str]:
        bodies = routes.encoded("A", bare=False), routes.encoded_own("A")
        return [json.loads(body or b"")["brokerDatas"][0]["brokerAddrs"]["0"] for body in bodies]

    it.register(told(0), 0)
    assert masters() == ["10.0.0.0:10911"] * 2
    it.register(told(0, group_addr=RELAY), 1)
    assert masters() == [RELAY, "10.0.0.0:10911"]
    assert routes.encoded_own("A") is routes.encoded_own("A")
    assert routes.encoded_own("Z") is None
    it.delete_topic("A")
    assert routes.encoded_own("A") is None


def test_members_of_old_name_servers_are_asked_for_by_own_addresses() -> None:
    it = table()
    topic = MEMBER_TOPIC_PREFIX + "b"
    it.register(told(0, group_addr=RELAY, topics=configs(topic, "A")), 0)
    route = it.route(topic)
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: "10.0.0.0:10911"}


def test_a_request_says_which_addresses_it_wants() -> None:
    asker = Asker()
    asker.register(0, groupAddr=RELAY)

    def master(**ext: str) -> Any:
        body = asker.ask(105, {"topic": "A", **ext}).body
        assert isinstance(body, bytes)
        return json.loads(body)["brokerDatas"][0]["brokerAddrs"]["0"]

    assert master(acceptStandardJsonOnly="true") == RELAY
    assert master(ownAddresses="true") == "10.0.0.0:10911"


@pytest.mark.parametrize("wrong", ["x" * 256, "10.0.0.1:1\n"])
def test_an_address_that_cannot_be_shown_is_refused(wrong: str) -> None:
    asker = Asker()
    assert asker.register(0, groupAddr=wrong).code != 0
