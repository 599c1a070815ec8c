"""RocketMQ's own `mqadmin`, many command lines in one JVM."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.compat.peers.cache import cache_dir, maven_jars
from tests.compat.peers.java import _MODULES, VERSION, java_command, make_home

from epochmq.auth.credentials import Credentials

Command = tuple[str, ...]
_SOURCE = Path(__file__).with_name("RunAll.java")


def run_upstream(
    commands: Sequence[Command], namesrv: str, scratch: Path, user: Credentials | None = None
) -> dict[Command, str]:
    """What each command printed on standard output, in the order given; `user` signs them."""
    home = make_home(cache_dir() / "mqadmin-home" if user is None else scratch / "home")
    if user is not None:
        text = f"accessKey: {user.access_key}\nsecretKey: {user.secret_key}\n"
        (home / "conf" / "tools.yml").write_text(text)
    lines = scratch / "commands"
    lines.write_text("".join("\t".join((*c, "-n", namesrv)) + "\n" for c in commands))
    done = subprocess.run(
        [
            java_command(),
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *_MODULES,
            f"-Duser.home={home}",
            f"-Drocketmq.home.dir={home}",
            f"-Drmq.logback.configurationFile={_quiet_logging(scratch)}",
            "-cp",
            f"{maven_jars('server', VERSION)}/*",
            _SOURCE,
            lines,
        ],
        env={**os.environ, "HOME": str(home), "ROCKETMQ_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    parts = done.stdout.split("\x01")[1:-1]
    texts = [part.partition("\n")[2].removesuffix("\n") for part in parts]
    return dict(zip(commands, texts, strict=True))


def _quiet_logging(scratch: Path) -> Path:
    """Its log would stand between what it prints."""
    file = scratch / "logback.xml"
    file.write_text("<configuration><root level='OFF'/></configuration>")
    return file
