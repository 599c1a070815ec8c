"""The rows of the table: what load each one is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One load: `conns` connections with `outstanding` requests each."""

    name: str
    mode: str  # send, batch or pull
    conns: int
    outstanding: int = 1
    size: int = 1024

    def loadgen_args(self) -> list[str]:
        """Arguments of the C load generator."""
        mode = "pull" if self.mode == "pull" else "send"
        args = ["-m", mode, "-c", str(self.conns), "-n", str(self.outstanding)]
        return [*args, "-s", str(self.size), *(["-k", "32"] if mode == "pull" else [])]


SENDS = (
    Row("send 1 x 1", "send", 1),
    Row("send 64 x 1", "send", 64),
    Row("send 256 x 1", "send", 256),
    Row("send 16 x 16", "send", 16, 16),
    Row("send batches of 32, 16 x 1", "batch", 16),
)
PULLS = (
    Row("pull 32, 16 x 1", "pull", 16),
    Row("pull 32, 4 x 4", "pull", 4, 4),
    Row("pull 32, 1 x 1", "pull", 1),
)
"""The fastest first: what it walked through is in the page cache and mapped for the others."""

FILL = Row("fill", "send", 16, 16)
FILL_S = 12.0
WARM_UP = Row("warm-up", "send", 64)
