"""Times and durations on the command line of jobs."""

from typing import Any

import click


class Moment(click.ParamType[int]):
    """A time in wall ms: a number, or ISO 8601 with its zone."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from epochmq.spark.options import wall_ms

        if isinstance(value, int):
            return value
        try:
            return wall_ms(str(value))
        except ValueError as error:
            self.fail(f"'{value}': {error}", param, ctx)


class Duration(click.ParamType[int]):
    """A duration in ms: a number, or with a unit such as 500ms, 30s, 15m, 1h."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from epochmq.spark.option_table import milliseconds

        if isinstance(value, int):
            return value
        try:
            return milliseconds(str(value))
        except ValueError as error:
            self.fail(f"'{value}': {error}", param, ctx)
