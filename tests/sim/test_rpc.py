"""Calls are answered, time out in a cut, and fail at once when the process is gone."""

from sim.kernel.host import Host
from sim.kernel.net import Net
from sim.kernel.rpc import Rpc, Session
from sim.kernel.world import MS, SECOND, World

from epochmq.wire.command import Command, Reply, request


class Echo:
    """Answers every request with its own code; keeps what it saw."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.seen: list[int] = []
        self.closed: list[str] = []
        self.mute = False

    def wake(self, now: int) -> int | None:
        return None

    def state_line(self) -> str:
        return "echo"

    def request(self, command: Command, session: Session) -> None:
        self.seen.append(command.code)
        if not self.mute:
            session.answer(command, Reply(command.code, "hello", {"from": self.host.name}))

    def session_closed(self, session: Session) -> None:
        self.closed.append(session.peer)


class Caller:
    def __init__(self) -> None:
        self.world = World(5)
        self.net = Net(self.world)
        for name in ("a", "b"):
            self.world.start(self.world.add_host(name, Echo))
        self.a, self.b = self.world.hosts["a"], self.world.hosts["b"]
        self.rpc = Rpc(self.net, self.a)
        self.heard: list[object] = []
        self.rpc.on_closed = lambda name: self.heard.append(f"closed {name}")

    def call(self, code: int, *, oneway: bool = False) -> None:
        self.rpc.call(
            "b",
            request(code, {"x": "1"}, oneway=oneway),
            100 * MS,
            lambda answer: self.heard.append((answer.code, answer.ext)),
            lambda lost: self.heard.append("lost" if lost else "timeout"),
        )

    def run(self, ms: int = 1000) -> None:
        self.world.run_until(self.world.time_us + ms * MS)

    @property
    def echo(self) -> Echo:
        assert isinstance(self.b.process, Echo)
        return self.b.process


def test_calls_share_a_connection_and_are_answered_in_order() -> None:
    caller = Caller()
    for code in (1, 2, 3):
        caller.call(code)
    caller.call(4, oneway=True)
    caller.run()
    assert caller.heard == [(n, {"from": "b"}) for n in (1, 2, 3)]
    assert caller.echo.seen == [1, 2, 3, 4]
    assert len(caller.net.streams) == 1


def test_a_cut_is_silence_and_the_late_answer_still_comes() -> None:
    caller = Caller()
    caller.call(1)
    caller.run()
    caller.net.cut("b", "a")
    caller.call(2)
    caller.run()
    assert caller.heard[1:] == ["timeout"]
    caller.net.heal_all()
    caller.run()
    assert caller.heard[2:] == [(2, {"from": "b"})]


def test_a_dead_process_is_heard_of_a_dead_machine_is_not() -> None:
    caller = Caller()
    caller.echo.mute = True
    caller.call(1)
    caller.run(50)
    caller.world.kill(caller.b)
    caller.run(30)
    assert caller.heard == ["lost", "closed b"]
    caller.call(2)
    caller.run(30)
    assert caller.heard[2:] == ["lost", "closed b"]
    caller.world.start(caller.b)
    caller.world.power_off(caller.b)
    caller.call(3)
    caller.run(90)
    assert caller.heard[4:] == []
    caller.run()
    assert caller.heard[4:] == ["timeout"]


def test_the_server_hears_of_a_caller_that_died() -> None:
    caller = Caller()
    caller.call(1)
    caller.run()
    caller.world.kill(caller.a)
    caller.run()
    assert caller.echo.closed == ["a"]


def test_requests_are_lost_and_doubled() -> None:
    caller = Caller()
    caller.net.weather.loss_permille = caller.net.weather.double_permille = 200
    for code in range(100, 600):
        caller.call(code)
    caller.run()
    seen = caller.echo.seen
    assert 350 < len(set(seen)) < 450
    assert 50 < len(seen) - len(set(seen)) < 150
    assert caller.heard.count("timeout") == 500 - len(set(seen))
    assert SECOND > 0
