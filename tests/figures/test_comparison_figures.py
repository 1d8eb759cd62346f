"""Pictures that compare agents: what is drawn is the statistic, and never more than can be reached."""

from types import SimpleNamespace

import pytest
import torch

from minerva_book import figures
from minerva_lite.formulas.statistics import (
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
    stratified_bootstrap,
)
from tests.figures.test_drawn import draw, legend, words


@pytest.fixture
def scores(generator) -> dict[str, torch.Tensor]:
    """Of six seeds on three tasks."""
    shifts = {"one": 0.0, "other": 0.3}
    return {name: torch.rand(6, 3, dtype=torch.float64, generator=generator) + each for name, each in shifts.items()}


def heights(band):
    """[points, 2] of a band's outline."""
    return torch.tensor(band.get_paths()[0].vertices)


def test_a_band_is_the_middle_of_the_seeds_and_ends_at_the_best_possible(generator):
    """Five seeds, of which one fails: the middle half is the mean of the three between, and the band holds it."""
    returns = torch.tensor([[1.0, 9.0], [2.0, 10.0], [3.0, 10.0], [4.0, 10.0], [-50.0, -50.0]], dtype=torch.float64)
    curve = SimpleNamespace(steps=torch.tensor([10, 20]), returns=returns)
    ax = draw(figures.plot_bands, {"agent": curve}, "task", generator=generator, best=9.5)
    line, best = ax.get_lines()
    assert line.get_ydata().tolist() == [2.0, (9 + 10 + 10) / 3] and line.get_xdata().tolist() == [10, 20]
    (band,) = ax.collections
    at_first = heights(band)[heights(band)[:, 0] == 10][:, 1]
    assert at_first.min() < 2.0 < at_first.max() <= 4.0
    assert heights(band)[:, 1].max() == 9.5 == best.get_ydata()[0]
    assert legend(ax)[0] == "agent (5 seeds)"
    assert "interquartile mean" in ax.get_ylabel() and "95 % band" in ax.get_ylabel(), "which statistic is drawn"
    figures.plot_bands(ax, {"agent": curve}, "task", generator=generator, colors={"agent": "black", "other": "red"})
    assert ax.get_lines()[-1].get_color() == "black" and ax.collections[-1].get_facecolor()[0, :3].tolist() == [0, 0, 0]


def test_intervals_stand_around_the_interquartile_mean(scores, generator):
    ax = draw(figures.plot_intervals, scores, generator=generator, unit="share of the best")
    bars, points = ax.get_lines()[::2], ax.get_lines()[1::2]
    for bar, point, each in zip(bars, points, scores.values(), strict=True):
        assert point.get_xdata()[0] == interquartile_mean(each)
        low, high = bar.get_xdata()
        assert low < point.get_xdata()[0] < high
        again = stratified_bootstrap(interquartile_mean, [each], generator=generator)
        assert (low, high) == pytest.approx(tuple(map(float, again)), abs=0.05)
    assert [text.get_text() for text in ax.get_yticklabels()] == list(scores)
    assert "share of the best" in ax.get_xlabel() and "95 % interval" in ax.get_xlabel(), "a bar says what it holds"


def test_profiles_fall_from_one_to_zero_over_all_scores(scores, generator):
    ax = draw(figures.plot_profiles, scores, generator=generator, unit="share of the best")
    for line, each in zip(ax.get_lines(), scores.values(), strict=True):
        at = torch.tensor(line.get_xdata())
        assert torch.equal(torch.tensor(line.get_ydata()), performance_profile(each, at))
    assert ax.get_lines()[1].get_ydata()[0] == 1.0 and ax.get_lines()[0].get_ydata()[-1] == 0.0
    assert len(ax.collections) == 2 and "95 % band" in ax.get_ylabel()


def test_improvements_name_both_and_stand_on_the_side_of_the_better(scores, generator):
    one, other = scores.values()
    pairs = [("a", one, "b", other), ("b", other, "a", one)]
    ax = draw(figures.plot_improvements, pairs, generator=generator)
    points = [line.get_xdata()[0] for line in ax.get_lines() if line.get_marker() == "o"]
    assert points == [probability_of_improvement(one, other), probability_of_improvement(other, one)]
    assert points[0] < 0.5 < points[1] and sum(points) == pytest.approx(1.0)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a against b", "b against a"]
    assert "95 % interval" in ax.get_xlabel()


@pytest.mark.parametrize(("gap", "seeds"), [(0.5, 1), (0.5, 5), (1.0, 3)])
def test_the_shaded_part_and_the_title_are_the_share_of_draws_that_order_two_agents_wrongly(gap, seeds, generator):
    ax = draw(figures.plot_order, gap, seeds)
    one, other = (torch.randn(200_000, seeds, generator=generator, dtype=torch.float64).mean(1) for _ in range(2))
    wrong = float((one + gap < other).double().mean())
    assert float(ax.get_title().split()[-2]) == pytest.approx(100 * wrong, abs=0.4)
    x, y = (torch.as_tensor(each) for each in ax.lines[0].get_data())
    assert float(y[x <= 0].sum() / y.sum()) == pytest.approx(wrong, abs=0.02)
    assert heights(ax.collections[0])[:, 0].max() <= 1e-9, "nothing is shaded where the order is right"
    low, high = ax.lines[1].get_xdata()
    inside = ((one + gap - other >= low) & (one + gap - other <= high)).double().mean()
    assert float(inside) == pytest.approx(0.95, abs=0.003)
    assert words(ax) == ["95 % of comparisons"], "the gray bar says what it holds"
