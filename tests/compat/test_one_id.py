"""Two brokers that are configured with one id are told, and clients see one of them (H20)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from .peers.cluster import Config
from .peers.group import OURS, Server
from .peers.pairs import Pairs
from .peers.ports import free_broker_port
from .peers.process import wait_until
from .test_acting_master import members

NAME = "broker-a"
SOON: Config = {"skipPreOnline": True, "mappedFileSizeCommitLog": 8 << 20}
WAIT_MAX_S = 60.0
USAGE = 2


def copy_of(broker: Server, root: Path) -> Server:
    """The same broker once more, with a port and a store of its own."""
    port = free_broker_port()
    more = {
        "listenPort": port,
        "haListenPort": port + 1,
        "storePathRootDir": str(root / "store"),
        "storePathCommitLog": str(root / "store" / "commitlog"),
    }
    return Server(OURS, "broker", root, port, {**broker.config, **more})


def has_ended(server: Server) -> bool:
    return not server.process.is_alive


def said(server: Server, text: str) -> bool:
    return text in server.process.log.read_text()


def test_the_second_does_not_start_until_the_first_is_gone(tmp_path: Path) -> None:
    """With and without acting masters; one that was only moved starts."""
    with Pairs(names=[NAME], root=tmp_path / "pairs", broker_config=SOON) as pairs:
        for original in pairs.group(NAME):
            number = int(original.config["brokerId"])
            copy = copy_of(original, tmp_path / f"copy-{number}")
            plain = copy_of(original, tmp_path / f"plain-{number}")
            plain.config["enableSlaveActingMaster"] = False
            for second in (copy, plain):
                second.start()
                wait_until(partial(has_ended, second), WAIT_MAX_S, "it ends")
                assert second.process.returncode == USAGE, second.process.log_tail()
                text = second.process.log_tail()
                told = f"another broker runs as id {number} of group {NAME} in DefaultCluster, at"
                assert f"{told} {original.address}; stop it" in text
                assert "Traceback" not in text
        assert pairs.is_ready()

        master, slave = pairs.group(NAME)
        master.process.kill9()
        moved = copy_of(master, tmp_path / "copy-0")
        try:
            moved.start()
            now = {0: moved.address, 1: slave.address}
            wait_until(lambda: members(pairs.namesrv_addr, NAME) == now, WAIT_MAX_S, "it moved")
        finally:
            moved.process.kill9()


def test_of_two_that_start_before_their_name_server_one_is_seen(tmp_path: Path) -> None:
    pairs = Pairs(names=[NAME], root=tmp_path / "pairs", broker_config=SOON)
    one = pairs.masters[NAME]
    other = copy_of(one, tmp_path / "copy")
    refusal = "two brokers are configured with one id"

    def refused() -> list[Server]:
        return [each for each in (one, other) if said(each, refusal)]

    try:
        for each in (one, other):
            each.start()
            each.process.wait_ready(partial(said, each, "cannot register"), WAIT_MAX_S)
        pairs.namesrv.start()
        wait_until(lambda: len(refused()) == 1, WAIT_MAX_S, "one of them is told")
        seen = other if refused() == [one] else one
        for _ in range(200):
            assert members(pairs.namesrv_addr, NAME) == {0: seen.address}
        seen.process.stop()
        left = one if seen is other else other
        wait_until(
            lambda: members(pairs.namesrv_addr, NAME) == {0: left.address},
            WAIT_MAX_S,
            "the other one when that is gone",
        )
    finally:
        other.process.kill9()
        pairs.stop()
