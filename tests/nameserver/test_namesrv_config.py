import pytest
from tests.nameserver.world import Asker, header_of, text

from epochmq.base import limits
from epochmq.base.options import parse_properties


def test_key_value_entries() -> None:
    asker = Asker()
    assert asker.ask(100, {"namespace": "n", "key": "k", "value": "v"}).code == 0
    assert header_of(asker.ask(101, {"namespace": "n", "key": "k"})) == {"value": "v"}
    assert text(asker.ask(219, {"namespace": "n"})) == '{"table":{"k":"v"}}'
    assert asker.ask(102, {"namespace": "n", "key": "k"}).code == 0
    assert asker.ask(101, {"namespace": "n", "key": "k"}).code == 22
    assert asker.ask(219, {"namespace": "other"}).code == 22
    for missing in ("namespace", "key", "value"):
        ext = {"namespace": "n", "key": "k", "value": "v"}
        del ext[missing]
        reply = asker.ask(100, ext)
        assert (reply.code, missing in str(reply.remark)) == (1, True)


def test_options_are_shown_and_the_changeable_ones_changed() -> None:
    asker = Asker()
    assert parse_properties(text(asker.ask(319)))["orderMessageEnable"] == "false"
    change = b"orderMessageEnable=true\nscanNotActiveBrokerInterval=1000\n"
    assert asker.ask(318, body=change).code == 0
    shown = parse_properties(text(asker.ask(319)))
    assert shown["orderMessageEnable"] == "true"
    assert shown["scanNotActiveBrokerInterval"] == "1000"


@pytest.mark.parametrize(
    "key",
    ["kvConfigPath", "listenPort", "bindAddress", "logFile", "useUvloop", "needWaitForService"],
)
def test_paths_ports_and_addresses_do_not_change_at_runtime(key: str) -> None:
    # CVE-2023-37582: config store path and content together wrote any file.
    asker = Asker()
    before = asker.node.options
    reply = asker.ask(318, body=f"{key}=/tmp/x\norderMessageEnable=true".encode())
    assert reply.code == 16
    assert key in str(reply.remark)
    assert asker.node.options is before


@pytest.mark.parametrize(
    ("body", "code", "word"),
    [
        (b"configStorePath=/etc/passwd", 16, "unknown option"),
        (b"orderMessageEnabled=true", 16, "did you mean 'orderMessageEnable'?"),
        (b"orderMessageEnable=yes", 1, "true or false"),
        (b"scanNotActiveBrokerInterval=1", 1, "between 100 and 60000"),
        (b"\xff\xfe=1", 1, "utf-8"),
        (b"a=\\u12", 1, "hexadecimal"),
    ],
)
def test_a_change_that_makes_no_sense_changes_nothing(body: bytes, code: int, word: str) -> None:
    asker = Asker()
    before = asker.node.options
    reply = asker.ask(318, body=body)
    assert reply.code == code
    assert word in str(reply.remark)
    assert asker.node.options is before


def test_a_change_is_bounded() -> None:
    assert Asker().ask(318, body=b"#" * (limits.CONFIG_BODY_BYTES_MAX + 1)).code == 1
