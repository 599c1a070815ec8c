"""The third-party clients: how each is had, and what its library does not offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from .drivers.build import (
    JAVA_CLIENTS,
    cpp_driver,
    cpp_extras_driver,
    go_driver,
    java_driver,
    node_driver,
    our_driver,
)
from .drivers.driver import Driver

_ONE_PULL = "its one pull interface is tested"
_NO_PULL = "it has a push consumer only"


@dataclass(frozen=True)
class Client:
    """A client; ``lacks`` says by ability why a test is skipped."""

    name: str
    build: Callable[[], Driver]
    lacks: Mapping[str, str] = field(default_factory=dict)
    broadcast_begins_at_end: bool = False


JAVA_5 = Client("Java5", partial(java_driver, JAVA_CLIENTS[0]))
JAVA_4 = Client("Java4", partial(java_driver, JAVA_CLIENTS[1]))
GO = Client("Go", go_driver, lacks={"litepull": _ONE_PULL})
CPP = Client(
    "Cpp",
    cpp_driver,
    lacks={
        "litepull": _ONE_PULL,
        "SQL92 filter": "the Python package passes tags only",
        "batch": "it marks a batch by batch=1, which upstream reads as false",
        "dead letter on upstream's broker": "5.3 fails on its send-back, which names no topic",
    },
    broadcast_begins_at_end=True,
)
CPP_EXTRAS = replace(CPP, build=cpp_extras_driver)
"""With transactions and quick routes: its library is called past the C interface."""
NODE = Client(
    "Node",
    node_driver,
    lacks={
        "pull": _NO_PULL,
        "litepull": _NO_PULL,
        "batch": "it sends one message a request",
        "oneway": "every send waits for its answer",
        "offset reset": "it ignores the broker's notice",
    },
)
OURS = Client("Ours", our_driver, lacks={"litepull": _ONE_PULL})
ALL = (JAVA_5, JAVA_4, GO, CPP, NODE)
