"""What the compat suite downloads or builds: once a machine, outside git, under a lock."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
_BUILD_TIMEOUT_S = 540


class UnavailableError(Exception):
    """A third party's program cannot be had on this machine; the message says why."""


def cache_dir() -> Path:
    """The cache's root; it ignores itself, so no entry in the project's .gitignore is needed."""
    root = Path(os.environ.get("EPOCHMQ_COMPAT_CACHE", PROJECT / ".cache" / "compat"))
    root.mkdir(parents=True, exist_ok=True)
    ignore = root / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return root


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def fingerprint(*parts: Path | str) -> str:
    """A short digest of files and strings: a changed driver source is built again."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.read_bytes() if isinstance(part, Path) else part.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:12]


def built(name: str, build: Callable[[Path], None]) -> Path:
    """The directory ``name`` of the cache, made by ``build`` unless it is already complete.

    It is built under another name and renamed: an interrupted build is not taken for a whole one.
    """
    target = cache_dir() / name
    with _locked(cache_dir() / f"{name}.lock"):
        if not target.is_dir():
            part = cache_dir() / f"{name}.part"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            build(part)
            part.rename(target)
    return target


def run_tool(
    argv: Sequence[str | Path], cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Run a build tool; a missing tool, a failure or a hang means the program cannot be had."""
    tool = str(argv[0])
    if shutil.which(tool) is None:
        raise UnavailableError(f"{tool} is not installed")
    try:
        done = subprocess.run(
            [str(arg) for arg in argv],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"{tool} did not finish in {_BUILD_TIMEOUT_S} s") from None
    if done.returncode != 0:
        tail = " | ".join(done.stdout.strip().splitlines()[-6:])
        raise UnavailableError(f"{tool} failed ({done.returncode}): {tail}")
    return done.stdout


def maven_jars(pom: str, version: str, product: str = "rocketmq") -> Path:
    """A directory with the run-time jars of ``poms/<pom>.xml`` at one version of a product."""
    source = Path(__file__).parent / "poms" / f"{pom}.xml"

    def copy(part: Path) -> None:
        run_tool(
            [
                "mvn",
                "-q",
                "-B",
                "-f",
                source,
                "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies",
                f"-D{product}.version={version}",
                f"-DoutputDirectory={part}",
                "-DincludeScope=runtime",
            ]
        )
        if not any(part.glob(f"{product}[-_]*.jar")):
            raise UnavailableError(f"no {product} jars for {pom} {version}")

    return built(f"{pom}-{version}", copy)
