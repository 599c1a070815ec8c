"""Whole conversations, word for word, with the field names of each generation."""

import json
from pathlib import Path

import pytest
from tests.controller.world import World, fields

from epochmq.wire.command import Command, Reply
from epochmq.wire.json_tolerant import loads

FOLDER = Path(__file__).parent / "dialogues"
_decoder = json.JSONDecoder()


def words(text: str) -> list[object]:
    """The JSON values of one line."""
    found: list[object] = []
    text = text.strip()
    while text:
        value, end = _decoder.raw_decode(text)
        found.append(value)
        text = text[end:].strip()
    return found


def body_of(raw: object) -> list[object]:
    data = bytes(raw)  # type: ignore[call-overload]
    return [loads(data)] if data else []


class Talk:
    """Plays one file."""

    def __init__(self) -> None:
        self.world = World()
        self.session = 0
        self.version = 479
        self.reply = Reply()

    def line(self, text: str) -> None:
        kind, _, rest = text.partition(" ")
        if kind == "@":
            self.event(*rest.split())
        elif kind == ">":
            code, _, more = rest.partition(" ")
            ext, *body = words(more)
            data = json.dumps(body[0]).encode() if body else b""
            how = {"session": self.session, "version": self.version}
            self.reply = self.world.ask(int(code), ext, data, **how)  # type: ignore[arg-type]
            self.world.run(1)
        elif kind == "<":
            code, _, more = rest.partition(" ")
            said = [fields(self.reply), *body_of(self.reply.body)]
            assert (self.reply.code, said) == (int(code), words(more)), text
        elif kind == "!":
            _, address, more = rest.split(" ", 2)
            told: Command = self.world.notices[0].command
            assert self.world.notices.pop(0).address == address
            assert [told.ext, *body_of(told.body)] == words(more), text

    def event(self, what: str, *args: str) -> None:
        if what == "session":
            self.session = int(args[0])
        elif what == "version":
            self.version = int(args[0])
        elif what == "gone":
            self.world.refusing.add(args[1])
            self.world.leader.channel_closed(int(args[0]), self.world.now)
            self.world._carry_out("n0")
            self.world.run(1)
            self.world.refusing.clear()


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.txt")))
def test_dialogue(name: str) -> None:
    talk = Talk()
    for text in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        if text and not text.startswith("#"):
            talk.line(text)
    assert not talk.world.notices or name == "online_ours.txt"
