"""The group's members as the name servers list them: one server's answer, and all together.

`ActingService` polls every name server once in `syncBrokerMemberGroupPeriod`, in every role, and
passes each answer in here; no other part polls. Read the view as `member.acting.core.view` (a plain
member with enableSlaveActingMaster has one):

- `view.others()`: the other members, address by id, the smallest id first;
- `view.verdict(now)`: OTHERS, ALONE or UNKNOWN. UNKNOWN permits nothing: an empty or missing answer
  never means "I am alone" (H3). ALONE needs a majority of the name servers that listed no other
  member for as long as a silent member stays listed;
- `view.known`: the last known address of each id, for asking the member itself (H28).

`member.acting.poll_soon()` makes the next polls due at once; `member.step_down(why)` ends acting
before it returns. A name server that has just started knows no broker yet: until it has answered
for `quiet_ms` without a failure, the absence of a member in its answers counts only if it listed
that member before (H1, H3).
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
    """The kind of answer to one poll of one name server."""

    MEMBERS = auto()
    EMPTY = auto()
    """The name server lists no member of the group."""
    FAILED = auto()
    """No answer, an error, or an answer that cannot be decoded."""


class NameServerAnswer(NamedTuple):
    """One answer; `members` is empty unless MEMBERS, `problem` explains FAILED."""

    said: Said
    members: Mapping[int, str] = {}
    problem: str = ""


class NameServersVerdict(Enum):
    """The conclusion from all answers."""

    OTHERS = auto()
    """A name server lists other members."""
    ALONE = auto()
    """A majority has listed no other member for long enough."""
    UNKNOWN = auto()


class Heard(NamedTuple):
    """The changes that one answer brought."""

    senior_came: bool
    """The name server lists a smaller id that it did not list before."""
    misses_us: bool
    """The name server listed this broker once, and does not any more."""


@dataclass(slots=True)
class ObservedNameServer:
    """One name server's answers since its last failure."""

    said: Said = Said.FAILED
    problem: str = "not asked yet"
    members: dict[int, str] = field(default_factory=dict)
    since_ms: int = 0
    other_ms: int = 0
    """When it last listed another member (ms)."""
    asked_ms: int = 0
    """When the last answered question was sent (ms)."""
    showed_senior: bool = False
    """Whether it has listed a smaller id than this broker's since then."""
    named_us: bool = False
    """Whether it ever listed this broker, in this run or an earlier one."""
    headless: int = 0
    """The number of successive answers that list this broker and no smaller id."""


class GroupView:
    """Combines the answers of all `servers`; `own_id` and `own_address` are the registered ones."""

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
        """How many name servers make a majority of the configured ones."""
        return len(self.servers) // 2 + 1

    # What happens ----------------------------------------------------------------------------

    def heard(
        self, address: str, answer: NameServerAnswer, now: int, asked_ms: int | None = None
    ) -> Heard:
        """Record the answer to a question that was sent at `asked_ms` (`now` when None), and return
        what changed; an address that is not configured changes nothing."""
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
        """Note that the connection to a name server closed: it may have restarted, and know no
        broker yet."""
        server = self.servers.get(address)
        if server is not None:
            self._failed(server, "the connection closed")

    def forget(self) -> None:
        """Forget all answers except the addresses of the members."""
        for server in self.servers.values():
            self._failed(server, "not asked since this process stood still")

    def _remember(self, members: Mapping[int, str]) -> None:
        """Remember addresses, with a limit: a faulty name server could list new ids for ever."""
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
        """Return the members that any name server lists now; of two addresses, the newer one."""
        named = {number for server in self.servers.values() for number in server.members}
        return {number: self.known[number] for number in sorted(named) if number in self.known}

    def others(self) -> dict[int, str]:
        """Return the members without this broker and without its entry from before a restart."""
        return self._others_among(self.members())

    def _others_among(self, members: Mapping[int, str]) -> dict[int, str]:
        return {
            number: address
            for number, address in members.items()
            if number != self.own_id and address != self.own_address
        }

    def verdict(self, now: int) -> NameServersVerdict:
        """Return whether other members exist, none exists, or that is unknown."""
        if self.others():
            return NameServersVerdict.OTHERS
        if not self.servers:
            return NameServersVerdict.ALONE
        trusted = sum(self._names_nobody(server, now) for server in self.servers.values())
        return NameServersVerdict.ALONE if trusted >= self.majority else NameServersVerdict.UNKNOWN

    def asked_ms(self, now: int) -> int:
        """Return the time since when a majority has been asked and has answered; `now` without name
        servers, -1 without a majority."""
        asked = sorted(
            (one.asked_ms for one in self.servers.values() if one.said is not Said.FAILED),
            reverse=True,
        )
        if not self.servers:
            return now
        return asked[self.majority - 1] if len(asked) >= self.majority else -1

    def waits_for(self, now: int) -> str:
        """Return what is missing for the verdict ALONE, for operators; "" when nothing is.

        An empty group is not believed at once, because a name server may have just started.
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
        """Return whether a trusted server listed no other member for `quiet_ms`. A member that only
        lost its registration would have come back within that time."""
        return self._is_trusted(server, now) and now - server.other_ms >= self._quiet_ms

    def headless(self, now: int, times: int) -> int:
        """Count trusted name servers that listed us and no smaller id `times` in a row.

        A server is trusted that listed a smaller id before, or that has answered for `quiet_ms`.
        """
        return sum(
            server.headless >= times and (server.showed_senior or self._is_trusted(server, now))
            for server in self.servers.values()
        )

    def confirming(self) -> int:
        """Return how many name servers last listed this broker and no smaller id, trusted or
        not."""
        return sum(server.headless > 0 for server in self.servers.values())

    @property
    def suspicious(self) -> bool:
        """Whether the group may have lost its master, so that polls should be frequent."""
        return self.confirming() > 0

    def _is_trusted(self, server: ObservedNameServer, now: int) -> bool:
        """Return whether every living member must have registered, or sent a heartbeat, at this
        server."""
        return server.said is not Said.FAILED and now - server.since_ms >= self._quiet_ms

    def statistics(self) -> dict[str, int]:
        """Return how many name servers gave each kind of answer last."""
        kinds = [server.said for server in self.servers.values()]
        return {said.name.lower(): kinds.count(said) for said in Said}


# Member question -----------------------------------------------------------------------------
# The request for the members of a group, and its answer, in two forms.
#
# The native form is GET_BROKER_MEMBER_GROUP (901). A name server of 4.x does not know it; with
# compatibleWithOldNameSrv the broker asks for the route (105) of a topic that every member
# registers, `rmq_sys_SYNC_BROKER_MEMBER_{brokerName}`. That route shows no acting master.


def question(cluster: str, name: str, *, compat: bool) -> Command:
    """Build the request for each name server."""
    if compat:
        member_topic = MEMBER_TOPIC_PREFIX + name
        header = GetRouteHeader(member_topic, acceptStandardJsonOnly=True, ownAddresses=True)
        return request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
    members = GetBrokerMemberGroupHeader(clusterName=cluster, brokerName=name)
    return request(RequestCode.GET_BROKER_MEMBER_GROUP, members)


def read(answer: Command, cluster: str, name: str, *, compat: bool) -> NameServerAnswer:
    """Return what a name server answered; an invalid answer is FAILED, and nothing is raised."""
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
    """Accept only possible members: they will be asked, and perhaps believed."""
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
