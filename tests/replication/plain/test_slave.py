from dataclasses import replace

from tests.replication.world import FakeLog, log

from epochmq.replication.frames import LinkState
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.plain.plain_frames import encode_head, encode_report
from epochmq.replication.plain.slave import PlainSlaveCore
from epochmq.replication.replication_effects import (
    Acknowledge,
    AppendData,
    AwaitSync,
    Close,
    Effects,
    Reset,
    SendData,
    Truncate,
)

OPTIONS = ReplicationOptions()


class Runner:
    """Carries out what concerns the log; keeps what is sent."""

    def __init__(self, held: FakeLog, options: ReplicationOptions = OPTIONS) -> None:
        self.log = held
        self.core = PlainSlaveCore(held, options)
        self.sent: list[bytes] = []
        self.closed: list[str] = []
        self.cuts: list[int] = []
        self.awaited: list[int] = []

    def run(self, effects: Effects) -> "Runner":
        held = False
        for effect in effects:
            match effect:
                case AppendData(offset, data):
                    assert offset == self.log.end
                    self.log.end += len(data)
                case Acknowledge():
                    self.run(self.core.acknowledge(0))
                case SendData(0, data):
                    self.sent.append(data)
                case Close(0, reason):
                    self.closed.append(reason)
                case AwaitSync(offset):
                    self.awaited.append(offset)
                case Truncate(offset):
                    held = True
                    self.cuts.append(offset)
                    self.log.end, self.log.torn = offset, 0
                case Reset(offset):
                    held = True
                    self.log.start = self.log.end = offset
                case _:
                    raise AssertionError(effect)
        if held:
            self.run(self.core.resumed(self.core.session, 0))
        return self

    def frame(self, offset: int, body: bytes) -> "Runner":
        return self.run(self.core.receive(encode_head(offset, len(body)) + body, 0))


def connected(held: FakeLog, options: ReplicationOptions = OPTIONS) -> Runner:
    runner = Runner(held, options)
    return runner.run(runner.core.connected(0))


def test_it_reports_where_its_log_ends_then_what_it_got() -> None:
    slave = connected(log(100)).frame(100, b"abcd").frame(104, b"ef")
    assert slave.sent == [encode_report(n) for n in (100, 104, 106)]
    assert slave.log.end == 106


def test_frames_come_in_any_pieces() -> None:
    slave = connected(log(100))
    data = encode_head(100, 4) + b"abcd" + encode_head(104, 0) + encode_head(104, 2) + b"ef"
    for at in range(len(data)):
        slave.run(slave.core.receive(data[at : at + 1], 0))
    assert slave.log.end == 106
    assert slave.core.received_bytes == 6
    assert slave.sent[-1] == encode_report(106)


def test_an_empty_log_begins_with_a_file_of_the_masters() -> None:
    slave = connected(log(0)).frame(3000, b"abcd")
    assert (slave.log.start, slave.log.end) == (3000, 3004)
    assert slave.sent == [encode_report(0), encode_report(3004)]
    assert connected(log(0)).frame(3001, b"abcd").closed != []


def test_gaps_overlaps_and_heartbeats_elsewhere_close_the_link() -> None:
    for offset, body in ((101, b"ab"), (98, b"ab"), (99, b"")):
        slave = connected(log(100)).frame(offset, body)
        assert slave.closed == [f"log from {offset}, where 100 is next"]
        assert slave.core.state is LinkState.READY


def test_half_a_record_goes_before_the_first_report() -> None:
    held = log(100)
    held.torn = 7
    slave = connected(held)
    assert slave.cuts == [93]
    assert slave.sent == [encode_report(93)]


def test_sync_flush_reports_what_is_on_the_device() -> None:
    slave = connected(log(100), replace(OPTIONS, sync_before_ack=True)).frame(100, b"abcd")
    assert slave.sent == [encode_report(100)]
    assert slave.awaited == [104]
    slave.frame(104, b"ef")
    slave.log.safe = 104
    slave.run(slave.core.synced(slave.core.session, 0))
    assert slave.sent[1:] == [encode_report(104)]
    assert slave.awaited == [104, 106]
    assert slave.core.synced(slave.core.session - 1, 0) == []


def test_sync_flush_begins_with_what_is_on_the_device_too() -> None:
    """The first report of a link is an acknowledgement as well: the master counts it (INV-20)."""
    held = log(104)
    held.safe = 100  # the last bytes of the link before are not synced yet
    slave = connected(held, replace(OPTIONS, sync_before_ack=True))
    assert (slave.sent, slave.awaited) == ([], [104])
    slave.run(slave.core.tick(5000))
    assert slave.sent == []
    held.safe = 104
    slave.run(slave.core.synced(slave.core.session, 0))
    assert slave.sent == [encode_report(104)]
    slave.frame(104, b"ef")
    assert slave.awaited == [104, 106]
    slave.run(slave.core.tick(5000))
    assert slave.sent[1:] == [encode_report(104)]


def test_log_received_right_into_the_store() -> None:
    slave = connected(log(100))
    slave.run(slave.core.receive(encode_head(100, 10) + b"abcd", 0))
    assert slave.core.direct == 6
    slave.log.end += 6
    slave.run(slave.core.wrote(6, 0))
    assert slave.core.direct == 0
    assert slave.sent[-1] == encode_report(110)


def test_heartbeats_and_silence() -> None:
    slave = connected(log(100))
    assert slave.core.tick(4999) == []
    slave.run(slave.core.tick(5000))
    assert slave.sent == [encode_report(100)] * 2
    slave.run(slave.core.tick(20_000))
    assert slave.closed == ["the master is silent for too long"]
    assert slave.core.tick(30_000) == []
    assert slave.core.statistics()["state"] == LinkState.READY
