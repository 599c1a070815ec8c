"""The error of a filter."""

from epochmq.base.errors import Refused
from epochmq.model.sql92.syntax import SqlError


def test_it_is_a_refusal_with_code_23_that_says_where() -> None:
    error = SqlError("odd", 4)
    assert isinstance(error, Refused)
    assert (error.code, error.remark) == (23, "SQL92 filter: odd at character 5")
    assert SqlError("odd").remark == "SQL92 filter: odd"
