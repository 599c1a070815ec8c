"""Builds docs/OPTIONS.md from the options classes (every `options.py` of the product).

python scripts/options_doc.py           write it
python scripts/options_doc.py --check   only say whether it is up to date; exit code 1 if not
"""

import dataclasses
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

from epochmq.base.options import OptionRow, describe
from generated_page import write_or_check

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "OPTIONS.md"
HEAD = """# Options

Built from the options classes by `make fix`; do not edit. Keys are RocketMQ's. "runtime" marks what
`updateBrokerConfig` and its like may change while the process runs.
"""


def option_classes() -> Iterator[type]:
    """Classes with options, in the order of their files and lines."""
    source = ROOT / "src"
    files = [
        *source.glob("epochmq/*/**/options.py"),
        *source.glob("epochmq/broker/config/*_options.py"),
    ]
    for path in sorted(files):
        name = ".".join(path.relative_to(source).with_suffix("").parts)
        module = importlib.import_module(name)
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == name:
                if dataclasses.is_dataclass(value) and describe(value):
                    yield value


def build(classes: Iterator[type]) -> str:
    return HEAD + "".join(section(cls) for cls in classes)


def section(cls: type) -> str:
    rows = "".join(f"{line(row)}\n" for row in describe(cls))
    part = cls.__module__.split(".")[1]
    return (
        f"\n## {part}: {cls.__name__}\n\n{about(cls)}"
        f"| key | default | allowed | runtime | meaning |\n|---|---|---|---|---|\n{rows}"
    )


def about(cls: type) -> str:
    """The first paragraph of the class's own docstring; dataclass makes one up where none is."""
    text = cls.__doc__ or ""
    if text.startswith(f"{cls.__name__}("):
        return ""
    return " ".join(text.split("\n\n")[0].split()) + "\n\n"


def line(row: OptionRow) -> str:
    allowed = " ".join(filter(None, (row.allowed or row.type, row.unit)))
    runtime = "yes" if row.mutable else ""
    cells = (f"`{row.key}`", f"`{row.default}`" if row.default else "", allowed, runtime, row.doc)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main(arguments: list[str]) -> int:
    return write_or_check(TARGET, build(option_classes()), "options classes", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
