"""Running statistics equal the statistics of all data at once, move only when told, and travel in state_dict."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minerva_lite.experience.normalizer import Normalizer, RewardScaler
from tests.living import refusal

F64 = torch.float64


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 9))
def test_absorbing_piece_by_piece_is_absorbing_at_once(sizes, seed):
    data = 5 + 3 * torch.randn(sum(sizes), 2, 3, generator=torch.Generator().manual_seed(seed), dtype=F64)
    normalizer = Normalizer((3,)).double()
    for piece in data.split(sizes):
        normalizer.absorb(piece)
    rows = data.reshape(-1, 3)
    torch.testing.assert_close(normalizer.mean, rows.mean(0))
    torch.testing.assert_close(normalizer.var, rows.var(0, correction=0))
    assert normalizer.count.item() == len(rows)


def test_what_has_never_varied_is_divided_by_the_root_of_eps():
    """Variance 0 and eps 1e-8: a first 0.5 reads 5,000, and the clip makes it 10. A fresh one only clips."""
    free, clipped = Normalizer((1,), clip=1e6).double(), Normalizer((1,)).double()
    x = torch.tensor([0.5, 11.0], dtype=F64)
    assert clipped.normalize(x).tolist() == pytest.approx([0.5, 10.0], abs=1e-6)
    for normalizer in (free, clipped):
        normalizer.absorb(torch.zeros(5, 1, dtype=F64))
    assert free.normalize(x).tolist() == pytest.approx([5e3, 1.1e5]) and clipped.normalize(x).tolist() == [10.0, 10.0]


@pytest.mark.parametrize("frozen", [True, False])
def test_eval_mode_freezes_the_statistics(frozen):
    normalizer, scaler = Normalizer((1,)), RewardScaler(0.9)
    normalizer.train(not frozen), scaler.train(not frozen)
    normalizer.absorb(torch.ones(4, 1))
    scaler.absorb(torch.ones(4, 2), torch.zeros(4, 2, dtype=torch.bool))
    assert (normalizer.count.item() == 0) == frozen
    assert (scaler.stats.count.item() == 0) == frozen
    assert (len(scaler.running) == 0) == frozen


def test_reward_scaler_follows_discounted_returns_episode_by_episode_and_over_rollouts(generator):
    scaler, rows, running = RewardScaler(0.7).double(), [], torch.zeros(3, dtype=F64)
    reward = torch.randn(12, 3, generator=generator, dtype=F64) + 1
    ended = torch.rand(12, 3, generator=generator) < 0.3
    scaler.absorb(reward[:5], ended[:5])
    scaler.absorb(reward[5:], ended[5:])
    for paid, over in zip(reward, ended, strict=True):
        rows.append(0.7 * running + paid)
        running = torch.where(over, 0.0, rows[-1])
    torch.testing.assert_close(scaler.stats.mean, torch.stack(rows).mean())
    torch.testing.assert_close(scaler.stats.var, torch.stack(rows).var(correction=0))
    torch.testing.assert_close(scaler.running, running)


def test_wrong_settings_are_named():
    assert refusal(Normalizer, (1,), clip=0.0) == "clip: wanted a finite number above 0; got 0.0"
    assert refusal(RewardScaler, 1.2) == "gamma: wanted a number in [0, 1]; got 1.2"
