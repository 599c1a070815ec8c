"""Signatures bound to a connection: a vector, each changed part, repeated and delayed requests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.fake_session import FakeSession

from epochmq.auth.access_control import AccessControl, AccessRefused, AccessRules
from epochmq.auth.accounts import AccountTable
from epochmq.auth.connection_signature import (
    CONNECTION_SIGNATURE,
    DELAY_MAX_MS,
    NONCE,
    SIGNED_MS,
    challenge_handler,
    make_connection_signature,
    nonce_of,
    signature_problem,
)
from epochmq.auth.credentials import Credentials
from epochmq.auth.protected_table import protected
from epochmq.auth.server_keys import ServerAuthKeys
from epochmq.auth.signature import SIGNATURE
from epochmq.base.errors import NotReachable
from epochmq.runtime.peers import Peer, Peers
from epochmq.runtime.rng import new_nonce
from epochmq.runtime.server import RemotingServer
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.dispatcher import Dispatcher
from epochmq.wire.session import Session, Sign

ALICE = Credentials("alice", "alice-secret")
MADE_MS = 1_000_000
NOBODY = AccountTable()


class Link:
    """One connection: the server's session, and what signs the requests of its client."""

    def __init__(self, nonce: bytes = bytes(range(32)), user: Credentials = ALICE) -> None:
        self.session = FakeSession()
        self.client_ms = 0
        ask = user.ask_challenge()
        ask.opaque = 1
        reply = challenge_handler(lambda: nonce)(ask, self.session, MADE_MS)
        assert isinstance(reply, Reply)
        assert isinstance(reply.header, dict)
        answer = Command(reply.code, ext=dict(reply.header))
        self.sign: Sign = user.sign_for(answer, lambda: self.client_ms)

    def signed(self, opaque: int = 2, **more: Any) -> Command:
        command = Command(310, ext={"b": "topic", "i": "中"}, body=b"x", opaque=opaque, **more)
        self.sign(command)
        return command

    def problem(self, command: Command, age_ms: int = 0, secret: str = "alice-secret") -> str:
        return signature_problem(command, self.session, secret, MADE_MS + age_ms)


def test_vector() -> None:
    """Computed with `openssl dgst` from the rule in the docstring of the module."""
    command = Command(
        310, ext={"AccessKey": "alice", "SignedMs": "7", "b": "中"}, body=b"x", opaque=2
    )
    found = make_connection_signature(bytes(range(32)), command, "alice-secret")
    assert found == "89hLyHNG40p2h2ZEEFNwg0TfatXS/u6JIxco8TsEEJY="


def test_requests_are_accepted_once_and_in_order() -> None:
    link = Link()
    first, second, third = (link.signed(opaque) for opaque in (2, 3, 9))
    assert link.problem(first) == ""
    assert link.problem(third) == ""
    for again in (first, second, third):
        again_link = Link()
        again_link.session.challenge = link.session.challenge
        assert again_link.problem(again) == "repeated"
        assert again_link.session.transport.cut_for is not None


def test_opaques_wrap_around() -> None:
    link = Link()
    challenge = link.session.challenge
    assert challenge is not None
    challenge.last_opaque = 0x7FFFFFFE
    for opaque in (0x7FFFFFFF, 0, 1):
        assert link.problem(link.signed(opaque)) == ""
    assert link.problem(link.signed(0x7FFFFFFF)) == "repeated"


@pytest.mark.parametrize(
    ("age_ms", "client_ms", "problem"),
    [
        (0, 0, ""),
        (DELAY_MAX_MS, 0, ""),
        (DELAY_MAX_MS + 100, 0, "delayed"),
        (0, DELAY_MAX_MS + 1, "delayed"),
        (30 * 86_400_000, 30 * 86_400_000 - 2_000_000, ""),
        (30 * 86_400_000, 30 * 86_400_000 - 3_000_000, "delayed"),
    ],
)
def test_a_delayed_request_ends_the_connection(age_ms: int, client_ms: int, problem: str) -> None:
    link = Link()
    link.client_ms = client_ms
    assert link.problem(link.signed(), age_ms) == problem
    assert (link.session.transport.cut_for is not None) is bool(problem)


@pytest.mark.parametrize("signed_ms", ["", "-1", "x", "٣", "1" * 19, " 1"])
def test_a_time_that_is_none(signed_ms: str) -> None:
    link = Link()
    command = link.signed()
    assert command.ext is not None
    command.ext[SIGNED_MS] = signed_ms
    nonce = bytes(range(32))
    command.ext[CONNECTION_SIGNATURE] = make_connection_signature(nonce, command, "alice-secret")
    assert link.problem(command) == "delayed"


def test_another_connection() -> None:
    command = Link().signed()
    assert Link(nonce=bytes(32)).problem(command) == "wrong signature"
    unasked = Link()
    unasked.session.challenge = None
    assert unasked.problem(command) == "signed for another connection"
    assert Link().problem(command, secret="another") == "wrong signature"


def _code(command: Command) -> None:
    command.code = 200


def _opaque(command: Command) -> None:
    command.opaque += 1


def _flag(command: Command) -> None:
    command.flag |= 2


def _body(command: Command) -> None:
    command.body = b"y"


def _name(command: Command) -> None:
    assert command.ext is not None
    command.ext["c"] = command.ext.pop("b")


def _slide(command: Command) -> None:
    """Move a character from a value to its neighbour: RocketMQ's signature stays the same."""
    assert command.ext is not None
    command.ext |= {"b": "topi", "i": "c中"}


