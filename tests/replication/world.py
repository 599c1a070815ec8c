"""Logs that are numbers only, epochs on a simulated disk, and frames shown as text."""

from collections.abc import Iterable
from dataclasses import dataclass

from sim.kernel.disk import SimDisk

from epochmq.replication.frames import (
    Ack,
    Hello,
    decode_entries,
    decode_from_follower,
    decode_reply,
    decode_transfer,
)
from epochmq.replication.replication_effects import (
    AdvanceConfirmed,
    AppendData,
    AwaitSync,
    Close,
    Effect,
    Persist,
    ProposeSyncStateSet,
    Reset,
    SendData,
    Trouble,
    Truncate,
)
from epochmq.store.epochs import EpochFile


@dataclass
class FakeLog:
    """`ports.LogView` without a log."""

    start: int = 0
    end: int = 0
    safe: int = 0
    confirmed: int = 0
    file_bytes: int = 1000
    torn: int = 0

    @property
    def whole(self) -> int:
        return self.end - self.torn


def log(end: int, start: int = 0, confirmed: int = 0, file_bytes: int = 1000) -> FakeLog:
    return FakeLog(start, end, end, confirmed, file_bytes)


def epochs(*entries: tuple[int, int]) -> EpochFile:
    made = EpochFile(SimDisk())
    for epoch, start in entries:
        made.append(epoch, start)
    return made


def table(entries: Iterable[tuple[int, ...]]) -> str:
    return ",".join(f"{entry[0]}-{entry[1]}" for entry in entries) or "none"


def show_transfer(head: bytes) -> str:
    frame = decode_transfer(head)
    return (
        f"offset={frame.offset} size={frame.body_bytes} epoch={frame.epoch}"
        f" from={frame.epoch_start} confirmed={frame.confirmed}"
    )


def show_to_follower(data: bytes) -> str:
    if data[3] == 2:
        return "transfer " + show_transfer(data)
    reply = decode_reply(data)
    size = len(data) - reply.body_bytes
    entries = table(decode_entries(data[size:]))
    return f"reply[{size}] end={reply.end} epoch={reply.epoch} entries={entries}"


def show_to_master(data: bytes) -> str:
    found = decode_from_follower(data)
    assert found is not None
    assert found[1] == len(data)
    if isinstance(found[0], Ack):
        return f"ack {found[0].offset}"
    hello: Hello = found[0]
    name = hello.address if hello.follower_id is None else hello.follower_id
    return f"hello {name} last={int(hello.from_last_file)} learner={int(hello.learner)}"


def show(effect: Effect) -> str:  # one line an effect
    match effect:
        case SendData(0, data):
            return f"send {show_to_master(data)}"
        case SendData(link, data):
            return f"send {link} {show_to_follower(data)}"
        case Close(0, reason):
            return f"close: {reason}"
        case Close(link, reason):
            return f"close {link}: {reason}"
        case ProposeSyncStateSet(p):
            return f"propose {sorted(p.members)} after {p.set_epoch}"
        case AdvanceConfirmed(offset):
            return f"confirm {offset}"
        case Trouble(text):
            return f"trouble: {text}"
        case AppendData(offset, data):
            return f"append {offset} {bytes(data).decode()}"
        case Truncate(offset, _reason, operator):
            return f"truncate {offset}{' as the operator said' if operator else ''}"
        case Reset(offset):
            return f"reset {offset}"
        case Persist(entries):
            return f"persist {table(entries)}"
        case AwaitSync(offset):
            return f"await-sync {offset}"
    raise AssertionError(effect)
