"""When a slave stands in for its master, and when it ceases to (RIP-32, with H1 to H3 closed).

Upstream acts on one poll of one name server. Here a slave takes the acting role only when

- a majority of all configured name servers, `CONFIRMATIONS` times in a row, named it and no
  smaller id, and each of them is believed (see `name_servers_view.py`: not one that was just
  started);
- after that the master, asked at the last address anybody told, does not say that it serves;
- the progress of another slave that stood in until now was taken, if it can be reached;
- the master's tables were copied once, for a log without its topics is of no use (S15).

It ceases at once when any name server shows a smaller id that it did not show before, when the
master answers that it serves, when the master hands over (`step_down`), and when no majority has
confirmed its place for `not_active_ms`: by then others may have taken it.

A master that stood still for `not_active_ms`, or that no majority knew for so long while no slave
copied from it, may have been stood in for: it is to come back as after a restart (H1). Shorter
ones it cannot know of by itself, so whoever stood in says so: a slave that ceased although the
master did not take its progress back (`owes`) copies no tables, asks the master once a period and
answers `stoodIn` when that asks back; then the master returns through it (INV-29).

A name server that does not know this broker is told at once (H2), whatever the role. Pure:
monotonic ms; the shell sends, and reports what came.
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
# What the core of an acting slave wants done.


@dataclass(frozen=True, slots=True)
class Beat:
    """Tell the name server at `address` that we live.

    `asked`: it answers whether it knows what we registered; report that to `beaten`.
    """

    address: str
    command: Command
    asked: bool


@dataclass(frozen=True, slots=True)
class Poll:
    """Ask the name server at `address` for the group's members; report `polled` once."""

    address: str
    command: Command


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask the master itself; report `probed` once, with the same effect."""

    address: str
    command: Command
    sent_at_ms: int


@dataclass(frozen=True, slots=True)
class RegisterFully:
    """Register fully at this name server, now: it does not know us (H2)."""

    address: str


@dataclass(frozen=True, slots=True)
class Act:
    """Take the acting role."""

    why: str


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """Fetch the progress of those members that were acting master; report `took` once."""

    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cease:
    """Be an ordinary slave again, at once."""

    why: str


@dataclass(frozen=True, slots=True)
class Return:
    """As a master: come back through the group, for somebody may have stood in meanwhile.

    `address`: of the member that says so, if one does.
    """

    why: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class ActingReport:
    """One line for the log, when something changed."""

    text: str


Effect = Beat | Poll | Probe | RegisterFully | Act | FetchProgress | Cease | Return | ActingReport


# Acting master -------------------------------------------------------------------------------


MASTER_ID = 0
CONFIRMATIONS = 3
CONFIRM_MS = 200
"""Pace of questions while the master may be gone; else that of the options."""
MISSING = "missing"
REGISTER_AGAIN_MS = 5_000
"""A name server that still does not know us after we registered is not told faster than this, but
twice before somebody may believe that nobody is there (`not_active_ms`)."""
BEATS_PER_TIMEOUT = 3
"""Heartbeats that fit into the time after which a name server forgets us, at least."""
UNSEEN = "unseen"
OLD_SERVER = "does not know GET_BROKER_MEMBER_GROUP: set compatibleWithOldNameSrv=true"

Effects = list[Effect]


@dataclass(frozen=True, slots=True)
class ActingOptions:
    """Who we are, and the paces, in ms."""

    cluster: str
    name: str
    own_id: int
    own_address: str
    compat: bool = True
    heartbeat_ms: int = 1_000
    poll_ms: int = 1_000
    not_active_ms: int = 10_000


class Acting:
    """One member's part. `ready`, `able` and `registers` are the shell's to set."""

    def __init__(self, options: ActingOptions, servers: tuple[str, ...], now: int) -> None:
        self._options = options
        self.view = GroupView(servers, options.own_id, options.own_address, options.not_active_ms)
        self.ready = False
        """Whether the master's tables were copied once."""
        self.able = True
        """Whether the store can be read and kept; a slave whose disk failed is of no use."""
        self.registers = True
        """Whether name servers may know of us (not before a master is online again)."""
        self.acting = False
        self.linked = False
        """As a master: whether a slave copies from here, so that it reaches us."""
        self._ticked_at = now
        self._beat_at = now
        self._poll_at = dict.fromkeys(servers, now)
        self._polling: dict[str, int] = {}
        """Name servers that have not answered yet, and when they were asked."""
        self._registered_at: dict[tuple[str, str], int] = {}
        self._probe_at = now
        self._probing = False
        self._sure_since: int | None = None
        """Since when all but the master's own silence speaks for acting."""
        self._taking_since: int | None = None
        """The `_sure_since` for which the progress of other members is being fetched."""
        self._took_since: int | None = None
        """The `_sure_since` for which the progress of other members was fetched."""
        self._confirmed_at = now
        self._held_until = now
        self.owes = False
        """As a slave: whether the master has yet to take back what was done here for it; the shell
        sets it again after a restart."""
        self._served_since: int | None = None
        """Since when the master says that it serves, and takes nothing back."""
        self._asks_members = False
        self._hinted_at = now - CONFIRM_MS
        self._said: dict[str, str] = {}
        self._version = DataVersion()

    # What happens ----------------------------------------------------------------------------

    def tick(self, now: int, version: DataVersion) -> Effects:
        """Whatever is due; `version` is that of our topics, for heartbeats of the old kind."""
        self._version = version
        still_ms, self._ticked_at = now - self._ticked_at, now
        effects: Effects = []
        if not self.registers:
            self._confirmed_at = now  # nobody is to know us yet
        if still_ms >= self._options.not_active_ms:
            self.view.forget()  # it is an old story who was there
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
        """A name server answered, or (None) did not."""
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
        """A name server answered a heartbeat of the old kind: whether it knows another state."""
        if not changed or not self.registers or not self.view.servers[address].named_us:
            return []  # registering for the first time is no answer to a heartbeat
        return self._register(address, now, "other topics")

    def probed(self, probe: Probe, answer: Command | None, now: int) -> Effects:
        """The master was asked: it says that it serves, or something else, or nothing.

        Of a master: another member was asked whether it stood in.
        """
        if self._leads:
            stood_in = answer is not None and (answer.ext or {}).get("stoodIn") == "true"
            why = f"the member at {probe.address} stood in for this master"
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
        """What other members did for the master is known here, as far as they can be reached."""
        self._took_since, self._taking_since = self._taking_since, None
        self._probe_at = now  # the master may have returned meanwhile
        return self._judge(now)

    def lost(self, address: str, now: int) -> None:
        """The connection to a name server closed; it is asked again at once."""
        self.view.lost(address)
        if address in self._poll_at:
            self._poll_at[address] = min(self._poll_at[address], now + CONFIRM_MS)

    def hint(self, now: int) -> None:
        """Something may have changed (905, the master hung up, or was asked whether it serves): ask
        now, but not all the time, for whoever reaches the port can say so. While a question waits
        for its time another hint does not put it off."""
        if self._hinted_at <= now and not self._asks_members:
            self._hinted_at = max(now, self._hinted_at + CONFIRM_MS)
            self._asks_members = self._leads and self.registers
            self._hurry(self._hinted_at)

    def step_down(self, why: str, now: int) -> Effects:
        """The master takes over: no acting from now on, and for as long as it may need to."""
        self._held_until = now + self._options.not_active_ms
        effects = self._cease(why) if self.acting else []
        self.owes = False
        return effects

    # Deciding --------------------------------------------------------------------------------

    def _judge(self, now: int, silent_at: int | None = None) -> Effects:
        """Act, cease, or leave it as it is; `silent_at`: the master was asked then, in vain."""
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
                "", "this slave may not stand in: it never copied all its master's tables"
            )
        if self._sure_since is None:
            self._sure_since = self._probe_at = now
        unknown = MASTER_ID not in view.known
        if not unknown and (silent_at is None or silent_at < self._sure_since):
            return []  # to be asked now, if it was not
        others = tuple(at for number, at in view.others().items() if number != MASTER_ID)
        if others and self._took_since != self._sure_since:
            return self._fetch_progress(others)
        self.acting = True
        self._said.clear()
        return [Act(f"{agreed} of {len(view.servers)} name servers know no master, it is silent")]

    def _fetch_progress(self, others: tuple[str, ...]) -> Effects:
        """Ask whether one of `others` was acting master while no name server knew this broker."""
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
        """Nobody hears a master, and it hears nobody: it goes on, for it cannot know whether all
        others are dead, or one of them stands in for it (docs/OPERATING.md)."""
        lapsed = now - self._confirmed_at >= self._options.not_active_ms
        if not self._leads or not self.view.servers or not lapsed or self.linked:
            self._said.pop(UNSEEN, None)
            return []
        text = (
            "no majority of the name servers names this master, and no slave copies its log: if"
            " only it is cut off, a slave stands in, and both deliver delayed, transactional and"
            " popped messages"
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
        """RocketMQ's masters never will. None can before it sees us among the members."""
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
        """Whether it is being found out if the master is gone."""
        return self._eligible and not self.acting and self.view.suspicious

    # Asking and telling ----------------------------------------------------------------------

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
        """A line for the log, unless the last one on this matter said the same."""
        if self._said.get(about) == text:
            return []
        self._said[about] = text
        return [ActingReport(text)]

    # Figures ---------------------------------------------------------------------------------

    def next_deadline(self) -> int:
        """When `tick` does something, if nothing else happens."""
        wanted = [at for address, at in self._poll_at.items() if address not in self._polling]
        if self.registers and self.view.servers:
            wanted.append(self._beat_at)
        return min(wanted, default=FOREVER)

    def statistics(self) -> dict[str, int]:
        return {"acting": int(self.acting), **self.view.statistics()}


def _whether_it_serves() -> Command:
    """906 without fields."""
    return request(RequestCode.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfoHeader())


def says_it_serves(answer: Command | None) -> bool:
    """Whether what a master's address answered to a 906 without fields means that it serves.

    A master that is not online yet answers without its address; one that does not know the
    request (RocketMQ 4) is there.
    """
    if answer is None:
        return False
    if answer.code != ResponseCode.SUCCESS:
        return True
    return bool((answer.ext or {}).get("masterAddress"))
