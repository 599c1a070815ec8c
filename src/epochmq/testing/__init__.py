"""A test kit: real servers in the process of a test, faults on demand, fixtures for pytest.

`MiniCluster` starts a name server, controllers and brokers on loopback. `FaultProxy` stands between
a client and a server of any RocketMQ cluster. The fixtures are those of
`epochmq.testing.pytest_plugin`, which pytest loads by itself.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epochmq.testing.fault_proxy import FaultProxy
    from epochmq.testing.mini_cluster import MiniCluster

__all__ = ["FaultProxy", "MiniCluster"]

_MODULES = {
    "FaultProxy": "epochmq.testing.fault_proxy",
    "MiniCluster": "epochmq.testing.mini_cluster",
}


def __getattr__(name: str) -> object:
    """Import what is used: pytest loads this package, in projects that use no fixture too."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
