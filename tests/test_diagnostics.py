"""Explained variance: its fixed points, its blindness, its refusal to invent a number."""

from __future__ import annotations

import pytest
import torch

from minerva_lite.diagnostics import explained_variance

RETURNS = torch.tensor([[1.0, 2.0], [4.0, 9.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (RETURNS, 1.0),
        (RETURNS + 7.0, 1.0),  # blind to a constant bias
        (torch.full_like(RETURNS, 3.0), 0.0),
        (-RETURNS, 1.0 - 4.0),  # Var[2R] = 4 Var[R]
        (0.5 * RETURNS, 0.75),
    ],
)
def test_by_hand(value, wanted):
    assert explained_variance(value, RETURNS).item() == pytest.approx(wanted, abs=1e-12)


def test_nan_where_the_returns_do_not_vary():
    assert explained_variance(RETURNS, torch.ones_like(RETURNS)).isnan()


def test_detached_and_strict_about_shapes():
    assert not explained_variance(RETURNS.clone().requires_grad_(), RETURNS).requires_grad
    with pytest.raises(ValueError, match=r"returns: wanted shape \(2, 2\), the shape of value; got \(4,\)"):
        explained_variance(RETURNS, RETURNS.flatten())
