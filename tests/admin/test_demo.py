"""`epochmq demo` with and without a checkout around the package; examples/demo has the demo's."""

from pathlib import Path

from click.testing import CliRunner

from epochmq.admin.demo import absent, command, command_in
from epochmq.admin.shared.exits import RootGroup
from examples.demo import __main__ as demo


def test_in_a_checkout_it_is_the_demo() -> None:
    assert command is demo.command


def test_elsewhere_it_says_what_the_demo_is_and_how_to_run_it(tmp_path: Path) -> None:
    assert command_in(tmp_path) is absent
    root = RootGroup({}, name="epochmq")
    root.get_command = lambda _context, _name: absent  # type: ignore[method-assign]
    root.table = {"demo": ("", "")}
    ended = CliRunner().invoke(root, ["demo", "--messages", "100", "-o", "json"])
    assert ended.exit_code == 1
    assert ended.output.count("\n") == 1
    assert "run `make demo` in a checkout" in ended.output
