"""The SQL92 filters of subscriptions: text to a function over a message's properties."""

from epochmq.model.sql92.errors import SqlError
from epochmq.model.sql92.evaluate import Filter, compile_filter

__all__ = ["Filter", "SqlError", "compile_filter"]
