"""What was recorded of one batch (`studies/reuse.py`): its rows, and the measurement on a small scale."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from book.results.studies import reuse
from book.results.studies.record import read_rows

RECORDED = Path(__file__).resolve().parents[2] / "book" / "results" / "ppo_reuse.csv"


@pytest.fixture(scope="module")
def agent():
    return reuse.trained("Pendulum-v1", 0, 1)


def test_the_record_is_complete_and_begins_where_nothing_has_moved():
    rows = read_rows(RECORDED)
    curves = {tuple(row.values())[:4] for row in rows}
    assert len(curves) == 2 * 5 * 10 and len(rows) == len(curves) * len(reuse.STEPS)
    for row in rows:
        assert all(math.isfinite(float(row[name])) for name in reuse.Row._fields[5:])
        if row["step"] == "0":
            assert abs(float(row["on_batch"])) < 1e-5 and abs(float(row["kl_batch"])) < 1e-5


def test_steps_move_a_copy_and_the_batch_says_more_than_it_keeps(agent):
    agent, progress = agent
    before = [p.clone() for p in agent.policy.parameters()]
    first, last = reuse.climb(agent, progress, 400, "none", 0, steps=(0, 12))
    assert all(torch.equal(p, q) for p, q in zip(before, agent.policy.parameters(), strict=True))
    assert abs(first.on_batch) < 1e-5 and abs(first.on_fresh) < 1e-5 and first.kl_batch < 1e-6
    assert last.on_batch > max(last.on_fresh, 0.01) and last.kl_fresh > 1e-4
    assert first.returned == reuse.true_return(agent, 3000) != last.returned


def test_a_batch_is_the_behavior_policys_and_a_clip_holds_its_claim(agent):
    agent, progress = agent
    batch = reuse.batch_of(agent, 400, 7)
    assert len(batch) == 400 and torch.equal(batch.obs, reuse.batch_of(agent, 400, 7).obs)
    claims = [reuse.climb(agent, progress, 400, clip, 0, steps=(0, 12))[-1].on_batch for clip in ("none", "0.1")]
    assert claims[1] < claims[0]
