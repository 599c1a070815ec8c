"""The commands of users and policies beside RocketMQ's own `mqadmin`, on its broker and on ours."""

from pathlib import Path

import pytest
from tests.admin.mqadmin.upstream import Command, run_upstream
from tests.admin.world import World
from tests.compat.peers.cache import UnavailableError
from tests.compat.peers.cluster import Cluster
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.java import JavaCluster
from tests.compat.peers.secure import ADMIN, ADMIN_ENV, SECURE

pytestmark = [pytest.mark.compat, pytest.mark.slow]

WHERE = ("-c", "DefaultCluster")


def commands(name: str) -> list[Command]:
    """The life of a user and of its policies."""
    user, subject = ("-u", name), ("-s", f"User:{name}")
    return [
        ("createUser", *WHERE, *user, "-p", "secret-1"),
        ("getUser", *WHERE, *user),
        ("updateUser", *WHERE, *user, "-t", "Super"),
        ("updateUser", *WHERE, *user, "-s", "disable"),
        ("listUser", *WHERE, "-f", name),
        ("createAcl", *WHERE, *subject, "-r", "Topic:a,Group:b*", "-a", "Pub,Sub", "-d", "Allow",
         "-i", "10.0.0.0/8"),
        ("getAcl", *WHERE, *subject),
        ("updateAcl", *WHERE, *subject, "-r", "Topic:a", "-a", "All", "-d", "Deny"),
        ("listAcl", *WHERE, "-s", name),
        ("deleteAcl", *WHERE, *subject, "-r", "Topic:a"),
        ("listAcl", *WHERE, *subject, "-r", "Group"),
        ("deleteAcl", *WHERE, *subject),
        ("deleteUser", *WHERE, *user),
    ]  # fmt: skip


def evened(text: str, name: str) -> list[str]:
    """The lines with the same user name, and with a password as our brokers answer it."""
    lines = text.replace(name, "NAME").replace("secret-1", "******").splitlines()
    return [" ".join(line.split()) for line in lines if line.strip()]


@pytest.mark.parametrize("kind", [EpochCluster, JavaCluster], ids=["ours", "rocketmq"])
def test_the_same_lines(tmp_path: Path, kind: type[Cluster]) -> None:
    try:
        cluster = kind(broker_config=SECURE)
        with cluster:
            theirs = run_upstream(commands("theirs"), cluster.namesrv_addr, tmp_path, ADMIN)
            world = World(cluster, env=ADMIN_ENV)
            ours = {command: world.mqadmin(*command) for command in commands("own")}
    except UnavailableError as missing:
        pytest.skip(f"RocketMQ's mqadmin cannot be had: {missing}")
    for (command, ran), text in zip(ours.items(), theirs.values(), strict=True):
        assert ran.code == 0, (command, ran)
        assert evened(ran.out, "own") == evened(text, "theirs"), command
