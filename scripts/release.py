"""Builds and checks what is published: a wheel for manylinux, an sdist, an SBOM, release notes.

    make release          (or python scripts/release.py [--directory DIR] [--allow-dirty])

Nothing is uploaded. The wheel works on each Linux with glibc 2.17 or newer: the native code uses
old symbols only, and auditwheel checks that. Each file is installed into an empty environment
without a compiler, where a broker stores and returns a message.

Where a cross compiler is installed (`CROSS`), there is a wheel for that machine too. auditwheel
checks it, but it is not run here.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLATFORM = f"manylinux_2_17_{os.uname().machine}"
CROSS = {"aarch64": "aarch64-linux-gnu-gcc"}
"""Cross compilers by machine; Debian's package is gcc-aarch64-linux-gnu."""
SUMS = "SHA256SUMS"
INSTALLERS = {"pip", "setuptools", "wheel"}
SMOKE = """
from epochmq import Message
from epochmq.client.sync import Producer
from epochmq.testing import MiniCluster

with MiniCluster() as cluster:
    with Producer(cluster.namesrv, "smoke") as producer:
        producer.send(Message("smoke", b"works"), timeout_ms=10_000)
    assert [each.body for each in cluster.messages("smoke")] == [b"works"]
"""


class ReleaseError(Exception):
    """The release cannot be made; the text says why and what to do."""


def main(arguments: list[str] | None = None) -> int:
    """Build and check the release; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--directory", type=Path, default=ROOT / "dist", help="default: dist")
    parser.add_argument(
        "--allow-dirty", action="store_true", help="build although files are not committed"
    )
    chosen = parser.parse_args(arguments)
    try:
        release(chosen.directory, allow_dirty=chosen.allow_dirty)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"release: `{' '.join(map(str, error.cmd))}` failed, see above", file=sys.stderr)
        return 1
    return 0


def release(directory: Path, *, allow_dirty: bool) -> None:
    """Write the files of the release to `directory`, which is emptied first.

    Raises:
        ReleaseError: files are not committed, `directory` has other files, or a built file is not
            as it should be.
        CalledProcessError: a tool failed.
    """
    if not allow_dirty and (changed := output("git", "status", "--porcelain")):
        raise ReleaseError(
            f"these files are not committed (--allow-dirty builds anyway):\n{changed}"
        )
    if directory.exists():
        if any(directory.iterdir()) and not (directory / SUMS).exists():
            raise ReleaseError(f"{directory} has files of no earlier release; name another one")
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    wheel, sdist = build(directory)
    others = [
        found
        for machine, compiler in CROSS.items()
        if machine != os.uname().machine and (found := build_for(machine, compiler, sdist))
    ]
    say(f"checking {', '.join(each.name for each in (wheel, sdist, *others))}")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist, *others)
    with tempfile.TemporaryDirectory(prefix="epochmq-release-") as scratch:
        python = smoke(Path(scratch) / "wheel", wheel, is_native=True)
        tool = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-format", "JSON")
        (directory / "sbom.cdx.json").write_text(sbom_without_this_machine(output(*tool, python)))
        smoke(Path(scratch) / "sdist", sdist, is_native=False)
    notes = release_notes((ROOT / "CHANGELOG.md").read_text())
    (directory / "release-notes.txt").write_text(notes)
    write_sums(directory)
    say(f"{directory} is ready: {', '.join(sorted(each.name for each in directory.iterdir()))}")


def build(directory: Path) -> tuple[Path, Path]:
    """Build wheel and sdist; return their paths."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": commit_time()}
    with tempfile.TemporaryDirectory(prefix="epochmq-build-") as scratch:
        run(sys.executable, "-m", "build", "--outdir", scratch, ROOT, env=env)
        (built,) = Path(scratch).glob("*.whl")
        if "linux" not in built.name:
            raise ReleaseError(f"{built.name} has no native code: install a C compiler")
        repair = ("auditwheel", "repair", "--plat", PLATFORM, "--wheel-dir", directory, built)
        run(sys.executable, "-m", *repair)
        (archive,) = Path(scratch).glob("*.tar.gz")
        sdist = Path(shutil.move(archive, directory))
    (wheel,) = directory.glob("*.whl")
    return wheel, sdist


