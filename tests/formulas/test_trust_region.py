"""TRPO's step: systems solved exactly, Fisher products held against Hessians and scores, every way a search can end."""

from __future__ import annotations

import math

import pytest
import torch

from minerva_lite.formulas.trust_region import (
    CurvatureError,
    LineSearch,
    conjugate_gradient,
    fisher_vector_product,
    full_step,
    line_search,
    predicted_gain,
)
from tests.living import vector

F64 = torch.float64


def positive_definite(n: int, condition: float, generator) -> torch.Tensor:
    """A random symmetric matrix with eigenvalues from 1 to `condition`, evenly spread on a log scale."""
    basis, _ = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=F64))
    eigenvalues = torch.logspace(0, math.log10(condition), n, dtype=F64)
    return basis @ torch.diag(eigenvalues) @ basis.T


# Conjugate gradient


def test_cg_by_hand():
    """M = ((4, 1), (1, 3)), b = (1, 2). First step 1/4 along b, second 4/11 along (-7/16, 3/8): (1/11, 7/11)."""
    matrix, b = torch.tensor([[4.0, 1.0], [1.0, 3.0]], dtype=F64), vector(1.0, 2.0)
    assert conjugate_gradient(lambda v: matrix @ v, b, 1).tolist() == [0.25, 0.5]
    assert conjugate_gradient(lambda v: matrix @ v, b, 2).tolist() == pytest.approx([1 / 11, 7 / 11], rel=1e-14)
    # The first residual, (-1/2, 1/4), has 1/16 of the square of b.
    for tolerance, wanted in ((0.0626, [0.25, 0.5]), (0.0624, [1 / 11, 7 / 11])):
        found = conjugate_gradient(lambda v: matrix @ v, b, 2, tolerance=tolerance)
        assert found.tolist() == pytest.approx(wanted, rel=1e-14)


@pytest.mark.parametrize(
    ("n", "condition", "iterations"),
    [(1, 1.0, 1), (2, 1e3, 2), (4, 1e3, 4), (7, 100.0, 7), (30, 10.0, 30), (30, 1e3, 120)],
)
def test_cg_solves_in_as_many_iterations_as_unknowns(n, condition, iterations, generator):
    """With many unknowns and a bad condition, rounding costs the search directions their conjugacy: more are needed."""
    for _ in range(5):
        matrix = positive_definite(n, condition, generator)
        b = torch.randn(n, generator=generator, dtype=F64)
        found = conjugate_gradient(lambda v, matrix=matrix: matrix @ v, b, iterations, tolerance=0.0)
        wanted = torch.linalg.solve(matrix, b)
        assert (found - wanted).norm() <= 1e-8 * wanted.norm()


def test_cg_solves_for_zero_without_a_product():
    assert conjugate_gradient(pytest.fail, torch.zeros(3, dtype=F64), 5).tolist() == [0.0, 0.0, 0.0]


def test_cg_leaves_its_target_alone_and_keeps_the_dtype(generator):
    matrix = positive_definite(4, 10.0, generator).float()
    b = torch.randn(4, generator=generator)
    kept = b.clone()
    assert conjugate_gradient(lambda v: matrix @ v, b, 4).dtype == torch.float32
    assert torch.equal(b, kept)


@pytest.mark.parametrize("diagonal", [(1.0, -1.0), (-1.0, -2.0), (0.0, 0.0), (math.nan, 1.0)])
def test_cg_refuses_a_matrix_that_is_not_positive_definite(diagonal):
    matrix = torch.diag(vector(*diagonal))
    with pytest.raises(CurvatureError, match=r"^product: wanted positive curvature p\^T M p; got .* at k = \d$"):
        conjugate_gradient(lambda v: matrix @ v, vector(1.0, 2.0), 2)


# Fisher products


def test_fisher_product_is_the_hessian(generator):
    """Of p^T M p / 2 + sum p^3 / 6 it is M + diag(p), of a parameter without influence 0; plus the damping."""
    matrix = positive_definite(5, 10.0, generator)
    parameters = [torch.randn(shape, generator=generator, dtype=F64).requires_grad_() for shape in ((2, 2), (1,), (3,))]
    known = torch.cat([p.flatten() for p in parameters[:2]])
    f = known @ matrix @ known / 2 + (known**3).sum() / 6
    parts = torch.autograd.grad(f, parameters, create_graph=True, materialize_grads=True)
    gradient, identity = torch.cat([p.flatten() for p in parts]), torch.eye(8, dtype=F64)
    product = torch.stack([fisher_vector_product(gradient, parameters, v, damping=0.3) for v in identity], 1)
    hessian = torch.block_diag(matrix + known.detach().diag(), torch.zeros(3, 3))
    torch.testing.assert_close(product, hessian + 0.3 * identity, rtol=1e-12, atol=1e-12)


# The full step


