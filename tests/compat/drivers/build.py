"""Builds each driver once, in an environment of its own, from the third party's registry."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from ..peers.cache import UnavailableError, built, fingerprint, maven_jars, run_tool
from ..peers.java import VERSION, java_command
from .driver import Driver

_HERE = Path(__file__).parent
JAVA_CLIENTS = ("5.3.3", "4.9.8")
CPP_CLIENT = "0.4.4"
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def _java_classes(name: str, version: str, jars: Path) -> Path:
    sources = sorted((_HERE / name).glob("*.java"))

    def compile_into(part: Path) -> None:
        run_tool(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", part, *sources])

    return built(f"driver-{name}-{version}-{fingerprint(*sources)}", compile_into)


def java_driver(version: str) -> Driver:
    """The Java client of one version."""
    jars = maven_jars("client", version)
    classes = _java_classes("java", version, jars)
    home = ("-Duser.home={home}", "-Drocketmq.client.localOffsetStoreDir={home}/offsets")
    quick = "-Drocketmq.client.rebalance.waitInterval=1000"  # 20 s until a retry queue is taken
    path = f"{classes}{os.pathsep}{jars}/*"
    return Driver(f"java-{version}", [java_command(), *_JVM, *home, quick, "-cp", path, "Main"])


def mqadmin_classes() -> tuple[Path, Path]:
    """The class directory of the mqadmin loop and the jars it needs."""
    jars = maven_jars("server", VERSION)
    return _java_classes("mqadmin", VERSION, jars), jars


def go_driver() -> Driver:
    """Apache's Go client."""
    source = _HERE / "go"
    files = sorted([*source.glob("*.go"), source / "go.mod", source / "go.sum"])

    def build(part: Path) -> None:
        run_tool(["go", "build", "-trimpath", "-o", part / "driver", "."], cwd=source)

    program = built(f"driver-go-{fingerprint(*files)}", build) / "driver"
    return Driver("go", [program])


def cpp_driver() -> Driver:
    """The C++ client, by the Python package that carries its library."""

    def build(part: Path) -> None:
        run_tool([sys.executable, "-m", "venv", part])
        run_tool([part / "bin" / "python", "-m", "pip", "install", "-q", f"rocketmq=={CPP_CLIENT}"])
        run_tool([part / "bin" / "python", "-c", "import rocketmq.client"])

    environment = built(f"driver-cpp-{CPP_CLIENT}", build)
    return Driver("cpp", [environment / "bin" / "python", _HERE / "cpp" / "main.py"])


def node_driver() -> Driver:
    """Alibaba's JavaScript client."""
    source = _HERE / "node"

    def build(part: Path) -> None:
        shutil.copy(source / "package.json", part)
        run_tool(
            ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"], cwd=part
        )
        for file in source.glob("*.js"):
            shutil.copy(file, part)

    files = sorted([*source.glob("*.js"), source / "package.json"])
    program = built(f"driver-node-{fingerprint(*files)}", build) / "main.js"
    node = shutil.which("node")
    if node is None:
        raise UnavailableError("node is not installed")
    return Driver("node", [node, program])


def our_driver() -> Driver:
    """Our own client, with this interpreter."""
    return Driver("ours", [sys.executable, _HERE / "ours" / "main.py"])
