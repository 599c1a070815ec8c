"""Messages get lost, streams keep order; cuts hold and release; resets tell of dead processes."""

from sim.kernel.host import Host
from sim.kernel.net import Ends, Net, Stream, Weather
from sim.kernel.world import SECOND, World
from tests.sim.test_world import Idle


def network(**weather: int) -> tuple[World, Net, Host, Host]:
    world = World(3)
    net = Net(world, Weather(**weather))
    hosts = [world.add_host(name, lambda h: Idle(h, [])) for name in "ab"]
    for host in hosts:
        world.start(host)
    return world, net, hosts[0], hosts[1]


class Pair:
    """A stream from a to b, and what each end heard."""

    def __init__(self, net: Net, a: Host, b: Host) -> None:
        self.heard: list[list[object]] = [[], []]
        self.streams: list[Stream] = []
        self.refused = 0
        net.connect(a, b, self.accept, Ends(self.opened, self.refuse))

    def accept(self, stream: Stream) -> None:
        self.wire(stream, 1)

    def opened(self, stream: Stream) -> None:
        self.streams.append(stream)
        self.wire(stream, 0)

    def refuse(self) -> None:
        self.refused += 1

    def wire(self, stream: Stream, end: int) -> None:
        stream.on_bytes[end] = self.heard[end].append
        stream.on_closed[end] = lambda: self.heard[end].append("closed")


def joined() -> tuple[World, Net, Host, Host, Pair]:
    world, net, a, b = network()
    pair = Pair(net, a, b)
    world.run_until(SECOND)
    assert len(pair.streams) == 1
    return world, net, a, b, pair


def test_messages_are_lost_doubled_and_delayed() -> None:
    world, net, a, b = network(loss_permille=300, double_permille=300)
    got: list[int] = []
    for number in range(1000):
        net.send(a, b, "m", lambda n=number: got.append(n))
    world.run_until(SECOND)
    assert 600 < len(set(got)) < 800
    assert 200 < len(got) - len(set(got)) < 400
    assert got != sorted(got)


def test_cuts_are_one_way_and_counted() -> None:
    world, net, a, b = network()
    got: list[str] = []
    net.cut("a", "b")
    net.cut("a", "b")
    net.heal("a", "b")
    net.send(a, b, "m", lambda: got.append("there"))
    net.send(b, a, "m", lambda: got.append("back"))
    world.run_until(SECOND)
    assert got == ["back"]
    net.heal("a", "b")
    assert net.passes("a", "b")


def test_a_stream_keeps_order_and_survives_a_cut() -> None:
    world, net, _a, b, pair = joined()
    stream = pair.streams[0]
    for number in range(20):
        stream.send(0, b"%d" % number)
    net.cut("a", "b")
    stream.send(0, b"held")
    world.run_until(2 * SECOND)
    assert pair.heard[1] == [b"%d" % n for n in range(20)]
    stream.send(1, b"answer")
    net.heal_all()
    stream.send(0, b"after")
    world.run_until(3 * SECOND)
    assert pair.heard[1][20:] == [b"held", b"after"]
    assert pair.heard[0] == [b"answer"]
    stream.close(1)
    world.run_until(4 * SECOND)
    assert pair.heard[0][-1] == "closed"
    assert not net.streams
    assert b.up


def test_a_killed_process_resets_its_streams() -> None:
    world, net, _a, b, pair = joined()
    pair.streams[0].send(1, b"last words")
    world.kill(b)
    world.run_until(2 * SECOND)
    assert pair.heard[0] == [b"last words", "closed"]
    assert not net.streams


def test_a_machine_without_power_is_silent_until_it_is_back() -> None:
    world, net, a, b, pair = joined()
    world.power_off(b)
    pair.streams[0].send(0, b"anybody?")
    world.run_until(2 * SECOND)
    assert pair.heard[0] == []
    world.start(b)
    pair.streams[0].send(0, b"hello?")
    world.run_until(3 * SECOND)
    assert pair.heard == [["closed"], []]
    assert not net.streams
    assert a.up


def test_a_machine_goes_on_sending_for_a_killed_process_but_not_without_power() -> None:
    for power in (False, True):
        world, net, _a, b, pair = joined()
        net.cut("b", "a")
        pair.streams[0].send(1, b"held")
        (world.power_off if power else world.kill)(b)
        world.run_until(2 * SECOND)
        world.start(b)
        net.heal_all()
        world.run_until(3 * SECOND)
        assert pair.heard[0] == ([] if power else [b"held", "closed"])


def test_nothing_arrives_over_a_stream_that_broke_or_was_closed() -> None:
    """Signals too: requests and answers of `sim.kernel.rpc` travel as those."""
    for end in (0, 1):
        world, net, _a, _b, pair = joined()
        stream, heard = pair.streams[0], []
        stream.signal(end, "under way", lambda heard=heard: heard.append("broken"))
        net.reset("a", "b")
        world.run_until(2 * SECOND)
        world, net, _a, _b, pair = joined()
        stream = pair.streams[0]
        stream.signal(end, "under way", lambda heard=heard: heard.append("closed"))
        stream.close(end)
        world.run_until(2 * SECOND)
        assert heard == []


def test_connecting_to_a_dead_process_is_refused_to_a_dead_machine_is_not() -> None:
    world, net, a, b = network()
    world.kill(b)
    pair = Pair(net, a, b)
    world.run_until(SECOND)
    assert pair.refused == 1
    world.start(b)
    world.power_off(b)
    pair = Pair(net, a, b)
    net.cut("a", "b")
    Pair(net, a, b)
    world.run_until(2 * SECOND)
    assert (pair.refused, pair.streams) == (0, [])


def test_a_reset_is_heard_at_both_ends() -> None:
    world, net, a, b, pair = joined()
    pair.streams[0].send(0, b"lost")
    net.reset("b", "a")
    world.run_until(2 * SECOND)
    assert pair.heard == [["closed"], ["closed"]]
    assert not net.streams
    assert a.up
    assert b.up
