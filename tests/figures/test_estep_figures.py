"""The E-step's pictures: what is drawn is what was measured."""

from __future__ import annotations

import pytest
import torch
from matplotlib.figure import Figure

from minerva_book.figures import plot_estep


def draw(weights: torch.Tensor, slope: float = -1.0):
    axes = Figure().subplots(2, 1, squeeze=False)
    grid = torch.linspace(-2, 2, 401, dtype=torch.float64)
    prior = torch.exp(-0.5 * grid**2) / (2 * torch.pi) ** 0.5
    action = torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)
    fit = torch.tensor([0.5, 0.25], dtype=torch.float64)
    plot_estep(axes, grid, 1.0 - grid, prior, action, slope, {"η = 1": (prior, weights, fit)})
    return axes[0][0], axes[1][0], grid


def test_a_dot_stands_on_the_curve_and_its_area_follows_its_weight():
    above, _, _ = draw(torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64))
    (dots,) = above.collections
    assert torch.allclose(
        torch.tensor(dots.get_offsets()), torch.tensor([[-1.0, 2.0], [0.0, 1.0], [1.0, 0.0]]).double()
    )
    sizes = torch.tensor(dots.get_sizes())
    assert torch.allclose(sizes - 6, 500 * torch.tensor([0.7, 0.2, 0.1]).double())


def test_the_fitted_gaussian_has_the_mean_the_std_and_area_one():
    _, below, grid = draw(torch.full((3,), 1 / 3, dtype=torch.float64))
    fitted = torch.tensor(next(x for x in below.lines if x.get_linestyle() == "--").get_ydata())
    mass = fitted / fitted.sum()
    mean = (mass * grid).sum()
    assert abs(mean - 0.5) < 1e-3 and abs((mass * (grid - mean) ** 2).sum().sqrt() - 0.25) < 1e-3
    assert abs(fitted.sum() * 0.01 - 1) < 1e-3


def test_the_arrow_climbs_along_the_slope():
    for slope in (-1.0, 2.0):
        above, _, _ = draw(torch.full((3,), 1 / 3, dtype=torch.float64), slope)
        (arrow,) = above.texts
        (x, y), (x0, y0) = arrow.xy, arrow.xyann
        assert (y - y0) / (x - x0) == pytest.approx(slope) and y > y0
