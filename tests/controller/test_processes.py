"""Three controllers as processes of their own; the leader is killed with -9."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
