"""RocketMQ's proxy (5.3.3): serves gRPC clients in front of any brokers of its name server."""

from __future__ import annotations

import json

from .cache import maven_jars
from .java import TEST_FLAGS, TEST_HEAP, VERSION, server_argv
from .ports import free_port
from .process import Process
from .running import OneServer


class Proxy(OneServer):
    """The proxy in cluster mode. Use as a context; it logs in a directory of its own."""

    def __init__(self, namesrv: str, cluster_name: str = "DefaultCluster") -> None:
        super().__init__("proxy")
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
