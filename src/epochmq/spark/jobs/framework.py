"""The common parts of all jobs: a tuned Spark session, errors in one line, a clean stop."""

import os
import re
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochmq.base.errors import EnvironmentFault, EpochError, StoreDamaged, UsageError
from epochmq.base.needs import need
from epochmq.runtime.address_map import VARIABLE
from epochmq.spark import cluster_package
from epochmq.spark.java_check import check_java

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_MASTER = "local[*]"
PACKAGE, INSTALLED = "spark.epochmq.package", "installed"
TASK_TRIES = 4
"""How often `local[N]` tries a task; without the number Spark tries it once."""

QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_LOCAL = re.compile(r"local(?:\[(\d+|\*)\])?")
_MASTER = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|(spark|sc|k8s)://.+|yarn")
_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE: .*)?$", re.MULTILINE)
"""An error that a query raised itself: only `body_checksum` does."""
_OURS = re.compile(r"epochmq\.[\w.]+\.([A-Z]\w+): (.+)")


def parse_conf(pairs: Sequence[str]) -> dict[str, str]:
    """Parse `key=value` settings of Spark; raises `UsageError` for other texts."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.startswith("spark."):
            raise UsageError(f"'{pair}' is not a setting of Spark: write spark.some.name=value")
        found[name] = value
    return found


def master_url(master: str) -> str:
    """Return `master` with a number of task attempts if it is local; else unchanged.

    Raises `UsageError` for an invalid master URL.
    """
    if _MASTER.fullmatch(master) is None:
        raise UsageError(
            f"'{master}' is not a master of Spark: use local[*], local[N], spark://HOST:PORT"
            " or sc://HOST:PORT"
        )
    found = _LOCAL.fullmatch(master)
    return f"local[{found[1] or 1},{TASK_TRIES}]" if found else master


@contextmanager
def spark_session(
    name: str, master: str = DEFAULT_MASTER, conf: Mapping[str, str] | None = None
) -> Iterator[Any]:
    """Yield a Spark session that is stopped at the end; errors of Spark become one clear line.

    The executors of a cluster get this version of EpochMQ, so that the nodes need not have it. The
    setting `spark.epochmq.package=installed` leaves that out.
    """
    url = master_url(master)
    remote = url.startswith("sc://")
    if not remote:
        check_java()
    session_type = need("pyspark.sql", "spark").SparkSession
    from epochmq.spark import tune

    # `tune` sets options of the JVM; with Spark Connect the JVM is on another machine.
    builder = session_type.builder.appName(name)
    builder = builder.remote(url) if remote else tune(builder, master=url)
    for key, value in {**QUIET, **executor_environment(), **(conf or {})}.items():
        builder = builder.config(key, value)
    with translated(), tempfile.TemporaryDirectory(prefix="epochmq-") as place:
        session = builder.getOrCreate() if remote else begun(builder)
        try:
            if not remote:
                send_package(session, Path(place))
            yield session
        finally:
            session.stop()


def executor_environment() -> dict[str, str]:
    """Return the settings that give executors this process's address map."""
    text = os.environ.get(VARIABLE)
    return {f"spark.executorEnv.{VARIABLE}": text} if text else {}


def send_package(session: Any, place: Path) -> None:
    """Give the executors of a cluster the archive of `epochmq pipeline package`.

    They fetch it from the directory `place`, which must exist as long as the session.
    Nothing is sent if `spark.epochmq.package` is `installed`: in `conf`, in a properties file, or
    as an option of `spark-submit`.
    """
    if session.sparkContext.master.startswith("local["):
        return  # executors are threads of this machine's JVM, and start this Python
    if session.conf.get(PACKAGE, None) == INSTALLED:
        return
    archive = cluster_package.build(place / cluster_package.default_name())
    session.sparkContext.addPyFile(str(archive.path))


def begun(builder: Any) -> Any:
    """Create a session with its own JVM; an interrupt is handled after the creation.

    PySpark deletes the file through which the JVM reports its port. A JVM that cannot report never
    notices that its driver has ended, and would keep running.
    """
    with JobStop() as stop:
        session = builder.getOrCreate()
    if stop.asked:
        session.stop()
        raise KeyboardInterrupt
    return session


@contextmanager
def translated() -> Iterator[None]:
    """Pass our errors on, and convert errors of Spark and its JVM to one line."""
    try:
        yield
    except Exception as error:
        if isinstance(error, EpochError) or not _is_spark(error):
            raise
        raise explain(error) from error


def _is_spark(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j", "grpc")


def explain(error: BaseException) -> EpochError:
    """Return the error that our code raised in a task, else Spark's own error in one line."""
    from epochmq.base import errors

    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        kind = getattr(errors, ours[-1][0], EnvironmentFault)
        if isinstance(kind, type) and issubclass(kind, EpochError):
            try:
                return kind(ours[-1][1].strip())
            except TypeError:
                return EnvironmentFault(ours[-1][1].strip())
    if raised := _RAISED.search(text):
        return StoreDamaged(raised[1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line.removeprefix(": ") for line in lines if not line.startswith(_NOISE)]
    return EnvironmentFault(f"Spark failed: {said[0] if said else type(error).__name__}"[:500])


_NOISE = ("at ", "File ", "Traceback", "...", "An error occurred while calling")
"""Prefixes of lines that show a location and not a cause."""


class JobStop:
    """Handles SIGINT and SIGTERM: the current work is finished, then the job ends."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "JobStop":
        handler: Callable[[int, Any], None] = self._ask
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, handler)
        return self

    def __exit__(self, *_exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, _frame: Any) -> None:
        if self.asked:  # a second signal stops at once
            raise KeyboardInterrupt
        self.asked = True
