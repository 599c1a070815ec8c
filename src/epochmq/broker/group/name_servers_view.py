"""What the name servers say of this broker's group: each by itself, and all together.

Whoever wants to know of the other members asks this, and nobody polls by himself: `ActingService`
asks every name server once in `syncBrokerMemberGroupPeriod`, in every role, and puts each answer in
here. Read it as `member.acting.core.view` (a plain member with enableSlaveActingMaster has one):

- `view.others()`: the members beside this broker, address by id, the smallest id first;
- `view.verdict(now)`: OTHERS, ALONE or UNKNOWN. UNKNOWN is no permission for anything: an answer
  that is empty, or does not come, is never "I am alone" (H3). ALONE takes a majority of the name
  servers that named nobody else for as long as a silent member stays listed;
- `view.known`: the last address ever told of each id, for asking the member itself (H28).

`member.acting.poll_soon()` makes the next questions due at once; `member.step_down(why)` ends
acting before it returns. A name server that was just started knows nobody yet: until it has
answered for `quiet_ms` in one go, its silence about a member says something only if it showed the
member before (H1, H3).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from epochmq.base import limits
from epochmq.base.errors import EpochError
from epochmq.model.host import BadAddress, parse_addr
from epochmq.model.names import MEMBER_TOPIC_PREFIX
from epochmq.model.topic import TopicRouteData
from epochmq.wire.bodies.body import decode_answer
from epochmq.wire.bodies.namesrv_bodies import BrokerMemberGroupBody
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.headers.namesrv_headers import GetBrokerMemberGroupHeader, GetRouteHeader


class Said(Enum):
    """What one question to one name server brought."""

    MEMBERS = auto()
    EMPTY = auto()
    """It knows nobody of the group."""
    FAILED = auto()
    """No answer, an error, or nothing that can be understood."""


class NameServerAnswer(NamedTuple):
    """`members` is empty unless MEMBERS; `problem` says why FAILED."""

    said: Said
    members: Mapping[int, str] = {}
    problem: str = ""


class NameServersVerdict(Enum):
    """All answers taken together."""

    OTHERS = auto()
    """A name server knows other members."""
    ALONE = auto()
    """A majority has known nobody else for long enough."""
    UNKNOWN = auto()


class Heard(NamedTuple):
    """What one answer changed."""

    senior_came: bool
    """A smaller id is shown, by a name server that did not show it before."""
    misses_us: bool
    """The name server knew this broker once, and does not any more."""


@dataclass(slots=True)
class ObservedNameServer:
    """One name server, since it began to answer without a failure in between."""

    said: Said = Said.FAILED
    problem: str = "not asked yet"
    members: dict[int, str] = field(default_factory=dict)
    since_ms: int = 0
    other_ms: int = 0
    """When it named somebody else last."""
    asked_ms: int = 0
    """When the question was sent that it answered last."""
    showed_senior: bool = False
    """It named a smaller id than ours since then."""
    named_us: bool = False
    """It knew this broker once, in this life or an earlier one."""
    headless: int = 0
    """Successive answers that name this broker and no smaller id."""


class GroupView:
    """The answers of all `servers`; `own_id` and `own_address` are what we are registered as."""

    def __init__(
        self, servers: Iterable[str], own_id: int, own_address: str, quiet_ms: int
    ) -> None:
        self.servers = {address: ObservedNameServer() for address in servers}
        self.own_id = own_id
        self.own_address = own_address
        self._quiet_ms = quiet_ms
        self.known: dict[int, str] = {}

    @property
    def majority(self) -> int:
        """How many name servers are more than half of those that are configured."""
        return len(self.servers) // 2 + 1

    # What happens ----------------------------------------------------------------------------

    def heard(
        self, address: str, answer: NameServerAnswer, now: int, asked_ms: int | None = None
    ) -> Heard:
        """A question ended that was sent at `asked_ms` (just now, if not told); an address that is
        no name server of ours changes nothing."""
        server = self.servers.get(address)
        if server is None:
            return Heard(senior_came=False, misses_us=False)
        if answer.said is Said.FAILED:
            self._failed(server, answer.problem)
            return Heard(senior_came=False, misses_us=False)
        if server.said is Said.FAILED:
            server.since_ms = now
        before = server.members
        server.asked_ms = now if asked_ms is None else asked_ms
        server.said, server.problem = answer.said, ""
        server.members = dict(sorted(answer.members.items()))
        self._remember(server.members)
        if self._others_among(server.members):
            server.other_ms = now
        ours = server.members.get(self.own_id) == self.own_address
        seniors = {number for number in server.members if number < self.own_id}
        server.showed_senior = server.showed_senior or bool(seniors)
        server.headless = server.headless + 1 if ours and not seniors else 0
        server.named_us = server.named_us or ours
        return Heard(
            senior_came=bool(seniors - before.keys()), misses_us=server.named_us and not ours
        )

    def lost(self, address: str) -> None:
        """The connection to a name server closed: what answers next may know nobody yet."""
        server = self.servers.get(address)
        if server is not None:
            self._failed(server, "the connection closed")

    def forget(self) -> None:
        """Nothing that was said before counts any more, but addresses."""
        for server in self.servers.values():
            self._failed(server, "not asked since this process stood still")

    def _remember(self, members: Mapping[int, str]) -> None:
        """Not without bound: whoever answers could name new ids for ever."""
        self.known.update(members)
        if len(self.known) > limits.REPLICAS_MAX:
            self.known = dict(members)

    def _failed(self, server: ObservedNameServer, problem: str) -> None:
        server.said, server.problem = Said.FAILED, problem
        server.members = {}
        server.showed_senior = False
        server.headless = 0

    # What is known ---------------------------------------------------------------------------

    def members(self) -> dict[int, str]:
        """Everybody whom a name server names now; of two addresses the later told one."""
        named = {number for server in self.servers.values() for number in server.members}
        return {number: self.known[number] for number in sorted(named) if number in self.known}

    def others(self) -> dict[int, str]:
        """The same without this broker, or what is left of it from before a restart."""
        return self._others_among(self.members())

    def _others_among(self, members: Mapping[int, str]) -> dict[int, str]:
        return {
            number: address
            for number, address in members.items()
            if number != self.own_id and address != self.own_address
        }

    def verdict(self, now: int) -> NameServersVerdict:
        """Whether there are others, nobody else, or nobody knows."""
        if self.others():
            return NameServersVerdict.OTHERS
        if not self.servers:
            return NameServersVerdict.ALONE
        trusted = sum(self._names_nobody(server, now) for server in self.servers.values())
        return NameServersVerdict.ALONE if trusted >= self.majority else NameServersVerdict.UNKNOWN

    def asked_ms(self, now: int) -> int:
        """A majority has answered questions that were sent then, or later; now without servers."""
        asked = sorted(
            (one.asked_ms for one in self.servers.values() if one.said is not Said.FAILED),
            reverse=True,
        )
        if not self.servers:
            return now
        return asked[self.majority - 1] if len(asked) >= self.majority else -1

    def waits_for(self, now: int) -> str:
        """What is missing before anybody may be called alone, for operators; empty if nothing is.

        An empty group is not believed at once: it may be a name server that was just started.
        """
        left = sorted(
            max(server.since_ms, server.other_ms) + self._quiet_ms - now
            for server in self.servers.values()
            if server.said is not Said.FAILED
        )
        if len(left) < self.majority:
            return f"{len(left)} of {len(self.servers)} name servers answer, {self.majority} must"
        if left[self.majority - 1] <= 0:
            return ""
        return f"they name nobody else; that is believed in {left[self.majority - 1]} ms"

    def _names_nobody(self, server: ObservedNameServer, now: int) -> bool:
        """For so long that a member that lost only its registration would have come back."""
        return self._is_trusted(server, now) and now - server.other_ms >= self._quiet_ms

    def headless(self, now: int, times: int) -> int:
        """How many name servers showed us and no smaller id, `times` in a row, and are believed.

        A server is believed that showed a smaller id before, or has answered for long enough.
        """
        return sum(
            server.headless >= times and (server.showed_senior or self._is_trusted(server, now))
            for server in self.servers.values()
        )

    def confirming(self) -> int:
        """How many name servers showed us and no smaller id last, believed or not."""
        return sum(server.headless > 0 for server in self.servers.values())

    @property
    def suspicious(self) -> bool:
        """Whether the group may have lost its master: it is worth looking closely."""
        return self.confirming() > 0

    def _is_trusted(self, server: ObservedNameServer, now: int) -> bool:
        """Every living member registered, or sent a heartbeat, at this server by now."""
        return server.said is not Said.FAILED and now - server.since_ms >= self._quiet_ms

    def statistics(self) -> dict[str, int]:
        """How many name servers gave each kind of answer last."""
        kinds = [server.said for server in self.servers.values()]
        return {said.name.lower(): kinds.count(said) for said in Said}


# Member question -----------------------------------------------------------------------------
# The question for the members of a group, and its answer, in both dialects.
#
# Natively GET_BROKER_MEMBER_GROUP (901). A name server of 4.x does not know that; with
# compatibleWithOldNameSrv it is asked for the route (105) of a topic that every member registers,
# `rmq_sys_SYNC_BROKER_MEMBER_{brokerName}`, in which no stand-in is shown.


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
