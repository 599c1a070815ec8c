"""The bar: on a terminal only, and cheap."""

import pytest

from epochmq.admin.shared import output as progress
from epochmq.admin.shared.output import Bar


def test_nothing_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar("sending", 10) as bar:
        bar.set(5, "five")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("total", [None, 10])
def test_a_terminal_sees_it(
    total: int | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal then
    monkeypatch.setattr(progress, "REDRAW_S", 0.0)
    with Bar("sending", total, shown=True) as bar:
        bar.set(5, "five sent")
    assert "five sent" in capsys.readouterr().err
