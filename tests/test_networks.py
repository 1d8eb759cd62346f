"""Networks: initialization by its promises, parameters of distributions, and the five questions of a policy."""

from __future__ import annotations

import math

import pytest
import torch

from minerva_lite import distributions as d
from minerva_lite.networks import MLP, CategoricalPolicy, GaussianPolicy, SquashedGaussianPolicy, ValueNet


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def linears(module):
    return [m for m in module.modules() if isinstance(m, torch.nn.Linear)]


@pytest.mark.parametrize("sizes", [(3, 8, 2), (3, 64, 64, 1), (5, 4)])
def test_mlp_is_orthogonal_with_its_gains_and_zero_biases(sizes):
    layers = linears(MLP(sizes, 0.01, seeded()))
    assert [(m.in_features, m.out_features) for m in layers] == list(zip(sizes[:-1], sizes[1:], strict=True))
    for layer in layers:
        gain = 0.01 if layer is layers[-1] else math.sqrt(2)
        rows, cols = layer.weight.shape
        w = layer.weight.detach() / gain
        gram = w @ w.T if rows <= cols else w.T @ w
        torch.testing.assert_close(gram, torch.eye(min(rows, cols)), rtol=0, atol=1e-5)
        assert not layer.bias.any()


def test_mlp_puts_tanh_between_layers_and_none_after_the_last():
    net = MLP((2, 4, 3), 1.0, seeded())
    first, last = linears(net)
    x = torch.randn(5, 2, generator=seeded(1)) * 5
    torch.testing.assert_close(net(x), torch.tanh(x @ first.weight.T) @ last.weight.T)


def test_orthogonal_signs_are_random():
    """QR's convention would give the first column of q one sign for ever."""
    signs = {bool(linears(MLP((1, 1), 1.0, seeded(s)))[0].weight > 0) for s in range(20)}
    assert signs == {True, False}


def test_weights_come_from_the_generator_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, again, other = (MLP((3, 4, 2), 1.0, seeded(s))[0].weight for s in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_mlp_refuses_an_empty_layer():
    with pytest.raises(ValueError, match=r"^sizes\[1\]: wanted a whole number of at least 1; got 0$"):
        MLP((3, 0, 2), 1.0, seeded())


def test_gaussian_policy_parameters():
    policy = GaussianPolicy(3, 2, (8,), -0.5, seeded())
    mean, std = policy(torch.randn(4, 5, 3, generator=seeded()))
    assert mean.shape == std.shape == (4, 5, 2)
    torch.testing.assert_close(std, torch.full((4, 5, 2), math.exp(-0.5)))
    assert mean.abs().max() < 0.1, "a head of gain 0.01 starts near zero"
    with torch.no_grad():
        policy.log_std.copy_(torch.tensor([9.0, -99.0]))
    assert policy(torch.zeros(1, 3))[1][0].tolist() == pytest.approx([math.exp(2), math.exp(-20)], rel=1e-5)


@pytest.fixture(params=[GaussianPolicy, SquashedGaussianPolicy, CategoricalPolicy])
def policy(request):
    if request.param is CategoricalPolicy:
        return CategoricalPolicy(3, 4, (8,), seeded())
    return request.param(3, 2, (8,), -0.3, seeded())


def test_the_questions_are_answered_by_the_plain_functions(policy):
    # Fresh networks start near their prior, where a KL the wrong way round would look the same: so parameters by hand.
    noise = torch.randn(4, 6, 4 if policy.discrete else 2, generator=seeded(1)) * 2
    old, new = (
        ((noise[0],), (noise[1],)) if policy.discrete else ((noise[0], noise[2].exp()), (noise[1], noise[3].exp()))
    )
    assert [x.shape for x in policy(torch.zeros(6, 3))] == [x.shape for x in old]
    action = policy.sample(new, seeded(2))
    if policy.discrete:
        assert torch.equal(action, d.categorical_sample(*new, seeded(2)))
        assert action.dtype == torch.int64 and torch.equal(policy.to_env(action), action)
        assert torch.equal(policy.mode(new), new[0].argmax(-1))
        torch.testing.assert_close(policy.kl(old, new), d.categorical_kl(*old, *new))
        torch.testing.assert_close(policy.entropy(new), d.categorical_entropy(*new))
        torch.testing.assert_close(policy.log_prob(new, action), d.categorical_log_prob(action, *new))
        return
    assert torch.equal(action, d.gaussian_sample(*new, seeded(2)))
    assert torch.equal(policy.mode(new), new[0])
    torch.testing.assert_close(policy.kl(old, new), d.gaussian_kl(*old, *new).sum(-1))
    if isinstance(policy, SquashedGaussianPolicy):
        assert torch.equal(policy.to_env(action), action.tanh())
        torch.testing.assert_close(policy.log_prob(new, action), d.squashed_log_prob(action, *new))
    else:
        assert torch.equal(policy.to_env(action), action)
        torch.testing.assert_close(policy.log_prob(new, action), d.gaussian_log_prob(action, *new))
        torch.testing.assert_close(policy.entropy(new), d.gaussian_entropy(new[1]))


def test_squashed_entropy_is_right_on_average_and_differentiable():
    """Against -∫ p log p on a fine grid of actions; four standard errors at 100 000 draws."""
    policy, n = SquashedGaussianPolicy(3, 1, (8,), 0.0, seeded()), 100_000
    mean, std = torch.full((n, 1), 0.4, requires_grad=True), torch.full((n, 1), 0.8, requires_grad=True)
    entropy = policy.entropy((mean, std), seeded())
    u = torch.linspace(-6, 6, 100_001, dtype=torch.float64)
    density = torch.distributions.Normal(0.4, 0.8).log_prob(u).exp()
    exact = -torch.trapezoid(density * (density.log() - (1 - u.tanh() ** 2).log()), u).item()
    assert entropy.mean().item() == pytest.approx(exact, abs=4 * entropy.std().item() / n**0.5)
    entropy.mean().backward()
    assert mean.grad.abs().sum() > 0 and std.grad.abs().sum() > 0


def test_value_net_drops_its_last_axis_and_starts_with_gain_one():
    critic = ValueNet(3, (8,), seeded())
    assert critic(torch.zeros(4, 5, 3)).shape == (4, 5)
    assert linears(critic)[-1].weight.norm().item() == pytest.approx(1.0, abs=1e-5)
