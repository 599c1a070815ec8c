"""Writes a page of the documentation that is built from the code, or compares it."""

from pathlib import Path


def write_or_check(target: Path, text: str, source: str, arguments: list[str]) -> int:
    """Write `text` to `target`; with --check in `arguments` only say whether it differs.

    Returns the exit code: 1 if it differs from what `source` would make it.
    """
    if "--check" not in arguments:
        target.write_text(text, encoding="utf-8")
        return 0
    if target.exists() and target.read_text(encoding="utf-8") == text:
        return 0
    print(f"docs/{target.name}:1: does not match the {source}; run `make fix`")
    return 1
