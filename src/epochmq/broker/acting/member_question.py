"""The question for the members of a group, and its answer, in both dialects.

Natively GET_BROKER_MEMBER_GROUP (901). A name server of 4.x does not know that; with
compatibleWithOldNameSrv it is asked for the route (105) of a topic that every member registers,
`rmq_sys_SYNC_BROKER_MEMBER_{brokerName}`, in which no stand-in is shown.
"""

from epochmq.base import limits
from epochmq.base.errors import EpochError
from epochmq.broker.acting.name_servers_view import NameServerAnswer, Said
from epochmq.model.host import BadAddress, parse_addr
from epochmq.model.names import MEMBER_TOPIC_PREFIX
from epochmq.model.route import TopicRouteData
from epochmq.wire.bodies.body import decode_answer
from epochmq.wire.bodies.namesrv_bodies import BrokerMemberGroupBody
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.headers.namesrv_headers import GetBrokerMemberGroupHeader, GetRouteHeader


def question(cluster: str, name: str, *, compat: bool) -> Command:
    """To be sent to each name server."""
    if compat:
        topic = GetRouteHeader(MEMBER_TOPIC_PREFIX + name, acceptStandardJsonOnly=True)
        return request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic)
    header = GetBrokerMemberGroupHeader(clusterName=cluster, brokerName=name)
    return request(RequestCode.GET_BROKER_MEMBER_GROUP, header)


def read(answer: Command, cluster: str, name: str, *, compat: bool) -> NameServerAnswer:
    """What a name server answered; never raises, for a bad answer is a failed one."""
    if compat and answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return NameServerAnswer(Said.EMPTY)
    if answer.code != ResponseCode.SUCCESS:
        return failed(f"{answer.code} {answer.remark or ''}".rstrip())
    try:
        members = _by_route(answer, cluster, name) if compat else _natively(answer)
        return _checked(members)
    except EpochError as error:
        return failed(f"no list of members: {error}")


def failed(problem: str) -> NameServerAnswer:
    return NameServerAnswer(Said.FAILED, problem=problem)


def _natively(answer: Command) -> dict[int, str]:
    return decode_answer(BrokerMemberGroupBody, answer.body).broker_member_group.broker_addrs


def _by_route(answer: Command, cluster: str, name: str) -> dict[int, str]:
    route = decode_answer(TopicRouteData, answer.body)
    found: dict[int, str] = {}
    for group in route.broker_datas:
        if (group.cluster, group.broker_name) == (cluster, name):
            found.update(group.broker_addrs)
    return found


def _checked(members: dict[int, str]) -> NameServerAnswer:
    """Only what can be a member: it will be asked, and perhaps believed."""
    if len(members) > limits.REPLICAS_MAX:
        return failed(f"{len(members)} members, more than {limits.REPLICAS_MAX}")
    for number, address in members.items():
        try:
            parse_addr(address)
        except BadAddress as error:
            return failed(f"member {number}: {error}")
        if number < 0:
            return failed(f"a member with the id {number}")
    return NameServerAnswer(Said.MEMBERS if members else Said.EMPTY, members)
