"""How far a surrogate can be from the return: the bounds behind trust regions.

Every bound limits |J(new) - J(old) - L(new)|, where L is the surrogate with the old policy's visitation (not
normalized: it sums to 1 / (1 - gamma)) and advantages, and L(old) = 0. Returns, advantages and bounds share one unit.

There are worlds whose error is the bound by a mixture or by total variation, so these cannot be made smaller. By the
largest KL a world comes within a factor of sqrt(2) of `walk_kl_bound`; by the average one a trap needs a share of
`average_kl_penalty` that tends to 1 as gamma does. They are for policies and data of which nothing better is known.
"""

from __future__ import annotations

import math

from torch import Tensor

from ..checks import require_non_negative, require_same_shape, require_unit_interval


def total_variation(policy_old: Tensor, policy: Tensor) -> Tensor:
    r"""Total variation between the rows of two tensors of probabilities, [..., A] each: [...], in [0, 1].

    It is half the sum of the absolute differences over the actions, and this is the largest difference in the
    probability of any *set* of actions, not of one action.

    Book: eq. trpo-tv. Raises ValueError: shapes differ.
    """
    require_same_shape(policy_old=policy_old, policy=policy)
    # LaTeX: \mathrm{TV} = \tfrac{1}{2} \sum_a \lvert p_a - q_a \rvert
    return 0.5 * (policy_old - policy).abs().sum(-1)


def cpi_bound(max_expected_advantage: float, mixture: float, gamma: float, *, sharp: bool = False) -> float:
    r"""Conservative policy iteration: the bound for the mixture (1 - alpha) old + alpha other. Return units.

    max_expected_advantage: max_s |E_{a ~ other} A^old(s, a)|, of the policy that is mixed in. mixture: alpha, in
    [0, 1]. gamma: below 1. sharp: in one of the two
    denominators use the expected time until the other policy first acts instead of the whole horizon; there is a world
    for which the bound is then an equality.

    Source: Kakade & Langford 2002. Book: eq. trpo-cpi.
    Raises ValueError: a number outside its range.
    """
    require_unit_interval(mixture=mixture)
    _require_inputs(gamma, max_expected_advantage=max_expected_advantage)
    if sharp:
        # LaTeX: B = \frac{2 \varepsilon' \gamma \alpha_{\mathrm{mix}}^2}{(1 - \gamma) (1 - \gamma (1 - \alpha_{\mathrm{mix}}))}
        return 2.0 * max_expected_advantage * gamma * mixture**2 / ((1.0 - gamma) * (1.0 - gamma * (1.0 - mixture)))
    # LaTeX: B = \frac{2 \varepsilon' \gamma}{(1 - \gamma)^2} \alpha_{\mathrm{mix}}^2
    return 2.0 * max_expected_advantage * gamma / (1.0 - gamma) ** 2 * mixture**2


def penalty_constant(max_advantage: float, gamma: float) -> float:
    r"""TRPO's penalty C: return units for each nat of the largest KL(old || new).

    max_advantage: max_{s, a} |A^old(s, a)|, return units. gamma: below 1.

    Source: Schulman et al. 2015, arXiv:1502.05477, theorem 1. Book: eq. trpo-constant.
    Raises ValueError: a number outside its range.
    """
    _require_inputs(gamma, max_advantage=max_advantage)
    # LaTeX: C = \frac{4 \varepsilon_A \gamma}{(1 - \gamma)^2}
    return 4.0 * max_advantage * gamma / (1.0 - gamma) ** 2


def tv_bound(max_advantage: float, max_tv: float, gamma: float, *, sharp: bool = False) -> float:
    r"""The bound for any two policies by the largest total variation over states, in [0, 1]. Return units.

    sharp: in one of the two denominators use the expected time until the policies first act differently instead of the
    whole horizon; there is a world for which the bound is then an equality. Other arguments as in `penalty_constant`.

    Source: Schulman et al. 2015, arXiv:1502.05477, theorem 1 (its plain form). Book: eq. trpo-tv-bound.
    Raises ValueError: a number outside its range.
    """
    require_unit_interval(max_tv=max_tv)
    _require_inputs(gamma, max_advantage=max_advantage)
    if sharp:
        # LaTeX: B = \frac{4 \varepsilon_A \gamma\, \mathrm{TV}_{\mathrm{max}}^2}{(1 - \gamma) (1 - \gamma (1 - \mathrm{TV}_{\mathrm{max}}))}
        return 4.0 * max_advantage * gamma * max_tv**2 / ((1.0 - gamma) * (1.0 - gamma * (1.0 - max_tv)))
    # LaTeX: B = \frac{4 \varepsilon_A \gamma}{(1 - \gamma)^2}\, \mathrm{TV}_{\mathrm{max}}^2
    return penalty_constant(max_advantage, gamma) * max_tv**2