def test_full_step_by_hand():
    """F = diag(2, 8), g = (2, 4), x = (1, 1/2), g^T x = 4; at delta 1/2 the multiplier is 2: half of x."""
    step = full_step(vector(2.0, 4.0), vector(1.0, 0.5), 0.5)
    assert step.tolist() == [0.5, 0.25]
    assert 0.5 * float(step @ (vector(2.0, 8.0) * step)) == 0.5, "on the ellipsoid"


@pytest.mark.parametrize("kl_bound", [0.01, 2.0])
def test_the_full_step_is_the_best_point_of_the_ellipsoid(kl_bound, generator):
    matrix, g = positive_definite(6, 50.0, generator), torch.randn(6, generator=generator, dtype=F64)
    step = full_step(g, torch.linalg.solve(matrix, g), kl_bound)
    assert 0.5 * float(step @ matrix @ step) == pytest.approx(kl_bound, rel=1e-12)
    others = torch.randn(1000, 6, generator=generator, dtype=F64)
    others *= (2.0 * kl_bound / torch.einsum("ni,ij,nj->n", others, matrix, others)).sqrt().unsqueeze(-1)
    assert (others @ g).max() < predicted_gain(g, step)
    # sqrt(2 delta g^T F^-1 g), the gain the book predicts.
    wanted = math.sqrt(2.0 * kl_bound * float(g @ torch.linalg.solve(matrix, g)))
    assert float(predicted_gain(g, step)) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("direction", [(-1.0, 0.0), (0.0, 1.0), (math.nan, 0.0)])
def test_a_direction_that_does_not_rise_is_refused(direction):
    with pytest.raises(CurvatureError, match=r"^direction: wanted a rising one, g\^T x above 0; got "):
        full_step(vector(1.0, 0.0), vector(*direction), 0.01)


# The line search


FAILS, OF_FOUR = {"max_trials": 3}, {"expected_gain": 4.0, "accept_ratio": 0.3, "backtrack": 0.6}
# Gain and KL of a fraction of the step, options, and how the search ends. Wanted: a gain of 1, a KL up to 0.01.
SEARCHES = [
    # KL 0.05 f^2 keeps 0.01 from f = 0.447 on: 1 and 1/2 fail, 1/4 passes.
    (lambda f: f, lambda f: 0.05 * f * f, {}, (0.25, 3, "accepted")),
    # Of an expected 4 f, a share of 0.3 is 1.2 f: a gain of 1.3 f is enough, one of 1.1 f is not.
    (lambda f: 1.3 * f, lambda f: 0.0, OF_FOUR, (1.0, 1, "accepted")),
    (lambda f: 1.1 * f, lambda f: 0.0, OF_FOUR | {"max_trials": 4}, (0.0, 4, "surrogate")),
    # The gain sets in only at small fractions: 0.216 of 4 is 0.864, of which 0.3 is 0.2592.
    (lambda f: 0.26 if f < 0.3 else 0.0, lambda f: 0.0, OF_FOUR, (0.216, 4, "accepted")),
    (lambda f: 0.25 if f < 0.3 else 0.0, lambda f: 0.0, OF_FOUR, (0.1296, 5, "accepted")),
    # A failed search gives the reason of its last trial.
    (lambda f: f, lambda f: 0.02, FAILS, (0.0, 3, "kl")),
    (lambda f: -f, lambda f: 0.0, FAILS, (0.0, 3, "surrogate")),
    (lambda f: -f, lambda f: 0.02, FAILS, (0.0, 3, "kl")),
    (lambda f: -f, lambda f: 0.02 * f, FAILS, (0.0, 3, "surrogate")),
    (lambda f: math.nan, lambda f: 0.0, FAILS, (0.0, 3, "surrogate")),
    (lambda f: f, lambda f: math.nan, FAILS, (0.0, 3, "kl")),
    (lambda f: f, lambda f: math.nan if f > 0.3 else 0.0, {}, (0.25, 3, "accepted")),
    # A KL equal to the bound is accepted. No gain is not enough gain, but where the share is zero.
    (lambda f: f, lambda f: 0.01 * f, {}, (1.0, 1, "accepted")),
    (lambda f: f, lambda f: 0.010000001 * f, {}, (0.5, 2, "accepted")),
    (lambda f: 0.0, lambda f: 0.0, FAILS, (0.0, 3, "surrogate")),
    (lambda f: 0.0, lambda f: 0.0, {"accept_ratio": 0.0}, (1.0, 1, "accepted")),
    (lambda f: -1e-9, lambda f: 0.0, FAILS | {"accept_ratio": 0.0}, (0.0, 3, "surrogate")),
]


@pytest.mark.parametrize(("gain", "kl", "options", "wanted"), SEARCHES)
def test_line_search_by_hand(gain, kl, options, wanted):
    tried = []

    def evaluate(fraction):
        tried.append(fraction)
        return torch.tensor(gain(fraction), dtype=F64), torch.tensor(kl(fraction), dtype=F64)

    found = line_search(evaluate, **{"expected_gain": 1.0, "kl_bound": 0.01} | options)
    assert found == LineSearch(pytest.approx(wanted[0]), *wanted[1:])
    assert tried == pytest.approx([options.get("backtrack", 0.5) ** k for k in range(found.trials)])
