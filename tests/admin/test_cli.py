"""The outermost command: what it names is there, and it imports nothing slow."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from epochmq import __version__
from epochmq.admin.cli import COMMANDS, SECTIONS, cli
from epochmq.native import library


def test_every_command_stands_in_one_section() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    shown = CliRunner().invoke(cli, [name, "--help"])
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith("Usage:")


def test_help_and_version() -> None:
    shown = CliRunner().invoke(cli, ["-h"]).output
    assert "completion" in shown.lower()
    assert "Exit codes: 0 done" in shown
    output = CliRunner().invoke(cli, ["--version"]).output
    assert output == f"epochmq {__version__}\nappend: {library.which()}\n"


def test_help_imports_nothing_slow() -> None:
    program = (
        "import sys, runpy; sys.argv = ['epochmq', '--help']\n"
        "try: runpy.run_module('epochmq', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "slow = {'asyncio', 'msgspec', 'rich', 'epochmq.model', 'epochmq.runtime'}\n"
        "print(sorted(slow & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stderr.decode().strip() == "[]"


def test_completion_script() -> None:
    made = CliRunner().invoke(
        cli, [], prog_name="epochmq", env={"_EPOCHMQ_COMPLETE": "bash_source"}
    )
    assert "_epochmq_completion" in made.output
