"""Random and hostile inputs for the native code, and one run of them all.

Run as a program under the address sanitiser by test_library.py: every call must stay within the
buffers it was given, whatever the bytes are.
"""

import ctypes
import sys
from pathlib import Path
from random import Random
from struct import pack

from epochmq.model.record import HEAD, encode
from epochmq.spark.decode_native import (
    INT32,
    INT64,
    TIMES,
    ColumnsArgs,
    PairsArgs,
    RowsArgs,
    WholeArgs,
)
from epochmq.store.native import library
from epochmq.store.native.library import RemakeArgs
from epochmq.store.native.native_index import IndexPut
from epochmq.store.native_batch import CheckedBatch, NativeBatch
from epochmq.store.native_records import NativeRecords
from epochmq.store.native_send import HALF, LEVELS, TIMED, SendRun, SendTexts

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
    taken = 0
    for number in range(rounds):
        harness.allow(rng.randrange(8), ends=rng.random() < 0.7)
        data = b""
        for _ in range(rng.randrange(1, 4)):
            header, body = a_header(rng, rng.randrange(-9, 9)), rng.randbytes(rng.randrange(100))
            data += pack(">II", 4 + len(header) + len(body), len(header)) + header + body
        buffer = bytearray(damaged(rng, data))
        if buffer:
            address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
            harness.stage_raw(address, len(buffer), HOST, 1000)
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
    were made anew."""
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


def decode(native: library.Library, rng: Random, rounds: int) -> int:
    """Feed buffers to the Spark decoder's call, with room for a few records; how many it took."""
    taken = 0
    for _ in range(rounds):
        data = b"".join(
            encode(
                rng.choice((b"T", b"T", b"T", b"W" * 200)),
                rng.randbytes(rng.choice((0, 100))),
                a_text(rng).encode(),
                0,
                0,
                number,
                0,
                0,
                0,
                rng.choice((HOST, HOST, HOST, bytes(20))),
                0,
                HOST,
                0,
                0,
            )
            for number in range(rng.randrange(1, 6))
        )
        buffer = (ctypes.c_char * len(made := damaged(rng, data)))(*made)
        room, begin = rng.randrange(1, 5), rng.choice((0, 0, 0, min(50, len(made))))
        args = RowsArgs(ctypes.addressof(buffer), begin, rng.randrange(2000), len(made))
        places = [(ctypes.c_int64 * room)() for _ in range(4)]
        args.begins, args.bodies, args.topics, args.ends = map(ctypes.addressof, places)
        args.count_max = room
        count = native.rows(ctypes.addressof(args))
        assert 0 <= count <= room
        assert args.end == (places[3][count - 1] if count else begin) <= max(len(made), begin)
        taken += count
    return taken


