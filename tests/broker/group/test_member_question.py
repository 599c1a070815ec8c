"""Both dialects of the question for the members, and what answers are worth."""

import pytest

from epochmq.base import limits
from epochmq.broker.group.name_servers_view import NameServerAnswer, Said, question, read
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command
from epochmq.wire.header import decode_header
from epochmq.wire.headers.namesrv_headers import GetBrokerMemberGroupHeader, GetRouteHeader

NATIVE = b'{"brokerMemberGroup":{"cluster":"c","brokerName":"b","brokerAddrs":{0:"m:1",1:"s:1"}}}'
ROUTE = (
    b'{"brokerDatas":[{"cluster":"c","brokerName":"b","brokerAddrs":{0:"m:1","1":"s:1"}},'
    b'{"cluster":"c","brokerName":"x","brokerAddrs":{0:"x:1"}},'
    b'{"cluster":"d","brokerName":"b","brokerAddrs":{7:"d:1"}}],"queueDatas":[]}'
)


def answer(body: bytes = b"", code: int = ResponseCode.SUCCESS) -> Command:
    return Command(code, remark="why" if code else None, body=body)


def test_the_question_is_901_or_the_route_of_the_members_topic() -> None:
    native = question("c", "b", compat=False)
    assert native.code == RequestCode.GET_BROKER_MEMBER_GROUP
    assert decode_header(GetBrokerMemberGroupHeader, native.ext).brokerName == "b"
    old = question("c", "b", compat=True)
    assert old.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
    assert decode_header(GetRouteHeader, old.ext).topic == "rmq_sys_SYNC_BROKER_MEMBER_b"


@pytest.mark.parametrize(("body", "compat"), [(NATIVE, False), (ROUTE, True)])
def test_members_with_bare_and_quoted_ids(body: bytes, compat: bool) -> None:
    found = read(answer(body), "c", "b", compat=compat)
    assert found == NameServerAnswer(Said.MEMBERS, {0: "m:1", 1: "s:1"})


@pytest.mark.parametrize(
    ("told", "compat"),
    [
        (answer(b'{"brokerMemberGroup":{"brokerAddrs":{}}}'), False),
        (answer(b'{"brokerMemberGroup":null}'), False),
        (answer(b'{"brokerDatas":[],"queueDatas":[]}'), True),
        (answer(code=ResponseCode.TOPIC_NOT_EXIST), True),
    ],
)
def test_a_server_that_knows_nobody(told: Command, compat: bool) -> None:
    assert read(told, "c", "b", compat=compat).said is Said.EMPTY


@pytest.mark.parametrize(
    "told",
    [
        answer(),
        answer(b"{"),
        answer(code=ResponseCode.SYSTEM_ERROR),
        answer(code=ResponseCode.TOPIC_NOT_EXIST),
        answer(b'{"brokerMemberGroup":{"brokerAddrs":{0:"nowhere"}}}'),
        answer(b'{"brokerMemberGroup":{"brokerAddrs":{"-1":"m:1"}}}'),
        answer(
            b'{"brokerMemberGroup":{"brokerAddrs":{%s}}}'
            % b",".join(b'%d:"m:1"' % number for number in range(limits.REPLICAS_MAX + 1))
        ),
    ],
)
def test_what_cannot_be_believed_is_failed_and_says_why(told: Command) -> None:
    found = read(told, "c", "b", compat=False)
    assert found.said is Said.FAILED
    assert found.members == {}
    assert found.problem
