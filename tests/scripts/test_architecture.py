"""Each file that a table of modules in ARCHITECTURE names is in its package."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
TEXT = (PROJECT / "docs" / "ARCHITECTURE.md").read_text()


def named(text: str) -> Iterator[tuple[str, str]]:
    """Yield (package, file) of the chapters "Modules of `package`"."""
    for chapter in re.split("^## ", text, flags=re.MULTILINE):
        title = re.match("Modules of `([a-z_]+)`", chapter)
        if title:
            for file in sorted(set(re.findall(r"`([a-z_0-9/]+\.py)`", chapter))):
                yield title[1], file


def is_there(package: str, file: str) -> bool:
    """Return whether a package, or one of its own packages, has the file."""
    sources = PROJECT / "src" / "epochmq"
    return (sources / file).exists() or any((sources / package).rglob(file))


@pytest.mark.parametrize(("package", "file"), list(named(TEXT)))
def test_what_is_named_exists(package: str, file: str) -> None:
    assert is_there(package, file)


def test_what_is_not_there_is_found() -> None:
    assert len(list(named(TEXT))) > 150
    assert list(named("## Modules of `store`\n`a.py`, `a.py`\n## Other\n`b.py`")) == [
        ("store", "a.py")
    ]
    assert not is_there("store", "no_such_file.py")
    assert is_there("controller", "controller_server.py")
