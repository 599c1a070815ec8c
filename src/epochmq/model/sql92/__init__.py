"""SQL92 filters of subscriptions: they are compiled to functions over message properties."""

from epochmq.model.sql92.evaluate import Sql92Filter, compile_filter
from epochmq.model.sql92.syntax import SqlError

__all__ = ["Sql92Filter", "SqlError", "compile_filter"]
