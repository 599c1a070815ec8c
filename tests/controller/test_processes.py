"""Three controllers as processes of their own; the leader is killed with -9."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.controller.world import (
    ALTER,
    APPLY_ID,
    ELECT,
    HEARTBEAT,
    INFO,
    METADATA,
    NAMES,
    REGISTER,
    SYNC_STATE,
)

from epochmq.base.errors import NotReachable
from epochmq.runtime.own_host import free_port
from epochmq.runtime.peers import Peers
from epochmq.wire.command import Command, request

pytestmark = pytest.mark.process

HOST = "127.0.0.1"
LEASE_MS = 2_000


class Controllers:
    """Three processes and a way to ask them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.addresses = [f"{HOST}:{free_port(HOST)}" for _ in range(3)]
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.peers = Peers()

    def start(self, address: str) -> None:
        number = self.addresses.index(address)
        folder = self.folder / f"n{number}"
        folder.mkdir(exist_ok=True)
        peers = ";".join(f"n{n}-{each}" for n, each in enumerate(self.addresses))
        lines = (
            "controllerDLegerGroup=g",
            f"controllerDLegerPeers={peers}",
            f"controllerDLegerSelfId=n{number}",
            "controllerBootstrap=true",
            f"controllerStorePath={folder}/data",
            f"configStorePath={folder}/changed.properties",
        )
        (folder / "controller.conf").write_text("\n".join(lines))
        with (folder / "log").open("ab") as log:
            self.running[address] = subprocess.Popen(
                [sys.executable, "-m", "epochmq", "controller", "-c", folder / "controller.conf"],
                stdout=log,
                stderr=log,
            )

    def kill(self, address: str) -> None:
        process = self.running.pop(address)
        process.kill()
        process.wait()

    async def leader(self) -> str:
        """The one that says it leads."""
        async with asyncio.timeout(30):
            while True:
                for address in list(self.running):
                    try:
                        answer = await self.peers.invoke(address, request(METADATA), 500)
                    except NotReachable:
                        continue
                    if answer.ext and answer.ext["isLeader"] == "true":
                        return address
                await asyncio.sleep(0.01)

    async def up(self, *addresses: str) -> None:
        """All of them answer."""
        async with asyncio.timeout(60):
            for address in addresses:
                while True:
                    with suppress(NotReachable):
                        await self.peers.invoke(address, request(METADATA), 500)
                        break
                    await asyncio.sleep(0.01)

    async def written(self, text: str, file: Path) -> None:
        """The file has `text` in it."""
        async with asyncio.timeout(60):
            while True:
                if text.encode() in file.read_bytes():
                    return
                await asyncio.sleep(0.02)

    async def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        return await self.peers.invoke(await self.leader(), request(code, ext, body), 5_000)

    async def beat(self, number: int, epoch: int) -> Command:
        """One heartbeat of a broker of ours to each controller; the leader's answer."""
        ext = {
            **NAMES,
            "brokerAddr": f"{HOST}:{number}",
            "brokerId": str(number),
            "epoch": str(epoch),
            "maxOffset": "100",
            "leaseWanted": "true",
            "incarnation": f"i{number}",
            "session": f"s{number}",
        }
        answers = []
        for address in list(self.running):
            try:
                answers.append(await self.peers.invoke(address, request(HEARTBEAT, ext), 1_000))
            except NotReachable:
                continue
        leading = [one for one in answers if one.ext and one.ext.get("isLeader") == "true"]
        return leading[0] if leading else answers[0]

    async def online(self, number: int) -> None:
        code = {**NAMES, "appliedBrokerId": str(number), "registerCheckCode": f"{number};1"}
        assert (await self.ask(APPLY_ID, code)).code == 0
        ext = {
            **NAMES,
            "brokerId": str(number),
            "brokerAddress": f"{HOST}:{number}",
            "incarnation": f"i{number}",
            "session": f"s{number}",
        }
        assert (await self.ask(REGISTER, ext)).code == 0
        await self.beat(number, 0)


@asynccontextmanager
async def three(folder: Path) -> AsyncIterator[Controllers]:
    controllers = Controllers(folder)
    for address in controllers.addresses:
        controllers.start(address)
    try:
        yield controllers
    finally:
        await controllers.peers.close()
        for address in list(controllers.running):
            controllers.kill(address)


