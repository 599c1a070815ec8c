"""Compiles the optional native append (src/epochmq/native/*.c) when there is a C compiler.

    python scripts/build_native.py [--sanitize]

Set-up calls it, and hatchling when it makes a wheel. Without a compiler nothing is lost but speed,
so nothing here fails the caller; a build whose sources have not changed takes no time.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "src" / "epochmq" / "native"
LIBRARY = FOLDER / "_native.so"
FLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=default"]
if sys.platform == "darwin":
    FLAGS += ["-undefined", "dynamic_lookup"]  # functions of the interpreter that loads the library
SANITIZE = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def source_hash() -> str:
    """As `epochmq.native.library.source_hash`, which compares it."""
    files = sorted((*FOLDER.glob("*.c"), *FOLDER.glob("*.h")))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def compiler() -> str | None:
    """A C compiler's path, CC first."""
    wanted = os.environ.get("CC", "").split()[:1]
    return next(filter(None, map(shutil.which, [*wanted, "cc", "gcc", "clang"])), None)


def compile_to(target: Path, more: list[str]) -> str | None:
    """Compile to `target`; why that failed, or None."""
    found = compiler()
    if found is None:
        return "no C compiler"
    made = target.with_suffix(f".{os.getpid()}.tmp")
    command = [found, *FLAGS, *more, f'-DEPQ_SOURCE="{source_hash()}"', "-o", str(made)]
    command += map(str, sorted(FOLDER.glob("*.c")))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        made.unlink(missing_ok=True)
        return done.stderr.strip()[-2000:] or f"{found} failed"
    made.replace(target)
    return None


def build() -> str | None:
    """Make the library unless it is there already; why there is none, or None."""
    if os.name != "posix":
        return "no build for this system"
    if LIBRARY.exists() and source_hash().encode() in LIBRARY.read_bytes():
        return None
    return compile_to(LIBRARY, [])


def main() -> None:
    """Build, and say so only when there is something to say."""
    if "--sanitize" in sys.argv:
        target = Path(sys.argv[sys.argv.index("--sanitize") + 1])
        sys.exit(compile_to(target, SANITIZE))
    before = LIBRARY.stat().st_mtime_ns if LIBRARY.exists() else 0
    if (why := build()) is not None:
        print(f"build_native: plain Python will be used: {why}")
    elif LIBRARY.stat().st_mtime_ns != before:
        print("build_native: compiled the native code of the append")


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:
    pass  # not building a wheel
else:

    class NativeHook(BuildHookInterface):  # type: ignore[misc]
        """Puts the library into the wheel, which then is of one platform; else it stays pure."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Called before files are collected."""
            if build() is None:
                build_data["artifacts"].append("src/epochmq/native/_native.so")
                build_data["pure_python"] = False
                system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
                build_data["tag"] = f"py3-none-{system}"
            elif platform.system() == "Linux":
                print("no C compiler: the wheel has no native code, plain Python is used")


if __name__ == "__main__":
    main()
