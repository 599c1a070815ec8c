"""What the dialogues do not show: any pieces, garbage, switches, holds."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.safeguards import SAFE
from epochmq.replication.follower import FollowerCore
from epochmq.replication.frames import LinkState, ReplicationProtocol, encode_reply, encode_transfer
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.replication_effects import (
    Acknowledge,
    AppendData,
    Close,
    Effects,
    Persist,
    Reset,
    SendData,
    Truncate,
)
from epochmq.store.epochs import EpochFile

from .world import FakeLog, epochs, log


class Runner:
    """Carries out what concerns the log."""

    def __init__(self, held: FakeLog, file: EpochFile, epoch: int = 1, **switches: bool) -> None:
        self.log = held
        self.epochs = file
        self.core = FollowerCore(
            held, file, ReplicationOptions(), 2, epoch, safeguards=replace(SAFE, **switches)
        )
        self.done: list[str] = []
        self.bytes = b""
        self.run(self.core.connected(0))

    def run(self, effects: Effects) -> None:
        held = False
        for effect in effects:
            self.done.append(type(effect).__name__)
            match effect:
                case AppendData(offset, data):
                    assert offset == self.log.end
                    for entry in self.core.master_entries:
                        if entry[1] < offset + len(data) and self.core._safeguards == SAFE:
                            assert self.epochs.last_epoch >= entry[0]  # INV-14
                    self.bytes += bytes(data)
                    self.log.end = self.log.safe = self.log.end + len(data)
                case Acknowledge():
                    self.run(self.core.acknowledge(0))
                case Persist(entries):
                    held = True
                    for entry in entries:
                        self.epochs.append(*entry)
                case Truncate(offset):
                    held = True
                    self.log.end = self.log.safe = offset
                    self.epochs.adopt(self.core.master_entries, offset)
                case Reset(offset):
                    held = True
                    self.log.start = self.log.end = self.log.safe = offset
        if held:
            self.run(self.core.resumed(self.core.session, 0))

    def give(self, data: bytes) -> None:
        self.run(self.core.receive(data, 0))


STREAM = b"".join(
    (
        encode_reply(ReplicationProtocol.G2, 130, [(1, 0), (2, 104), (3, 104), (4, 110)]),
        encode_transfer(4, 100, 1, 0, 50) + b"abcd",
        encode_transfer(0, 104, 3, 104, 104),
        encode_transfer(6, 104, 3, 104, 104) + b"efghij",
        encode_transfer(20, 110, 4, 110, 104) + b"k" * 20,
        encode_transfer(0, 130, 4, 110, 130),
    )
)


@given(st.data())
def test_the_stream_may_be_cut_anywhere(data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(STREAM) - 1), max_size=12)))
    runner = Runner(log(100), epochs((1, 0)))
    for start, stop in zip([0, *cuts], [*cuts, len(STREAM)], strict=True):
        assert runner.core.wants
        runner.give(STREAM[start:stop])
    assert runner.bytes == b"abcdefghij" + b"k" * 20
    assert [e[:2] for e in runner.epochs.entries] == [(1, 0), (2, 104), (3, 104), (4, 110)]
    assert runner.core.statistics()["acknowledged"] == 130


@given(st.integers(0, len(STREAM)), st.binary(max_size=80))
def test_garbage_closes_the_link_or_is_waited_out(at: int, garbage: bytes) -> None:
    runner = Runner(log(100), epochs((1, 0)))
    try:
        runner.give(STREAM[:at] + garbage)
    finally:
        assert runner.log.end <= 130 + len(garbage)
    assert runner.core.state in (LinkState.READY, LinkState.HANDSHAKE, LinkState.TRANSFER)
    if runner.core.state is LinkState.READY:
        assert "Close" in runner.done


def test_nothing_is_taken_while_an_entry_is_on_its_way() -> None:
    runner = Runner(log(100), epochs((1, 0)))
    runner.give(STREAM[: 20 + 48])
    effects = runner.core.receive(encode_transfer(4, 100, 5, 100, 0) + b"abcd", 0)
    assert effects[-1] == Close(0, "epoch 5 from 100 is not the master's")
    runner = Runner(log(104), epochs((1, 0)))
    runner.give(STREAM[: 20 + 48])
    effects = runner.core.receive(encode_transfer(6, 104, 3, 104, 0) + b"abcd", 0)
    assert effects == [Persist(((2, 104), (3, 104)))]
    assert not runner.core.wants
    assert runner.core.direct == 0
    assert runner.core.resumed(runner.core.session - 1, 0) == []
    for entry in ((2, 104), (3, 104)):
        runner.epochs.append(*entry)
    runner.run(runner.core.resumed(runner.core.session, 0))
    assert runner.bytes == b"abcd"
    assert runner.core.direct == 2
    runner.log.end += 2
    runner.run(runner.core.wrote(2, 0))
    assert runner.core.statistics()["acknowledged"] == 110


def test_a_connection_that_ended_meanwhile_is_not_resumed() -> None:
    runner = Runner(log(104), epochs((1, 0)))
    runner.give(STREAM[: 20 + 48])
    session = runner.core.session
    runner.core.receive(encode_transfer(6, 104, 3, 104, 0) + b"abcd", 0)
    runner.core.closed()
    assert runner.core.resumed(session, 0) == []
    assert runner.core.synced(session, 0) == []
    assert runner.core.tick(10**6) == []


def test_a_deposed_master_is_believed_without_the_safeguard() -> None:
    reply = encode_reply(ReplicationProtocol.G2, 100, [(1, 0)])
    assert Runner(log(0), epochs(), 3).core.receive(reply, 0)[0] == Close(
        0, "the peer's last epoch is 1, the controller gave 3"
    )
    runner = Runner(log(0), epochs(), 3, epoch_check_on_append=False)
    runner.give(reply)
    assert runner.core.state is LinkState.TRANSFER
    runner.give(encode_transfer(2, 0, 1, 0, 0) + b"ab")
    runner.give(encode_transfer(2, 2, 7, 2, 0) + b"ab")
    assert runner.epochs.last_epoch == 7


def test_entries_come_after_the_data_without_the_safeguard() -> None:
    runner = Runner(log(100), epochs((1, 0)), epoch_entry_before_data=False)
    runner.give(STREAM)
    assert runner.done.index("Persist") > runner.done.index("AppendData")
    assert runner.epochs.last_epoch == 4


def test_frames_over_the_end_of_a_file_are_refused() -> None:
    runner = Runner(log(100, file_bytes=110), epochs((1, 0)))
    runner.give(STREAM[: 20 + 48])
    effects = runner.core.receive(encode_transfer(12, 100, 1, 0, 0), 0)
    assert isinstance(effects[0], Close)
    assert "mappedFileSizeCommitLog" in effects[0].reason


def test_an_empty_log_begins_with_a_file() -> None:
    runner = Runner(log(0), epochs())
    runner.give(encode_reply(ReplicationProtocol.G2, 5000, [(1, 0)]))
    effects = runner.core.receive(encode_transfer(4, 3001, 1, 0, 0), 0)
    assert effects == [Close(0, "the first byte of a log cannot be 3001, inside a file")]


def test_deadlines() -> None:
    runner = Runner(log(100), epochs((1, 0)))
    assert runner.core.next_deadline(0) == 5000
    runner.give(STREAM[: 20 + 48])
    assert runner.core.next_deadline(0) == 5000
    assert isinstance(runner.core.tick(5000)[0], SendData)
    assert runner.core.next_deadline(5000) == 10_000
    runner.core.closed()
    assert runner.core.next_deadline(7) == 5007