def build_for(machine: str, compiler: str, sdist: Path) -> Path | None:
    """Build the wheel of another machine from `sdist`, into the folder of `sdist`.

    Returns:
        Its path; None if `compiler` is not installed.

    Raises:
        ReleaseError: the wheel needs a newer glibc than 2.17.
    """
    if shutil.which(compiler) is None:
        say(f"no wheel for {machine}: {compiler} is not installed")
        return None
    env = {
        **os.environ,
        "SOURCE_DATE_EPOCH": commit_time(),
        "CC": compiler,
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",  # what sysconfig.get_platform() returns
    }
    with tempfile.TemporaryDirectory(prefix="epochmq-cross-") as scratch:
        run("tar", "-xzf", sdist, "-C", scratch)
        (source,) = Path(scratch).iterdir()
        run(sys.executable, "-m", "build", "--wheel", "--outdir", scratch, source, env=env)
        (built,) = Path(scratch).glob("*.whl")
        # auditwheel accepts --plat for its own machine only; it finds the oldest platform itself.
        run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", sdist.parent, built)
    made = [*sdist.parent.glob(f"*manylinux_2_17_{machine}*.whl")]
    if not made:
        raise ReleaseError(f"the wheel for {machine} needs a newer glibc than 2.17, see above")
    return made[0]


def commit_time() -> str:
    """Return the time of the newest commit in Unix seconds: files of a release are dated by it."""
    return output("git", "log", "-1", "--format=%ct").strip()


def smoke(directory: Path, package: Path, *, is_native: bool) -> Path:
    """Install `package` into an empty environment without a compiler, and use it.

    Returns:
        The Python of this environment.

    Raises:
        ReleaseError: the native code is missing from the wheel, or an sdist made it.
    """
    say(f"installing {package.name} into an empty environment")
    venv.create(directory, with_pip=True)
    python = directory / "bin" / "python"
    env = {"PATH": str(directory / "bin"), "HOME": str(directory)}
    # What the user of this machine set for pip, such as a package index, counts here too.
    env |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    run(python, "-m", "pip", "install", "--quiet", package, env=env)
    says = output(directory / "bin" / "epochmq", "--version", env=env)
    if ("append: compiled" in says) != is_native:
        raise ReleaseError(f"{package.name} says {says.strip()!r}")
    run(python, "-c", SMOKE, env=env)
    return python


def sbom_without_this_machine(text: str) -> str:
    """Return a CycloneDX document without the installer's packages and paths of this machine."""
    document = json.loads(text)
    kept = [each for each in document["components"] if each["name"] not in INSTALLERS]
    for component in kept:
        references = component.get("externalReferences", [])
        component["externalReferences"] = [
            each for each in references if not each["url"].startswith("file:")
        ]
    names = {component["bom-ref"] for component in kept}
    document["components"] = kept
    document["dependencies"] = [
        each for each in document.get("dependencies", []) if each["ref"] in names
    ]
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def release_notes(changelog: str) -> str:
    """Return the newest section of a changelog in the format of Keep a Changelog.

    Raises:
        ReleaseError: there is no section, or it is empty.
    """
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    if not sections or not (body := sections[0].partition("\n")[2].strip()):
        raise ReleaseError("CHANGELOG.md has no text below its first `## ` line; write it")
    return body + "\n"


def write_sums(directory: Path) -> None:
    """Write SHA256SUMS, in the format of sha256sum."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}"
        for path in sorted(directory.iterdir())
    ]
    (directory / SUMS).write_text("\n".join(lines) + "\n")


def run(*command: str | Path, env: Mapping[str, str] | None = None) -> None:
    """Run a command, which finds the tools of this environment; raises `CalledProcessError`."""
    tools = str(Path(sys.executable).parent)
    found = {**os.environ, "PATH": f"{tools}:{os.environ.get('PATH', os.defpath)}"}
    subprocess.run([*map(str, command)], check=True, cwd=ROOT, env=found if env is None else env)


def output(*command: str | Path, env: Mapping[str, str] | None = None) -> str:
    """Return what a command prints; raises `CalledProcessError`."""
    done = subprocess.run(
        [*map(str, command)], check=True, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def say(text: str) -> None:
    """Print one line of progress."""
    print(f"release: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
