"""Acting master: decides when a slave acts for a master that is gone (RIP-32; closes H1 to H3).

RocketMQ decides by one poll of one name server. Here a slave becomes acting master only when

- a majority of all configured name servers, `CONFIRMATIONS` times in a row, lists this slave and no
  smaller broker id, and each of these name servers is trusted (see `name_servers_view.py`: a name
  server that has just started is not);
- after that the master, asked at its last known address, does not answer that it serves;
- this slave has fetched the progress of any other slave that was acting master until now, as far as
  that slave can be reached;
- this slave has copied the master's tables once, because a log without its topics is useless (S15).

An acting master stops acting at once when a name server lists a smaller broker id that it did not
list before, when the master answers that it serves, when the returning master asks for the
hand-over (`step_down`), and when no majority has confirmed this broker's place for `not_active_ms`:
by then another slave may have become acting master.

A slave may have acted for a master whose process was suspended for `not_active_ms`, or that no
majority listed for that long while no slave copied from it. Such a master comes back as after a
restart (H1). A master cannot notice a shorter absence itself, so the slave reports it: a slave that
stopped acting before the master copied its progress (`owes`) copies no tables, probes the master
once a period, and answers `stoodIn` when the master probes it. Then the master returns through
pre-online (INV-29).

A broker that learns that a name server does not know it registers there at once, in every role
(H2). This module does no I/O: times are monotonic ms; `ActingService` sends the requests and
reports the answers.
"""

from dataclasses import dataclass

from epochmq.base.unbounded import FOREVER
from epochmq.broker.group.name_servers_view import (
    GroupView,
    NameServerAnswer,
    failed,
    question,
    read,
)
from epochmq.model.data_version import DataVersion
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.headers.admin_headers import ExchangeHAInfoHeader
from epochmq.wire.headers.namesrv_headers import BrokerHeartbeatHeader, QueryDataVersionHeader

# Acting effects ------------------------------------------------------------------------------
# The actions that the core of the acting master asks the service to carry out.


@dataclass(frozen=True, slots=True)
class Beat:
    """Send a heartbeat to the name server at `address`.

    `asked`: the name server answers whether it knows what this broker registered; report that
    answer to `beaten`.
    """

    address: str
    command: Command
    asked: bool


@dataclass(frozen=True, slots=True)
class Poll:
    """Ask the name server at `address` for the group's members; report `polled` exactly once."""

    address: str
    command: Command


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask the broker at `address` whether it serves; report `probed` once, with this effect."""

    address: str
    command: Command
    sent_at_ms: int


@dataclass(frozen=True, slots=True)
class RegisterFully:
    """Send a full registration to this name server at once: it does not know this broker (H2)."""

    address: str


@dataclass(frozen=True, slots=True)
class Act:
    """Become the acting master."""

    why: str


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """Fetch the progress of those members at `addresses` that were acting master; report `took`
    once."""

    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cease:
    """Stop acting at once: become an ordinary slave again."""

    why: str


@dataclass(frozen=True, slots=True)
class Return:
    """As a master, return through the group: a slave may have acted for this master meanwhile.

    `address`: the address of the slave that reports this; empty when no slave did.
    """

    why: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class ActingReport:
    """One line for the log, emitted when something changed."""

    text: str


Effect = Beat | Poll | Probe | RegisterFully | Act | FetchProgress | Cease | Return | ActingReport


# Acting master -------------------------------------------------------------------------------


MASTER_ID = 0
CONFIRMATIONS = 3
CONFIRM_MS = 200
"""Poll interval while the master may be gone; otherwise `poll_ms` of the options applies."""
MISSING = "missing"
REGISTER_AGAIN_MS = 5_000
"""The shortest time between two full registrations at a name server that still does not know this
broker. It leaves time for two of them before `not_active_ms` ends."""
BEATS_PER_TIMEOUT = 3
"""The least number of heartbeats within the time after which a name server removes a broker."""
UNSEEN = "unseen"
OLD_SERVER = "does not know GET_BROKER_MEMBER_GROUP: set compatibleWithOldNameSrv=true"

Effects = list[Effect]


@dataclass(frozen=True, slots=True)
class ActingOptions:
    """This broker's identity, and its intervals in ms."""

    cluster: str
    name: str
    own_id: int
    own_address: str
    compat: bool = True
    heartbeat_ms: int = 1_000
    poll_ms: int = 1_000
    not_active_ms: int = 10_000


