"""Golden dialogues: what each side of a link is told and what it then does, as text.

A file begins with settings; a line with `>` is an event, the lines with `<` behind it are all that
the core did, in order.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from epochmq.replication.ack_policy import AckStatus
from epochmq.replication.follower import FollowerCore
from epochmq.replication.frames import (
    Hello,
    ReplicationProtocol,
    encode_ack,
    encode_hello,
    encode_reply,
    encode_transfer,
)
from epochmq.replication.in_sync import InSync
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.replication_effects import (
    Acknowledge,
    Effect,
    Persist,
    Reset,
    SetProposal,
    Truncate,
)
from epochmq.replication.replication_master import MasterCore

from .world import FakeLog, epochs, show, show_transfer

FOLDER = Path(__file__).parent / "dialogues"


def pairs(text: str) -> list[tuple[int, int]]:
    """`1-0,2-100`"""
    return [
        (int(epoch), int(start))
        for epoch, _, start in (part.partition("-") for part in text.split(",") if part != "none")
    ]


class Stage:
    """Settings, time and a log, for either side."""

    def __init__(self, settings: dict[str, str]) -> None:
        options: dict[str, object] = {}
        for name, text in settings.items():
            if name in ReplicationOptions.__dataclass_fields__:
                options[name] = text == "yes" if text in ("yes", "no") else int(text)
        self.options = ReplicationOptions(**options)  # type: ignore[arg-type]
        self.log = FakeLog(file_bytes=int(settings.get("file", 1000)))
        first, _, last = settings.get("log", "0..0").partition("..")
        self.log.start, self.log.end = int(first), int(last)
        self.log.safe = self.log.end
        self.log.confirmed = int(settings.get("confirmed", 0))
        self.epochs = epochs(*pairs(settings.get("epochs", "none")))
        self.epoch = int(settings.get("epoch", self.epochs.last_epoch))
        self.settings = settings
        self.now = 1_000_000
        self.proposals: list[SetProposal] = []

    def run(self, line: str) -> Iterator[str]:
        verb, *words = line.split()
        if verb == "wait":
            self.now += int(words[0])
            return iter(())
        named = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        return getattr(self, "on_" + verb.replace("-", "_"))(*plain, **named)


class MasterStage(Stage):
    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__(settings)
        members = frozenset(map(int, settings.get("members", "1").split(",")))
        start = self.epochs.entries[-1].start
        in_sync = InSync(
            1, self.epoch, start, members, 1, self.log.confirmed, self.now, self.options
        )
        self.core = MasterCore(self.log, self.epochs, in_sync, self.options)
        self.core.moved(self.now)

    def shown(self, effects: list[Effect]) -> Iterator[str]:
        self.proposals += [e.proposal for e in effects if hasattr(e, "proposal")]
        return map(show, effects)

    def on_accept(self, link: str) -> Iterator[str]:
        return self.shown(self.core.accepted(int(link), "peer", self.now))

    def on_hello(self, link: str, name: str, last: str = "0", learner: str = "0") -> Iterator[str]:
        number, address = (int(name), None) if name.isdigit() else (None, name)
        hello = Hello(last == "1", learner == "1", number, address)
        return self.shown(self.core.received(int(link), encode_hello(hello), self.now))

    def on_ack(self, link: str, offset: str) -> Iterator[str]:
        return self.shown(self.core.received(int(link), encode_ack(int(offset)), self.now))

    def on_bytes(self, link: str, data: str) -> Iterator[str]:
        return self.shown(self.core.received(int(link), bytes.fromhex(data), self.now))

    def on_closed(self, link: str) -> Iterator[str]:
        return self.shown(self.core.closed(int(link), self.now))

    def on_append(self, count: str) -> Iterator[str]:
        self.log.end = self.log.safe = self.log.end + int(count)
        return self.shown(self.core.appended(self.now))

    def on_epoch(self, epoch: str, start: str) -> Iterator[str]:
        self.epochs.append(int(epoch), int(start))
        return iter(())

    def on_chunks(self, link: str) -> Iterator[str]:
        """Everything that may be sent now."""
        while (chunk := self.core.next_chunk(int(link), self.now)) is not None:
            yield f"chunk {link} {show_transfer(chunk.head)}"

    def on_tick(self) -> Iterator[str]:
        return self.shown(self.core.tick(self.now))

    def on_set(self, members: str, set_epoch: str) -> Iterator[str]:
        chosen = frozenset(map(int, members.split(",")))
        return self.shown(self.core.set_committed(chosen, int(set_epoch), self.now))

    def on_failed(self, refused: str = "0") -> Iterator[str]:
        last = self.proposals[-1]
        return self.shown(self.core.proposal_failed(last, self.now, refused == "1"))

    def on_send(self, offset: str, name: str) -> Iterator[str]:
        self.core.when_acked(int(offset), self.now + 3000, self.answer(name))
        return self.answers()

    def answer(self, name: str):  # type: ignore[no-untyped-def]
        self.told: list[str] = getattr(self, "told", [])
        return lambda status: self.told.append(f"answer {name} {status.name}")

    def answers(self) -> Iterator[str]:
        told, self.told = getattr(self, "told", []), []
        return iter(told)

    def on_refusal(self) -> Iterator[str]:
        status: AckStatus | None = self.core.refusal(self.now)
        return iter([f"refusal {status.name if status else 'none'}"])

    def on_fence(self) -> Iterator[str]:
        self.core.fence("lease")
        return iter(())

    def on_unfence(self) -> Iterator[str]:
        return self.shown(self.core.unfence(self.now))

    def run(self, line: str) -> Iterator[str]:
        yield from super().run(line)
        yield from self.answers()


class FollowerStage(Stage):
    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__(settings)
        generation = ReplicationProtocol(settings.get("generation", "5.1.1"))
        self.core = FollowerCore(
            self.log,
            self.epochs,
            self.options,
            2,
            self.epoch,
            learner=settings.get("learner") == "yes",
            unclean_epoch=int(settings.get("unclean", "0")),
            generation=generation,
            own_address="10.0.0.2:10911",
        )
        self.generation = generation

    def shown(self, effects: list[Effect]) -> Iterator[str]:
        """Effects on the log are carried out as they are shown."""
        for effect in effects:
            if isinstance(effect, Acknowledge):
                yield from self.shown(self.core.acknowledge(self.now))
                continue
            yield show(effect)
            if hasattr(effect, "data") and hasattr(effect, "offset"):
                assert effect.offset == self.log.end
                self.log.end += len(effect.data)
                if not self.options.sync_before_ack:
                    self.log.safe = self.log.end
            if isinstance(effect, Truncate):
                self.log.end = self.log.safe = effect.offset
                self.log.torn = 0
                self.epochs.adopt(self.core.master_entries, effect.offset)
            if isinstance(effect, Reset):
                self.log.start = self.log.end = self.log.safe = effect.offset
            if isinstance(effect, Persist):
                for entry in effect.entries:
                    self.epochs.append(*entry)
        if any(isinstance(e, Truncate | Reset | Persist) for e in effects):
            yield from self.shown(self.core.resumed(self.core.session, self.now))

    def on_connected(self) -> Iterator[str]:
        return self.shown(self.core.connected(self.now))

    def on_closed(self) -> Iterator[str]:
        self.core.closed()
        return iter(())

    def on_reply(self, end: str, entries: str) -> Iterator[str]:
        data = encode_reply(self.generation, int(end), pairs(entries))
        return self.shown(self.core.receive(data, self.now))

    def on_transfer(
        self, offset: str, epoch: str, text: str = "", confirmed: str = "0"
    ) -> Iterator[str]:
        """Epoch as `3-100`; the body is text."""
        ((number, start),) = pairs(epoch)
        head = encode_transfer(len(text), int(offset), number, start, int(confirmed))
        return self.shown(self.core.receive(head + text.encode(), self.now))

    def on_tick(self) -> Iterator[str]:
        return self.shown(self.core.tick(self.now))

    def on_synced(self) -> Iterator[str]:
        self.log.safe = self.log.end
        return self.shown(self.core.synced(self.core.session, self.now))

    def on_torn(self, count: str) -> Iterator[str]:
        """So many bytes at the log's end are no whole record yet."""
        self.log.torn = int(count)
        return iter(())

    def on_state(self) -> Iterator[str]:
        return iter([f"state {self.core.state.name} epochs {self.shown_epochs()}"])

    def shown_epochs(self) -> str:
        return ",".join(f"{e.epoch}-{e.start}" for e in self.epochs.entries) or "none"


def play(text: str) -> str:
    """The same file with what really happened."""
    out: list[str] = []
    stage: Stage | None = None
    settings: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("<"):
            continue
        out.append(line)
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(">"):
            name, _, value = line.partition("=")
            settings[name.strip()] = value.strip()
            continue
        if stage is None:
            stage = (
                MasterStage(settings) if settings["side"] == "master" else FollowerStage(settings)
            )
        out += [f"<   {shown}" for shown in stage.run(line[1:].strip())]
    return "\n".join(out) + "\n"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_dialogue(path: Path) -> None:
    text = path.read_text()
    assert play(text) == text
