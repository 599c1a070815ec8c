"""Bars on a terminal, lines elsewhere."""

import pytest

from examples.demo import run as display
from examples.demo.run import Display


def test_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "LINE_S", 0.0)
    with Display(10, bars=False) as shown:
        shown.say("begins [here]")
        shown.show(5, 4)
    assert "begins [here]" in (err := capsys.readouterr().err)
    assert "sent 5, received 4" in err


def test_bars(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Display(10, bars=True) as shown:
        shown.say("begins [here]")
        shown.show(5, 4)
    err = capsys.readouterr().err
    assert "begins [here]" in err
    assert "received" in err
    assert "5/10" in err
