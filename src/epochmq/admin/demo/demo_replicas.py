"""Whether all replicas hold the same bytes, looked at in their files."""

from pathlib import Path

from epochmq.admin.local.local_cluster import LocalCluster
from epochmq.client.aio import Admin

_PIECE = 4 << 20


async def confirmed_end(cluster: LocalCluster) -> int:
    """How far every broker of the group has the log: the smallest of their ends."""
    ends = []
    async with Admin(cluster.namesrv) as admin:
        for part in cluster.brokers:
            ends.append((await admin.broker_epochs(part.address)).max_offset)
    return min(ends)


def compare(directory: Path, replicas: int, end: int) -> tuple[int, str | None]:
    """Bytes that all replicas hold alike below `end`, and what differs first, if anything."""
    logs = [directory / f"store-{number}" / "commitlog" for number in range(replicas)]
    compared = 0
    for file in sorted(path.name for path in logs[0].iterdir() if path.name.isdigit()):
        size = min((logs[0] / file).stat().st_size, end - int(file))
        for at in range(0, size, _PIECE):
            pieces = [_read(log / file, at, min(_PIECE, size - at)) for log in logs]
            if any(piece != pieces[0] for piece in pieces):
                return compared, f"the replicas' logs differ between {int(file) + at} and {end}"
            compared += len(pieces[0])
    return compared, None


def _read(file: Path, at: int, size: int) -> bytes:
    try:
        with file.open("rb") as opened:
            opened.seek(at)
            return opened.read(size)
    except OSError:
        return b""
