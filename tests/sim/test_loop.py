"""Services on the heap: turns and timers in order, broken connections, threads that take time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from sim.kernel.host import Host
from sim.kernel.loop import PRUNE, SimLoop
from sim.kernel.net import Net
from sim.kernel.plan import Plan
from sim.kernel.runtime_patches import SimSockets, SimThread, led_here, loop_here
from sim.kernel.violation import Violation
from sim.kernel.world import MS, SECOND, World
from sim.tools.worlds import run

from epochmq.broker.server import broker_server as broker_service

PLACES = {"10.0.0.1": "a", "10.0.0.2": "b"}


class Running:
    """A process that is a loop."""

    def __init__(self, net: Net, host: Host) -> None:
        self.loop = SimLoop(net, host, PLACES)

    def wake(self, now: int) -> int | None:
        return None

    def state_line(self) -> str:
        return "a loop"


class Two:
    """Two hosts; what tasks say is in `said`, with its time in ms."""

    def __init__(self) -> None:
        self.world = World(5)
        self.net = Net(self.world)
        self.said: list[tuple[int, Any]] = []
        for name in "ab":
            self.world.start(self.world.add_host(name, lambda h: Running(self.net, h)))

    def loop(self, name: str) -> SimLoop:
        process = self.world.hosts[name].process
        assert isinstance(process, Running)
        return process.loop

    def begin(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        loop = self.loop(name)
        loop.run(lambda: loop.create_task(work()))

    def say(self, what: Any) -> None:
        self.said.append((self.world.time_us // MS, what))

    def run(self, ms: int = 1000) -> list[Any]:
        self.world.run_until(self.world.time_us + ms * MS)
        return [what for _, what in self.said]


@pytest.fixture
def two() -> Two:
    return Two()


def test_time_passes_only_in_timers_and_calls_keep_their_order(two: Two) -> None:
    async def work() -> None:
        loop = loop_here()
        loop.call_soon(two.say, "first")
        loop.call_soon(two.say, "second").cancel()
        loop.call_soon(two.say, "third")
        await asyncio.sleep(0.2)
        two.say("later")

    two.begin("a", work)
    assert two.run() == ["first", "third", "later"]
    assert [at for at, _ in two.said] == [0, 0, 200]


def test_a_power_cut_begins_another_boot_and_a_kill_does_not(two: Two) -> None:
    """Else a store takes the torn end of its log for damage (ADR 0073)."""
    host = two.world.hosts["a"]

    async def work() -> None:
        two.say(await SimThread().run(lambda: vars(broker_service)["boot_id"]()))

    with led_here():
        for end in (two.world.kill, two.world.power_off, two.world.kill):
            two.begin("a", work)
            two.run()
            end(host)
            two.world.start(host)
    first, after_kill, after_cut = (what for _, what in two.said)
    assert first == after_kill != after_cut


def test_a_timeout_ends_what_waits(two: Two) -> None:
    async def work() -> None:
        try:
            async with asyncio.timeout(0.1):
                await asyncio.Event().wait()
        except TimeoutError:
            two.say("over")

    two.begin("a", work)
    assert two.run() == ["over"]
    assert two.said[0][0] == 100


def test_a_killed_process_goes_on_with_nothing(two: Two) -> None:
    async def work() -> None:
        await asyncio.sleep(0.1)
        two.say("never")

    two.begin("a", work)
    two.run(50)
    loop = two.loop("a")
    two.world.kill(two.world.hosts["a"])
    assert two.run() == []
    loop.bury()
    assert two.said == []


def test_what_nobody_catches_ends_the_history(two: Two) -> None:
    async def work() -> None:
        raise KeyError("lost")

    two.begin("a", work)
    two.run(10)
    two.loop("a").look_at_tasks()
    with pytest.raises(Violation, match="lost"):
        two.loop("a").run(lambda: None)


def test_a_failure_that_is_asked_for_in_the_next_turn_is_no_fault(two: Two) -> None:
    """Ended tasks are looked through while tasks are made; the callbacks of some are to run yet."""

    async def fails() -> None:
        raise KeyError("heard")

    async def passes() -> None:
        pass

    async def work() -> None:
        loop = loop_here()
        failing = loop.create_task(fails())
        await asyncio.sleep(0)  # it has failed; what waits for it runs in the next turn
        failing.add_done_callback(lambda done: two.say(repr(done.exception())))
        for _ in range(2 * PRUNE):
            loop.create_task(passes())

    two.begin("a", work)
    assert two.run(100) == ["KeyError('heard')"]


def test_bytes_arrive_in_order_and_the_end_is_told(two: Two) -> None:
    sockets = SimSockets()
    got: list[bytes] = []

    async def serve() -> None:
        loop = loop_here()
        listener, _ = sockets.listen("", 7)

        def accept() -> None:
            found = sockets.accept(listener)
            assert found is not None
            sock, buffer = found[0], bytearray(16)

            def read() -> None:
                count = sock.recv_into(memoryview(buffer))
                got.append(bytes(buffer[:count]))
                if not count:
                    loop.remove_reader(sock.fileno())

            loop.add_reader(sock.fileno(), read)

        loop.add_reader(listener.fileno(), accept)

    async def call() -> None:
        sock = await sockets.connect("10.0.0.2", 7, 500)
        sock.send(b"one")
        sock.sendmsg((b"tw", b"o"))
        await asyncio.sleep(0.1)
        sock.close()

    two.begin("b", serve)
    two.begin("a", call)
    two.run()
    assert b"".join(got) == b"onetwo"
    assert got[-1] == b""


def test_nobody_listens_or_nobody_hears(two: Two) -> None:
    async def call() -> None:
        try:
            await SimSockets().connect("10.0.0.2", 7, 300)
        except Exception as error:
            two.say(type(error).__name__)

    two.world.kill(two.world.hosts["b"])
    two.begin("a", call)
    assert two.run() == ["NotReachable"]
    assert two.said[0][0] < 100
    two.net.cut("a", "b")
    two.begin("a", call)
    assert two.run() == ["NotReachable", "NotReachable"]
    assert two.said[1][0] == 1300


def test_a_blocking_call_takes_time_and_keeps_its_place(two: Two) -> None:
    async def work() -> None:
        thread = SimThread()

        def fails() -> None:
            raise OSError("no")

        first = asyncio.ensure_future(thread.run(lambda: two.say("one")))
        second = asyncio.ensure_future(thread.run(fails))
        assert await thread.run(lambda: 3) == 3
        await first
        with pytest.raises(OSError, match="no"):
            await second
        two.say("done")

    two.begin("a", work)
    two.world.hosts["a"].slow = 100
    assert two.run(10 * SECOND // MS) == ["one", "done"]
    assert two.said[1][0] > two.said[0][0]


def test_a_history_that_ends_while_a_service_closes_leaves_nothing() -> None:
    """It made its last tasks on the thread's own loop, or, without one, coroutines that nobody
    awaits: which is an error of the test that runs then."""
    asyncio.set_event_loop(None)  # as after any `asyncio.run`
    run(Plan("acting", 38))
