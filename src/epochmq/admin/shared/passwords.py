"""Reads passwords: from the terminal without showing them, or from standard input."""

import sys

import click

from epochmq.base.errors import UsageError


def new_password(name: str) -> str:
    """Return a new password: asked for twice at a terminal, else the first line of the input.

    Raises `UsageError` if there is none.
    """
    if sys.stdin.isatty():
        said: str = click.prompt(f"password of {name}", hide_input=True, confirmation_prompt=True)
        return said
    return line_of_input()


def line_of_input() -> str:
    """Return the first line of standard input; raises `UsageError` if it is empty."""
    found = sys.stdin.readline().rstrip("\n")
    if not found:
        raise UsageError("there is no password on standard input")
    return found
