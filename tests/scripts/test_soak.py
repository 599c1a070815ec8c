"""`make soak`: stages are listed, chosen and skipped when they passed."""

from pathlib import Path

import pytest

import soak


@pytest.fixture(autouse=True)
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages that would have run; all but chaos pass."""
    stages: list[str] = []

    def run(stage: soak.Stage, note: Path) -> bool:
        stages.append(stage.name)
        return stage.name != "chaos"

    monkeypatch.setattr(soak, "FOLDER", tmp_path)
    monkeypatch.setattr(soak, "commit", lambda: "abc")
    monkeypatch.setattr(soak, "run", run)
    return stages


def test_list_runs_nothing(ran: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert soak.main(["--list"]) == 0
    assert ran == []
    shown = capsys.readouterr().out
    assert all(name in shown for name in soak.NAMES)
    assert "minutes" in shown


def test_without_a_name_all_stages_run_that_did_not_pass(ran: list[str], tmp_path: Path) -> None:
    (tmp_path / "abc").write_text("histories\n")
    assert soak.main([]) == 1
    assert ran == [name for name in soak.NAMES if name != "histories"]


def test_a_chosen_stage_runs_though_it_passed(ran: list[str], tmp_path: Path) -> None:
    (tmp_path / "abc").write_text("histories\n")
    assert soak.main(["histories"]) == 0
    assert ran == ["histories"]


def test_an_unknown_stage_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        soak.main(["histori"])
    assert "is not a stage; use histories" in capsys.readouterr().err
