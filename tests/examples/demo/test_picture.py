"""The picture: a PNG that can be opened, whatever was found."""

import builtins
from pathlib import Path
from typing import Any

import pytest

from examples.demo.flights import Delay
from examples.demo.report import CurveMark, draw

PNG = b"\x89PNG\r\n"


@pytest.mark.parametrize("delays", [[], [Delay("UA", 5, 2, 1, 4), Delay("AA", 7, 1, 0, 0)]])
def test_a_picture(tmp_path: Path, delays: list[Delay]) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "flights.png"
    assert draw(path, [(0.1, 4.0), (0.4, 0.0)], [CurveMark(0.2, 0.3, "broker-0 killed")], delays)
    assert path.read_bytes().startswith(PNG)


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **named: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert not draw(tmp_path / "flights.png", [], [], [])
    assert not (tmp_path / "flights.png").exists()
