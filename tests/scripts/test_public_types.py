"""Type checkers know the type of everything that users import, without guessing.

`pyright --verifytypes` looks at a name with all that it leads to: arguments, results, attributes
and base classes. A name counts as unknown if an annotation is missing anywhere there.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

PUBLIC = (
    "epochmq",
    "epochmq.client.aio",
    "epochmq.client.sync",
    "epochmq.errors",
    "epochmq.kombu.virtual_transport",
    "epochmq.model.message",
    "epochmq.model.topic",
    "epochmq.spark",
    "epochmq.testing",
)
"""The packages from which the documentation imports."""


pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def symbols() -> Mapping[str, Mapping[str, object]]:
    """What pyright found, by the full name of each symbol."""
    # With --verifytypes pyright asks the first `python3` of the PATH for its packages,
    # whatever --pythonpath says.
    programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "basedpyright"),
            *("--verifytypes", "epochmq", "--ignoreexternal", "--outputjson"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PATH": programs},
    )
    report = json.loads(done.stdout)
    assert not report["generalDiagnostics"]
    return {symbol["name"]: symbol for symbol in report["typeCompleteness"]["symbols"]}


@pytest.mark.parametrize("package", PUBLIC)
def test_each_type_is_known(package: str, symbols: Mapping[str, Mapping[str, object]]) -> None:
    public = [name for name in symbols if name.rpartition(".")[0] == package]
    assert public
    unknown = {
        name: symbols[name]["diagnostics"]
        for name in public
        if symbols[name]["isExported"]
        and (not symbols[name]["isTypeKnown"] or symbols[name]["isTypeAmbiguous"])
    }
    assert not unknown
