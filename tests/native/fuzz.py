"""Random and hostile inputs for the native code, and one run of them all.

Run as a program under the address sanitiser by test_library.py: every call must stay within the
buffers it was given, whatever the bytes are.
"""

import ctypes
import sys
from pathlib import Path
from random import Random
from struct import pack

from epochmq.auth.native_signatures import make_native_signatures
from epochmq.broker.requests.native_pulls import MIRRORED
from epochmq.model.host import unpack
from epochmq.model.message import StoredMessage
from epochmq.model.record import HEAD, encode
from epochmq.native import library
from epochmq.native.library import RemakeArgs
from epochmq.native.native_index import IndexPut
from epochmq.spark.decode_native import (
    BLOCK,
    HOST_ROOM,
    ID_MAX,
    INT32,
    INT64,
    TIMES,
    WholeArgs,
)
from epochmq.store.native_batch import CheckedBatch, NativeBatch
from epochmq.store.native_records import NativeRecords
from epochmq.store.native_send import HALF, LEVELS, TIMED, SendRun, SendTexts
from epochmq.store.pull_answers import PullHeadArgs
from epochmq.store.units import NativeNeighbours
from epochmq.wire.session import Challenge

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
NAMES = ("UNIQ_KEY", "KEYS", "TAGS", "WAIT", "DELAY", "CLUSTER", "a", "")
SINK = "__SINK_ID\x01s\x02__SINK_BATCH\x01{}\x02__SINK_PART\x010\x02__SINK_SEQ\x01{}"
WORDS = (
    "",
    "x",
    "a b",
    " lead",
    "trail ",
    "true",
    "ключ",
    "😀",
    "\u3000",
    "a\u2028b",
    "\x1c",
    "é" * 40,
)


def a_text(rng: Random) -> str:
    """A properties text: mostly sound, with repeated names and odd separators."""
    pairs = []
    for _ in range(rng.randrange(6)):
        pair = rng.choice(NAMES) + rng.choice(("\x01", "\x01", "\x01", "", "\x01\x01"))
        pairs.append(pair + rng.choice(WORDS) + rng.choice(("", str(rng.randrange(100)))))
    return "\x02".join(pairs) + rng.choice(("", "\x02", "\x02\x02"))


def an_entry(rng: Random) -> bytes:
    """One message of a batch."""
    body = rng.randbytes(rng.choice((1, 15, 16, 17, 63, 64, 65, 100, 1000)))
    text = a_text(rng).encode()
    head = pack(">IIIiI", 22 + len(body) + len(text), 0, 0, rng.randrange(-9, 9), len(body))
    return head + body + len(text).to_bytes(2, "big") + text


def damaged(rng: Random, data: bytes) -> bytes:
    """`data` with a few bytes changed, lost or added."""
    made = bytearray(data)
    for _ in range(rng.choice((0, 0, 1, 1, 3))):
        at = rng.randrange(len(made) + 1)
        change = rng.randrange(4)
        if change == 0 and at < len(made):
            made[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xC0, 0xED, 0xF4, 0xFF))
        elif change == 1:
            del made[at : at + rng.choice((1, 4, 30))]
        elif change == 2:
            made[at:at] = rng.randbytes(rng.choice((1, 4)))
        elif at + 4 <= len(made):
            made[at : at + 4] = rng.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", bytes(4)))
    return bytes(made)


def a_body(rng: Random) -> bytes:
    """The body of a batch request, sound or not."""
    if rng.random() < 0.2:
        return damaged(rng, a_run(rng))
    return damaged(rng, b"".join(an_entry(rng) for _ in range(rng.randrange(1, 6))))


def a_run(rng: Random) -> bytes:
    """What a sink sends, mostly in order."""
    batch, seq = rng.choice((0, 7, 10**17)), rng.choice((0, 5, 10**18 - 3))
    found = b""
    for _ in range(rng.randrange(1, 6)):
        text = SINK.format(batch, seq).encode()
        found += pack(">IIIiI", 23 + len(text), 0, 0, 0, 1) + b"b" + pack(">H", len(text)) + text
        seq += rng.choice((1, 1, 1, 1, 1, 0, 2))
    return found


