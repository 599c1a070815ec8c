"""`epochmq demo`: the sample application `examples/demo` of a checkout.

An installed package does not contain the demo; the command then says where the demo is.
"""

import sys
from importlib import import_module
from pathlib import Path

import click

from epochmq.base.errors import EnvironmentFault

CHECKOUT = Path(__file__).resolve().parents[3]
"""The root of the checkout, where there is one."""


@click.command("demo", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def absent() -> None:
    """Stream a real data set through a cluster; only in a checkout of EpochMQ."""
    raise EnvironmentFault(
        "the demo is a sample application, which is in the sources of EpochMQ and not in the"
        " installed package; run `make demo` in a checkout"
    )


def command_in(checkout: Path) -> click.Command:
    """The command of `examples/demo` in `checkout`; `absent` where there is no such folder."""
    if not (checkout / "examples" / "demo" / "__main__.py").is_file():
        return absent
    if str(checkout) not in sys.path:
        sys.path.append(str(checkout))
    found = import_module("examples.demo.__main__").command
    assert isinstance(found, click.Command)
    return found


command = command_in(CHECKOUT)
