"""Lazy groups: help without imports, near names, and one line for every way to end."""

import click
import pytest
from click.testing import CliRunner

from epochmq.admin.shared.exits import LazyGroup, RootGroup, nearest
from epochmq.base.errors import NotFound, NotReachable


@click.command()
def command() -> None:
    """Stands in this module under the name that groups look for."""
    raise NotFound("topic t does not exist")


HERE = {"here": (__name__, "This module."), "nowhere": ("epochmq.nowhere", "Not importable.")}


def root() -> RootGroup:
    return RootGroup(HERE, {"All": ("here", "nowhere")}, name="root")


def test_help_imports_nothing() -> None:
    shown = CliRunner().invoke(root(), ["--help"])
    assert shown.exit_code == 0
    assert "Not importable." in shown.output
    assert "All:" in shown.output


def test_a_mistyped_command_names_the_nearest() -> None:
    wrong = CliRunner().invoke(root(), ["hree"])
    assert wrong.exit_code == 2
    assert "no command 'hree' (did you mean 'here'?)" in wrong.output
    helped = CliRunner().invoke(root(), ["help"])
    assert (helped.exit_code, "no command 'help' (use --help)" in helped.output) == (2, True)
    inner = LazyGroup(HERE, name="inner")
    with pytest.raises(click.UsageError, match=r"no command 'xyz'$"):
        inner.resolve_command(click.Context(inner), ["xyz"])


def test_nearest_looks_past_case() -> None:
    assert nearest("topiclist", ["topicList", "topicRoute"]) == " (did you mean 'topicList'?)"
    assert nearest("zzz", ["topicList"]) == ""


def test_an_error_is_one_line_and_a_code() -> None:
    ended = CliRunner().invoke(root(), ["here"])
    assert (ended.exit_code, ended.output) == (5, "epochmq: topic t does not exist\n")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RuntimeError("odd"), 1, "epochmq: a bug in EpochMQ: RuntimeError: odd"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (click.Abort(), 130, "interrupted"),
        (click.UsageError("what?"), 2, "what?"),
        (SystemExit(7), 7, ""),
        (NotReachable("no name server answers: x"), 3, "`epochmq dev` starts one"),
    ],
)
def test_no_traceback_is_shown(
    error: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise error

    monkeypatch.setattr(command, "callback", fail)
    ended = CliRunner().invoke(root(), ["here"])
    assert ended.exit_code == code
    assert said in ended.output
    assert "Traceback" not in ended.output


def test_a_traceback_is_shown_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHMQ_DEBUG", "1")
    assert "Traceback" in CliRunner().invoke(root(), ["here"]).output


def test_a_number_returned_is_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "callback", lambda: 4)
    assert CliRunner().invoke(root(), ["here"]).exit_code == 4
