"""The step of TRPO: conjugate gradient, Fisher-vector product, scaling to the bound, line search."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..checks import require_count, require_non_negative, require_positive, require_same_shape, require_unit_interval


class CurvatureError(ArithmeticError):
    """A direction along which a matrix that must be positive definite has no positive curvature."""


def conjugate_gradient(
    product: Callable[[Tensor], Tensor], target: Tensor, iterations: int, *, tolerance: float = 1e-10
) -> Tensor:
    r"""Solve M x = b for a symmetric positive definite M of which only products are known: x [n].

    product(v) is M v, [n] to [n]. target: b [n]. In exact arithmetic the solution is exact after n iterations. The
    loop stops earlier once the squared residual is below `tolerance` times that of x = 0. Work: one product per
    iteration.

    Source: Hestenes & Stiefel 1952. Book: eq. cg-iteration.
    Raises ValueError: fewer than one iteration, or a negative tolerance. CurvatureError: p^T M p is not above 0.
    """
    require_count(iterations=iterations)
    require_non_negative(tolerance=tolerance)
    # LaTeX: x_0 = 0
    solution = torch.zeros_like(target)
    # LaTeX: r_0 = b
    residual = target.clone()
    # LaTeX: s_0 = r_0^\top r_0
    squared = residual @ residual
    # LaTeX: s_{\mathrm{stop}} = \tau s_0
    enough = tolerance * squared
    # LaTeX: p_0 = r_0
    search = residual.clone()
    for k in range(iterations):
        if squared <= enough:  # also where b = 0, whose solution is 0
            break
        image = product(search)
        # LaTeX: c_k = p_k^\top M p_k
        curvature = search @ image
        if not curvature > 0:
            raise CurvatureError(f"product: wanted positive curvature p^T M p; got {float(curvature):.3g} at k = {k}")
        # LaTeX: \alpha_k = \frac{s_k}{c_k}
        length = squared / curvature
        # LaTeX: x_{k+1} = x_k + \alpha_k p_k
        solution = solution + length * search
        # LaTeX: r_{k+1} = r_k - \alpha_k M p_k
        residual = residual - length * image
        # LaTeX: s_{k+1} = r_{k+1}^\top r_{k+1}
        squared_next = residual @ residual
        # LaTeX: p_{k+1} = r_{k+1} + \frac{s_{k+1}}{s_k} p_k
        search = residual + squared_next / squared * search
        squared = squared_next
    return solution


def fisher_vector_product(
    kl_gradient: Tensor, parameters: Sequence[Tensor], vector: Tensor, *, damping: float
) -> Tensor:
    r"""(F + omega I) v, [n], where F is the Hessian of a mean KL, without ever forming F.

    kl_gradient: gradient [n] of the mean KL(old || new) in the parameters, made with `create_graph=True`; at
    new = old it is zero, and its derivative along v is F v. vector: [n]. damping: omega, at least 0.

    Source: Pearlmutter 1994, products with a Hessian by differentiating twice. Book: eq. fisher-product.
    Raises ValueError: shapes differ or the damping is negative.
    """
    require_same_shape(kl_gradient=kl_gradient, vector=vector)
    require_non_negative(damping=damping)
    # LaTeX: h = g_{\mathrm{KL}}^\top v
    slope = kl_gradient @ vector
    # The gradient of h is F v. It is zero for a parameter that the KL does not depend on, such as a clamped log-std.
    parts = torch.autograd.grad(slope, parameters, retain_graph=True, materialize_grads=True)
    # LaTeX: (F + \omega I) v = F v + \omega v
    return torch.cat([part.reshape(-1) for part in parts]) + damping * vector


def full_step(gradient: Tensor, direction: Tensor, kl_bound: float) -> Tensor:
    r"""The multiple of `direction` that lies on the ellipsoid (1/2) s^T F s = delta: [n].

    gradient: g [n]. direction: x = F^-1 g [n]; then this is the step of largest gain g^T s. A truncated x of
    `conjugate_gradient` will do too, because x^T F x = g^T x holds for it as well. With damping, F stands for
    F + omega I. kl_bound: delta, nats.

    Source: Schulman et al. 2015, arXiv:1502.05477, appendix C. Book: eq. full-step.
    Raises ValueError: shapes differ or the bound is not above 0. CurvatureError: g^T x is not above 0.
    """
    require_same_shape(gradient=gradient, direction=direction)
    require_positive(kl_bound=kl_bound)
    # LaTeX: q = g^\top x
    slope = gradient @ direction
    if not slope > 0:
        raise CurvatureError(f"direction: wanted a rising one, g^T x above 0; got {float(slope):.3g}")
    # LaTeX: \lambda_{\mathrm{KL}} = \sqrt{\frac{q}{2 \delta_{\mathrm{KL}}}}
    kl_multiplier = (slope / (2.0 * kl_bound)).sqrt()
    # LaTeX: \Delta\theta = \frac{x}{\lambda_{\mathrm{KL}}}
    return direction / kl_multiplier


class LineSearch(NamedTuple):
    """What a line search found: `fraction` of the full step is 0 where no trial was accepted."""

    fraction: float
    trials: int
    reason: str  # "accepted", or the test that the last trial failed: "kl" or "surrogate"


def line_search(
    evaluate: Callable[[float], tuple[Tensor, Tensor]],
    expected_gain: float,
    *,
    kl_bound: float,
    backtrack: float = 0.5,
    max_trials: int = 10,
    accept_ratio: float = 0.1,
) -> LineSearch:
    r"""The largest of the fractions 1, beta, beta^2, … of a step that keeps the bound and gains enough.

    evaluate(fraction): gain of the surrogate over the start, and mean KL(old || new) in nats, at that fraction.
    expected_gain: g^T s of the full step; a fraction f of it is expected to gain f times as much.

    Source: Schulman et al. 2015, arXiv:1502.05477, appendix C; the acceptance ratio from its code.
    Book: eq. line-search.
    Raises ValueError: a bound or expected gain not above 0, a ratio or factor out of range, or fewer than one trial.
    """
    require_positive(kl_bound=kl_bound, expected_gain=expected_gain)
    require_count(max_trials=max_trials)
    require_unit_interval(backtrack=backtrack, accept_ratio=accept_ratio)
    reason = "kl"
    for j in range(max_trials):
        # LaTeX: f_j = \beta^j
        fraction = backtrack**j
        gain, kl = evaluate(fraction)
        # LaTeX: g_{\mathrm{min}} = c_{\mathrm{accept}} f_j g^\top s
        wanted = accept_ratio * fraction * expected_gain
        # Every comparison with a NaN is false. So a NaN fails both tests as they are written here, and would pass
        # `not kl > kl_bound`: the step into it would be kept.
        reason = "accepted" if kl <= kl_bound and gain >= wanted else "surrogate" if kl <= kl_bound else "kl"
        if reason == "accepted":
            return LineSearch(fraction, j + 1, reason)
    return LineSearch(0.0, max_trials, reason)


def predicted_gain(gradient: Tensor, step: Tensor) -> Tensor:
    r"""First-order gain g^T s of a step, scalar, units of the surrogate. Raises ValueError: shapes differ."""
    require_same_shape(gradient=gradient, step=step)
    # LaTeX: \Delta L = g^\top s
    return gradient @ step


def at_rounding_level(gain: Tensor, advantage: Tensor, kl_bound: float) -> bool:
    r"""Whether the gain a full step promises is what rounding alone could have produced.

    gain: sqrt(2 delta g^T F^-1 g), the predicted gain. advantage: [N]. In exact expectation no gain exceeds
    sqrt(2 delta mean A^2), so this is the scale of a gain. One of a few thousand machine epsilons of it is noise, and
    the scaling to the bound would turn that noise into a full step. Book: eq. rounding-level.
    """
    # LaTeX: g_{\mathrm{max}} = \sqrt{2 \delta_{\mathrm{KL}} \operatorname{mean}_t A_t^2}
    most = math.sqrt(2.0 * kl_bound) * advantage.square().mean().sqrt()
    return not gain > ROUNDING * torch.finfo(gain.dtype).eps * most


ROUNDING = 4096.0
