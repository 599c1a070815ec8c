"""JSON in both dialects; depth and garbage."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import TEXT

from epochmq.base.errors import PeerError
from epochmq.base.limits import JSON_DEPTH_MAX
from epochmq.wire import json_tolerant
from epochmq.wire.json_tolerant import _JsonParser, dumps, dumps_bare, loads, standardize

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e300, 1e300) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)

ROUTE = (
    '{"brokerDatas":[{"brokerAddrs":{0:"1.2.3.4:10911",1:"1.2.3.5:10911"},"brokerName":"b",'
    '"cluster":"c","enableActingMaster":false}],"filterServerTable":{},"queueDatas":['
    '{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
)


@given(JSON)
def test_standard_json_comes_back(value: Any) -> None:
    assert loads(dumps(value)) == value
    assert json.loads(dumps(value)) == value


@given(JSON)
def test_the_fallback_agrees_with_the_standard(value: Any) -> None:
    # An integer key makes the text non-standard, so that the own parser has to read all of it.
    assert loads("{7:" + json.dumps(value) + "}") == {"7": value}


@given(JSON)
def test_the_rewritten_text_is_read_like_the_parsed_one(value: Any) -> None:
    texts = ["{7:%s,-12 : [%s]}", '{"a":{0:%s},"{1:":%s}', '{"\x01":%s, 5\n:%s}']
    for each in texts:
        text = each % (json.dumps(value), json.dumps(value, ensure_ascii=False))
        assert msgspec.json.decode(standardize(text)) == _JsonParser(text).whole()


@pytest.mark.parametrize(
    "text",
    ['{1:"a\\\n"}', '{1:"\0"}\0', '{1:"open', "{1:2", "\0{1:2}", '{"a" 1:2}', '{1:"\\"}', "{01:2}"],
)
def test_what_cannot_be_rewritten_is_left_to_the_parser(text: str) -> None:
    try:
        wanted = _JsonParser(text).whole()
    except PeerError:
        with pytest.raises(PeerError):
            loads(text)
    else:
        assert loads(text) == wanted


def test_a_long_text_is_not_read_in_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    # 160,000 integer keys: seconds in plain Python.
    monkeypatch.setattr(json_tolerant, "_JsonParser", None)
    table = ",".join(f'"topic{n}@group":{{0:{n},1:{n},2:{n}}}' for n in range(40_000))
    assert len(loads(f'{{"offsetTable":{{{table}}}}}')["offsetTable"]) == 40_000
    with pytest.raises(PeerError, match="not looked at more closely"):
        loads('{{"topic":"T"}:1' + " " * 100 + "}", careful_max=100)


def test_golden_route_in_fastjson_dialect() -> None:
    standard = ROUTE.replace("{0:", '{"0":').replace(",1:", ',"1":')
    assert loads(ROUTE.encode()) == json.loads(standard)
    assert dumps(loads(ROUTE)).decode() == standard


def test_object_keys_become_their_compact_text() -> None:
    text = '{"offsetTable":{{"brokerName":"b", "queueId":0,"topic":"T"} : {"maxOffset":5}}}'
    key = '{"brokerName":"b","queueId":0,"topic":"T"}'
    assert loads(text) == {"offsetTable": {key: {"maxOffset": 5}}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{1:{"$ref":"$.a[0]"}}', {"1": {"$ref": "$.a[0]"}}),
        ("{-1:2.5e1}", {"-1": 25.0}),
        ('{1:"a\x02\nb"}', {"1": "a\x02\nb"}),
        (r'{1:"\"\\\/\b\f\n\r\té"}', {"1": '"\\/\b\f\n\r\té'}),
        (r'{1:"\ud83d\ude00"}', {"1": "😀"}),
        (r'{1:"\ud83d."}', {"1": "�."}),
        ("{1:true,2:false,3:null,4:[],5:{}}", {"1": True, "2": False, "3": None, "4": [], "5": {}}),
        (" { 1 : [ 1 , 2 ] } ", {"1": [1, 2]}),
        ("{1:007}", {"1": 7}),
    ],
)
def test_dialect(text: str, value: Any) -> None:
    assert loads(text) == value


def test_ill_formed_utf8_is_replaced() -> None:
    assert loads(b'["\xff"]') == ["�"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "[1",
        "[1 2]",
        "{1}",
        '{1:1,"a"}',
        "{1:1 2:2}",
        "{1:tru}",
        "{1:nul}",
        '{1:"abc',
        '{1:"abc\\',
        r'{1:"\x"}',
        r'{1:"\u12g4"}',
        "{1:1} x",
        "{[1]:1}",
        "{1:'a'}",
        "{{}:" + "9" * 65 + "}",
        "{a:1}",
        "NaN",
    ],
)
def test_no_json_in_any_dialect(text: str) -> None:
    with pytest.raises(PeerError, match="malformed JSON"):
        loads(text)


@pytest.mark.parametrize("prefix", ["", "{1:"])
def test_depth_is_bounded_in_both_readers(prefix: str) -> None:
    suffix = "}" if prefix else ""
    room = JSON_DEPTH_MAX - (1 if prefix else 0)

    def nested(depth: int) -> str:
        return prefix + "[" * depth + "]" * depth + suffix

    assert loads(nested(room)) is not None
    for depth in (room + 1, room + 2, 5_000, 200_000):
        with pytest.raises(PeerError):
            loads(nested(depth))


def test_depth_of_objects_as_keys_is_bounded() -> None:
    with pytest.raises(PeerError):
        loads("{" * 5000)


def test_bare_integer_keys_out() -> None:
    value = {"b": {0: "x", -1: "y"}, "l": [1, None, True, "é"]}
    assert dumps_bare(value).decode() == '{"b":{0:"x",-1:"y"},"l":[1,null,true,"é"]}'
    assert loads(dumps_bare(value))["b"] == {"0": "x", "-1": "y"}


def test_bare_out_is_bounded_too() -> None:
    value: list[Any] = []
    for _ in range(JSON_DEPTH_MAX + 1):
        value = [value]
    with pytest.raises(ValueError, match="nested deeper"):
        dumps_bare(value)


@pytest.mark.fuzz
@given(st.text(st.sampled_from('{}[]":,0123456789.-eE\\u \ttruefalsn$ref'), max_size=40))
def test_garbage_gives_a_value_or_peer_error(text: str) -> None:
    try:
        loads(text)
    except PeerError:
        pass
