"""Archives on disk whose bits are flipped."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.spark.jobs.lake import FORMATS, FakeCluster, archive, topic

from epochmq.spark.jobs.archive import ArchiveOptions
from epochmq.tables.opening import open_table

LOCK = "_checkpoint"
CATALOG = "catalog.db"
__all__ = ["FORMATS", "archived", "files", "flips"]


def archived(place: Path, format: str, *, compact: bool = False, count: int = 10) -> FakeCluster:
    """An archive of two queues in three batches; what it was made of."""
    cluster = FakeCluster(made := topic(count=count))
    options = ArchiveOptions("", ("T",), str(place), format, compact_every=2 if compact else 0)
    archive(options, cluster)
    for _ in range(2):
        made.add(3)
        archive(options, cluster)
    if compact:
        open_table(str(place)).vacuum(0)
    return cluster


def files(place: Path) -> list[Path]:
    """Every file that belongs to the archive; a catalog in SQLite is not EpochMQ's to check."""
    found = (path for path in place.rglob("*") if path.is_file())
    return sorted(path for path in found if LOCK not in path.parts and path.name != CATALOG)


def flips(place: Path, count: int, seed: int) -> Iterator[str]:
    """The archive with one bit flipped, `count` times; each time it is made whole again."""
    rng = random.Random(seed)
    whole = place.with_name(f"{place.name}-whole")
    shutil.copytree(place, whole)
    paths = files(place)
    sizes = [path.stat().st_size for path in paths]
    for _ in range(count):
        (path,) = rng.choices(paths, sizes)
        changed = bytearray(path.read_bytes())
        at = rng.randrange(8 * len(changed))
        changed[at // 8] ^= 1 << at % 8
        path.write_bytes(changed)
        yield f"{path.relative_to(place)}, bit {at}"
        shutil.rmtree(place)
        shutil.copytree(whole, place)
