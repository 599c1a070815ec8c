"""Consume queues name records; damaged or foreign ones name none."""

from pathlib import Path
from random import Random

import pytest

from epochmq.spark.log_scan import Borders, QueueFile
from epochmq.store.draft import PRE_BLANK, UNIT, file_name

from .logs import image

LOG = image(60, 5)
END = LOG.base + len(LOG.data)


def queue(root: Path, units: list[tuple[int, int]], name: str = "T/0", blanks: int = 0) -> Path:
    folder = root / "consumequeue" / name
    folder.mkdir(parents=True)
    data = PRE_BLANK * blanks + b"".join(UNIT.pack(at, size, 0) for at, size in units)
    path = folder / file_name(0)
    path.write_bytes(data.ljust(4000, b"\0"))
    return path


def test_a_queue_file_is_searched_by_log_offset(tmp_path: Path) -> None:
    file = QueueFile(str(queue(tmp_path, [(100, 10), (200, 10), (300, 10)], blanks=2)))
    assert file.around(50) == (None, 100)
    assert file.around(200) == (100, 200)
    assert file.around(201) == (200, 300)
    assert file.around(999) == (300, None)


@pytest.mark.parametrize("step", [1000, 3000, 9000])
def test_cuts_are_records_at_least_a_step_apart(tmp_path: Path, step: int) -> None:
    rng = Random(step)
    here = [rng.randrange(2) for _ in LOG.records]
    for number in (0, 1):
        units = [r for r, owner in zip(LOG.records, here, strict=True) if owner == number]
        queue(tmp_path, units, f"T/{number}")
    cuts = Borders(tmp_path).cuts(bytes(LOG.data), LOG.base, END, step)
    offsets = [offset for offset, _ in LOG.records]
    assert set(cuts) <= set(offsets)
    assert cuts == sorted(set(cuts))
    assert all(b - a >= step for a, b in zip([LOG.base, *cuts], cuts, strict=False))
    assert len(cuts) >= (len(LOG.data) // step) // 2


def test_the_last_record_before_a_place_is_found_in_any_queue(tmp_path: Path) -> None:
    queue(tmp_path, LOG.records[:20], "T/0")
    queue(tmp_path, LOG.records[20:30], "U/3")
    borders = Borders(tmp_path)
    data = bytes(LOG.data)
    assert borders.last_before(data, LOG.base, END) == LOG.records[29][0]
    assert borders.last_before(data, LOG.base, LOG.records[10][0]) == LOG.records[9][0]
    assert borders.last_before(data, LOG.base, LOG.records[0][0]) is None


def test_a_unit_that_names_no_record_is_not_believed(tmp_path: Path) -> None:
    queue(tmp_path, [(at + 1, size) for at, size in LOG.records])
    borders = Borders(tmp_path)
    assert borders.cuts(bytes(LOG.data), LOG.base, END, 2000) == []
    assert borders.last_before(bytes(LOG.data), LOG.base, END) is None


def test_without_queues_nothing_is_known(tmp_path: Path) -> None:
    assert Borders(tmp_path).cuts(bytes(LOG.data), LOG.base, END, 2000) == []
    (tmp_path / "consumequeue" / "T" / "0").mkdir(parents=True)
    (tmp_path / "consumequeue" / "T" / "0" / file_name(0)).touch()
    assert Borders(tmp_path).last_before(bytes(LOG.data), LOG.base, END) is None
