"""`make release`: what it refuses, and what it writes. The whole of it needs a package index."""

import json
import subprocess
from pathlib import Path

import pytest

import release

CHANGELOG = """# Changelog

## [1.1.0]

- New.

## [1.0.0]

- Old.
"""


def test_the_notes_are_the_newest_section() -> None:
    assert release.release_notes(CHANGELOG) == "- New.\n"


@pytest.mark.parametrize("text", ["", "# Changelog\n", "## [1.0.0]\n\n## [0.9.0]\n\n- Old.\n"])
def test_a_changelog_without_news_is_refused(text: str) -> None:
    with pytest.raises(release.ReleaseError, match="no text below its first"):
        release.release_notes(text)


def test_the_projects_own_changelog_has_notes() -> None:
    assert release.release_notes((release.ROOT / "CHANGELOG.md").read_text())


def test_files_that_are_not_committed_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old").touch()
    (tmp_path / release.SUMS).touch()
    monkeypatch.setattr(release, "output", lambda *command, env=None: " M src/epochmq/x.py\n")
    assert release.main(["--directory", str(tmp_path)]) == 1
    assert "src/epochmq/x.py" in capsys.readouterr().err
    assert (tmp_path / "old").exists()


def test_a_directory_with_other_files_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").touch()
    assert release.main(["--directory", str(tmp_path), "--allow-dirty"]) == 1
    assert "name another one" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").exists()


def test_a_tool_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*command: object, env: object = None) -> None:
        raise subprocess.CalledProcessError(3, ["twine", "check"])

    monkeypatch.setattr(release, "run", fail)
    assert release.main(["--directory", str(tmp_path / "d"), "--allow-dirty"]) == 1
    assert "`twine check` failed" in capsys.readouterr().err


def test_without_a_cross_compiler_there_is_no_wheel_of_that_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release.build_for("m68k", "m68k-no-such-gcc", tmp_path / "x.tar.gz") is None
    assert "no wheel for m68k: m68k-no-such-gcc is not installed" in capsys.readouterr().out


def test_a_cross_built_wheel_for_a_newer_glibc_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[object, ...]] = []

    def build(*command: object, env: object = None) -> None:
        """Write what tar, `build` and auditwheel write."""
        made.append(command)
        if "tar" in command:
            (Path(str(command[-1])) / "x-1").mkdir()
        elif "build" in command:
            folder = Path(str(command[command.index("--outdir") + 1]))
            (folder / "x-1-py3-none-linux_aarch64.whl").touch()
        else:
            (tmp_path / "x-1-py3-none-manylinux_2_34_aarch64.whl").touch()

    sdist = tmp_path / "x-1.tar.gz"
    monkeypatch.setattr(release, "run", build)
    with pytest.raises(release.ReleaseError, match=r"newer glibc than 2\.17"):
        release.build_for("aarch64", "sh", sdist)
    (tmp_path / "x-1-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl").touch()
    found = release.build_for("aarch64", "sh", sdist)
    assert found is not None
    assert "manylinux_2_17_aarch64" in found.name
    assert len(made) == 6


@pytest.mark.parametrize("is_native", [True, False])
def test_a_package_with_the_wrong_native_code_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_native: bool
) -> None:
    says = "append: python" if is_native else "append: compiled"
    monkeypatch.setattr(release.venv, "create", lambda *args, **kwargs: None)
    monkeypatch.setattr(release, "run", lambda *command, env=None: None)
    monkeypatch.setattr(release, "output", lambda *command, env=None: says)
    with pytest.raises(release.ReleaseError, match=says):
        release.smoke(tmp_path / "venv", Path("x.whl"), is_native=is_native)


def test_the_sbom_names_no_installer_and_no_path() -> None:
    component = {
        "bom-ref": "epochmq==1",
        "name": "epochmq",
        "externalReferences": [{"url": "file:///x/epochmq.whl"}, {"url": "https://a.b/"}],
    }
    document = {
        "components": [component, {"bom-ref": "pip==23", "name": "pip"}],
        "dependencies": [{"ref": "epochmq==1"}, {"ref": "pip==23"}],
    }
    found = json.loads(release.sbom_without_this_machine(json.dumps(document)))
    (kept,) = found["components"]
    assert kept["externalReferences"] == [{"url": "https://a.b/"}]
    assert found["dependencies"] == [{"ref": "epochmq==1"}]


def test_the_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "b.whl").write_bytes(b"b")
    (tmp_path / "a.tar.gz").write_bytes(b"a")
    release.write_sums(tmp_path)
    done = subprocess.run(
        ["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, check=True, capture_output=True
    )
    assert done.stdout == b"a.tar.gz: OK\nb.whl: OK\n"
