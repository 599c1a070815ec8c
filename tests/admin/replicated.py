"""A group of two replicas with its controllers, and commands run on it in this process."""

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Self

from click.testing import CliRunner
from tests.admin.world import Ran
from tests.client.aio.eventually import eventually

from epochmq.admin.cli import cli
from epochmq.admin.local.config_files import choose_anywhere
from epochmq.admin.local.local_cluster import LocalCluster
from epochmq.client.aio import Admin
from epochmq.wire.bodies.controller_bodies import ReplicasInfo

GROUP = "broker-a"
CLUSTER = "DefaultCluster"


class Replicas:
    """Started by `with`; every test finds both replicas in the set, whoever is master."""

    def __init__(self, directory: Path) -> None:
        self.cluster = LocalCluster(directory)

    @property
    def controllers(self) -> str:
        return ";".join(part.address for part in self.cluster.controllers)

    def run(self, *args: str) -> Ran:
        """`epochmq ARGS` against this group."""
        env = {"NAMESRV_ADDR": self.cluster.namesrv, "COLUMNS": "120"}
        result = CliRunner(env=env).invoke(cli, args)
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        return Ran(result.exit_code, result.stdout, result.stderr)

    async def state(self) -> ReplicasInfo:
        async with Admin(self.cluster.namesrv) as admin:
            return (await admin.sync_states(self.cluster.controllers[0].address, [GROUP]))[GROUP]

    async def whole(self) -> ReplicasInfo:
        """What the controllers say once both replicas are in the set."""
        return await eventually(self.state, lambda state: len(state.in_sync_replicas) == 2)

    def settled(self) -> ReplicasInfo:
        """`whole` for tests that run commands, which need a loop of their own."""
        return asyncio.run(self.whole())

    def __enter__(self) -> Self:
        self.cluster.start(choose_anywhere(replicas=2))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cluster.stop()
