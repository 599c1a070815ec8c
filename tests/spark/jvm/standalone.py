"""A standalone Spark cluster whose Python has neither EpochMQ nor msgspec."""

import os
import re
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pyspark
from tests.compat.peers.process import Process

SPARK_HOME = Path(pyspark.__file__).parent
NODE_PACKAGES = ("numpy", "numpy.libs", "pyarrow", "py4j", "pyspark")
SUBMIT_TIMEOUT_S = 250.0
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = "Successfully registered"


def node_python(place: Path) -> Path:
    """Create an environment as on a node: what PySpark needs, and nothing of EpochMQ."""
    venv.create(place, with_pip=False, symlinks=True)
    here = SPARK_HOME.parent
    (site,) = place.glob("lib/python*/site-packages")
    for name in NODE_PACKAGES:
        if (here / name).exists():
            (site / name).symlink_to(here / name)
    return place / "bin" / "python"


class StandaloneCluster:
    """One master and `workers` workers with `cores` each."""

    def __init__(self, place: Path, workers: int = 2, cores: int = 1) -> None:
        self.place = place
        self._cores = cores
        self.python = node_python(place / "node")
        self.node_env = {"PYSPARK_PYTHON": str(self.python)}
        self._env = {
            **self.node_env,
            "PYTHONPATH": "",
            "PYSPARK_DRIVER_PYTHON": str(self.python),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "EPOCHMQ_UNPACK_DIR": str(place / "unpacked"),
        }
        self._master = self._daemon("master.Master", "master", "--port", "0")
        self.workers: dict[int, Process] = {}
        self.url = ""
        self._count = workers

    def _daemon(self, kind: str, name: str, *args: str) -> Process:
        argv = [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}",
                "--host", "127.0.0.1", "--webui-port", "0", *args]  # fmt: skip
        return Process(name, argv, self.place / f"{name}.log", self._env)

    def __enter__(self) -> "StandaloneCluster":
        self._master.start()
        self._master.wait_ready(self._find_url, 60)
        for number in range(self._count):
            self.start_worker(number)
        return self

    def _find_url(self) -> bool:
        found = _MASTER.search(self._master.log.read_text(errors="replace"))
        self.url = found[1] if found else ""
        return bool(found)

    def start_worker(self, number: int) -> Process:
        """Start a worker, and wait until the master knows it."""
        name = f"worker-{number}"
        place = self.place / name
        worker = self._daemon("worker.Worker", name, "--cores", str(self._cores), "--memory", "1g",
                              "--work-dir", str(place), self.url)  # fmt: skip
        known = text_of(worker.log).count(REGISTERED)
        worker.start()
        self.workers[number] = worker
        worker.wait_ready(lambda: text_of(worker.log).count(REGISTERED) > known, 60)
        return worker

    def submit(
        self,
        app: Path,
        *args: str,
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run `spark-submit` with the nodes' Python, on a machine without EpochMQ."""
        return subprocess.run(
            self._command(app, args, options),
            env={**os.environ, **self._env, **(env or {})},
            cwd=self.place, capture_output=True, text=True, check=False, timeout=SUBMIT_TIMEOUT_S,
        )  # fmt: skip

    def start_driver(
        self, name: str, app: Path, *args: str, options: Sequence[str] = ()
    ) -> Process:
        """Start `spark-submit` likewise, and do not wait for its end."""
        argv = self._command(app, args, options)
        driver = Process(name, argv, self.place / f"{name}.log", self._env)
        driver.start()
        return driver

    def _command(self, app: Path, args: Sequence[str], options: Sequence[str]) -> list[str]:
        return [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.url, *options,
                "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.bindAddress=127.0.0.1",
                str(app), *args]  # fmt: skip

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in (*self.workers.values(), self._master):
            process.stop(10)


def text_of(log: Path) -> str:
    """The text of a log that is being written."""
    return log.read_text(errors="replace") if log.exists() else ""


def without_epochmq(python: Path) -> bool:
    """Whether `python` finds neither EpochMQ nor msgspec."""
    found = subprocess.run(
        [str(python), "-c", "import importlib.util as u, sys; "
         "sys.exit(bool(u.find_spec('epochmq') or u.find_spec('msgspec')))"],
        env={"PATH": os.environ["PATH"]}, check=False,
    )  # fmt: skip
    return found.returncode == 0 and str(python) != sys.executable
