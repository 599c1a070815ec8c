"""A fixture for a folder ends with the folder only if the folder is a package."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_a_folder_with_package_fixtures_is_a_package() -> None:
    """pytest keeps such a fixture, and the servers it started, to the end of the session else."""
    folders = [
        file.parent
        for file in TESTS.rglob("*.py")
        if re.search(r"scope=\"package\"", file.read_text()) and file != Path(__file__)
    ]
    assert TESTS / "client" / "aio" in folders
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]
