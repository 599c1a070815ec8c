"""Any history of name servers, masters and links: never two that say they serve.

The world below knows the truth; the core knows only what it is told. Checked at every moment: a
slave takes the acting role only while the master does not serve or cannot be reached from here; it
leaves the role at the moment it learns that the master serves; after a real death, with name
servers in order, it acts within a bound.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from epochmq.broker.group.acting_master import (
    Act,
    Acting,
    ActingOptions,
    Cease,
    Effect,
    Poll,
    Probe,
    RegisterFully,
)
from epochmq.model.data_version import DataVersion
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command
from epochmq.wire.json_tolerant import dumps_bare

MASTER, OURS = "m:1", "s:1"
QUIET = 2_000
BOUND_MS = QUIET + 3_000
"""A name server may have been started just before, and is believed `QUIET` later."""
STEP_MS = 100
SERVING = Command(ResponseCode.SUCCESS, ext={"masterAddress": MASTER})
ISOLATED = Command(ResponseCode.SUCCESS, ext={"masterFlushOffset": "0"})


class NameServer:
    """Whom it knows, until when; forgets all at a restart."""

    def __init__(self) -> None:
        self.up = True
        self.sees_master = True
        self.reached = True
        """From the slave."""
        self.heard: dict[int, int] = {}

    def known(self, now: int) -> dict[int, str]:
        names = {0: MASTER, 1: OURS}
        return {n: names[n] for n, at in sorted(self.heard.items()) if now - at < QUIET}


class Machine(RuleBasedStateMachine):
    """One slave, one master, one to five name servers."""

    @initialize(count=st.integers(1, 5))
    def begin(self, count: int) -> None:
        self.now = 0
        self.servers = {f"n{n}:1": NameServer() for n in range(count)}
        self.serves, self.alive, self.linked = True, True, True
        self.calm_since = 0
        options = ActingOptions("c", "b", 1, OURS, compat=False, not_active_ms=QUIET)
        self.core = Acting(options, tuple(self.servers), 0)
        self.core.ready = True
        self.acting = False
        for server in self.servers.values():
            server.heard[1] = 0  # registered; from now on the core sees to it
        self.step()

    def broken(self) -> None:
        self.calm_since = self.now

    # What happens in the world ---------------------------------------------------------------

    @rule(data=st.data())
    def restart_name_server(self, data: st.DataObject) -> None:
        address = data.draw(st.sampled_from(sorted(self.servers)))
        self.servers[address].heard.clear()
        self.core.lost(address, self.now)
        self.broken()

    @rule(data=st.data(), up=st.booleans())
    def stop_or_start_name_server(self, data: st.DataObject, up: bool) -> None:
        address = data.draw(st.sampled_from(sorted(self.servers)))
        server = self.servers[address]
        server.up = up
        server.heard.clear()
        self.core.lost(address, self.now)
        self.broken()

    @rule(data=st.data(), sees=st.booleans(), reached=st.booleans())
    def partition(self, data: st.DataObject, sees: bool, reached: bool) -> None:
        server = self.servers[data.draw(st.sampled_from(sorted(self.servers)))]
        server.sees_master, server.reached = sees, reached
        self.broken()

    @rule(data=st.data())
    def flap(self, data: st.DataObject) -> None:
        """The master's connection to one name server breaks; it registers again soon."""
        server = self.servers[data.draw(st.sampled_from(sorted(self.servers)))]
        server.heard.pop(0, None)

    @rule()
    def kill_master(self) -> None:
        self.alive = self.serves = False
        for server in self.servers.values():
            server.heard.pop(0, None)
        self.broken()

    @rule(isolated=st.booleans())
    def start_master(self, isolated: bool) -> None:
        if isolated and self.acting:
            self.take(self.core.step_down("hand-over", self.now))
            assert not self.acting
        self.alive, self.serves = True, not isolated
        self.broken()

    @rule(linked=st.booleans())
    def cut_link(self, linked: bool) -> None:
        """Between slave and master."""
        self.linked = linked
        self.broken()

    @rule()
    def hint(self) -> None:
        self.core.hint(self.now)

    @rule(steps=st.integers(1, 60))
    def pass_time(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    # What the shell does ---------------------------------------------------------------------

    def step(self) -> None:
        self.now += STEP_MS
        for server in self.servers.values():
            if server.up and self.alive and self.serves and server.sees_master:
                server.heard[0] = self.now
            if server.up and server.reached and 1 in server.heard:
                server.heard[1] = self.now
        self.take(self.core.tick(self.now, DataVersion()))

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.take(self.carry_out(effect))

    def carry_out(self, effect: Effect) -> list[Effect]:
        core, now = self.core, self.now
        if isinstance(effect, Poll):
            server = self.servers[effect.address]
            if not server.up or not server.reached:
                return core.polled(effect.address, None, now, "unreachable")
            group = {"brokerAddrs": server.known(now)}
            body = dumps_bare({"brokerMemberGroup": group})
            return core.polled(effect.address, Command(ResponseCode.SUCCESS, body=body), now)
        if isinstance(effect, Probe):
            return self.answer_probe(effect)
        if isinstance(effect, RegisterFully):
            server = self.servers[effect.address]
            if server.up and server.reached:
                server.heard[1] = now
        if isinstance(effect, Act):
            assert not self.acting
            assert not (self.serves and self.linked), "acting beside a master that can be asked"
            self.acting = True
        if isinstance(effect, Cease):
            assert self.acting
            self.acting = False
        return []

    def answer_probe(self, probe: Probe) -> list[Effect]:
        if not self.alive or not self.linked:
            return self.core.probed(probe, None, self.now)
        effects = self.core.probed(probe, SERVING if self.serves else ISOLATED, self.now)
        if self.serves:
            assert not self.core.acting, "it goes on although it knows that the master serves"
        return effects

    # What must hold --------------------------------------------------------------------------

    @invariant()
    def the_shell_knows_what_the_core_decided(self) -> None:
        if hasattr(self, "core"):
            assert self.core.acting is self.acting

    @invariant()
    def a_master_that_can_be_asked_ends_it_within_a_period(self) -> None:
        if not hasattr(self, "core") or not self.acting:
            return
        if self.serves and self.linked:
            assert self.now - self.calm_since <= 1_000 + STEP_MS

    @invariant()
    def it_acts_in_time(self) -> None:
        if not hasattr(self, "core") or self.alive:
            return
        well = sum(one.up and one.reached for one in self.servers.values())
        calm_ms = self.now - self.calm_since
        if well >= self.core.view.majority and calm_ms > BOUND_MS + QUIET:
            assert self.acting


TestMachine: Any = Machine.TestCase
