"""Consumer-group administration."""

from tests.broker.fake_node import WALL, FakeNode
from tests.broker.requests.helpers import answer, json_of

from epochmq.wire.codes import RequestCode

UPDATE = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP


def test_update_and_get() -> None:
    node = FakeNode()
    wanted = {"groupName": "g", "retryMaxTimes": 3, "consumeBroadcastEnable": False}
    assert answer(node, UPDATE, None, wanted).code == 0
    body = json_of(answer(node, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"}))
    assert (body["retryMaxTimes"], body["consumeBroadcastEnable"]) == (3, False)
    body = json_of(answer(node, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
    assert body["subscriptionGroupTable"]["g"]["retryMaxTimes"] == 3
    assert body["forbiddenTable"] == {}
    assert body["dataVersion"]["counter"] == 1


def test_refusals() -> None:
    node = FakeNode()
    for bad in ({"groupName": "a b"}, {"groupName": "g", "retryQueueNums": -1}, {}):
        assert answer(node, UPDATE, None, bad).code == 1
    wanted = {"groupName": "g", "attributes": {"+x": "1"}}
    assert answer(node, UPDATE, None, wanted).remark == "unsupported key: +x"
    node.groups.auto_create = False
    assert answer(node, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"}).code == 26


def test_lists_are_all_or_nothing() -> None:
    node = FakeNode()
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
    good = {"groupName": "g"}
    assert answer(node, code, None, {"groupConfigList": [good, {"groupName": ""}]}).code == 1
    assert "g" not in node.groups
    assert answer(node, code, None, {"groupConfigList": [good]}).code == 0
    assert "g" in node.groups


def test_delete() -> None:
    node = FakeNode()
    code = RequestCode.DELETE_SUBSCRIPTIONGROUP
    for flag, kept in (({}, True), ({"removeOffset": "true"}, False), ({"cleanOffset": "true"}, 0)):
        node.groups.find("g", WALL)
        node.offsets.commit("g", "T", 0, 1)
        assert answer(node, code, {"groupName": "g", **flag}).code == 0
        assert "g" not in node.groups
        assert ("T@g" in node.offsets.table) is bool(kept)


def test_forbidden() -> None:
    node = FakeNode()
    code = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN
    ask = {"group": "g", "topic": "T"}
    assert json_of(answer(node, code, ask)) == {**ask, "readable": True}
    assert json_of(answer(node, code, {**ask, "readable": "false"})) == {**ask, "readable": False}
    assert json_of(answer(node, code, ask))["readable"] is False
    assert node.groups.forbidden("g", "T") == 4
    assert json_of(answer(node, code, {**ask, "readable": "true"}))["readable"] is True
    assert answer(node, code, {"group": "g", "topic": "a b"}).code == 1
