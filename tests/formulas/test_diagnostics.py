"""Explained variance and effective sample size: fixed points, blind spots, and no number where there is none."""

from __future__ import annotations

import pytest
import torch

from minerva_lite.formulas.diagnostics import effective_sample_size, explained_variance

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


def test_effective_sample_size_by_hand():
    """Equal weights count all, one counts one; (1 + 2 + 3)^2 / (1 + 4 + 9), at any scale; NaN where all are 0."""
    weights = torch.tensor([[1.0, 0.0, 1.0, 0.0], [1.0, 5.0, 2.0, 0.0], [1.0, 0.0, 3.0, 0.0]], dtype=torch.float64)
    for scale in (1.0, 0.01):
        got = effective_sample_size(scale * weights)
        assert got[:3].tolist() == pytest.approx([3.0, 1.0, 36 / 14], abs=1e-12) and got[3].isnan()
    assert effective_sample_size(weights[:, 2]).shape == ()
    assert not effective_sample_size(weights.requires_grad_()).requires_grad
