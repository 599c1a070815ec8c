"""Options, and where a command prints."""

import click
import pytest
from click.testing import CliRunner

from epochmq.admin.mqadmin.running import MqCommand, Out, flag, one_of, opt, snake


def test_names() -> None:
    assert snake("topic") == "topic"
    assert snake("showClientIP") == "show_client_ip"
    assert snake("whichBrokerWhenConsumeSlowly") == "which_broker_when_consume_slowly"
    assert snake("MessageNumber") == "message_number"


def test_one_of_two() -> None:
    one_of("a", None, "-a, -b")
    for pair in ((None, None), ("a", "b")):
        with pytest.raises(click.UsageError, match="give one of -a, -b"):
            one_of(*pair, "-a, -b")


def test_text_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    text, json = Out(False), Out(True)
    for out in (text, json):
        out.line("head")
        out.line("line", {"a": 1})
        out.row({"b": 2})
    assert capsys.readouterr().out == 'head\nline\n{"a": 1}\n{"b": 2}\n'


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (["-t", " x "], "x None False"),
        (["-topic", "x", "-s", "TRUE", "-l"], "x True True"),
        (["--topic=x", "--sub", "false"], "x False False"),
        (["-topic=x", "-list"], "x None True"),
    ],
)
def test_options_are_read(args: list[str], shown: str) -> None:
    result = CliRunner().invoke(_command(), args)
    assert result.output == f"{shown}\n"


@pytest.mark.parametrize("args", [[], ["-t", " "], ["-t", "x", "-s", "1"]])
def test_options_are_checked(args: list[str]) -> None:
    assert CliRunner().invoke(_command(), args).exit_code == 2


def _command() -> click.Command:
    return MqCommand(
        "c",
        callback=lambda topic, sub, list: click.echo(f"{topic} {sub} {list}"),
        params=[
            opt("t", "topic", "", required=True),
            opt("s", "sub", "", bool),
            flag("l", "list", ""),
        ],
    )
