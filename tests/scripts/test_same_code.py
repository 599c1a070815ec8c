"""Tests never judge another clone's broker."""

import os
from pathlib import Path

import pytest
from tests.same_code import check_same_code

import epochmq


def test_children_import_what_the_tests_import() -> None:
    check_same_code(Path(epochmq.__file__))


def test_another_clone_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "epochmq"
    other.mkdir()
    (other / "__init__.py").touch()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with pytest.raises(ValueError, match=r"make setup"):
        check_same_code(Path(epochmq.__file__), environment)
