import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.cost.fit import nonnegative_least_squares


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6))
def test_exact_data_of_nonnegative_parts_gives_the_parts_back(seed: int, columns: int) -> None:
    random = np.random.default_rng(seed)
    matrix = random.uniform(0.1, 5.0, size=(columns * 4, columns))
    parts = np.where(random.uniform(size=columns) < 0.4, 0.0, random.uniform(0.1, 3.0, size=columns))
    assert nonnegative_least_squares(matrix, matrix @ parts) == pytest.approx(parts, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_the_solution_meets_the_conditions_of_optimality(seed: int) -> None:
    random = np.random.default_rng(seed)
    matrix, target = random.normal(size=(15, 5)), random.normal(size=15)
    x = nonnegative_least_squares(matrix, target)
    gradient = matrix.T @ (matrix @ x - target)
    assert (x >= 0).all()
    assert (gradient >= -1e-6).all()
    assert float(np.abs(gradient * x).max()) < 1e-6


def test_columns_of_very_different_size_are_fitted_alike() -> None:
    matrix = np.array([[1.0, 1e6], [1.0, 2e6], [1.0, 4e6], [1.0, 8e6]])
    assert nonnegative_least_squares(matrix, matrix @ np.array([5.0, 2e-6])) == pytest.approx([5.0, 2e-6], rel=1e-6)
