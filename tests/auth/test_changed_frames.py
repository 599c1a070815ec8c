"""Frames that were changed on the way, and bytes of strangers: nothing of it is stored."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.broker.auth_harness import ADMIN, AuthHarness
from tests.broker.broker_harness import send
from tests.tiers import FIRST_SEED, choose

from epochmq.auth.policies import (
    BadPolicy,
    parse_actions,
    parse_decision,
    parse_resource,
    parse_source_ips,
)
from epochmq.auth.signature import SIGNATURE, signed_content
from epochmq.base.errors import PeerError
from epochmq.wire.command import Command, decode, encode_frame

FRAMES = choose(5_000, 500_000)
FRAMES_PER_BROKER = 500
"""Then a new broker: the store of the tests is small, and so is the number of its clients."""


def fresh() -> AuthHarness:
    harness = AuthHarness()
    harness.topic("T")
    return harness


def content_of(command: Command) -> tuple[bytes, str]:
    ext = command.ext or {}
    return signed_content(ext, command.body, command.version), ext.get(SIGNATURE, "")


def test_a_changed_frame_is_stored_only_if_what_was_signed_is_the_same() -> None:
    """The signature covers values of fields and the body; all else SECURITY.md names.

    The native code sees each frame first, after it was told of the user by a valid send.
    """
    harness, random = fresh(), Random(FIRST_SEED)
    original = send(b"body")
    original.opaque = 7
    ADMIN.sign(original)
    signed, frame = content_of(original), encode_frame(original)
    for number in range(FRAMES):
        if number % FRAMES_PER_BROKER == 0:
            harness = fresh()
        if number % 3 == 0:  # a refused frame makes the native code forget all users
            assert harness.client().ask(original).code == 0
        changed = bytearray(frame)
        for _ in range(random.choice((1, 1, 1, 2, 5))):
            changed[random.randrange(8, len(changed))] = random.randrange(256)
        client = harness.client()
        frames = client.reader.feed(bytes(changed))
        try:
            same = all(
                content_of(decode(each.header, each.binary, bytes(each.body))) == signed
                for each in frames
            )
        except PeerError:
            same = False
        before = harness.store.queue_bounds("T", 0)[1]
        client.put_raw(bytes(changed))
        harness.turn()
        grown = harness.store.queue_bounds("T", 0)[1] - before
        assert grown in (0, 1)
        assert not grown or same, bytes(changed)


def test_an_unsigned_frame_of_any_bytes_changes_nothing() -> None:
    harness, random = fresh(), Random(FIRST_SEED + 1)
    version = harness.node.accounts.version
    for number in range(FRAMES):
        if number % FRAMES_PER_BROKER == 0:
            harness = fresh()
            version = harness.node.accounts.version
        ext = {
            random.choice(("topic", "b", "AccessKey", "Signature", "username", "subject")): str(
                random.choice(("T", "admin", "inner", "User:admin", "", "ä", "\x00"))
            )
            for _ in range(random.randrange(4))
        }
        code = random.choice((10, 310, 320, 11, 17, 25, 34, 200, 215, 3001, 3003, 3008, 34009))
        command = Command(code, ext=ext, body=random.randbytes(random.randrange(40)))
        answer = harness.client().ask(command)
        too_long = answer.code == 1 and "a body of" in (answer.remark or "")
        assert answer.code == 16 or too_long, (code, ext)
        assert harness.node.accounts.version is version
        assert harness.store.queue_bounds("T", 0)[1] == 0


TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(["*", "Topic:", "Topic:*", "Group:a*", "10.0.0.0/8", "::1", "Pub", "Allow"]),
)


@given(st.lists(TEXTS, max_size=4))
def test_any_text_is_a_policy_or_an_error(texts: list[str]) -> None:
    for parse in (parse_actions, parse_source_ips):
        try:
            parse(texts)
        except BadPolicy:
            continue
    for text in texts:
        for read in (parse_resource, parse_decision):
            try:
                found = read(text)
            except BadPolicy:
                continue
            assert read(str(found)) == found
