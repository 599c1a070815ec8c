"""Reading and completing properties as text: what a dict would say, without the dict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.broker.produce import send_properties
from epochmq.broker.produce.send_properties import BatchTail, Completer, put, read, to_number
from epochmq.model.properties import decode, encode, find
from epochmq.model.tags import tags_code
from epochmq.store.dispatch import index_keys

OWN = {"MSG_REGION": "R", "TRACE_ON": "true", "CLUSTER": "c"}
NAMES = ("UNIQ_KEY", "TAGS", "KEYS", "WAIT", "DELAY", "TRAN_MSG", "CLUSTER", "POP_CK", "a", "b")
TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=("Cs",)))
PROPS = st.dictionaries(st.sampled_from(NAMES), TEXT.filter(bool), max_size=6)


def completer() -> Completer:
    return Completer("R", True, "c", lambda: "DRAWN")


@given(PROPS, st.booleans())
def test_completing_is_what_a_dict_would_do(own: dict[str, str], trailing: bool) -> None:
    text = encode(own) + ("\x02" if own and trailing else "")
    parsed = completer().complete(text)
    expected = {**own, **OWN, "UNIQ_KEY": own.get("UNIQ_KEY") or "DRAWN"}
    expected.pop("POP_CK", None)
    assert decode(parsed.text) == expected
    assert parsed.uniq_key == expected["UNIQ_KEY"]
    assert parsed.keys == tuple(key for key in own.get("KEYS", "").split(" ") if key)
    assert parsed.tag_code == tags_code(own.get("TAGS"))
    assert parsed.wait == (own.get("WAIT", "true").lower() == "true")
    assert parsed.transactional == (own.get("TRAN_MSG", "").lower() == "true")


@pytest.mark.parametrize("more", [{}, {"DELAY": "3"}, {"DELAY": "0"}, {"DELAY": "x"}])
def test_a_level_hides_a_time(more: dict[str, str]) -> None:
    parsed = completer().complete(encode({"UNIQ_KEY": "K", "TIMER_DELAY_MS": "5", **more}))
    level = more.get("DELAY") == "3"
    assert parsed.timer is not level
    assert parsed.delay == 3 * level
    assert parsed.special
    kept = {} if level else {"TIMER_DELAY_MS": "5"}
    assert decode(parsed.text) == {"UNIQ_KEY": "K", **more, **kept, **OWN}


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    parsed = completer().complete(text)
    assert decode(parsed.text)["CLUSTER"] == "c"
    read(text)


def test_nothing_at_all_gets_a_key() -> None:
    for text in (None, "", "\x02"):
        parsed = completer().complete(text)
        assert decode(parsed.text) == {**OWN, "UNIQ_KEY": "DRAWN"}
    assert completer().complete("", draw=False).uniq_key == ""


def test_names_are_whole() -> None:
    assert read("MY_TAGS\x01x\x02UNIQ_KEY2\x01y\x02TAGS\x01")[:3] == ("", (), 0)


def test_the_last_of_a_name_counts() -> None:
    uniq_key, _, tag_code, _, _ = read("UNIQ_KEY\x01a\x02TAGS\x01x\x02TAGS\x01y\x02UNIQ_KEY\x01b")
    assert (uniq_key, tag_code) == ("b", tags_code("y"))


def test_known_tags_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_properties, "_KNOWN_MAX", 5)
    for number in range(20):
        assert read(f"TAGS\x01t{number}")[2] == tags_code(f"t{number}")
    assert len(send_properties._known) <= 5
    long = "x" * 1000
    assert read(f"TAGS\x01{long}")[2] == tags_code(long)
    assert not any(long in pair for pair in send_properties._known)
    assert read("WAIT\x01true")[3]


@pytest.mark.parametrize(
    ("text", "number"), [("7", 7), ("-1", 0), ("", 0), ("x", 0), ("٣", 0), ("9" * 10, 0)]
)
def test_small_numbers(text: str, number: int) -> None:
    assert to_number(text) == number


def test_put_replaces_and_adds() -> None:
    assert decode(put("a\x011\x02b\x012", {"b": "3", "c": "4"})) == {"a": "1", "b": "3", "c": "4"}


def test_a_batchs_key_never_hides_a_messages_key() -> None:
    tail = BatchTail(completer().complete("UNIQ_KEY\x01B\x02WAIT\x01true", draw=False))
    stored, keys, code = tail.complete(b"UNIQ_KEY\x01K\x02TAGS\x01t\x02KEYS\x01a b\x02")
    common = {"WAIT": "true", **OWN}
    assert decode(stored.decode()) == {"UNIQ_KEY": "K", "TAGS": "t", "KEYS": "a b", **common}
    assert (keys, code) == (("K", "a", "b"), tags_code("t"))
    stored, keys, code = tail.complete(b"")
    assert decode(stored.decode()) == {"UNIQ_KEY": "B", **common}
    assert (keys, code) == (("B",), 0)
    stored, keys, _ = tail.complete(b"a\x01\xff")
    assert decode(stored.decode()) == {"UNIQ_KEY": "B", "a": "\ufffd", **common}


def test_a_batchs_own_tags_and_keys_hide_those_of_its_messages() -> None:
    """As every reader of the stored record sees it (INV-17)."""
    tail = BatchTail(completer().complete("TAGS\x01all\x02KEYS\x01x y", draw=False))
    text, keys, code = tail.complete(b"UNIQ_KEY\x01K\x02TAGS\x01one\x02KEYS\x01z")
    assert keys == index_keys(text) == ("K", "x", "y")
    assert code == tags_code("all")
    assert find(text, b"TAGS") == b"all"


def test_keys_are_split_at_blanks_only() -> None:
    assert read("KEYS\x01a\tb  c\u3000d ")[1] == ("a\tb", "c\u3000d")
