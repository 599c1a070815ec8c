"""Whether processes that tests start run the code that the tests import."""

import subprocess
import sys
from pathlib import Path
from tempfile import gettempdir

PRINT_PLACE = "import epochmq; print(epochmq.__file__)"


def check_same_code(own: Path, environment: dict[str, str] | None = None) -> None:
    """`ValueError` when a child process imports another clone's package than `own`.

    A relative PYTHONPATH is lost in another folder; an editable install of another clone then
    gives that clone's broker, in silence.
    """
    found = subprocess.run(
        [sys.executable, "-c", PRINT_PLACE],
        cwd=gettempdir(),
        env=environment,
        capture_output=True,
        text=True,
    )
    place = found.stdout.strip()
    if not place or Path(place).resolve() != own.resolve():
        raise ValueError(
            f"processes that tests start would run {place or found.stderr.strip()!r} and not {own};"
            " install this clone (`make setup`), or set PYTHONPATH to the absolute path of its src"
        )
