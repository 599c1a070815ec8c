"""Signatures that the native code checks: it accepts only what Python accepts."""

import ctypes
import json
from random import Random
from typing import Any

import pytest
from tests.broker.fake_session import FakeSession
from tests.tiers import FIRST_SEED, choose

from epochmq.auth.connection_signature import (
    CONNECTION_SIGNATURE,
    DELAY_MAX_MS,
    SIGNED_MS,
    has_connection_signature,
    make_connection_signature,
    signature_problem,
)
from epochmq.auth.credentials import Credentials
from epochmq.auth.native_signatures import NativeSignatures, make_native_signatures, place_of
from epochmq.auth.signature import ACCESS_KEY, SIGNATURE, is_signed_by
from epochmq.native.library import library
from epochmq.store.native_send import SendRun, SendTexts
from epochmq.wire.command import Command, decode, encode_frame
from epochmq.wire.session import Challenge

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
HERE = place_of("10.0.0.9", encrypted=True)
ALICE = Credentials("alice", "alice-secret")
FIELDS = {
    "a": "PID", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000",
    "h": "0", "i": "UNIQ_KEY\x01K1\x02TAGS\x01ä", "j": "0", "k": "false", "m": "false",
}  # fmt: skip
ROUNDS = choose(4_000, 400_000)
native = library()
pytestmark = pytest.mark.skipif(
    make_native_signatures(native, connection_signatures_only=False) is None,
    reason="no native code or no libcrypto: Python checks all signatures",
)


class Reader:
    """The native code, with a grant for alice and topic T, and one connection."""

    def __init__(self, *, only: bool = False, secret: str = ALICE.secret_key) -> None:
        assert native is not None
        self.run = SendRun(native, HOST, SendTexts(b"\x02CLUSTER\x01c", b"", b"", 4000, 6000, True))
        self.run.add_topic("T", 4, 0)
        self.run.add_topic("U", 4, 0)
        self.run.allow(7, 1, ends=True)
        made = make_native_signatures(native, connection_signatures_only=only)
        assert made is not None
        self.signatures: NativeSignatures = made
        made.grant("alice", secret, "T", HERE)
        self.session = FakeSession()
        self.session.challenge = Challenge(bytes(range(32)), 0, 1)

    def accepts(self, frame: bytes, *, place: bytes = HERE, now: int = 0) -> bool:
        """Return whether the native code takes the whole frame."""
        challenge = self.session.challenge
        self.signatures.look_at(place, challenge, now)
        buffer = (ctypes.c_char * len(frame)).from_buffer_copy(frame)
        taken = self.run.stage_raw(
            ctypes.addressof(buffer), len(frame), HOST, self.signatures.address
        )
        if challenge is not None:
            self.signatures.note(challenge)
        self.run.clear()
        self.run.drop_ends()
        return taken == len(frame)

    def sign(self, command: Command, user: Credentials = ALICE, signed_ms: int = 0) -> None:
        """Sign for the connection."""
        ext = command.ext = {**(command.ext or {}), ACCESS_KEY: user.access_key}
        ext[SIGNED_MS] = str(signed_ms)
        assert self.session.challenge is not None
        nonce = self.session.challenge.nonce
        ext[CONNECTION_SIGNATURE] = make_connection_signature(nonce, command, user.secret_key)


def a_send(opaque: int = 2, **more: Any) -> Command:
    fields = {"code": 310, "ext": dict(FIELDS), "body": b"x" * 100, "opaque": opaque}
    return Command(**{**fields, **more})


def old(user: Credentials = ALICE, **more: Any) -> bytes:
    command = a_send(**more)
    user.sign(command)
    return encode_frame(command)


def test_signed_sends_are_accepted() -> None:
    reader = Reader()
    for _ in range(2):  # RocketMQ's signature can be repeated
        assert reader.accepts(old())
    assert reader.accepts(old(Credentials("alice", "alice-secret", "token")))
    assert reader.accepts(old(ext={**FIELDS, "n": "broker-a", "中": "文"}))
    command = a_send()
    reader.sign(command)
    assert reader.accepts(encode_frame(command))


@pytest.mark.parametrize("secret", ["k" * 64, "k" * 65, "s\u00e9", "x" * 500])
def test_secrets_of_any_length(secret: str) -> None:
    reader, user = Reader(secret=secret), Credentials("alice", secret)
    assert reader.accepts(old(user))
    command = a_send()
    reader.sign(command, user)
    assert reader.accepts(encode_frame(command))
    assert not reader.accepts(old())


@pytest.mark.parametrize("length", [*range(0, 140, 7), 1000, 3000])
def test_bodies_of_any_length(length: int) -> None:
    """Also around the blocks of the hashes; a send without a body is Python's."""
    for number in range(8):
        assert Reader().accepts(old(body=b"b" * (length + number))) is bool(length + number)


def test_what_has_no_grant_is_left_to_python() -> None:
    reader = Reader()
    assert not reader.accepts(old(Credentials("bob", "bob-secret")))
    assert not reader.accepts(old(ext={**FIELDS, "b": "U"}))
    assert not reader.accepts(old(), place=place_of("10.0.0.8", encrypted=True))
    assert not reader.accepts(old(), place=place_of("10.0.0.9", encrypted=False))
    assert not reader.accepts(encode_frame(a_send()))
    reader.signatures.clear()
    assert not reader.accepts(old())
    reader.signatures.grant("alice", "another", "T", HERE)
    assert not reader.accepts(old())