FIELDS = {
    "a": ("PID", "p\\u0041", "ü"), "b": ("T", "T", "T", "Wide", "U"), "c": ("TBW102",),
    "d": ("4", "04"), "e": ("0", "1", "3", "4", "-1", "+1"), "f": ("0", "1", "256", "4", "-1"),
    "g": ("1700000000000", "-5", "9223372036854775807", "9223372036854775808"),
    "h": ("0", "-2147483648", "2147483648", "7"),
    "i": ("UNIQ_KEY\\u0001K1", "UNIQ_KEY\\u0001K\\u0002TAGS\\u0001\\u00e9\\u20ac😀",
          "UNIQ_KEY\\u0001K2\\u0002KEYS\\u0001a b\\u0002", "UNIQ_KEY\\u0001\\ud83d\\ude00",
          "UNIQ_KEY\\u0001a\\u0002b\\u0001\\\"\\\\\\/\\b\\f\\n\\r\\t", "WAIT\\u0001true", ""),
    "j": ("0", "3"), "k": ("false",), "l": ("16", "-1"), "m": ("false", "False", "true"),
    "n": ("broker",), "bname": ("b", "\\ud800"), "ns": ("",),
}  # fmt: skip


ASIDE = ("DELAY\\u00011", "DELAY\\u0001999999999", "TIMER_DELAY_SEC\\u00015",
         "TIMER_DELAY_MS\\u0001999999999999999", "TIMER_DELIVER_MS\\u000199999",
         "TRAN_MSG\\u0001true\\u0002PGROUP\\u0001P")  # fmt: skip
"""What puts a message aside, behind a key."""
END_FIELDS = {
    "producerGroup": ("P", "P", "ü", ""), "tranStateTableOffset": ("0", "5", "-1", "x"),
    "commitLogOffset": ("0", "99", "9223372036854775807"), "commitOrRollback": ("8", "12", "0"),
    "msgId": ("K1", "", "x" * 300), "transactionId": ("K1", "y"),
    "fromTransactionCheck": ("false", "true", "maybe"), "bname": ("b",),
}  # fmt: skip


def an_end(rng: Random, opaque: int) -> bytes:
    """A JSON header of an END_TRANSACTION: mostly one that nobody waits for."""
    fields = [f'"{name}":"{rng.choice(values)}"' for name, values in END_FIELDS.items()]
    flag = rng.choice((2, 2, 2, 0))
    text = '{{"code":37,"extFields":{{{}}},"flag":{},"opaque":{}}}'
    return text.format(",".join(fields[rng.choice((0, 0, 1)) :]), flag, opaque).encode()


SIGNED = {
    "AccessKey": ("alice", "alice", "bob", "\\u0061", ""),
    "Signature": ("A" * 27 + "=", "\\/" * 28, "A" * 400, ""),
    "ConnectionSignature": ("A" * 43 + "=", "A", "\\u0041" * 44),
    "SignedMs": ("7", "-1", "9" * 30, ""),
}


def a_header(rng: Random, opaque: int) -> bytes:
    """A JSON header of a send: mostly ordinary, first values more often than the others."""
    if rng.random() < 0.15:
        return an_end(rng, opaque)
    dull = rng.random() < 0.7
    fields = []
    for name, values in FIELDS.items():
        if name == "i" and rng.random() < 0.2:
            fields.append(f'"i":"UNIQ_KEY\\u0001K1\\u0002{rng.choice(ASIDE)}"')
            continue
        if name < "j" or rng.random() < 0.6:
            fields.append(f'"{name}":"{values[0] if dull and name != "i" else rng.choice(values)}"')
    if rng.random() < 0.5:
        fields += [f'"{name}":"{rng.choice(values)}"' for name, values in SIGNED.items()]
        fields += [f'"x{number}":"{number}"' for number in range(rng.choice((0, 0, 0, 15, 40)))]
        fields += rng.choice(([], [], fields[-1:]))
    if not dull:
        rng.shuffle(fields)
        fields = fields[: rng.choice((99, 99, 99, 8))]
    parts = [
        f'"code":{310 if dull else rng.choice((310, 310, 10, 320, 3100))}',
        '"extFields":{' + ",".join(fields) + "}",
        f'"flag":{0 if dull else rng.choice((0, 0, 2))}',
        '"language":"JAVA"',
        f'"opaque":{opaque}',
        '"serializeTypeCurrentRPC":"JSON"',
        f'"version":{401 if dull else rng.choice(("401", "4.01", "-1"))}',
    ]
    if not dull:
        rng.shuffle(parts)
        parts += rng.choice(([], [], ['"remark":null'], ['"opaque":5'], ['"x":[1]']))
    space = rng.choice(("", "", " ", "\n\t"))
    return ("{" + f",{space}".join(parts) + space + "}" + space).encode("utf-8", "surrogatepass")


