"""One name server and one broker as real processes in a directory of their own."""

from __future__ import annotations

import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from . import wire
from .ports import free_broker_port, free_port
from .process import Process, is_listening
from .running import Running

Config = Mapping[str, str | int | bool]


def properties(config: Config) -> str:
    """A Java properties file's text."""
    lines = []
    for key, value in config.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        lines.append(f"{key}={text}")
    return "\n".join(lines) + "\n"


class Cluster(Running):
    """What a test or a benchmark needs of a cluster, whoever's it is.

    ``root`` holds everything (``store/``, ``*.conf``, ``*.log``); it is a temporary directory that
    goes with the cluster unless the caller named one. ``broker_config`` adds to or overrides the
    defaults below, with upstream's option names. The processes are not started before ``start``.
    """

    kind = "?"
    ready_timeout_s = 60.0

    def __init__(
        self,
        root: Path | None = None,
        broker_config: Config | None = None,
        namesrv_config: Config | None = None,
        broker_name: str = "broker-a",
        cluster_name: str = "DefaultCluster",
    ) -> None:
        self._own_root = root is None
        self.root = Path(tempfile.mkdtemp(prefix="compat-")) if root is None else root.resolve()
        self.root.mkdir(parents=True, exist_ok=True)
        self.store = self.root / "store"
        self.broker_name = broker_name
        self.cluster_name = cluster_name
        self.namesrv_port = free_port()
        self.broker_port = free_broker_port()
        self.namesrv_config = {**self._namesrv_defaults(), **(namesrv_config or {})}
        self.broker_config = {**self._broker_defaults(), **(broker_config or {})}
        self.namesrv = Process(
            "namesrv",
            self._namesrv_argv(self.root / "namesrv.conf"),
            self.root / "namesrv.log",
            self._env(),
        )
        self.broker = Process(
            "broker",
            self._broker_argv(self.root / "broker.conf"),
            self.root / "broker.log",
            self._env(),
        )

    @property
    def namesrv_addr(self) -> str:
        """What a client is given."""
        return f"127.0.0.1:{self.namesrv_port}"

    @property
    def broker_addr(self) -> str:
        """The broker's main port."""
        return f"127.0.0.1:{self.broker_port}"

    @abstractmethod
    def _namesrv_argv(self, config: Path) -> Sequence[str | Path]: ...

    @abstractmethod
    def _broker_argv(self, config: Path) -> Sequence[str | Path]: ...

    def _env(self) -> Mapping[str, str]:
        return {"HOME": str(self.root)}

    def _namesrv_defaults(self) -> dict[str, str | int | bool]:
        return {"listenPort": self.namesrv_port, "bindAddress": "127.0.0.1"}

    def _broker_defaults(self) -> dict[str, str | int | bool]:
        return {
            "brokerClusterName": self.cluster_name,
            "brokerName": self.broker_name,
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": self.broker_port,
            "haListenPort": self.broker_port + 1,
            "namesrvAddr": self.namesrv_addr,
            "storePathRootDir": str(self.store),
            "storePathCommitLog": str(self.store / "commitlog"),
            "mappedFileSizeCommitLog": 64 << 20,
            "enablePropertyFilter": True,
        }

    def start(self) -> Self:
        """Start both and return once the broker is in the name server's table."""
        self.start_namesrv()
        return self.start_broker()

    def start_namesrv(self) -> Self:
        """Start the name server alone and wait for its port."""
        (self.root / "namesrv.conf").write_text(properties(self.namesrv_config))
        self.namesrv.start()
        self.namesrv.wait_ready(lambda: is_listening(self.namesrv_port), self.ready_timeout_s)
        return self

    def start_broker(self) -> Self:
        """Start (or start again) the broker on the same store and wait until it is registered."""
        (self.root / "broker.conf").write_text(properties(self.broker_config))
        self.broker.start()
        self.broker.wait_ready(self.is_ready, self.ready_timeout_s)
        return self

    def is_ready(self) -> bool:
        """The broker listens and the name server knows it."""
        return is_listening(self.broker_port) and wire.is_registered(
            self.namesrv_addr, self.broker_addr
        )

    def stop_broker(self) -> int | None:
        """A clean stop of the broker; its exit code."""
        return self.broker.stop()

    def kill9_broker(self) -> None:
        """A crash of the broker. The name server notices the closed channel by itself."""
        self.broker.kill9()

    def restart_broker(self) -> Self:
        """Stop cleanly, start again in place."""
        self.stop_broker()
        return self.start_broker()

    def stop(self) -> None:
        """Stop both; a temporary root is removed."""
        self.broker.stop()
        self.namesrv.stop()
        if self._own_root:
            shutil.rmtree(self.root, ignore_errors=True)
