"""RocketMQ's proxy (5.3.3): serves gRPC clients in front of any brokers of its name server."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Self

from .cache import maven_jars
from .java import TEST_FLAGS, TEST_HEAP, VERSION, server_argv
from .ports import free_port
from .process import Process, is_listening
from .running import Running


class Proxy(Running):
    """The proxy in cluster mode. Use as a context; it logs in a directory of its own."""

    def __init__(self, namesrv: str, cluster_name: str = "DefaultCluster") -> None:
        self.root = Path(tempfile.mkdtemp(prefix="proxy-"))
        self.port = free_port()
        settings = {
            "rocketMQClusterName": cluster_name,
            "proxyMode": "CLUSTER",
            "namesrvAddr": namesrv,
            "grpcServerPort": self.port,
            "remotingListenPort": free_port(),
            "enableTopicMessageTypeCheck": False,
        }
        config = self.root / "proxy.json"
        config.write_text(json.dumps(settings))
        jars = maven_jars("proxy", VERSION)
        argv = server_argv(self.root, jars, TEST_HEAP, TEST_FLAGS, "proxy.ProxyStartup")
        home = {"HOME": str(self.root), "ROCKETMQ_HOME": str(self.root), "NAMESRV_ADDR": ""}
        self.process = Process("proxy", [*argv, "-pc", config], self.root / "proxy.log", home)

    @property
    def address(self) -> str:
        """What gRPC clients are given as endpoints."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start it and wait until it listens."""
        self.process.start()
        self.process.wait_ready(lambda: is_listening(self.port), 60)
        return self

    def stop(self) -> None:
        """Kill it and remove what it kept."""
        self.process.kill9()
        shutil.rmtree(self.root, ignore_errors=True)
