"""What may stand where in a filter."""

import pytest

from epochmq.model.sql92 import syntax
from epochmq.model.sql92.syntax import (
    Cast,
    Compare,
    Constant,
    In,
    Logic,
    Negate,
    Property,
    SqlError,
)

A = Property("a")
ONE, TWO = Constant(1), Constant(2)


def test_conditions_are_told_from_values() -> None:
    assert syntax.is_condition(Constant(True))
    assert syntax.is_condition(Constant(None))
    assert syntax.is_condition(Compare("=", A, ONE))
    assert not any(map(syntax.is_condition, (ONE, Constant("x"), A, Negate(A))))


def test_a_bare_property_becomes_a_condition_and_a_value_does_not() -> None:
    assert syntax.condition(A, 0) == Cast(A)
    assert syntax.condition(Constant(True), 0) == Constant(True)
    for node in (ONE, Constant("x"), Negate(A)):
        with pytest.raises(SqlError, match="condition"):
            syntax.condition(node, 0)


def test_equality() -> None:
    assert syntax.equal(A, Constant(True), 0) == Compare("=", A, Constant(True))
    assert syntax.equal(ONE, Constant(True), 0) == Compare("=", ONE, Constant(True))
    assert syntax.equal(Constant(True), Constant(False), 0).op == "="  # type: ignore[union-attr]
    for sides in ((A, Constant(None)), (Constant(None), A)):
        with pytest.raises(SqlError, match="IS NULL"):
            syntax.equal(*sides, 0)
    with pytest.raises(SqlError, match="another kind"):
        syntax.equal(Constant(True), ONE, 0)


def test_order_is_for_numbers() -> None:
    assert syntax.ordered("<", A, ONE, 0) == Compare("<", A, ONE)
    for side in (Constant("x"), Constant(True), Constant(None), Compare("=", A, ONE)):
        for sides in ((A, side), (side, A)):
            with pytest.raises(SqlError, match="< compares numbers only"):
                syntax.ordered("<", *sides, 0)


def test_between_is_two_comparisons() -> None:
    assert syntax.between(A, ONE, TWO, False, 0) == Logic(
        True, (Compare(">=", A, ONE), Compare("<=", A, TWO))
    )
    assert syntax.between(A, TWO, ONE, True, 0) == Logic(
        False, (Compare("<", A, TWO), Compare(">", A, ONE))
    )
    assert syntax.between(A, TWO, A, False, 0)
    assert syntax.between(A, Negate(ONE), Negate(TWO), False, 0)
    with pytest.raises(SqlError, match="smaller"):
        syntax.between(A, TWO, ONE, False, 0)


def test_lists_are_for_properties() -> None:
    assert syntax.within(A, ["x", "x"], True, 0) == In(A, frozenset({"x"}), True)
    with pytest.raises(SqlError, match="property"):
        syntax.within(ONE, ["x"], False, 0)
