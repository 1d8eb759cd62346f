"""The E-step's pictures: what is drawn is what was measured."""

import pytest
import torch
from matplotlib.figure import Figure

from minerva_book.figures import plot_estep


@pytest.mark.parametrize("slope", [-1.0, 2.0])
def test_dots_stand_on_the_curve_the_arrow_climbs_and_the_fitted_gaussian_has_its_moments(slope):
    grid = torch.linspace(-2, 2, 401, dtype=torch.float64)
    prior = torch.exp(-0.5 * grid**2) / (2 * torch.pi) ** 0.5
    action, weights = torch.tensor([[-1.0, 0.0, 1.0], [0.7, 0.2, 0.1]], dtype=torch.float64)
    fit = torch.tensor([0.5, 0.25], dtype=torch.float64)
    axes = Figure().subplots(2, 1, squeeze=False)
    plot_estep(axes, grid, 1.0 - grid, prior, action, slope, {"η = 1": (prior, weights, fit)})
    above, below = axes[:, 0]
    (dots,) = above.collections
    assert dots.get_offsets().tolist() == [[-1.0, 2.0], [0.0, 1.0], [1.0, 0.0]]
    assert (dots.get_sizes() - 6).tolist() == pytest.approx([350.0, 100.0, 50.0]), "an area follows its weight"
    (arrow,) = above.texts
    (x, y), (x0, y0) = arrow.xy, arrow.xyann
    assert (y - y0) / (x - x0) == pytest.approx(slope) and y > y0
    fitted = torch.tensor(next(x for x in below.lines if x.get_linestyle() == "--").get_ydata())
    mass = fitted / fitted.sum()
    mean = (mass * grid).sum()
    assert abs(mean - 0.5) < 1e-3 and abs((mass * (grid - mean) ** 2).sum().sqrt() - 0.25) < 1e-3
    assert abs(fitted.sum() * 0.01 - 1) < 1e-3