def max_kl_bound(max_advantage: float, max_kl: float, gamma: float, *, pinsker: bool = False) -> float:
    r"""The bound by the largest KL(old || new) over states, nats. Return units.

    pinsker: use TV^2 <= KL / 2 instead of the paper's TV^2 <= KL, which halves the bound. Other arguments as in
    `penalty_constant`. It is never below `tv_bound`, and is for policies whose total variation has no closed form.

    Source: Schulman et al. 2015, arXiv:1502.05477. Book: eq. trpo-kl-bound.
    Raises ValueError: a number outside its range.
    """
    require_non_negative(max_kl=max_kl)
    if pinsker:
        # LaTeX: B = \frac{2 \varepsilon_A \gamma}{(1 - \gamma)^2}\, \mathrm{KL}_{\mathrm{max}}
        return 0.5 * penalty_constant(max_advantage, gamma) * max_kl
    # LaTeX: B = \frac{4 \varepsilon_A \gamma}{(1 - \gamma)^2}\, \mathrm{KL}_{\mathrm{max}}
    return penalty_constant(max_advantage, gamma) * max_kl


def average_kl_bound(max_expected_advantage: float, average_kl: float, gamma: float) -> float:
    r"""The bound by the average KL(old || new), nats, states from the normalized visitation of old. Return units.

    max_expected_advantage: max_s |E_{a ~ new} A^old(s, a)|, return units. gamma: below 1. The bound falls with the
    root of the KL, so it does not promise that a small step improves, as `average_kl_penalty` does.

    Source: Achiam et al. 2017, arXiv:1705.10528. Book: eq. trpo-average-bound.
    Raises ValueError: a number outside its range.
    """
    require_non_negative(average_kl=average_kl)
    _require_inputs(gamma, max_expected_advantage=max_expected_advantage)
    # LaTeX: B = \frac{\sqrt{2} \gamma \varepsilon'}{(1 - \gamma)^2} \sqrt{\overline{\mathrm{KL}}}
    return math.sqrt(2.0 * average_kl) * gamma * max_expected_advantage / (1.0 - gamma) ** 2


def visitation_kl_bound(average_kl: float, gamma: float) -> float:
    r"""How far the normalized visitations of two policies can be apart, KL(old || new), nats.

    average_kl: mean KL(old || new) of the policies, nats, states from the normalized visitation of old. gamma: below 1.

    Source: the chain rule of the KL divergence. Book: eq. trpo-visitation-kl.
    Raises ValueError: a number outside its range.
    """
    require_non_negative(average_kl=average_kl)
    _require_inputs(gamma)
    # LaTeX: D = \frac{\gamma}{1 - \gamma}\, \overline{\mathrm{KL}}
    return gamma / (1.0 - gamma) * average_kl


def average_kl_penalty(max_advantage: float, gamma: float) -> float:
    r"""The penalty C': return units for each nat of the *average* KL(old || new), states from old's visitation.

    Exact advantages and the discounted visitation are needed. For gamma > 4/13 it is smaller than `penalty_constant`,
    which multiplies the largest KL, and for gamma > 0.8 smaller than half of it. A trap needs a quarter of
    `penalty_constant`, to which this one tends as gamma tends to 1. Arguments as there.

    Source: derived in the book; we found it nowhere else. Book: eq. trpo-average-penalty.
    Raises ValueError: a number outside its range.
    """
    _require_inputs(gamma, max_advantage=max_advantage)
    # LaTeX: C' = \frac{\varepsilon_A}{1 - \gamma} \left( \frac{\gamma}{1 - \gamma} + 2 \sqrt{\frac{\gamma}{1 - \gamma}} \right)
    return max_advantage / (1.0 - gamma) * (gamma / (1.0 - gamma) + 2.0 * math.sqrt(gamma / (1.0 - gamma)))


def walk_kl_bound(max_advantage: float, max_kl: float, gamma: float) -> float:
    r"""The bound by the largest KL(old || new) over states, nats, by comparing whole walks. Return units.

    It grows with the horizon to the power 3/2, the bounds of `max_kl_bound` with its square: for gamma > 1/2 it is
    smaller than both. A random walk comes within a factor of sqrt(2) of it. Arguments as in `penalty_constant`.

    Source: derived in the book; we found it nowhere else. Book: eq. trpo-walk-bound.
    Raises ValueError: a number outside its range.
    """
    require_non_negative(max_kl=max_kl)
    _require_inputs(gamma, max_advantage=max_advantage)
    # LaTeX: B = \frac{2 \varepsilon_A \sqrt{\gamma}}{(1 - \gamma)^{3 / 2}}\, \mathrm{KL}_{\mathrm{max}}
    return 2.0 * max_advantage * math.sqrt(gamma) / float((1.0 - gamma) ** 1.5) * max_kl


def _require_inputs(gamma: float, **advantages: float) -> None:
    """Raise ValueError unless gamma is in [0, 1) and the advantages' largest sizes are finite and not negative."""
    require_unit_interval(gamma=gamma)
    if gamma == 1.0:
        raise ValueError("gamma: wanted a number below 1, or no bound exists; got 1.0")
    require_non_negative(**advantages)
