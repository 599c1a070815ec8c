"""Commands in the documentation exist, with the options that the pages give them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from epochmq.admin.cli import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```(?:sh|bash)\n(.*?)^```", re.M | re.S)
_INLINE = re.compile(r"`(epochmq [^`]+)`")
_WORD = re.compile(r"[a-z][\w-]*")


def commands(text: str) -> Iterator[str]:
    """Every command line that begins with `epochmq`, in blocks and in code within lines."""
    for block in _BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            line = re.sub(r"\s#.*", "", line)
            for part in re.split(r"&&|;|(?<!\|)\|(?!\|)", line):
                if (found := part.strip()).startswith("epochmq "):
                    yield found
    for found in _INLINE.findall(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)):
        yield from (part.strip() for part in re.split(r"\\?\|(?= )", found))


def problem(line: str) -> str:
    """What is wrong with a command line; empty if nothing is."""
    try:
        words = shlex.split(line.replace("...", ""))[1:]
    except ValueError:
        return ""  # a sentence with an apostrophe
    command: click.Command = cli
    context, name, is_value = click.Context(cli), "epochmq", False
    for word in words:
        option, equals, _ = word.partition("=")
        if is_value:
            is_value = False
        elif word.startswith("-") and not re.fullmatch(r"-\d+", word):
            known = {each: p for p in command.params for each in (*p.opts, *p.secondary_opts)}
            if option not in {*known, "-h", "--help"}:
                return f"{name} has no option {option}"
            given = known.get(option)
            is_value = isinstance(given, click.Option) and not given.is_flag and not equals
        elif isinstance(command, click.Group):
            found = command.get_command(context, word) if _WORD.fullmatch(word) else None
            if found is None:  # a placeholder such as COMMAND, or alternatives: list|show
                return "" if not _WORD.fullmatch(word) else f"{name} has no command {word}"
            command, name = found, f"{name} {word}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_documented_commands_exist(page: Path) -> None:
    wrong = {line: found for line in commands(page.read_text()) if (found := problem(line))}
    assert wrong == {}


def test_the_check_finds_mistakes() -> None:
    assert problem("epochmq topic list -o json") == ""
    assert problem("epochmq topic lst") == "epochmq topic has no command lst"
    assert problem("epochmq topic list --colour") == "epochmq topic list has no option --colour"
    assert problem("epochmq mqadmin topicRoute -t x") == ""
    assert list(
        commands("```sh\nnothing && epochmq top | cat  # epochmq x\n```\n`epochmq dev`")
    ) == [
        "epochmq top",
        "epochmq dev",
    ]
