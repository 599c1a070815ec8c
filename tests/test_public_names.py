"""What `import epochmq` offers."""

import subprocess
import sys

import pytest

import epochmq
from epochmq.base import errors as base


def test_every_name_can_be_imported() -> None:
    for name in epochmq.__all__:
        assert getattr(epochmq, name) is not None
    assert set(epochmq.__all__) <= set(dir(epochmq))
    with pytest.raises(AttributeError, match="'Prodcuer'"):
        _ = epochmq.Prodcuer  # type: ignore[attr-defined]


def test_errors_are_those_that_are_raised() -> None:
    for name in epochmq.errors.__all__:
        assert getattr(epochmq.errors, name) is getattr(base, name)


def test_the_package_itself_imports_nothing() -> None:
    code = "import sys, epochmq; print([n for n in sys.modules if n.startswith('epochmq')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['epochmq']"