def test_ends_of_transactions_are_left_to_python() -> None:
    ext = {
        "producerGroup": "P", "tranStateTableOffset": "0", "commitLogOffset": "0",
        "commitOrRollback": "8", "msgId": "K1",
    }  # fmt: skip
    command = Command(37, ext=ext, opaque=3, flag=2)
    ALICE.sign(command)
    assert not Reader().accepts(encode_frame(command))


def test_only_signatures_of_the_connection() -> None:
    reader = Reader(only=True)
    assert not reader.accepts(old())
    command = a_send()
    reader.sign(command)
    assert reader.accepts(encode_frame(command))


def test_a_signature_for_the_connection_counts_once_and_in_time() -> None:
    reader = Reader()
    command = a_send(5)
    reader.sign(command)
    frame = encode_frame(command)
    assert not Reader().accepts(frame, now=DELAY_MAX_MS + 100)
    assert reader.accepts(frame, now=DELAY_MAX_MS)
    assert not reader.accepts(frame)
    earlier = a_send(4)
    reader.sign(earlier)
    assert not reader.accepts(encode_frame(earlier))
    other = Reader()
    other.session.challenge = Challenge(bytes(32), 0, 1)
    assert not other.accepts(frame)
    other.session.challenge = None
    assert not other.accepts(frame)


def test_a_send_that_python_must_store_is_not_counted() -> None:
    reader = Reader()
    command = a_send(5, body=b"x" * 5_000)
    reader.sign(command)
    assert not reader.accepts(encode_frame(command))
    assert reader.session.challenge is not None
    assert reader.session.challenge.last_opaque == 1


def test_grants_without_room_replace_the_others() -> None:
    reader = Reader()
    for number in range(300):  # more users than there is room for
        reader.signatures.grant(f"user-{number}", "secret", "T", HERE)
    assert not reader.accepts(old())
    assert reader.accepts(old(Credentials("user-299", "secret")))
    for number in range(5_000):  # more grants than there is room for
        reader.signatures.grant("alice", ALICE.secret_key, f"topic-{number}", HERE)
    reader.signatures.grant("alice", ALICE.secret_key, "T", HERE)
    assert reader.accepts(old())
    reader.signatures.grant("a" * 500, "secret", "T", HERE)  # never fits
    assert not reader.accepts(old(Credentials("a" * 500, "secret")))


def a_frame(random: Random, reader: Reader) -> bytes:
    """A signed frame with odd fields, changed after that or not."""
    ext = dict(FIELDS)
    for _ in range(random.randrange(4)):
        ext[random.choice(("n", "z", "Zz", "Abc", "AccessKez", "中", ""))] = random.choice(
            ("", "v", "/", "\\", '"', "ü", "😀", "\x01\x02", "\u2028")
        )
    command = a_send(random.choice((2, 3, 1)), ext=ext, body=random.randbytes(random.randrange(99)))
    if random.random() < 0.5:
        ALICE.sign(command)
    else:
        reader.sign(command, signed_ms=random.choice((0, 7, DELAY_MAX_MS * 2)))
    if random.random() < 0.3:
        command.code = random.choice((310, 10, 320))
    if random.random() < 0.3:
        command.opaque += random.choice((1, -1, 1 << 30))
    if random.random() < 0.3 and command.ext is not None:
        name = random.choice(list(command.ext))
        command.ext[name] = random.choice(("", "x", "T", command.ext[name] + "="))
    if random.random() < 0.2:
        assert command.ext is not None
        command.ext.pop(random.choice((SIGNATURE, SIGNED_MS, ACCESS_KEY)), None)
    frame = encode_frame(command)
    if random.random() < 0.3:  # the same text with other escapes
        size = int.from_bytes(frame[4:8], "big")
        header = json.dumps(json.loads(frame[8 : 8 + size]), ensure_ascii=True).encode()
        body = frame[8 + size :]
        frame = b"".join(
            ((4 + len(header) + len(body)).to_bytes(4, "big"), len(header).to_bytes(4, "big"))
        )
        frame += header + body
    if random.random() < 0.3:
        changed = bytearray(frame)
        changed[random.randrange(8, len(changed))] = random.randrange(256)
        frame = bytes(changed)
    return frame


def python_accepts(reader: Reader, frame: bytes) -> bool:
    size = int.from_bytes(frame[4:8], "big")
    command = decode(frame[8 : 8 + size], False, frame[8 + size :])
    ext = command.ext or {}
    if ext.get(ACCESS_KEY) != "alice" or ext.get("b") != "T" or command.code != 310:
        return False
    if has_connection_signature(ext):
        return signature_problem(command, reader.session, ALICE.secret_key, 0) == ""
    return is_signed_by(command, ALICE.secret_key)


def test_it_accepts_only_what_python_accepts() -> None:
    random, reader, accepted = Random(FIRST_SEED), Reader(), 0
    for _ in range(ROUNDS):
        frame = a_frame(random, reader)
        challenge = reader.session.challenge = Challenge(bytes(range(32)), 0, 1)
        if reader.accepts(frame):
            accepted += 1
            noted, challenge.last_opaque = challenge.last_opaque, 1
            assert python_accepts(reader, frame), frame
            assert challenge.last_opaque == noted
        else:
            assert challenge.last_opaque == 1
    assert accepted > ROUNDS // 10
