"""Statistics of runs: by SciPy, and whether an interval holds what it promises."""

from __future__ import annotations

import pytest
import scipy.stats
import torch

from minerva_lite.formulas.statistics import probability_of_improvement, stratified_bootstrap, welch_statistic


def test_a_bootstrap_draws_every_task_by_itself(generator):
    """Tasks of constant scores leave nothing to resample; mixing their columns would."""
    constant = torch.tensor([[1.0, 100.0]]).expand(5, 2)
    low, high = stratified_bootstrap(lambda s: s.mean(0), [constant], generator=generator, resamples=50)
    assert low.tolist() == high.tolist() == [1.0, 100.0]
    both = torch.stack([torch.arange(6.0), torch.arange(6.0)], 1)  # the same runs in both tasks
    spread = stratified_bootstrap(lambda s: (s[:, 0] - s[:, 1]).abs().max(), [both], generator=generator)
    assert spread[1] > 0  # the draws of a task do not follow those of the other


def test_a_statistic_of_two_agents_draws_both(generator):
    x, y = torch.arange(5.0)[:, None], torch.arange(2.0, 9.0)[:, None]
    low, high = stratified_bootstrap(probability_of_improvement, [x, y], generator=generator, level=0.9)
    assert 0 <= low < probability_of_improvement(x, y) < high < 0.5


def test_the_interval_of_a_mean_is_that_of_scipys_bootstrap(generator):
    scores = torch.randn(12, 1, dtype=torch.float64, generator=generator)
    low, high = stratified_bootstrap(torch.mean, [scores], generator=generator, resamples=20_000)
    wanted = scipy.stats.bootstrap(
        (scores[:, 0].numpy(),), lambda x, axis: x.mean(axis), n_resamples=20_000, method="percentile", rng=0
    ).confidence_interval
    assert (low.item(), high.item()) == pytest.approx((wanted.low, wanted.high), abs=0.02)


@pytest.mark.parametrize("runs", [(5, 10), (2, 3), (40, 4)])
def test_welchs_statistic_is_scipys(runs, generator):
    x, y = (torch.randn(n, dtype=torch.float64, generator=generator) * (1 + 3 * i) for i, n in enumerate(runs))
    errors = torch.stack([x.var() / len(x), y.var() / len(y)])
    t, freedom = welch_statistic(x.mean() - y.mean(), errors, torch.tensor(runs, dtype=torch.float64))
    wanted = scipy.stats.ttest_ind(x, y, equal_var=False)
    assert (t.item(), freedom.item()) == pytest.approx((wanted.statistic, wanted.df), rel=1e-12)
