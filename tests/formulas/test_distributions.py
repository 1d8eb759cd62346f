"""The distribution functions against torch.distributions, and far out; sampling by frequency."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import math

import pytest
import scipy.stats
import torch
from torch import distributions as td

from minerva_lite.formulas import distributions as d
from tests.living import vector

F64 = torch.float64


def close(got, wanted, tolerance=1e-12):
    torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance)


def test_gaussian_log_prob_entropy_and_kl_are_torchs(generator):
    mean_old, mean, action = torch.randn(3, 5, 3, generator=generator, dtype=F64)
    std_old, std = (torch.randn(2, 5, 3, generator=generator, dtype=F64) * 0.7).exp()
    new, old = td.Normal(mean, std), td.Normal(mean_old, std_old)
    close(d.gaussian_log_prob(action, mean, std), new.log_prob(action).sum(-1))
    close(d.gaussian_entropy(std), new.entropy().sum(-1))
    close(d.gaussian_kl(mean_old, std_old, mean, std), td.kl_divergence(old, new))
    squashed = td.TransformedDistribution(new, td.TanhTransform(cache_size=1))
    close(d.squashed_log_prob(action, mean, std), squashed.log_prob(action.tanh()).sum(-1), 1e-9)


def test_kl_parts_by_hand():
    """Old N(1, 1), new N(0, 2^2): 1/2 for the mean at the OLD std, log 2 + 1/8 - 1/2 for the std at the old mean.

    Inflating the new std does not make the mean's part any cheaper, as it does in the exact split.
    """
    of_mean, of_std = d.gaussian_kl_mean_std(vector(1, 1), vector(1, 4), vector(0, 3), vector(2, 2))
    assert of_mean.tolist() == pytest.approx([0.5, 1 / 8], abs=1e-15)
    assert of_std.tolist() == pytest.approx([math.log(2) + 1 / 8 - 1 / 2, 3 / 2 - math.log(2)], abs=1e-15)


@pytest.mark.parametrize("u", [-300.0, -50.0, -20.0, 20.0, 50.0, 300.0])
def test_squashed_log_prob_far_out_in_float32(u):
    """log(1 - tanh(u)^2) = 2 log 2 - 2|u| up to 2 exp(-2|u|), which float32 cannot see past |u| = 20."""
    mean, std = torch.tensor([u - 0.5 if u > 0 else u + 0.5]), torch.tensor([2.0])
    gaussian = -0.5 * 0.25**2 - math.log(2) - 0.5 * math.log(2 * math.pi)
    got = d.squashed_log_prob(torch.tensor([u]), mean, std)
    assert got.dtype == torch.float32
    assert got.item() == pytest.approx(gaussian - 2 * math.log(2) + 2 * abs(u), rel=3e-7)


def test_squashed_gradient_is_right_far_out():
    """At u = mean + 1: -1 from the Gaussian and +2 from the slope of tanh; log(1 - tanh(u)^2) would give NaN."""
    mean, pre_squash = torch.tensor([299.0], requires_grad=True), torch.tensor([300.0], requires_grad=True)
    d.squashed_log_prob(pre_squash, mean, torch.ones(1)).backward()
    assert mean.grad.item() == pytest.approx(1.0)
    assert pre_squash.grad.item() == pytest.approx(-1.0 + 2.0)


def test_gaussian_sample_has_its_law(generator):
    draws = d.gaussian_sample(torch.full((100_000,), -2.0), torch.full((100_000,), 3.0), generator)
    assert scipy.stats.kstest(draws.numpy(), "norm", (-2.0, 3.0)).pvalue > 0.001


def test_categorical_sample_has_its_frequencies(generator):
    n, logits = 100_000, torch.tensor([0.0, 1.0, -1.0, 2.5])
    counts = torch.bincount(d.categorical_sample(logits.expand(n, 4), generator), minlength=4)
    wanted = logits.double().softmax(-1) * n
    assert scipy.stats.chisquare(counts.numpy(), wanted.numpy()).pvalue > 0.001


@pytest.mark.parametrize("sample", [lambda g: d.gaussian_sample(torch.zeros(9), torch.ones(9), g), lambda g: d.categorical_sample(torch.zeros(64, 5), g)])  # fmt: skip
def test_samples_come_from_the_generator_alone(sample):
    first, second = (sample(torch.Generator().manual_seed(3)) for _ in range(2))
    torch.manual_seed(0)
    untouched = torch.get_rng_state()
    assert torch.equal(first, second)
    assert not torch.equal(first, sample(torch.Generator().manual_seed(4)))
    assert torch.equal(torch.get_rng_state(), untouched)


def test_k3_keeps_its_digits_where_policies_are_close():
    """k3 = x^2/2 + x^3/6 + …; exp(x) - 1 - x would return rounding noise at x = 1e-3 in float32."""
    x = 1e-3
    assert d.kl_estimates(torch.tensor(x))[2].item() == pytest.approx(x * x / 2 + x**3 / 6, rel=2e-3)
    assert d.kl_estimates(torch.tensor(x, dtype=F64))[2].item() == pytest.approx(
        x * x / 2 + x**3 / 6 + x**4 / 24, rel=1e-9
    )