async def test_a_killed_leader_is_replaced_within_a_lease_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    loop = asyncio.get_running_loop()
    async with three(tmp_path) as controllers:
        first = await controllers.leader()
        await controllers.online(1)
        await controllers.online(2)
        assert (await controllers.ask(ELECT, {**NAMES, "brokerId": "1"})).code in (0, 2011)
        info = (await controllers.ask(INFO, {"brokerName": "b"})).ext or {}
        master, epoch = int(info["masterBrokerId"]), int(info["masterEpoch"])
        await controllers.beat(3 - master, epoch)
        alter = {"brokerName": "b", "masterBrokerId": str(master), "masterEpoch": str(epoch)}
        body = b'{"syncStateSet":[1,2],"syncStateSetEpoch":1}'
        assert (await controllers.ask(ALTER, alter, body)).code == 0
        granted = await controllers.beat(master, epoch)
        assert granted.ext is not None
        assert granted.ext["leaseMillis"] == str(LEASE_MS)

        controllers.kill(first)
        killed = loop.time()
        while True:
            answer = await controllers.beat(master, epoch)
            if answer.ext and "leaseMillis" in answer.ext:
                break
            await asyncio.sleep(0.02)
        assert loop.time() - killed < LEASE_MS / 1000, "the master's lease never ran out"

        state = await controllers.ask(SYNC_STATE, None, b'["b"]')
        assert b'"masterEpoch":%d' % epoch in bytes(state.body)
        assert b'"syncStateSetEpoch":2' in bytes(state.body)

        controllers.start(first)
        for address in [one for one in controllers.addresses if one != first]:
            await controllers.leader()
            controllers.kill(address)
            controllers.start(address)
        after = await controllers.ask(SYNC_STATE, None, b'["b"]')
        assert b'"syncStateSetEpoch":2' in bytes(after.body)


async def test_one_lost_disk_of_three_loses_no_command(tmp_path: Path) -> None:
    """n2 is down, n0 and n1 decide, n0 dies, n1 loses its disk, n1 and n2 start."""
    async with three(tmp_path) as controllers:
        first, lost, late = controllers.addresses
        await controllers.leader()
        controllers.kill(late)
        await controllers.online(1)
        assert (await controllers.ask(ELECT, {**NAMES, "brokerId": "1"})).code == 0
        controllers.kill(first)
        controllers.kill(lost)
        shutil.rmtree(tmp_path / "n1" / "data")
        controllers.start(lost)
        controllers.start(late)
        await controllers.up(lost, late)
        for _ in range(20):
            for address in (lost, late):
                answer = await controllers.peers.invoke(address, request(METADATA), 5_000)
                assert answer.ext is not None
                assert answer.ext["isLeader"] == "false"
            await asyncio.sleep(0.1)
        assert "has an empty directory" in (tmp_path / "n1" / "log").read_text()
        controllers.start(first)
        info = (await controllers.ask(INFO, {"brokerName": "b"})).ext or {}
        assert info["masterBrokerId"] == "1"
        await controllers.written("controller n1 is confirmed", tmp_path / "n1" / "log")
        await controllers.written("n1 has caught up and votes again", tmp_path / "n1" / "log")
        controllers.kill(first)
        assert await controllers.leader() in (lost, late)
        info = (await controllers.ask(INFO, {"brokerName": "b"})).ext or {}
        assert info["masterBrokerId"] == "1"


async def test_a_controller_whose_journal_lost_data_ends_with_one_line(tmp_path: Path) -> None:
    async with three(tmp_path) as controllers:
        leader = await controllers.leader()
        address = next(one for one in controllers.addresses if one != leader)
        folder = tmp_path / f"n{controllers.addresses.index(address)}"
        journal = folder / "data" / "raft" / "journal"
        controllers.kill(address)
        older = journal.read_bytes()
        controllers.start(address)
        await controllers.up(address)
        await controllers.online(1)
        await controllers.written(f"{HOST}:1", journal)
        await controllers.beat(1, 0)
        controllers.kill(address)
        journal.write_bytes(older)
        (folder / "log").write_bytes(b"")
        controllers.start(address)
        process = controllers.running.pop(address)
        assert await asyncio.to_thread(process.wait, 60) != 0
        text = (folder / "log").read_text()
        assert "its journal lost data. Delete its directory and start it again" in text
        assert "Traceback" not in text
        assert await controllers.leader() == leader


async def test_sigterm_ends_a_controller_cleanly(tmp_path: Path) -> None:
    async with three(tmp_path) as controllers:
        leader = await controllers.leader()
        process = controllers.running.pop(leader)
        process.terminate()
        assert await asyncio.to_thread(process.wait, 10) == 0
        assert await controllers.leader() != leader


def test_what_is_wrong_is_said_in_a_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "epochmq", "controller", "--set", "controllerDLegerGroup=g"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert "controllerDLegerPeers' is missing" in done.stderr
    assert "Traceback" not in done.stderr
