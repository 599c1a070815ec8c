"""One turn's sends: the golden record, the answer, and drafts when they are given back."""

import ctypes
from struct import unpack_from

import pytest
from tests.native.fuzz import HOST

from epochmq.model.record import decode_all
from epochmq.model.tags import java_hash
from epochmq.native import library
from epochmq.store.native_send import MESSAGES_MAX, SendRun, SendTexts
from epochmq.wire.frame import PREFIX
from epochmq.wire.headers.fast_headers import decode_hot

pytestmark = pytest.mark.skipif(library.library() is None, reason=library.which())

BORN = bytes((10, 0, 0, 2)) + (40000).to_bytes(4, "big")
HEADER = (
    b'{"code":310,"extFields":{"a":"P","b":"T1","c":"TBW102","d":"4","e":"3","f":"0",'
    b'"g":"1663545600000","h":"7","i":"UNIQ_KEY\\u0001K1\\u0002KEYS\\u0001k1","j":"1"},'
    b'"flag":0,"language":"JAVA","opaque":5,"version":401}'
)
GOLDEN = (
    "0000007adaa320a73610a6860000000300000007000000000000002a0000000000000102000000000000018353"
    "0b68000a00000200009c4000000183530b68017f00000100002a9f000000010000000000000000000000056865"
    "6c6c6f0254310018554e49515f4b4559014b31024b455953016b310243014321"
)


def frame(header: bytes = HEADER, body: bytes = b"hello") -> bytes:
    return PREFIX.pack(4 + len(header) + len(body), len(header)) + header + body


def opened() -> SendRun:
    native = library.library()
    assert native is not None
    run = SendRun(native, HOST, SendTexts(b"\x02C\x01C!", b"<", b">", 1000, 2000, True))
    run.add_topic("T0", 2, 0)
    run.add_topic("T1", 4, 0)
    return run


def take(run: SendRun, data: bytes) -> int:
    buffer = bytearray(data)
    return run.stage_raw(ctypes.addressof(ctypes.c_char.from_buffer(buffer)), len(buffer), BORN)


def test_golden_record_unit_key_and_answer() -> None:
    run = opened()
    assert take(run, frame()) == len(frame())
    assert (run.count, run.places()) == (1, [("T1", 3)])
    assert run.finish(258, 1_663_545_600_001, [(42, -1)])
    assert bytes(run.records).hex() == GOLDEN
    assert run.rows() == [(1, 0)]
    assert run.pop_sent() == [(("T1", 3), 1, 122)]
    assert run.pop_sent() == []
    assert run.pop_message_sizes() == [("T1", 0, [1, 0, 0, 0, 0, 0, 0], 122)]
    assert run.pop_message_sizes() == []
    assert bytes(run.units[:20]).hex() == "00000000000001020000007a0000000000000000"
    keys = run.keys(258, 258 + 122, 1_663_545_600_001)
    assert keys is not None
    assert (len(keys), keys.offset, keys.end) == (2, 258, 258 + 122)
    (answer,) = run.answers()
    assert answer[8:] == (
        b'{"code":0,"extFields":{"msgId":"7F00000100002A9F0000000000000102","queueId":"3",'
        b'"queueOffset":"42","transactionId":"K1<5>'
    )
    assert PREFIX.unpack_from(answer) == (len(answer) - 4, len(answer) - 8)


def test_given_back_they_are_drafts() -> None:
    run = opened()
    take(run, frame())
    take(run, frame(body=b"other"))
    first, second = run.unpack()
    assert (first.draft.topic, first.draft.queue_id, first.draft.body) == ("T1", 3, b"hello")
    assert (first.opaque, first.uniq_key, first.read, second.read) == (5, "K1", 0, 1)
    assert first.draft.properties == b"UNIQ_KEY\x01K1\x02KEYS\x01k1\x02C\x01C!"
    assert (first.draft.flag, first.draft.born_wall_ms, first.draft.born_host) == (
        7, 1_663_545_600_000, BORN,
    )  # fmt: skip
    assert first.draft.reconsume_times == 1
    run.clear()
    assert (run.count, run.size, run.places()) == (0, 0, [])


def test_it_stops_at_half_a_frame_and_at_what_it_does_not_know() -> None:
    run = opened()
    one = frame()
    for size in range(len(one)):
        assert take(run, one + one[:size]) == len(one)
    assert run.count == len(one)
    assert take(run, frame(HEADER.replace(b"310", b"311"))) == 0
    assert take(run, frame(HEADER.replace(b'"b":"T1"', b'"b":"T2"'))) == 0
    run.clear()
    run.forget_topics()
    assert take(run, one) == 0