def run(native: library.Library, seed: int, rounds: int) -> int:
    """Feed the native code; how many batches it took."""
    rng = Random(seed)
    maker = NativeBatch(native, HOST, 2000, index=True)
    head = HEAD.pack(0, 0xDAA320A7, 0, 0, 0, 0, 0, 0, 0, HOST, 0, HOST, 0, 0, 0)
    taken = 0
    for _ in range(rounds):
        tail, key = b"\x02CLUSTER\x01c", b""
        body = a_body(rng)
        request = CheckedBatch("T", 0, body, 0, 0, HOST, 0, tail, tail + b"\x02UNIQ_KEY\x01K", key)
        place = (rng.randrange(1 << 40), rng.choice((1 << 20, 300)), rng.randrange(100))
        made = maker.make(request, head, b"\x01T", 7, place, 1000)
        if made is not None:
            taken += 1
            if made.keys is not None:
                slots = memoryview(bytearray(4 * 7)).cast("i")
                IndexPut(made.keys.data, slots, bytearray(1), 1, 0).run(native)
        native.crc(body, len(body))
    return taken + take(native, rng, rounds)


def take(native: library.Library, rng: Random, rounds: int) -> int:
    """Feed reads of a connection, each at the very end of a buffer; how many sends were taken."""
    texts = SendTexts(b"\x02CLUSTER\x01c", b"M", b"E", 2000, 3000, True)
    harness = SendRun(native, HOST, texts)
    harness.add_topic("T", 4, 0)
    harness.add_topic("Wide", 2, 2)
    for kind, queues in ((HALF, 1), (LEVELS, 18), (TIMED, 1)):
        harness.add_topic(f"S{kind}", queues, 0, 0, kind)
    signatures = make_native_signatures(native, connection_signatures_only=False)
    if signatures is not None:
        signatures.grant("alice", "secret", "T", b"here")
    challenge = Challenge(bytes(32), 0, 0)
    taken = 0
    for number in range(rounds):
        harness.allow(rng.randrange(8), 1000, ends=rng.random() < 0.7)
        data = b""
        for _ in range(rng.randrange(1, 4)):
            header, body = a_header(rng, rng.randrange(-9, 9)), rng.randbytes(rng.randrange(100))
            data += pack(">II", 4 + len(header) + len(body), len(header)) + header + body
        buffer = bytearray(damaged(rng, data))
        if buffer:
            address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
            checks = None
            if signatures is not None and number % 4 == 0:
                signatures.look_at(b"here", challenge if number % 3 else None, 1000)
                checks = signatures.address
            harness.stage_raw(address, len(buffer), HOST, checks)
        if number % 7 == 0:
            taken += harness.count
            assert harness.finish(rng.randrange(1 << 50), 1000, [(5, -1) for _ in harness.places()])
            assert len(harness.unpack()) == harness.count
            harness.clear()
            ends = harness.ends()
            assert all(ends.header(end)[:1] == b"{" for end in ends.ends)
            harness.drop_ends()
    return taken


