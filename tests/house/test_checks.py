"""Every error names the argument, what was wanted and what came; everything fit passes."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import math

import pytest
import torch

from minerva_lite import checks

BAD = [
    (checks.require_same_shape, {"reward": torch.zeros(2, 3), "value": torch.zeros(2, 1)}, r"^value: wanted shape \(2, 3\), the shape of reward; got \(2, 1\)$"),
    (checks.require_bool, {"terminated": torch.zeros(2)}, r"^terminated: wanted dtype torch.bool; got torch.float32$"),
    (checks.require_unit_interval, {"gamma": 1.1}, r"^gamma: wanted a number in \[0, 1\]; got 1.1$"),
    (checks.require_unit_interval, {"gamma": 0.5, "lam": -0.1}, r"^lam: wanted .*; got -0.1$"),
    (checks.require_unit_interval, {"lam": math.nan}, r"^lam: wanted .*; got nan$"),
    (checks.require_positive, {"clip_eps": 0.0}, r"^clip_eps: wanted a finite number above 0; got 0.0$"),
    (checks.require_positive, {"clip_eps": math.inf}, r"^clip_eps: .*; got inf$"),
    (checks.require_positive, {"clip_eps": math.nan}, r"^clip_eps: .*; got nan$"),
    (checks.require_non_negative, {"vf_coef": -1e-9}, r"^vf_coef: wanted a finite number of at least 0; got -1e-09$"),
    (checks.require_non_negative, {"vf_coef": math.inf}, r"^vf_coef: .*; got inf$"),
    (checks.require_count, {"epochs": 0}, r"^epochs: wanted a whole number of at least 1; got 0$"),
    (checks.require_count, {"epochs": 2.0}, r"^epochs: .*; got 2.0$"),
    (checks.require_count, {"epochs": True}, r"^epochs: .*; got True$"),
    (checks.require_one_of, {"estimator": "gea"}, r"^estimator: wanted one of gae, td; got 'gea'$"),
    (checks.require_finite, {"obs": torch.tensor([1.0, math.nan, -math.inf])}, r"^obs: wanted finite numbers; got 2 that are NaN or infinite$"),
]  # fmt: skip
GOOD = [
    (checks.require_same_shape, {"a": torch.zeros(2, 3), "b": torch.ones(2, 3)}),
    (checks.require_bool, {"terminated": torch.zeros(2, dtype=torch.bool)}),
    (checks.require_unit_interval, {"gamma": 0.0, "lam": 1.0}),
    (checks.require_positive, {"clip_eps": 1e-300}),
    (checks.require_non_negative, {"vf_coef": 0.0}),
    (checks.require_count, {"epochs": 1}),
    (checks.require_one_of, {"estimator": "td"}),
    (checks.require_finite, {"obs": torch.zeros(3)}),
]


def call(check, arguments):
    if check is checks.require_one_of:
        return check(("gae", "td"), **arguments)
    return check(**arguments)


@pytest.mark.parametrize(("check", "arguments", "message"), BAD)
def test_refuses_by_name(check, arguments, message):
    with pytest.raises(ValueError, match=message):
        call(check, arguments)


@pytest.mark.parametrize(("check", "arguments"), GOOD, ids=lambda x: getattr(x, "__name__", ""))
def test_passes_what_fits(check, arguments):
    assert call(check, arguments) is None


def test_require_shape():
    checks.require_shape((2, None), obs=torch.zeros(2, 7), next_obs=torch.zeros(2, 1))
    with pytest.raises(ValueError, match=r"^obs: wanted shape \(2, any\); got \(3, 7\)$"):
        checks.require_shape((2, None), obs=torch.zeros(3, 7))
    with pytest.raises(ValueError, match=r"^obs: wanted shape \(2, any\); got \(2,\)$"):
        checks.require_shape((2, None), obs=torch.zeros(2))