def pairs(native: library.Library, rng: Random, rounds: int) -> int:
    """Feed properties to the Spark decoder's call, with room for just them; how many it took."""
    taken = 0
    for _ in range(rounds):
        texts = [damaged(rng, a_text(rng).encode()) for _ in range(rng.randrange(1, 4))]
        texts = [text for text in texts for _ in range(rng.choice((1, 1, 2)))]
        data, count = b"".join(texts), len(texts)
        ends = [sum(map(len, texts[: n + 1])) for n in range(count)]
        most = rng.choice((len(data) // 3 + 1, 2))
        buffer = (ctypes.c_char * len(data))(*data)
        names, values = ((ctypes.c_char * (len(data) + 16))() for _ in range(2))
        bounds = [(ctypes.c_int32 * (n + 1))() for n in (count, most, most)]
        columns = [
            ((ctypes.c_int32 * (count + 1))(), (ctypes.c_char * (len(data) + 16))(), valid)
            for valid in ((ctypes.c_char * (count // 8 + 1))() for _ in range(3))
        ]
        starts = (ctypes.c_int64 * count)(0, *ends[:-1])
        stops = (ctypes.c_int64 * count)(*ends)
        places = (ctypes.addressof(buffer), len(data), *map(ctypes.addressof, (starts, stops)))
        args = PairsArgs(*places, count, *map(ctypes.addressof, (*bounds, names, values)), most)
        for name, column in zip(("TAGS", "KEYS", "UNIQ_KEY"), columns, strict=True):
            for field, part in zip(("bounds", "data", "valid"), column, strict=True):
                setattr(args, f"{name}_{field}", ctypes.addressof(part))
        done = native.pairs(ctypes.addressof(args))
        assert not done or bounds[0][count] == args.count <= most
        taken += done
    return taken


def columns(native: library.Library, rng: Random, rounds: int) -> None:
    """Records that lie at the very end of a buffer, with room for just their columns."""
    for _ in range(rounds):
        count, ends = rng.randrange(1, 5), [0]
        data = b""
        for number in range(count):
            when, body = rng.choice((0, 1 << 41, -1, 1 << 62)), rng.randbytes(rng.choice((0, 9)))
            host = rng.choice((HOST, bytes(8), b"\xff" * 8))
            data += encode(
                rng.choice((b"T", b"T", b"\xff", b"W" * 100)),
                body,
                b"",
                0,
                0,
                number,
                0,
                0,
                when,
                host,
                when,
                HOST,
                0,
                0,
            )
            ends.append(len(data))
        buffer = (ctypes.c_char * len(data))(*data)
        size_at = [int.from_bytes(data[at + 84 : at + 88], "big") for at in ends[:-1]]
        bodies = [at + 88 + size for at, size in zip(ends[:-1], size_at, strict=True)]
        topics = [at + 1 for at in bodies]
        spans = (ends[:-1], bodies, topics, [at + data[at - 1] for at in topics])
        begins = [(ctypes.c_int64 * count)(*each) for each in spans]
        bounds, names = 4 * count + 4, sum(data[at - 1] for at in topics) + 16
        texts = [(bounds, sum(size_at)), *((bounds, 26 * count + 32),) * 2]
        texts += [(bounds, names), (bounds, 5 * count)]
        sizes = [
            *(4 * count,) * len(INT32),
            *(8 * count,) * len((*INT64, *TIMES)),
            *(each for pair in texts for each in pair),
        ]
        rooms = [(ctypes.c_char * size)() if rng.random() < 0.9 else None for size in sizes]
        for at in range(len((*INT32, *INT64, *TIMES)), len(rooms), 2):
            if rooms[at + 1] is None:
                rooms[at] = None
        places = [None if room is None else ctypes.addressof(room) for room in rooms]
        where = map(ctypes.addressof, begins)
        name = (ctypes.c_char * 5)(*b"where")
        named = (ctypes.addressof(name), len(name))
        args = ColumnsArgs(ctypes.addressof(buffer), count, *where, 0, *places, *named)
        native.columns(ctypes.addressof(args))


def whole(native: library.Library, rng: Random, rounds: int) -> int:
    """Feed buffers to the Spark decoder's one pass, with room for just what it may write."""
    taken = 0
    for _ in range(rounds):
        data = b"".join(
            encode(
                rng.choice((b"T", b"T", b"T", b"W" * 127)),
                rng.randbytes(rng.choice((0, 100))),
                a_text(rng).encode(),
                0,
                0,
                number,
                0,
                rng.choice((0, 0, 0, 128)),
                0,
                rng.choice((HOST, HOST, HOST, bytes(20))),
                0,
                HOST,
                0,
                0,
            )
            for number in range(rng.randrange(1, 6))
        )
        made = damaged(rng, data)
        buffer = (ctypes.c_char * len(made))(*made)
        rows, bodies, texts = rng.randrange(1, 5), rng.choice((0, 150, 999)), rng.choice((90, 999))
        args = WholeArgs()
        args.limit, args.size, args.rows_max = rng.randrange(2000), len(made), rows
        args.stop_flags, args.body_max, args.text_max = 128, bodies, texts
        args.columns_bytes = args.pairs_bytes = ctypes.addressof(buffer)
        args.pairs_size, args.pairs_pairs_max = len(made), rng.choice((1, 64 * rows))
        name = (ctypes.c_char * 5)(*b"where")
        args.columns_name, args.columns_name_size = ctypes.addressof(name), 5
        args.pairs_all_have_ids = rng.random() < 0.2
        pairs_room = 4 * args.pairs_pairs_max + 4
        rooms = {"pairs_bounds": 4 * rows + 4, "pairs_names": texts + 16}
        rooms |= {"pairs_values": texts + 16, "pairs_name_bounds": pairs_room}
        rooms |= {"pairs_value_bounds": pairs_room}
        parts = [rooms if rng.random() < 0.8 else {}]
        for each in ("TAGS", "KEYS", "UNIQ_KEY"):
            room = {"bounds": 4 * rows + 4, "data": texts + 16, "valid": rows // 8 + 1}
            parts.append({f"pairs_{each}_{field}": size for field, size in room.items()})
        for each, size in (
            ("columns_body", bodies), ("columns_bornHost", 26 * rows + 32), ("raw", texts),
            ("columns_storeHost", 26 * rows + 32), ("columns_topic", 255 * rows + 16),
            ("columns_brokerName", 5 * rows),
        ):  # fmt: skip
            parts.append({f"{each}Bounds": 4 * rows + 4, each: size})
        parts += [{f"columns_{each}": 4 * rows} for each in INT32]
        parts += [{f"columns_{each}": 8 * rows} for each in (*INT64, *TIMES)]
        held = []
        for part in parts:
            if rng.random() < 0.9:
                for field, size in part.items():
                    held.append((ctypes.c_char * size)())
                    setattr(args, field, ctypes.addressof(held[-1]))
        count = native.whole(ctypes.addressof(args))
        assert count == args.told_rows <= rows
        assert args.end <= len(made)
        assert args.told_body <= bodies
        taken += count
    return taken


def bare(native: library.Library, rng: Random, rounds: int) -> int:
    """Take the bodies out of records, damaged or not; how many bytes that saved."""
    saved = 0
    for _ in range(rounds):
        data = b"".join(
            encode(
                rng.choice((b"T", b"W" * 200)),
                rng.randbytes(rng.choice((0, 100))),
                a_text(rng).encode(),
                0,
                0,
                number,
                0,
                rng.choice((0, 0, 0, 128)),
                0,
                rng.choice((HOST, HOST, bytes(20))),
                0,
                rng.choice((HOST, bytes(20))),
                0,
                0,
            )
            for number in range(rng.randrange(1, 6))
        )
        made = damaged(rng, data)
        to = (ctypes.c_char * len(made))()
        size = native.bare(made, len(made), ctypes.addressof(to))
        assert 0 <= size <= len(made)
        saved += len(made) - size
    return saved


def main() -> None:
    """`fuzz.py LIBRARY ROUNDS`."""
    native, rounds = library.Library(Path(sys.argv[1])), int(sys.argv[2])
    assert decode(native, Random(3), rounds) > rounds // 4
    assert pairs(native, Random(4), rounds) > rounds // 4
    columns(native, Random(5), rounds)
    assert whole(native, Random(6), rounds) > rounds // 4
    assert remake(native, Random(7), rounds) > rounds // 5
    assert bare(native, Random(8), rounds) > rounds * 50
    taken = run(native, 1, rounds)
    print(f"followed: {follow(native, Random(2), rounds)}", file=sys.stderr)
    print(f"taken: {taken}")


if __name__ == "__main__":
    main()