def remake(native: library.Library, rng: Random, rounds: int) -> int:
    """Feed records of messages that wait, damaged or not, that end with their buffer; how many
    were created again."""
    harness = SendRun(native, HOST, SendTexts(b"\x02", b"", b"", 3000, 3000, True))
    for kind in (HALF, LEVELS, TIMED):
        harness.add_topic(f"S{kind}", 1, 0, 0, kind)
    harness.add_topic("T", 4, 0)
    ending = pack("=qq10i", 0, 0, 8, 0, 0, 0, 0, 1, 1, 2, 3, 0)
    endings, texts = (ctypes.c_char * 56)(*ending), (ctypes.c_char * 4)(*b"PK1x")
    made = 0
    for _ in range(rounds):
        kind, data, rows = rng.randrange(3), b"", []
        for _ in range(rng.randrange(1, 4)):
            text = "UNIQ_KEY\x01K1\x02PGROUP\x01P\x02REAL_TOPIC\x01T\x02REAL_QID\x01"
            text += f"{rng.choice((1, 1, 1, 9))}\x02TIMER_OUT_MS\x015"
            text += rng.choice(("", "", "\x02" + a_text(rng)))
            one = encode(
                b"S%d" % kind,
                rng.randbytes(rng.choice((1, 64, 100))),
                text.encode(),
                0,
                0,
                0,
                len(data),
                0,
                0,
                HOST,
                9,
                HOST,
                0,
                0,
            )
            rows += [len(data), len(one) + rng.choice((0, 0, 0, 1)), 0]
            data += one
        buffer = (ctypes.c_char * len(data := damaged(rng, data)))(*data)
        sources = (ctypes.c_int64 * len(rows))(*rows)
        args = RemakeArgs(harness.send_turn_address, ctypes.addressof(buffer), 0, len(data))
        args.sources, args.count = ctypes.addressof(sources), len(rows) // 3
        args.kind, args.wall = kind, 1 << 40
        args.endings, args.texts = ctypes.addressof(endings), ctypes.addressof(texts)
        count = native.remake(ctypes.addressof(args))
        made += count
        assert count == harness.count == len(harness.unpack())
        assert harness.finish(1 << 20, 1000, [(5, -1) for _ in harness.places()])
        harness.clear()
    return made


def follow(native: library.Library, rng: Random, rounds: int) -> int:
    """Feed pieces of a log, damaged or not, that end with their buffer; how many were taken."""
    scans = [
        NativeRecords(native, index=index, crc=crc)
        for index in (True, False)
        for crc in (True, False)
    ]
    taken = 0
    for _ in range(rounds):
        data, start = b"", rng.choice((0, 1 << 20))
        for number in range(rng.randrange(1, 6)):
            host = rng.choice((HOST, HOST, bytes(20)))
            data += encode(
                rng.choice((b"T", b"T", b"W" * 200)),
                rng.randbytes(rng.choice((1, 64, 100))),
                a_text(rng).encode(),
                0,
                0,
                number,
                start + len(data),
                rng.choice((0, 0, 4, 12)),
                0,
                host,
                rng.randrange(1 << 41),
                host,
                0,
                0,
            )
        view = memoryview(bytearray(damaged(rng, data))).toreadonly()
        scan = rng.choice(scans)
        found = scan.decode(view, start, 0, len(view))
        taken += found.count if found is not None else 0
        scan.newest(view, 0, len(view), rng.choice((0, -1, 1 << 40)))
    return taken


def whole(native: library.Library, rng: Random, rounds: int) -> int:
    """Feed buffers to the Spark decoder's one pass, with room for just what it may write."""
    taken = 0
    for _ in range(rounds):
        data = b"".join(a_record(rng, number) for number in range(rng.randrange(1, 6)))
        made = damaged(rng, data)
        buffer = (ctypes.c_char * len(made))(*made)
        rows, bodies, texts = rng.randrange(1, 5), rng.choice((0, 150, 999)), rng.choice((90, 999))
        args = WholeArgs()
        args.bytes, args.size = ctypes.addressof(buffer), len(made)
        args.at = rng.choice((0, 0, 0, min(50, len(made))))
        args.limit, args.rows_max = rng.randrange(2000), rows
        args.skip_flags, args.stop_flags, args.body_max, args.text_max = 4, 128, bodies, texts
        args.first, args.last = rng.choice((0, 0, 0, 1)), rng.choice((2, 9, 9, 9))
        args.pairs_pairs_max = rng.choice((1, 64 * rows))
        name = (ctypes.c_char * 5)(*b"where")
        args.columns_name, args.columns_name_size = ctypes.addressof(name), 5
        held = []
        for part in rooms(rng, args, rows, bodies, texts):
            if rng.random() < 0.9:
                for field, size in part.items():
                    held.append((ctypes.c_char * size)())
                    setattr(args, field, ctypes.addressof(held[-1]))
        args.pairs_makes_ids = args.pairs_UNIQ_KEY_bounds is not None and rng.random() < 0.8
        count = native.whole(ctypes.addressof(args))
        assert count == args.count_rows <= rows
        assert args.end <= max(len(made), args.at)
        assert args.count_body <= bodies
        taken += count
    return taken


