"""Each file, folder and symbol that CONTRIBUTING names exists."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
TEXT = (PROJECT / "CONTRIBUTING.md").read_text()
NAMED = sorted(set(re.findall(r"`([\w.]+(?:/[\w.]+)+)(?:::(\w+))?`", TEXT)))


def missing(path: str, symbol: str) -> str | None:
    """Return what of `path` and `symbol` does not exist."""
    found = [base / path for base in (PROJECT, PROJECT / "src" / "epochmq")]
    file = next((file for file in found if file.exists()), None)
    if file is None:
        return path
    defined = rf"^(?:\s*(?:class|def|async def) {symbol}\b|{symbol}\b.*=)"
    if symbol and not re.search(defined, file.read_text(), re.MULTILINE):
        return f"{path}::{symbol}"
    return None


@pytest.mark.parametrize(("path", "symbol"), NAMED)
def test_what_is_named_exists(path: str, symbol: str) -> None:
    assert missing(path, symbol) is None


def test_what_is_not_there_is_found() -> None:
    assert len(NAMED) > 50
    assert missing("store/no_such_file.py", "") == "store/no_such_file.py"
    assert missing("store/flush.py", "NoSuchClass") == "store/flush.py::NoSuchClass"
