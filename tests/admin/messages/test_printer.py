"""Messages as people, pipes and programs want them."""

import io
import json
import zlib

import pytest
from tests.client.aio.test_subscribing import message

from epochmq.admin.messages import printer
from epochmq.admin.messages.lines import Defaults, from_json
from epochmq.admin.messages.printer import Printer, style_for
from epochmq.model import sys_flag
from epochmq.model.message import StoredMessage


def stored(body: bytes) -> StoredMessage:
    made = message("A")
    made.body = body
    made.properties.update(KEYS="k1 k2", __SHARDINGKEY="k1")
    return made


def test_a_pipe_gets_bodies() -> None:
    out = io.BytesIO()
    shown = Printer("body", out)
    shown.show(stored(b"one"))
    shown.show(stored(b"\xff"))
    shown.flush()
    assert out.getvalue() == b"one\n\xff\n"
    assert shown.count == 2


def test_packed_bodies_are_unpacked_if_they_can_be() -> None:
    packed = stored(zlib.compress(b"plain"))
    packed.sys_flag = sys_flag.COMPRESSED | sys_flag.COMPRESSION_ZLIB
    assert printer.body(packed) == b"plain"
    packed.body = b"broken"
    assert printer.body(packed) == b"broken"


def test_nothing_harmful_reaches_the_terminal() -> None:
    hostile = stored(b"\x1b]0;renamed\x07 a\tb \x9b31m \xff")
    hostile.properties["TAGS"] = "\x1b[2J"
    text = printer.pretty(hostile).decode()
    for ours in ("\x1b[2m", "\x1b[36m", "\x1b[0m"):
        text = text.replace(ours, "")
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\\x1b]0;renamed\\x07 a\tb" in text


def test_long_bodies_are_cut_for_people() -> None:
    text = printer.pretty(stored(b"x" * 5_000)).decode()
    assert text.endswith("... (5,000 bytes)")
    assert len(text) < 2_200


def test_json_can_be_produced_again() -> None:
    for body in (b"gr\xc3\xbc\xc3\x9f", b"\x00\xff"):
        line = printer.as_json(stored(body))
        assert json.loads(line)["tags"] == "A"
        again = from_json(line, Defaults("t"), 1)
        assert (again.message.body, again.message.tags) == (body, "A")
        assert (again.message.keys, again.key) == (("k1", "k2"), "k1")


def test_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (style_for("json"), style_for("table")) == ("json", "body")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert (style_for("json"), style_for("table")) == ("json", "pretty")