def a_record(rng: Random, number: int) -> bytes:
    """One record, mostly ordinary."""
    odd = rng.random() < 0.05
    when = rng.choice((0, 1 << 41, -1, 1 << 62)) if odd else 0
    host = rng.choice((HOST, HOST, bytes(8), b"\xff" * 8, bytes(20), b"\xff" * 20))
    text = a_text(rng).encode()
    return encode(
        rng.choice((b"W" * 256, b"\xff")) if odd else rng.choice((b"T", b"T", b"W" * 255)),
        rng.randbytes(rng.choice((0, 9, 100))),
        damaged(rng, text) if odd else text,
        0,
        0,
        number,
        0,
        rng.choice((0, 0, 0, 0, 0, 0, 0, 128, 4)),
        when,
        host,
        when,
        rng.choice((HOST, HOST, b"\xff" * 20)),
        0,
        0,
    )


def rooms(rng: Random, args: WholeArgs, rows: int, bodies: int, texts: int) -> list[dict[str, int]]:
    """The fields of buffers that are given together or left out, and room for just them."""
    bounds, text, hosts = 4 * rows + 4, texts + BLOCK, HOST_ROOM * rows + 32
    pairs = 4 * args.pairs_pairs_max + 4
    room = {"pairs_bounds": bounds, "pairs_names": text, "pairs_values": text}
    room |= {"pairs_name_bounds": pairs, "pairs_value_bounds": pairs}
    parts = [room if rng.random() < 0.8 else {}]
    for each, more in (("TAGS", 0), ("KEYS", 0), ("UNIQ_KEY", ID_MAX * rows)):
        room = {"bounds": bounds, "data": text + more, "valid": rows // 8 + 1}
        parts.append({f"pairs_{each}_{field}": size for field, size in room.items()})
    for each, size in (
        ("columns_body", bodies), ("columns_bornHost", hosts), ("columns_storeHost", hosts),
        ("raw", texts), ("columns_topic", 255 * rows + BLOCK), ("columns_brokerName", 5 * rows),
    ):  # fmt: skip
        parts.append({f"{each}Bounds": bounds, each: size})
    parts += [{f"columns_{each}": 4 * rows} for each in INT32]
    parts += [{f"columns_{each}": 8 * rows} for each in (*INT64, *TIMES)]
    return parts


def bare(native: library.Library, rng: Random, rounds: int) -> int:
    """Take the bodies out of records, damaged or not; how many bytes that saved."""
    saved = 0
    for _ in range(rounds):
        made = damaged(rng, some_records(rng))
        to = (ctypes.c_char * len(made))()
        size = native.bare(made, len(made), ctypes.addressof(to))
        assert 0 <= size <= len(made)
        saved += len(made) - size
    return saved


def messages(native: library.Library, rng: Random, rounds: int) -> int:
    """Make messages of records, damaged or not; how many."""
    made = 0
    for _ in range(rounds):
        data = damaged(rng, some_records(rng))
        end = ctypes.c_int64()
        found = native.messages(data, StoredMessage, unpack, ctypes.byref(end))
        assert 0 <= end.value <= len(data)
        made += len(found)
    return made


PULL_FIELDS = {
    "consumerGroup": ("G", "g" * 255, "g" * 256, "ü", ""), "topic": ("T", "t" * 255, "\\u0041"),
    "queueId": ("0", "-1", "01", "99999999999"), "queueOffset": ("5", "9223372036854775807"),
    "maxMsgNums": ("32", "x"), "sysFlag": ("4", "0", "5"), "commitOffset": ("0", "-1"),
    "suspendTimeoutMillis": ("15000", ""), "subscription": ("*", "A"), "subVersion": ("0",),
    "expressionType": ("TAG", "SQL92"), "bname": ("b", "\ud800"),
}  # fmt: skip


def pulls(native: library.Library, rng: Random, rounds: int) -> int:
    """Read pull requests that end with their buffer; how many were read."""
    read = 0
    for _ in range(rounds):
        dull = rng.random() < 0.7
        fields = [
            f'"{name}":"{values[0] if dull else rng.choice(values)}"'
            for name, values in PULL_FIELDS.items()
        ]
        if not dull:
            rng.shuffle(fields)
            fields += rng.choice(([], fields[:1], ['"queueId":5'], ['"x":"' + "y" * 4000 + '"']))
        text = '{"code":11,"extFields":{%s},"flag":0,"opaque":%d}'
        header = (text % (",".join(fields), rng.randrange(-9, 9))).encode("utf-8", "surrogatepass")
        data = damaged(rng, pack(">II", 4 + len(header), len(header)) + header)
        buffer, place = (ctypes.c_char * len(data))(*data), (ctypes.c_char * MIRRORED["pull"])()
        used = native.read_pull(ctypes.addressof(place), ctypes.addressof(buffer), len(data))
        assert 0 <= used <= len(data)
        read += used > 0
    return read


def answers(native: library.Library, rng: Random, rounds: int) -> int:
    """Answer pulls of records, damaged or not, with units that may point anywhere; how many."""
    made = 0
    neighbours = NativeNeighbours(native)
    for _ in range(rounds):
        data, units = b"", b""
        for number in range(rng.randrange(1, 6)):
            one = encode(b"T", rng.randbytes(rng.choice((1, 64))), b"", 0, 0, number, len(data),
                         0, 0, HOST, 9, HOST, 0, 0)  # fmt: skip
            units += pack(">qiq", len(data), len(one), 0)
            data += one
        view = memoryview(bytearray(damaged(rng, data)))
        units = damaged(rng, units)
        parts = [rng.randbytes(rng.choice((*[1] * 20, 9, 900))) for _ in range(8)]
        head = PullHeadArgs(
            sizes=(ctypes.c_int64 * 8)(*map(len, parts)),
            texts=b"".join(parts),
            size_max=rng.choice((1 << 20, 200)),
        )
        room = rng.choice((1 << 20, 300))
        answer = neighbours.answer(view, 0, units, 0, 0, room, ctypes.addressof(head))
        made += len(answer) > 0
    return made


def some_records(rng: Random) -> bytes:
    """Return up to five records with texts and hosts of all kinds."""
    return b"".join(
        encode(
            rng.choice((b"T", b"W" * 200)),
            rng.randbytes(rng.choice((0, 100))),
            a_text(rng).encode(),
            *(0, 0, number, 0, rng.choice((0, 0, 0, 128)), 0),
            rng.choice((HOST, HOST, bytes(20))),
            0,
            rng.choice((HOST, bytes(20))),
            *(0, 0),
        )
        for number in range(rng.randrange(1, 6))
    )


def main() -> None:
    """`fuzz.py LIBRARY ROUNDS`."""
    native, rounds = library.Library(Path(sys.argv[1])), int(sys.argv[2])
    assert whole(native, Random(6), rounds) > rounds // 4
    assert remake(native, Random(7), rounds) > rounds // 5
    assert bare(native, Random(8), rounds) > rounds * 50
    assert messages(native, Random(9), rounds) > rounds
    assert pulls(native, Random(10), rounds) > rounds // 5
    assert answers(native, Random(11), rounds) > rounds // 5
    taken = run(native, 1, rounds)
    print(f"followed: {follow(native, Random(2), rounds)}", file=sys.stderr)
    print(f"taken: {taken}")


if __name__ == "__main__":
    main()
