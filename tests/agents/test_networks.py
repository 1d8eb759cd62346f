"""Networks: initialization by its promises, parameters of distributions, and the five questions of a policy."""

from __future__ import annotations

import math

import pytest
import torch

from minerva_lite.agents.networks import (
    MLP,
    CategoricalPolicy,
    GaussianPolicy,
    LayerNormMLP,
    QNet,
    SquashedGaussianPolicy,
    ValueHead,
    ValueNet,
)
from minerva_lite.formulas import distributions as d


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


@pytest.mark.parametrize(
    ("network", "arguments", "message"),
    [
        (MLP, ((3, 0, 2), 1.0, seeded()), r"sizes\[1\]: wanted a whole number of at least 1; got 0$"),
        (LayerNormMLP, ((3, 0, 2), 1.0, seeded()), r"sizes\[1\]: wanted a whole number of at least 1; got 0$"),
        (LayerNormMLP, ((3, 2), 1.0, seeded()), r"sizes: wanted at least one hidden layer, .*; got \[3, 2\]"),
        (GaussianPolicy, (3, 2, (8,), -0.5, seeded(), "relu"), "torso: wanted one of tanh, layernorm; got 'relu'"),
        (ValueNet, (3, (8,), seeded(), "relu"), "torso: wanted one of tanh, layernorm; got 'relu'"),
    ],
)
def test_networks_that_cannot_be_are_refused_by_name(network, arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        network(*arguments)


@pytest.mark.parametrize("torso", ["tanh", "layernorm"])
@pytest.mark.parametrize("family", [GaussianPolicy, SquashedGaussianPolicy])
def test_gaussian_policy_parameters(family, torso):
    """With "layernorm" there is a std of its own in each state, else one for all; either is clamped."""
    policy = family(3, 2, (8,), -0.5, seeded(), torso)
    obs = torch.randn(4, 10, 3, generator=seeded(1))
    mean, std = policy(obs)
    assert mean.shape == std.shape == (4, 10, 2) and (mean.std(1) > 0).all()
    torch.testing.assert_close(
        std, torch.full_like(std, math.exp(-0.5)), rtol=0.1 if policy.state_std else 1e-6, atol=0
    )
    assert mean.abs().max() < 0.1, "a head of gain 0.01 starts near zero"
    assert (std.std(1) > 0).all() == policy.state_std == (torso == "layernorm")
    assert ("log_std" in dict(policy.named_parameters())) != policy.state_std
    far = torch.tensor([0.0, 0.0, 9.0, -99.0])
    with torch.no_grad():
        (policy.mean[-1].bias if policy.state_std else policy.log_std).copy_(far if policy.state_std else far[2:])
    assert policy(obs)[1][0, 0].tolist() == pytest.approx([math.exp(2), math.exp(-20)], rel=1e-5)
    (slope,) = torch.autograd.grad(policy(obs)[1][..., 0].sum() + policy(obs)[0].sum(), policy.mean[0].weight)
    assert slope.isfinite().all() and slope.abs().sum() > 0


@pytest.fixture(params=[GaussianPolicy, SquashedGaussianPolicy, CategoricalPolicy])
def policy(request):
    if request.param is CategoricalPolicy:
        return CategoricalPolicy(3, 4, (8,), seeded())
    return request.param(3, 2, (8,), -0.3, seeded())


def test_policy_methods_are_the_plain_functions(policy):
    # Fresh networks start near their prior, where a KL the wrong way round would look the same: so parameters by hand.
    noise = torch.randn(4, 6, 4 if policy.discrete else 2, generator=seeded(1)) * 2
    old, new = (
        ((noise[0],), (noise[1],)) if policy.discrete else ((noise[0], noise[2].exp()), (noise[1], noise[3].exp()))
    )
    assert [x.shape for x in policy(torch.zeros(6, 3))] == [x.shape for x in old]
    action = policy.sample(new, seeded(2))
    if policy.discrete:
        wanted = {
            "sample": d.categorical_sample(*new, seeded(2)),
            "mode": new[0].argmax(-1),
            "kl": d.categorical_kl(*old, *new),
            "kl_parts": (d.categorical_kl(*old, *new).unsqueeze(-1),),
            "entropy": d.categorical_entropy(*new),
            "log_prob": d.categorical_log_prob(action, *new),
            "to_env": action,
        }
    else:
        squashed = isinstance(policy, SquashedGaussianPolicy)
        wanted = {
            "sample": d.gaussian_sample(*new, seeded(2)),
            "mode": new[0],
            "kl": d.gaussian_kl(*old, *new).sum(-1),
            "kl_parts": d.gaussian_kl_mean_std(*old, *new),
            "log_prob": (d.squashed_log_prob if squashed else d.gaussian_log_prob)(action, *new),
            "to_env": action.tanh() if squashed else action,
        } | ({} if squashed else {"entropy": d.gaussian_entropy(new[1])})
    both = dict.fromkeys(("kl", "kl_parts"), (old, new))
    arguments = {"sample": (new, seeded(2)), "log_prob": (new, action), "to_env": (action,)} | both
    for name, figure in wanted.items():
        torch.testing.assert_close(getattr(policy, name)(*arguments.get(name, (new,))), figure)


def test_squashed_entropy_is_differentiated_through_its_draw():
    """The estimate is log std + log(1 - tanh(u)^2) and what no parameter moves; u is mean + std * noise."""
    mean, std = torch.full((9, 1), 0.4, requires_grad=True), torch.full((9, 1), 0.8, requires_grad=True)
    SquashedGaussianPolicy(3, 1, (8,), 0.0, seeded()).entropy((mean, std), seeded()).sum().backward()
    noise = torch.randn(9, 1, generator=seeded())
    slope = -2 * (0.4 + 0.8 * noise).tanh()
    torch.testing.assert_close(mean.grad, slope)
    torch.testing.assert_close(std.grad, 1 / 0.8 + slope * noise)


def test_value_net_drops_its_last_axis_and_starts_with_gain_one():
    critic, normalized = ValueNet(3, (8,), seeded()), ValueNet(3, (8,), seeded(), "layernorm")
    assert critic(torch.zeros(4, 5, 3)).shape == normalized(torch.zeros(4, 5, 3)).shape == (4, 5)
    assert isinstance(normalized.value, LayerNormMLP)
    assert linears(critic)[-1].weight.norm().item() == pytest.approx(1.0, abs=1e-5)


# The networks of MPO and V-MPO


def test_layernorm_mlp_by_hand():
    """Linear, LayerNorm, tanh; then ELU between linear layers; nothing after the last."""
    net = LayerNormMLP((3, 5, 4, 2), 0.01, seeded())
    first, second, head = linears(net)
    x = torch.randn(7, 3, generator=seeded(1)) * 5
    h = x @ first.weight.T + first.bias
    h = ((h - h.mean(-1, keepdim=True)) / (h.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()).tanh()
    h = torch.nn.functional.elu(h @ second.weight.T + second.bias)
    torch.testing.assert_close(net(x), h @ head.weight.T + head.bias)
    assert len(linears(LayerNormMLP((3, 5, 2), 0.01, seeded()))) == 2


def test_layernorm_mlp_starts_as_it_says():
    """Hidden weights uniform within +-1/sqrt(fan_in), so of variance 1/(3 fan_in); the head normal, cut at two."""
    first, second, head = linears(LayerNormMLP((400, 300, 200, 300), 0.01, seeded()))
    for layer in (first, second):
        edge = 1 / math.sqrt(layer.in_features)
        assert layer.weight.abs().max() <= edge and layer.weight.abs().max() > 0.99 * edge
        assert layer.weight.var().item() == pytest.approx(edge**2 / 3, rel=0.02)
    unit = head.weight.detach() * math.sqrt(200) / 0.01
    assert unit.abs().max() <= 2 and unit.abs().max() > 1.99
    assert unit.std().item() == pytest.approx(0.8796, rel=0.01), "of a standard normal cut at two"
    assert not any(layer.bias.any() for layer in (first, second, head))


@pytest.mark.parametrize("torso", ["tanh", "layernorm"])
def test_the_encoder_is_all_but_the_last_layer(torso):
    obs = torch.randn(5, 3, generator=seeded(1))
    for policy, body in (
        (p := GaussianPolicy(3, 2, (8, 7), 0.0, seeded(), torso), p.mean),
        (p := CategoricalPolicy(3, 2, (8, 7), seeded(), torso), p.logits),
    ):
        assert policy.encoder(obs).shape == (5, 7)
        torch.testing.assert_close(body[-1](policy.encoder(obs)), body(obs))


def test_a_value_head_stands_on_the_policys_encoder_and_lists_only_its_own():
    policy = GaussianPolicy(3, 2, (8,), 0.0, seeded())
    critic = ValueHead(policy.encoder, 8, seeded(1))
    obs = torch.randn(4, 5, 3, generator=seeded(2))
    assert critic(obs).shape == (4, 5)
    head = critic.head[-1]
    torch.testing.assert_close(critic(obs), (policy.encoder(obs) @ head.weight.T + head.bias).squeeze(-1))
    assert {id(p) for p in critic.parameters()} == {id(head.weight), id(head.bias)}
    assert not {id(p) for p in critic.parameters()} & {id(p) for p in policy.parameters()}
    assert set(critic.state_dict()) == {"head.0.weight", "head.0.bias"}, "saved once, with the policy"
    critic(obs).sum().backward()
    slopes = [p.grad for p in policy.encoder.parameters()]
    assert all(slope is not None and slope.abs().sum() > 0 for slope in slopes), "the value loss moves the encoder too"


def test_qnet_of_continuous_actions_sees_them_clipped():
    critic = QNet(3, 2, 0, (8,), seeded())
    obs, action = torch.randn(4, 5, 3, generator=seeded(1)), torch.randn(4, 5, 2, generator=seeded(2)) * 3
    assert torch.equal(critic(obs, action), critic.value(torch.cat([obs, action.clamp(-1, 1)], -1)).squeeze(-1))


def test_qnet_of_a_finite_set_gives_all_values_or_the_one_that_is_named():
    critic = QNet(3, 0, 4, (8,), seeded())
    obs = torch.randn(6, 5, 3, generator=seeded(1))
    action = torch.randint(4, (6, 5), generator=seeded(2))
    values = critic(obs)
    assert values.shape == (6, 5, 4) and critic(obs, action).shape == (6, 5)
    assert torch.equal(critic(obs, action), values.gather(-1, action[..., None])[..., 0])
