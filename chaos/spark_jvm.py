"""A JVM that outlives the drivers that use it: a session in it takes seconds.

A driver that dies leaves its session behind, whose tasks go on until the next driver, when it has
claimed the table, ends them. So it is the harder case of two drivers at one time, too.
"""

import os
import subprocess
from typing import Any

PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
"""With these PySpark takes the JVM that is there (pyspark/java_gateway.py)."""


class Jvm:
    """Started when it is first wanted, and again should it have died."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._gateway: Any = None

    @property
    def session(self) -> int:
        """The process session of the JVM and of all that it starts."""
        process = self._process()
        return -1 if process is None else process.pid

    def environ(self) -> dict[str, str]:
        """What tells a driver to use it."""
        process = self._process()
        if process is None or process.poll() is not None:
            self._start()
        found = self._gateway.gateway_parameters
        return {PORT: str(found.port), SECRET: found.auth_token}

    def _start(self) -> None:
        from pyspark.java_gateway import launch_gateway

        given = {"stdout": self._log, "stderr": self._log, "start_new_session": True}
        self._gateway = launch_gateway(popen_kwargs=given)

    def _process(self) -> "subprocess.Popen[bytes] | None":
        return None if self._gateway is None else self._gateway.proc

    def close(self) -> None:
        """End it, if there is one."""
        process = self._process()
        if process is not None:
            process.kill()
            process.wait()
            self._gateway = None


def is_shared() -> bool:
    """Whether this driver was told to use such a JVM."""
    return PORT in os.environ


def end_left_over() -> None:
    """End what a driver that died left in the JVM of this one; it had got as far as a batch."""
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway()
    companion = getattr(gateway.jvm.org.apache.spark, "SparkContext$")
    left = getattr(companion, "MODULE$").getActive()
    if left.isDefined():
        left.get().stop()
    gateway.close()
