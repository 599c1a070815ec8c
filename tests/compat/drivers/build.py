"""Builds each driver once, in an environment of its own, from the third party's registry."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from ..peers.cache import UnavailableError, built, fingerprint, maven_jars, run_tool
from ..peers.java import VERSION, java_command
from .driver import Driver

_HERE = Path(__file__).parent
JAVA_CLIENTS = ("5.3.3", "4.9.8")
CPP_CLIENT = "0.4.4"
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def _java_classes(name: str, version: str, *jars: Path) -> Path:
    sources = sorted((_HERE / name).glob("*.java"))

    def compile_into(part: Path) -> None:
        path = os.pathsep.join(f"{folder}/*" for folder in jars)
        run_tool(["javac", "-nowarn", "-cp", path, "-d", part, *sources])

    return built(f"driver-{name}-{version}-{fingerprint(*sources)}", compile_into)


def java_driver(version: str) -> Driver:
    """The Java client of one version."""
    jars = maven_jars("client-acl" if version.startswith("4.") else "client", version)
    classes = _java_classes("java", version, jars)
    home = ("-Duser.home={home}", "-Drocketmq.client.localOffsetStoreDir={home}/offsets")
    quick = "-Drocketmq.client.rebalance.waitInterval=1000"  # 20 s until a retry queue is taken
    path = f"{classes}{os.pathsep}{jars}/*"
    return Driver(f"java-{version}", [java_command(), *_JVM, *home, quick, "-cp", path, "Main"])


def java_program(source: Path) -> list[str | Path]:
    """The command that runs a program of one file with the Java client."""
    jars = maven_jars("client", JAVA_CLIENTS[0])

    def compile_into(part: Path) -> None:
        run_tool(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", part, source])

    classes = built(f"program-{source.stem}-{fingerprint(source)}", compile_into)
    return [java_command(), *_JVM, "-cp", f"{classes}{os.pathsep}{jars}/*", source.stem]


def mqadmin_classes() -> tuple[Path, Path]:
    """The class directory of the mqadmin loop and the jars it needs."""
    jars = maven_jars("server", VERSION)
    return _java_classes("mqadmin", VERSION, jars), jars


ICEBERG = "1.9.2"


def rest_catalog_classes() -> tuple[Path, Path]:
    """The class directory of the server of a REST catalog and the jars it needs."""
    jars = maven_jars("iceberg", ICEBERG, "iceberg")
    return _java_classes("iceberg", ICEBERG, jars), jars


def yarn_classes(version: str, spark: Path) -> tuple[Path, Path]:
    """The class directory of the YARN server of one version of Hadoop and the jars it needs, in
    addition to those of Spark in the directory `spark`.
    """
    jars = maven_jars("yarn", version, "hadoop")
    return _java_classes("yarn", version, jars, spark), jars


def go_driver() -> Driver:
    """Apache's Go client."""
    source = _HERE / "go"
    files = sorted([*source.glob("*.go"), source / "go.mod", source / "go.sum"])

    def build(part: Path) -> None:
        run_tool(["go", "build", "-trimpath", "-o", part / "driver", "."], cwd=source)

    program = built(f"driver-go-{fingerprint(*files)}", build) / "driver"
    return Driver("go", [program])


def cpp_environment() -> Path:
    """An environment with the Python package of the C++ client."""

    def build(part: Path) -> None:
        run_tool([sys.executable, "-m", "venv", part])
        run_tool([part / "bin" / "python", "-m", "pip", "install", "-q", f"rocketmq=={CPP_CLIENT}"])
        run_tool([part / "bin" / "python", "-c", "import rocketmq.client"])

    return built(f"driver-cpp-{CPP_CLIENT}", build)


def _cpp(environment: Path, env: Mapping[str, str] | None = None) -> Driver:
    return Driver("cpp", [environment / "bin" / "python", _HERE / "cpp" / "main.py"], env)


def cpp_driver() -> Driver:
    """The C++ client, by the Python package that carries its library."""
    return _cpp(cpp_environment())


def cpp_extras_driver() -> Driver:
    """The same with what the library offers in C++ only, which a compiler here must make."""
    source = _HERE / "cpp" / "extras.cpp"
    environment = cpp_environment()
    (library,) = environment.glob("lib/python*/site-packages/rocketmq/librocketmq.so")
    wanted = [os.environ.get("CXX"), "g++", "c++", "clang++"]
    compiler = next(filter(None, map(shutil.which, filter(None, wanted))), "g++")

    def build(part: Path) -> None:
        run_tool(
            [
                compiler,
                "-std=c++17",
                "-O1",
                "-Wall",
                "-Wextra",
                "-shared",
                "-fPIC",
                "-D_GLIBCXX_USE_CXX11_ABI=0",  # the library is of GCC 4.8
                "-o",
                part / "extras.so",
                source,
                library,
                "-Wl,-z,defs",
                f"-Wl,-rpath,{library.parent}",
            ]
        )

    made = built(f"driver-cpp-extras-{CPP_CLIENT}-{fingerprint(source, str(library))}", build)
    return _cpp(environment, {"ROCKETMQ_EXTRAS": str(made / "extras.so")})


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


GRPC_CLIENT = "5.1.2"
GRPC_DRIVER = _HERE / "grpc" / "main.py"


def grpc_environment() -> Path:
    """An environment with RocketMQ's gRPC client for Python, which needs its proxy."""

    def build(part: Path) -> None:
        run_tool([sys.executable, "-m", "venv", part])
        package = f"rocketmq-python-client=={GRPC_CLIENT}"
        run_tool([part / "bin" / "python", "-m", "pip", "install", "-q", package])

    return built(f"driver-grpc-{GRPC_CLIENT}", build)
