"""Whoever reaches a controller's port can write Raft messages with any name and any term.

A message counts only over a connection that the controller named knows as its own. Nothing forged
deposes a leader, raises a term, stops a process or outlives a restart.
"""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.controller.server.controller_internals import connection_to, is_refused, write_to
from tests.controller.server.test_controller_server import leader_of, options, serving
from tests.runtime.sinks import until

from epochmq.controller.server.controller_server import Controller
from epochmq.raft.raft_messages import (
    AnyMessage,
    AppendEntries,
    AppendReply,
    EntryKind,
    Heartbeat,
    HeartbeatReply,
    Install,
    Join,
    LogEntry,
    Snapshot,
    TimeoutNow,
    Vote,
    VoteReply,
    VotersAndLearners,
    Welcome,
    encode,
)
from epochmq.runtime.own_host import free_port
from epochmq.runtime.peers import Peer
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request

HIGHEST = (1 << 63) - 1
ELECTION_TIMEOUT_MS = 1_500
"""Long enough that a stalled test process elects nobody, so that only a forged message can."""
STRANGERS = VotersAndLearners(("n0", "n1", "evil"))


@asynccontextmanager
async def group(folder: Path, ports: list[int]) -> AsyncIterator[list[Controller]]:
    made = [
        Controller(options(folder, number, ports, election_timeout_millis=ELECTION_TIMEOUT_MS))
        for number in range(3)
    ]
    async with serving(made[0]), serving(made[1]), serving(made[2]):
        yield made


def forged(sender: str, to: str, term: int, last: int) -> list[AnyMessage]:
    entry = LogEntry(term, last + 1, EntryKind.DATA, b"evil")
    return [
        Vote(sender, to, HIGHEST, HIGHEST, HIGHEST, transfer=True),
        Vote(sender, to, term + 1, HIGHEST, HIGHEST, transfer=True),
        VoteReply(sender, to, HIGHEST, granted=False),
        Heartbeat(sender, to, term, 0, 1, 0),
        Heartbeat(sender, to, term + 1, HIGHEST, 1, 0),
        HeartbeatReply(sender, to, term, 1, 0, "evil"),
        AppendEntries(sender, to, term, last, term, last, (entry,)),
        AppendEntries(sender, to, term + 1, 0, 0, 1, (LogEntry(0, 1, EntryKind.DATA, b"evil"),)),
        AppendReply(sender, to, term, last + 1),
        Install(sender, to, term + 1, Snapshot(HIGHEST, 1, STRANGERS, b"")),
        TimeoutNow(sender, to, term),
        Join(sender, to, 0, "evil", ((sender, "evil"),)),
        Welcome(sender, to, 0, STRANGERS),
    ]


async def send(address: str, message: AnyMessage, ext: dict[str, str] | None) -> None:
    """Send it and wait until the connection is cut."""
    peer = await Peer.connect(address)
    await peer.oneway(request(RequestCode.RAFT_MESSAGE, ext, encode(message)))
    await until(lambda: peer.session.closed)
    peer.close()


@pytest.mark.parametrize("claims", ["another member", "a stranger"])
async def test_forged_messages_change_nothing(tmp_path: Path, claims: str) -> None:
    ports = [free_port("127.0.0.1") for _ in range(3)]
    async with group(tmp_path, ports) as controllers:
        leader = await leader_of(controllers)
        term = leader.node.raft.term
        for controller in controllers:
            peers = controller.options.peers()
            other = next(name for name in peers.addresses if name != peers.self_id)
            sender = other if claims == "another member" else "evil"
            last = controller.node.raft.core.log.last_index
            for message in forged(sender, peers.self_id, term, last):
                await send(peers.own_address, message, None)
                await send(peers.own_address, message, {"link": "0123456789abcdef"})
        assert await leader_of(controllers) is leader
        assert [one.node.raft.term for one in controllers] == [term] * 3
        assert all(one.node.raft.confirmed for one in controllers)
        assert not any(one.failed.done() for one in controllers)
    async with group(tmp_path, ports) as controllers:
        assert max(one.node.raft.term for one in controllers) <= term + 1
        again = await leader_of(controllers)
        assert again.node.raft.term < term + 20


async def test_a_known_connection_speaks_for_its_own_controller_only(tmp_path: Path) -> None:
    ports = [free_port("127.0.0.1") for _ in range(3)]
    async with group(tmp_path, ports) as controllers:
        leader = await leader_of(controllers)
        term, own = leader.node.raft.term, leader.options.peers().self_id
        one, two = (each for each in controllers if each is not leader)
        name = two.options.peers().self_id
        await until(lambda: connection_to(one, own) is not None)
        peer = connection_to(one, own)
        assert peer is not None
        write_to(one, own, encode(Heartbeat(name, own, term, 0, 1, 0)))
        await until(lambda: peer.session.closed)
        assert leader.node.core.context.leads
        assert not leader.failed.done()


async def test_a_copied_directory_makes_no_second_controller(tmp_path: Path) -> None:
    """A process under the id of another one is heard by nobody, so it votes for nobody either."""
    ports = [free_port("127.0.0.1") for _ in range(3)]
    async with group(tmp_path, ports) as controllers:
        leader = await leader_of(controllers)
        term = leader.node.raft.term
        shutil.copytree(tmp_path / "n1" / "raft", tmp_path / "copy" / "raft")
        store = str(tmp_path / "copy")
        copy = Controller(options(tmp_path, 1, ports, controller_store_path=store))
        await copy.start()
        refused = {"n0": 0, "n2": 0}
        while min(refused.values()) < 2:
            for name, count in refused.items():
                await until(lambda name=name: is_refused(copy, name))
                refused[name] = count + 1
        assert copy.node.raft.term <= term
        await copy.stop()
        assert leader.node.core.context.leads
        assert [one.node.raft.term for one in controllers] == [term] * 3


async def test_a_controller_of_a_version_before_is_believed(tmp_path: Path) -> None:
    """It answers that it does not know the question, from its configured address."""
    ports = [free_port("127.0.0.1") for _ in range(3)]
    made = [Controller(options(tmp_path, number, ports)) for number in range(3)]
    table = made[0].table
    made[0].table = lambda: {  # type: ignore[method-assign]
        code: handler for code, handler in table().items() if code != RequestCode.RAFT_LINK
    }
    async with serving(made[0]), serving(made[1]), serving(made[2]):
        leader = await leader_of(made)
        await until(
            lambda: {one.node.raft.leader_id for one in made} == {leader.node.raft.leader_id}
        )
        await until(lambda: all(one.node.raft.confirmed for one in made))
