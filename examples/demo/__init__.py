"""The main job, shown: a real data set through real processes, one of them killed; a verdict."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def environment() -> dict[str, str]:
    """The environment of this process, in which a new process can import `examples` as well."""
    paths = [str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
