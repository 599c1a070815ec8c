"""What is missing is said in one line that tells what to install."""

from pathlib import Path

import pytest

from epochmq.base.errors import EnvironmentFault
from epochmq.base.needs import need


def test_what_is_there_is_given() -> None:
    assert need("json", "spark").dumps([]) == "[]"


def test_a_missing_package_names_its_extra() -> None:
    with pytest.raises(
        EnvironmentFault, match=r"needs no_such, .*: pip install 'epochmq\[lake\]'$"
    ):
        need("no_such.part", "lake")


def test_a_package_that_misses_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_there.py").write_text("import not_there_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EnvironmentFault, match=r"half_there \(its not_there_at_all\)"):
        need("half_there", "lake")