@pytest.mark.parametrize("change", [_code, _opaque, _flag, _body, _name, _slide])
def test_each_changed_part_is_noticed(change: Callable[[Command], None]) -> None:
    link = Link()
    command = link.signed()
    change(command)
    assert link.problem(command) == "wrong signature"


@given(
    fields=st.dictionaries(st.text(), st.text(), max_size=6),
    name=st.text(),
    value=st.text(),
    body=st.binary(max_size=40),
)
def test_another_field_is_noticed(
    fields: dict[str, str], name: str, value: str, body: bytes
) -> None:
    link = Link()
    command = Command(310, ext=fields, body=body, opaque=2)
    link.sign(command)
    assert command.ext is not None
    if name != CONNECTION_SIGNATURE and command.ext.get(name) != value:
        changed = Command(310, ext={**command.ext, name: value}, body=body, opaque=2)
        # Lone surrogates and unpaired halves all become "?", which no frame can carry.
        if value.isprintable() and name.isprintable():
            assert link.problem(changed) == "wrong signature"
    assert link.problem(command) == ""


def test_a_connection_has_one_challenge() -> None:
    link = Link()
    again = challenge_handler(lambda: bytes(32))(ALICE.ask_challenge(), link.session, 0)
    assert isinstance(again, Reply)
    assert again.code == 1
    assert link.problem(link.signed()) == ""


@pytest.mark.parametrize("answer", [{}, {NONCE: "x"}, {NONCE: "00"}])
def test_an_answer_without_a_nonce_means_rocketmqs_signatures(answer: dict[str, str]) -> None:
    assert nonce_of(Command(0, ext=answer)) is None
    command = Command(10)
    for sign in (
        Link().sign,
        ALICE.sign_for(Command(0, ext=answer), int),
        ALICE.sign_for(Command(3, ext={NONCE: "00" * 32}), int),
    ):
        sign(command)
    assert command.ext is not None
    assert set(command.ext) == {"AccessKey", SIGNATURE}


# Access control ------------------------------------------------------------------------------


def test_only_signatures_of_connections_where_an_option_says_so() -> None:
    rules = AccessRules(
        authenticates=True,
        authorizes=False,
        allows_plain=True,
        connection_signatures_only=True,
        supers=(ALICE,),
    )
    access = AccessControl(rules, NOBODY)
    link = Link()
    assert access.check(link.signed(), lambda _: [], link.session, MADE_MS).name == "alice"
    old = Command(310)
    ALICE.sign(old)
    with pytest.raises(AccessRefused) as refused:
        access.check(old, lambda _: [], link.session, MADE_MS)
    assert "connectionSignaturesOnly" in refused.value.remark
    wrong = Link(user=Credentials("alice", "wrong"))
    with pytest.raises(AccessRefused, match="the user or the signature is wrong"):
        access.check(wrong.signed(), lambda _: [], wrong.session, MADE_MS)
    assert access.check(ALICE.ask_challenge(), lambda _: [], link.session, MADE_MS).name == "-"


# Real connections ----------------------------------------------------------------------------

KEYS = ServerAuthKeys(
    authentication_enabled=True,
    init_authentication_user='{"username":"alice","password":"alice-secret"}',
    inner_client_authentication_credentials='{"accessKey":"inner","secretKey":"inner-secret"}',
    connection_signatures_only=True,
)
ECHO = int(RequestCode.PUT_KV_CONFIG)


@asynccontextmanager
async def served(sink: Dispatcher) -> AsyncIterator[str]:
    server = RemotingServer()
    try:
        yield f"127.0.0.1:{await server.start('127.0.0.1', 0, sink)}"
    finally:
        await server.stop(grace_ms=200)


async def test_a_client_and_a_server_agree() -> None:
    seen: list[Command] = []

    def note(command: Command, session: Session, now: int) -> Reply | Held:
        seen.append(command)
        return Reply(body=bytes(command.body))

    table = protected({ECHO: note}, KEYS, (), (), new_nonce)
    async with served(Dispatcher(table)) as addr:
        peers = Peers(signer=ALICE)
        for _ in range(2):
            answers = await asyncio.gather(
                *(peers.invoke(addr, Command(ECHO, body=b"%d" % n), 5_000) for n in range(50))
            )
            assert [answer.body for answer in answers] == [b"%d" % n for n in range(50)]
            peers.drop(addr)  # a new connection has a new challenge
        stranger = Peers(signer=Credentials("alice", "wrong"))
        assert (await stranger.invoke(addr, Command(ECHO), 5_000)).code == 16
        await peers.close()
        await stranger.close()
    assert all(CONNECTION_SIGNATURE in (command.ext or {}) for command in seen)
    assert len(seen) == 100


async def test_an_older_server_gets_rocketmqs_signatures() -> None:
    seen: list[Command] = []

    def note(command: Command, session: Session, now: int) -> Reply | Held:
        seen.append(command)
        return Reply()

    async with served(Dispatcher({ECHO: note})) as addr:
        peers = Peers(signer=ALICE)
        await peers.invoke(addr, Command(ECHO), 5_000)
        await peers.close()
    assert SIGNATURE in (seen[0].ext or {})


async def test_a_server_that_does_not_answer_the_challenge() -> None:
    table = {int(RequestCode.AUTH_CHALLENGE): lambda *_: HELD}
    async with served(Dispatcher(table)) as addr:
        with pytest.raises(NotReachable, match="did not answer request 34011"):
            await Peer.connect(addr, 50, signer=ALICE)
