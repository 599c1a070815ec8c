"""Builds docs/EVENTS.md from the log calls of the product.

python scripts/events_doc.py           write it
python scripts/events_doc.py --check   only say whether it is up to date; exit code 1 if not

The names of events are the first words of their texts. Operators filter and alert by them, so a
changed text is a change that users see: this page shows it in a review.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from epochmq.runtime.log_json import event_name
from generated_page import write_or_check

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "EVENTS.md"
LEVELS = ("debug", "info", "warning", "error", "critical", "exception")
HEAD = """# Log events

Built from the log calls by `make fix`; do not edit. With `logFormat=json` each line has the name of
its event in `event`, and the values that are `%(...)` in its text in `values`. Lines of `debug` are
left out here. A text that consists of one value is named after its module.

| event | level | text |
|---|---|---|
"""


@dataclass(frozen=True)
class Event:
    """One log call."""

    name: str
    level: str
    text: str
    place: str


def events(source: Path) -> Iterator[Event]:
    """Yield the log calls with a fixed text below `source`."""
    for path in sorted(source.rglob("*.py")):
        relative = path.relative_to(source)
        module, place = ".".join(relative.with_suffix("").parts), relative.as_posix()
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "log." in text else ():
            event = _event(node, module, place)
            if event is not None:
                yield event


def _event(node: ast.AST, module: str, path: str) -> Event | None:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return None
    owner, level, first = node.func.value, node.func.attr, node.args[0]
    if not (isinstance(owner, ast.Name) and owner.id == "log" and level in LEVELS):
        return None
    if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
        return None
    name = _given(node) or event_name(first.value, module)
    shown = "error" if level == "exception" else level
    return Event(name, shown, first.value, f"{path}:{node.lineno}")


def _given(call: ast.Call) -> str | None:
    """Return the name that a call gives its event itself, as `extra={"event": ...}`."""
    for keyword in call.keywords:
        if keyword.arg == "extra":
            return str(ast.literal_eval(keyword.value)["event"])
    return None


def build(found: list[Event]) -> str:
    """Return the page."""
    rows = {(each.name, each.level, each.text) for each in found if each.level != "debug"}
    lines = (
        f"| `{name}` | {level} | {text.replace('|', chr(92) + '|')} |\n"
        for name, level, text in sorted(rows)
    )
    return HEAD + "".join(lines)


def problems(found: list[Event]) -> list[str]:
    """Return what is wrong with the log calls: values without names."""
    return [
        f"src/epochmq/{each.place}: log: the values of '{each.text}' have no names; write"
        " %(name)s and give a dict"
        for each in found
        if "%s" in each.text or "%d" in each.text or "%r" in each.text
    ]


def main(arguments: list[str]) -> int:
    """Write or check the page."""
    found = list(events(ROOT / "src" / "epochmq"))
    wrong = problems(found)
    print("\n".join(wrong), end="\n" if wrong else "")
    if wrong:
        return 1
    return write_or_check(TARGET, build(found), "log calls", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