def test_a_full_turn_takes_no_more() -> None:
    run = opened()
    many = frame(body=b"x") * 64
    taken = sum(take(run, many) for _ in range(MESSAGES_MAX // 64 + 1))
    assert (run.count, taken) == (MESSAGES_MAX, MESSAGES_MAX * len(frame(body=b"x")))
    assert run.places() == [("T1", 3)]
    assert run.finish(0, 1, [(0, -1)])
    assert len(decode_all(bytes(run.records))) == len(run.unpack()) == MESSAGES_MAX
    assert sum(map(len, run.answers())) > MESSAGES_MAX * 100


def test_topics_for_which_there_is_no_room() -> None:
    run = opened()
    run.add_topic("T1", 9, 0)
    run.add_topic("x" * 128, 1, 0)
    run.add_topic("Huge", 1 << 20, 0)
    take(run, frame())
    assert run.places() == [("T1", 3)]
    run.clear()
    for number in range(2000):
        run.add_topic(f"N{number}", 1, 0)
    assert take(run, frame(HEADER.replace(b'"T1"', b'"N9"').replace(b'"e":"3"', b'"e":"0"'))) > 0
    assert run.places() == [("N9", 0)]
    assert take(run, frame(HEADER.replace(b'"T1"', b'"N1999"').replace(b'"3"', b'"0"'))) == 0


@pytest.mark.parametrize(
    ("old", "new", "taken"),
    [
        *((f'"{name}":"{value}",', "", False) for name, value in (
            ("a", "P"), ("b", "T1"), ("c", "TBW102"), ("d", "4"), ("e", "3"), ("f", "0"),
            ("g", "1663545600000"), ("h", "7"))),
        ('"a":"P"', '"a":"P","a":"Q"', False),
        ('"j":"1"', '"j":"1","j":"1"', False),
        (',"opaque":5', "", False),
        ('"opaque":5', '"opaque":5,"opaque":6', False),
        ('"opaque":5', '"opaque":"5"', False),
        ('"flag":0', '"flag":1', False),
        ('"flag":0', '"flag":2', False),
        ('"version":401', '"version":401,"remark":"r"', False),
        ('"version":401}', '"version":401}}', False),
        ('"j":"1"', '"j":1', False),
        ('"j":"1"', '"j":null', False),
        ('"h":"7"', '"h":"2147483648"', False),
        ('"a":"P"', '"a":"\\ud83d\\ude00"', False),
        ('"a":"P"', '"a":"\\x"', False),
        ('"h":"7"', '"h":"-2147483648"', True),
        (',"version":401', "", True),
        ('"flag":0,', "", True),
        ('"a":"P"', '"a":"\\u0041\\n"', False),
        ('"j":"1"', '"j":"1","k":"false","l":"16","m":"false","n":"b","bname":"x","ns":""', True),
        ('"j":"1"', '"j":"1","m":"true"', False),
        (":", " : ", True),
        (",", "\n,\t", True),
    ],
)  # fmt: skip
def test_which_headers_are_ordinary(old: str, new: str, taken: bool) -> None:
    header = HEADER.replace(old.encode(), new.encode())
    assert header != HEADER
    run = opened()
    assert bool(take(run, frame(header))) == taken
    envelope = decode_hot(header)
    assert envelope is not None or not taken
    if taken:
        assert run.unpack()[0].opaque == 5


@pytest.mark.parametrize("at", range(18))
def test_each_byte_at_each_place_of_a_text(at: int) -> None:
    # The native code reads eight bytes at a time.
    run = opened()
    for byte in range(256):
        value = b"p" * at + bytes((byte,)) + b"p" * (17 - at)
        header = HEADER.replace(b'"a":"P"', b'"a":"' + value + b'"')
        taken = take(run, frame(header)) > 0
        assert taken == (0x20 <= byte < 0x80 and byte not in b'"\\'), byte
    header = HEADER.replace(b'"a":"P"', f'"a":"{"p" * at}\u00e9\u4e00{"p" * (17 - at)}"'.encode())
    assert take(run, frame(header)) > 0
    assert take(run, frame(header.replace("\u4e00".encode(), b"\xe4\xb8"))) == 0


@pytest.mark.parametrize("size", range(1, 18))
@pytest.mark.parametrize("wide", ["", "\u00e9", "\u4e00", "\U0001f600"])
def test_the_tags_code_is_javas_hash_at_each_length(size: int, wide: str) -> None:
    run = opened()
    for at in range(size + 1):
        tags = "abcdefghijklmnopq"[:at] + wide + "zyxwvutsrqponmlkj"[: size - at]
        properties = f"UNIQ_KEY\\u0001K1\\u0002TAGS\\u0001{tags}"
        header = HEADER.replace(rb"UNIQ_KEY\u0001K1\u0002KEYS\u0001k1", properties.encode())
        assert take(run, frame(header)) > 0
        assert run.places() == [("T1", 3)]
        assert run.finish(0, 1, [(0, -1)])
        (code,) = unpack_from(">q", run.units, 12)
        assert code == java_hash(tags)
        run.clear()
