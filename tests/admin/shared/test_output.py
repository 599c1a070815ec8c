"""Tables and JSON lines."""

import json

import click
import pytest

from epochmq.admin.shared.output import output_option, print_json, show, text_of

ROWS = [
    {"topic": "a", "queues": 4, "secret": "only in JSON"},
    {"topic": "long name", "queues": None, "tags": ["x", "y"]},
]


def test_json_has_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    show("json", ("topic",), ROWS)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS


def test_a_pipe_gets_aligned_columns(capsys: pytest.CaptureFixture[str]) -> None:
    show("table", ("topic", "queues"), ROWS)
    assert capsys.readouterr().out == "TOPIC      QUEUES\na          4\nlong name  -\n"


def test_a_terminal_gets_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show("table", ("topic", "queues"), ROWS, title="Topics")
    out = capsys.readouterr().out
    assert "Topics" in out
    assert "─" in out
    assert "long name" in out


def test_cells() -> None:
    assert [text_of(value) for value in (None, True, [1, "b"], {"k": False})] == [
        "",
        "true",
        "1,b",
        "k=false",
    ]


def test_text_stays_readable(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"body": "grüß"})
    assert "grüß" in capsys.readouterr().out


def test_the_option_knows_two_forms() -> None:
    @click.command()
    @output_option
    def command(output: str) -> None: ...

    (option,) = command.params
    assert isinstance(option.type, click.Choice)
    assert option.default == "table"
