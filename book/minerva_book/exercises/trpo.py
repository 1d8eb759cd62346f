"""Trust regions: what chapters 4 to 5 ask for."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from minerva_lite.formulas.trust_region import conjugate_gradient
from minerva_lite.worlds.tabular import random_policy

from .answers import Wrong, compare


def check_coupling(function: Callable[[Tensor, Tensor], Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(p, q)` couples p [A] and q [A]: [A, A], P(a = b) as large as it can be."""
    generator = Generator().manual_seed(seed)
    p, q = random_policy(2, 5, generator)
    first, second = torch.eye(2, dtype=torch.float64)
    for name, old, new in (("random", p, q), ("p = q", p, p), ("nothing in common", first, second)):
        joint = function(old, new)
        square = isinstance(joint, Tensor) and joint.shape == (len(old), len(new))
        compare(f"{name}, joint", joint, joint.clamp(min=0.0) if square else old[:, None] * new)
        compare(f"{name}, probabilities of a", joint.sum(1), old)
        compare(f"{name}, probabilities of b", joint.sum(0), new)
        compare(f"{name}, probabilities of a = b", joint.diagonal(), torch.minimum(old, new))


def check_conjugate_gradient(function: Callable[..., Tensor]) -> None:
    """Raise AssertionError unless `function(product, target, iterations)` is conjugate gradient from a start at 0."""
    generator = Generator().manual_seed(0)
    for n, iterations in ((1, 1), (6, 6), (30, 5), (6, 9)):
        basis, _ = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64))
        matrix = basis @ torch.diag(torch.linspace(1.0, 20.0, n, dtype=torch.float64)) @ basis.T
        target = torch.randn(n, generator=generator, dtype=torch.float64)
        products: list[Tensor] = []

        def product(vector: Tensor, matrix: Tensor = matrix, products: list[Tensor] = products) -> Tensor:
            products.append(vector)
            return matrix @ vector

        got = function(product, target, iterations)
        if len(products) > iterations:
            raise Wrong(f"n = {n}: wanted at most {iterations} products; got {len(products)}")
        wanted = conjugate_gradient(lambda v, m=matrix: m @ v, target, iterations, tolerance=0.0)
        compare(f"n = {n}, iterations = {iterations}", got, wanted, atol=1e-8)
    zero = torch.zeros(3, dtype=torch.float64)
    compare("target 0", function(lambda v: v, zero, 3), zero)


def check_fisher_product(function: Callable[..., Tensor]) -> None:
    """Raise AssertionError unless `function(score, vector, damping)` is (mean of score score^T + damping) vector."""
    generator = Generator().manual_seed(0)
    for rows, n, damping in ((1, 3, 0.0), (50, 4, 0.0), (50, 4, 0.3)):
        score = torch.randn(rows, n, generator=generator, dtype=torch.float64)
        vector = torch.randn(n, generator=generator, dtype=torch.float64)
        fisher = sum(torch.outer(row, row) for row in score) / rows
        wanted = fisher @ vector + damping * vector
        compare(f"N = {rows}, n = {n}, damping = {damping}", function(score, vector, damping), wanted)
    wide = torch.ones(2, 100_000, dtype=torch.float64)  # a matrix [n, n] for these would need 80 GB
    compare("N = 2, n = 100 000", function(wide, wide[0], 0.0)[:2], torch.full((2,), 1e5, dtype=torch.float64))


def check_dual_clip(function: Callable[..., Tensor]) -> None:
    """Raise AssertionError unless `function(log_ratio, advantage, clip_eps, c)` is dual-clip PPO's objective."""
    ratio = torch.tensor([0.1, 0.75, 0.95, 1.05, 1.25, 2.9, 3.1, 50.0], dtype=torch.float64)
    for sign in (2.0, -2.0, 0.0):
        for clip_eps, c in ((0.2, 3.0), (0.1, 1.5)):
            low, high = (min(r, 1 + clip_eps) for r in ratio.tolist()), (max(r, 1 - clip_eps) for r in ratio.tolist())
            kept = list(low) if sign >= 0 else [min(r, c) for r in high]
            wanted = sign * torch.tensor(kept, dtype=torch.float64)
            got = function(ratio.log(), torch.full_like(ratio, sign), clip_eps, c)
            compare(f"A = {sign}, clip_eps = {clip_eps}, c = {c}", got, wanted)
