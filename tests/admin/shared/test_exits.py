"""Which error ends in which exit code, and what is said."""

import os
import subprocess
import sys

import pytest

from epochmq.admin.shared import exits
from epochmq.base.errors import (
    ConfigError,
    EpochError,
    NotFound,
    NotReachable,
    OurBug,
    PortInUse,
    Refused,
    UsageError,
)
from epochmq.runtime.listen import listen
from epochmq.wire.codes import ResponseCode


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PortInUse("taken"), 1),
        (Refused(1, "no"), 1),
        (ValueError("a bug"), 1),
        (UsageError("x"), 2),
        (ConfigError(["x"]), 2),
        (NotReachable("x"), 3),
        (exits.Unhealthy("x"), 4),
        (NotFound("x"), 5),
        (Refused(ResponseCode.TOPIC_NOT_EXIST, "x"), 5),
        (Refused(ResponseCode.QUERY_NOT_FOUND, "x"), 5),
        (Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "x"), 5),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_error_has_its_code(error: BaseException, code: int) -> None:
    assert exits.exit_code(error) == code


def test_what_users_are_told() -> None:
    assert exits.explain(EpochError("the port is taken")) == "the port is taken"
    with listen("127.0.0.1", 0) as sock:
        said = exits.explain(PortInUse("the port is taken", sock.getsockname()[1]))
    assert said.startswith(f"the port is taken; it is taken by process {os.getpid()} (")
    assert exits.explain(Refused(14, "no permission")) == "refused: no permission (code 14)"
    assert exits.explain(FileNotFoundError(2, "No such file", "x")) == "x: No such file"
    for bug in (KeyError("x"), OurBug("offsets crossed")):
        assert "a bug in EpochMQ" in exits.explain(bug)


@pytest.mark.parametrize("error", [EpochError(""), KeyError(), FileNotFoundError(), OSError(5, "")])
def test_no_error_is_told_without_a_word(error: BaseException) -> None:
    assert type(error).__name__ in exits.explain(error)


@pytest.mark.parametrize("module", ["numpy", "pyspark.sql", "deltalake", "pyarrow", "fastavro"])
def test_a_missing_extra_is_named(module: str) -> None:
    said = exits.explain(ModuleNotFoundError(f"No module named '{module}'", name=module))
    assert said.startswith(f"this needs {module}, which is not installed: pip install 'epochmq[")
    assert "bug" in exits.explain(
        ModuleNotFoundError("No module named 'epochmq.x'", name="epochmq.x")
    )


HIDES = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        hidden = "numpy pandas pyarrow pyspark deltalake pyiceberg fsspec s3fs matplotlib"
        if name.partition(".")[0] in hidden.split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
from click.testing import CliRunner
from epochmq.admin.cli import cli
for command in sys.argv[1:]:
    ran = CliRunner().invoke(cli, ["pipeline", *command.split()])
    print(ran.exit_code, command, repr(ran.stderr))
"""
JOBS = (
    "archive T --table x", "replay x T", "compact x", "reconcile T --table x",
    "dlq G", "backfill x", "audit", "verify x", "repair x --from y",
)  # fmt: skip


def test_every_job_names_what_it_lacks() -> None:
    """In a process of its own, where what the extras install cannot be imported."""
    argv = [sys.executable, "-c", HIDES, *JOBS]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    lines = ran.stdout.splitlines()
    assert len(lines) == len(JOBS)
    for line in lines:
        assert "a bug in EpochMQ" not in line
        assert line.startswith(("1 ", "2 "))
        assert line.startswith("2 ") or "pip install 'epochmq[" in line
    assert lines[0].startswith("1 archive")
