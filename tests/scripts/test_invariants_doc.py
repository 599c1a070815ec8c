"""docs/INVARIANTS.md: one row for each invariant, and what it cites is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "INVARIANTS.md").read_text()


def test_an_invariant_has_one_row() -> None:
    numbers = re.findall(r"^\| (INV-\d+) \|", TEXT, re.MULTILINE)
    assert len(numbers) > 25
    assert [number for number in numbers if numbers.count(number) > 1] == []


def test_the_files_that_are_cited_are_there() -> None:
    cited = re.findall(r"`([a-z_0-9]+/[a-z_0-9/]+\.py)`", TEXT)
    assert len(cited) > 100
    folders = (ROOT, ROOT / "src" / "epochmq", ROOT / "tests")
    assert [name for name in cited if not any((folder / name).exists() for folder in folders)] == []
