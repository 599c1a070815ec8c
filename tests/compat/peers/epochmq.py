"""Our own name server and broker as real processes, started as a user would start them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from .cluster import Cluster


class EpochCluster(Cluster):
    """``epochmq namesrv`` and ``epochmq broker`` on properties files, with this interpreter."""

    kind = "epochmq"
    ready_timeout_s = 30.0

    def _namesrv_argv(self, config: Path) -> Sequence[str | Path]:
        return [sys.executable, "-m", "epochmq", "namesrv", "-c", config]

    def _broker_argv(self, config: Path) -> Sequence[str | Path]:
        return [sys.executable, "-m", "epochmq", "broker", "-c", config]
