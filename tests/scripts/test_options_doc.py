"""The options page is built from the classes and nothing else."""

from dataclasses import dataclass
from pathlib import Path

import pytest

import options_doc
from epochmq.base.options import option


@dataclass(frozen=True)
class Sample:
    """What a sample needs.

    Not shown.
    """

    listen_port: int = option(1, "Port.", low=1, high=9)
    mode: str = option("A", "Mode.", choices=("A", "B"), mutable=True)
    wait: int = option(5, "Time to wait.", unit="ms")
    secret: str = option("", "Hidden.", secret=True)


def test_every_option_has_its_row() -> None:
    text = options_doc.build(iter([Sample]))
    assert "What a sample needs.\n" in text
    assert "Not shown" not in text
    assert "| `listenPort` | `1` | between 1 and 9 |  | Port. |" in text
    assert "| `mode` | `A` | A \\| B | yes | Mode. |" in text
    assert "| `wait` | `5` | int ms |  | Time to wait. |" in text
    assert "| `secret` |  | str |  | Hidden. |" in text


def _declares(text: str) -> bool:
    """With our `option`, not click's or a data source's."""
    return " = option(" in text and "from epochmq.base.options import" in text


def test_no_option_is_left_out() -> None:
    source = options_doc.ROOT / "src"
    declaring = {
        ".".join(path.relative_to(source).with_suffix("").parts)
        for path in source.rglob("*.py")
        # docs/PIPELINE.md lists the options of Spark's sources.
        if "spark" not in path.parts and _declares(path.read_text())
    }
    declaring.discard("epochmq.base.options")
    shown = {base.__module__ for cls in options_doc.option_classes() for base in cls.__mro__}
    assert declaring
    assert declaring <= shown


def test_check_never_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "OPTIONS.md"
    monkeypatch.setattr(options_doc, "TARGET", target)
    assert options_doc.main(["--check"]) == 1
    assert not target.exists()
    assert "make fix" in capsys.readouterr().out
    assert options_doc.main([]) == 0
    assert options_doc.main(["--check"]) == 0