class Acting:
    """Decides for one member; the service sets `ready`, `able`, `registers`, `linked` and
    `owes`."""

    def __init__(self, options: ActingOptions, servers: tuple[str, ...], now: int) -> None:
        self._options = options
        self.view = GroupView(servers, options.own_id, options.own_address, options.not_active_ms)
        self.ready = False
        """Whether the master's tables were copied once."""
        self.able = True
        """Whether the store can be read and written; a slave whose disk failed must not act."""
        self.registers = True
        """Whether name servers may list this broker (not before a master is online again)."""
        self.acting = False
        self.linked = False
        """As a master: whether a slave copies from this broker, so that the slave can reach it."""
        self._ticked_at = now
        self._beat_at = now
        self._poll_at = dict.fromkeys(servers, now)
        self._polling: dict[str, int] = {}
        """Name servers that have not answered the current poll, and when it was sent (ms)."""
        self._registered_at: dict[tuple[str, str], int] = {}
        self._probe_at = now
        self._probing = False
        self._sure_since: int | None = None
        """Since when everything except the master's own answer speaks for acting (ms)."""
        self._taking_since: int | None = None
        """The `_sure_since` for which the progress of other members is being fetched."""
        self._took_since: int | None = None
        """The `_sure_since` for which the progress of other members was fetched."""
        self._confirmed_at = now
        self._held_until = now
        self.owes = False
        """As a slave: whether the master has not yet copied the progress made here for it. The
        service sets it again after a restart."""
        self._served_since: int | None = None
        """Since when the master answers that it serves but does not copy the progress (ms)."""
        self._asks_members = False
        self._hinted_at = now - CONFIRM_MS
        self._said: dict[str, str] = {}
        self._version = DataVersion()

    # What happens ----------------------------------------------------------------------------

    def tick(self, now: int, version: DataVersion) -> Effects:
        """Return the effects that are due; `version` is that of this broker's topics, for
        heartbeats to old name servers."""
        self._version = version
        still_ms, self._ticked_at = now - self._ticked_at, now
        effects: Effects = []
        if not self.registers:
            self._confirmed_at = now  # this broker is not registered yet
        if still_ms >= self._options.not_active_ms:
            self.view.forget()  # all answers from before are out of date
            effects += self._return(f"this process stood still for {still_ms} ms", now)
        effects += self._judge(now) + self._warn_of_a_stand_in(now)
        if self.registers and now >= self._beat_at:
            options = self._options
            pace = min(options.heartbeat_ms, options.not_active_ms // BEATS_PER_TIMEOUT)
            self._beat_at = now + pace
            effects += [self._beat(address) for address in self.view.servers]
        for address, due_at in self._poll_at.items():
            if now >= due_at and address not in self._polling:
                self._polling[address] = now
                effects.append(Poll(address, self._question()))
        return effects + self._probe(now) + self._ask_members(now)

    def polled(self, address: str, answer: Command | None, now: int, problem: str = "") -> Effects:
        """Handle the answer of a name server to a poll; `answer` is None when none came."""
        options = self._options
        heard = failed(problem) if answer is None else self._read(answer)
        asked_ms = self._polling.pop(address, now)
        before = self.view.suspicious
        news = self.view.heard(address, heard, now, asked_ms)
        if self.view.suspicious and not before:
            self._hurry(now)
        pace = CONFIRM_MS if self._looks_closely else options.poll_ms
        self._poll_at[address] = now + min(pace, options.poll_ms)
        effects: Effects = []
        if heard.problem == OLD_SERVER:
            effects += self._say(address, f"name server {address} {OLD_SERVER}")
        if not news.misses_us and answer is not None:
            self._registered_at.pop((address, MISSING), None)
        elif news.misses_us and self.registers:
            effects += self._register(address, now, MISSING)
        lapsed = now - self._confirmed_at >= options.not_active_ms
        if lapsed and answer is not None and not self.linked:
            effects += self._return("no majority of the name servers knew this master", now)
        if self.acting and news.senior_came:
            effects += self._cease(f"name server {address} shows a smaller id again")
        return effects + self._judge(now)

    def beaten(self, address: str, *, changed: bool, now: int) -> Effects:
        """Handle the answer to a heartbeat of the old kind; `changed`: the name server has another
        version of this broker's topics."""
        if not changed or not self.registers or not self.view.servers[address].named_us:
            return []  # the first registration is not started by a heartbeat
        return self._register(address, now, "other topics")

    def probed(self, probe: Probe, answer: Command | None, now: int) -> Effects:
        """Handle the master's answer to a probe; `answer` is None when none came.

        When this broker is the master: handle the answer of another member that was asked whether
        it acted for this master.
        """
        if self._leads:
            stood_in = answer is not None and (answer.ext or {}).get("stoodIn") == "true"
            why = f"the member at {probe.address} was acting master"
            return self._return(why, now, probe.address) if stood_in else []
        self._probing = False
        if probe.address != self.view.known.get(MASTER_ID):
            return []
        if not says_it_serves(answer):
            self._served_since = None
            return self._judge(now, silent_at=probe.sent_at_ms)
        if self.acting:
            return self._cease(f"the master answers at {probe.address}")
        return self._wait_for_take_back(now) if self.owes else []

    def took(self, now: int) -> Effects:
        """Note that the progress of the other members was fetched, as far as they can be
        reached."""
        self._took_since, self._taking_since = self._taking_since, None
        self._probe_at = now  # the master may have returned meanwhile
        return self._judge(now)

    def lost(self, address: str, now: int) -> None:
        """Note that the connection to a name server closed; the name server is polled again at
        once."""
        self.view.lost(address)
        if address in self._poll_at:
            self._poll_at[address] = min(self._poll_at[address], now + CONFIRM_MS)

    def hint(self, now: int) -> None:
        """Poll now: something may have changed (a 905 came, the connection to the master closed, or
        a member asked whether this broker serves). Hints are limited to one poll in `CONFIRM_MS`,
        because anyone who reaches the port can send one. A hint while a poll is already planned
        does not delay that poll."""
        if self._hinted_at <= now and not self._asks_members:
            self._hinted_at = max(now, self._hinted_at + CONFIRM_MS)
            self._asks_members = self._leads and self.registers
            self._hurry(self._hinted_at)

    def step_down(self, why: str, now: int) -> Effects:
        """Stop acting, and do not act again for `not_active_ms`: the master takes over."""
        self._held_until = now + self._options.not_active_ms
        effects = self._cease(why) if self.acting else []
        self.owes = False
        return effects

    # Deciding --------------------------------------------------------------------------------

    def _judge(self, now: int, silent_at: int | None = None) -> Effects:
        """Decide: act, stop acting, or change nothing. `silent_at`: when the master was asked
        without a usable answer (ms)."""
        view = self.view
        if view.confirming() >= view.majority:
            self._confirmed_at = now
        if self.acting:
            if not self.able:
                return self._cease("the store is fenced")
            if now - self._confirmed_at >= self._options.not_active_ms:
                return self._cease("no majority of the name servers confirms this broker's place")
            return []
        agreed = view.headless(now, CONFIRMATIONS)
        if not self._eligible or now < self._held_until or agreed < view.majority:
            self._sure_since = None
            return []
        if not self.ready:
            return self._say(
                "",
                "this slave may not become acting master: it never copied all its master's tables",
            )
        if self._sure_since is None:
            self._sure_since = self._probe_at = now
        unknown = MASTER_ID not in view.known
        if not unknown and (silent_at is None or silent_at < self._sure_since):
            return []  # the master is probed first
        others = tuple(at for number, at in view.others().items() if number != MASTER_ID)
        if others and self._took_since != self._sure_since:
            return self._fetch_progress(others)
        self.acting = True
        self._said.clear()
        return [Act(f"{agreed} of {len(view.servers)} name servers know no master, it is silent")]

    def _fetch_progress(self, others: tuple[str, ...]) -> Effects:
        """Fetch the progress of `others`: one may have acted while no name server knew this
        broker."""
        if self._taking_since is not None:
            return []
        self._taking_since = self._sure_since
        return [FetchProgress(others)]

    def _return(self, why: str, now: int, address: str = "") -> Effects:
        if not self._leads or not self.registers:
            return []
        self._confirmed_at = now
        return [Return(why, address)]

    def _warn_of_a_stand_in(self, now: int) -> Effects:
        """Warn when no name server lists this master and no slave copies from it. The master goes
        on: it cannot know whether all others are dead or one of them acts for it
        (docs/OPERATING.md)."""
        lapsed = now - self._confirmed_at >= self._options.not_active_ms
        if not self._leads or not self.view.servers or not lapsed or self.linked:
            self._said.pop(UNSEEN, None)
            return []
        text = (
            "no majority of the name servers names this master, and no slave copies its log: if"
            " only it is cut off, a slave becomes acting master, and both deliver delayed,"
            " transactional and popped messages"
        )
        return self._say(UNSEEN, text)

    def _cease(self, why: str) -> Effects:
        self.acting = False
        self.owes = True
        self._served_since = self._sure_since = None
        self._probe_at = self._ticked_at
        for server in self.view.servers.values():
            server.headless = 0
        return [Cease(why)]

    def _wait_for_take_back(self, now: int) -> Effects:
        """End `owes` when the master has served for `not_active_ms` without copying the progress.
        RocketMQ's masters never copy it. No master can before it sees this broker among the
        members."""
        if not self.registers:
            return []
        if self._served_since is None:
            self._served_since = now
        if now - self._served_since < self._options.not_active_ms:
            return []
        self.owes = False
        text = (
            "the master serves and did not take back what was done here: it delivers from its own"
            " progress on; where this slave's is further it stays here"
        )
        return [ActingReport(text)]

    @property
    def _leads(self) -> bool:
        return self._options.own_id == MASTER_ID

    @property
    def _eligible(self) -> bool:
        return not self._leads and self.registers and self.able

    @property
    def _looks_closely(self) -> bool:
        """Whether this slave is finding out if the master is gone, and therefore polls faster."""
        return self._eligible and not self.acting and self.view.suspicious

    # Requests --------------------------------------------------------------------------------

    def _hurry(self, at: int) -> None:
        self._poll_at = {address: min(due, at) for address, due in self._poll_at.items()}
        self._probe_at = min(self._probe_at, at)

    def _probe(self, now: int) -> Effects:
        address = self.view.known.get(MASTER_ID)
        wanted = self.acting or self._sure_since is not None or (self.owes and self.registers)
        if address is None or not wanted or self._probing or now < self._probe_at:
            return []
        self._probing = True
        self._probe_at = now + self._options.poll_ms
        return [Probe(address, _whether_it_serves(), now)]

    def _ask_members(self, now: int) -> Effects:
        if not self._asks_members or not self.registers or now < self._hinted_at:
            return []
        self._asks_members = False
        options, known = self._options, self.view.known
        others = [at for number, at in known.items() if number != options.own_id]
        asked = [at for at in others if at != options.own_address]
        return [Probe(address, _whether_it_serves(), now) for address in asked]

    def _register(self, address: str, now: int, why: str) -> Effects:
        last = self._registered_at.get((address, why))
        pause = min(REGISTER_AGAIN_MS, self._options.not_active_ms // 2)
        if last is not None and now - last < pause:
            return []
        self._registered_at[address, why] = now
        return [RegisterFully(address)]

    def _beat(self, address: str) -> Beat:
        options = self._options
        if not options.compat:
            header = BrokerHeartbeatHeader(options.cluster, options.own_address, options.name)
            return Beat(address, request(RequestCode.BROKER_HEARTBEAT, header), asked=False)
        old = QueryDataVersionHeader(
            options.name, options.own_address, options.cluster, options.own_id
        )
        body = encode_body(self._version)
        return Beat(address, request(RequestCode.QUERY_DATA_VERSION, old, body), asked=True)

    def _question(self) -> Command:
        options = self._options
        return question(options.cluster, options.name, compat=options.compat)

    def _read(self, answer: Command) -> NameServerAnswer:
        options = self._options
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and not options.compat:
            return failed(OLD_SERVER)
        return read(answer, options.cluster, options.name, compat=options.compat)

    def _say(self, about: str, text: str) -> Effects:
        """Report `text`, unless the last report about the same subject was the same."""
        if self._said.get(about) == text:
            return []
        self._said[about] = text
        return [ActingReport(text)]

    # Figures ---------------------------------------------------------------------------------

    def next_deadline(self) -> int:
        """Return when `tick` has something to do even if nothing else happens (monotonic ms)."""
        wanted = [at for address, at in self._poll_at.items() if address not in self._polling]
        if self.registers and self.view.servers:
            wanted.append(self._beat_at)
        return min(wanted, default=FOREVER)

    def statistics(self) -> dict[str, int]:
        return {"acting": int(self.acting), **self.view.statistics()}


def _whether_it_serves() -> Command:
    """Return a 906 without fields, which asks a broker whether it serves."""
    return request(RequestCode.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfoHeader())


def says_it_serves(answer: Command | None) -> bool:
    """Return whether the answer of a master's address to a 906 without fields means that it serves.

    A master that is not online yet answers without its address. A broker that does not know the
    request (RocketMQ 4) counts as serving.
    """
    if answer is None:
        return False
    if answer.code != ResponseCode.SUCCESS:
        return True
    return bool((answer.ext or {}).get("masterAddress"))
