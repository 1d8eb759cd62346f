"""Targets along time: everything here is time-major, [T, B]."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import require_bool, require_same_shape, require_unit_interval


def discounted_returns(
    reward: Tensor,  # [T, B]  r_t, reward units
    next_value: Tensor,  # [T, B]  V(s_{t+1}) of the true successor, return units
    terminated: Tensor,  # [T, B]  bool: no bootstrap
    truncated: Tensor,  # [T, B]  bool: bootstrap from the true successor, and stop there
    *,
    gamma: float,
) -> Tensor:  # [T, B]  G_t, return units, detached
    r"""Discounted sum of the rewards to come, bootstrapped where the data end and the episode does not.

    It equals `value + gae(..., lam=1)` for every value function.

    Source: Sutton & Barto 2018, the n-step return. Book: eq. ac-returns.
    Raises ValueError: shapes differ, a flag is not bool, or gamma lies outside [0, 1].
    """
    require_same_shape(reward=reward, next_value=next_value, terminated=terminated, truncated=truncated)
    require_bool(terminated=terminated, truncated=truncated)
    require_unit_interval(gamma=gamma)
    with torch.no_grad():
        # LaTeX: e_t = d_t \vee z_t
        ended = terminated | truncated
        # LaTeX: b_t = (1 - d_t) V(s_{t+1})
        bootstrap = next_value.masked_fill(terminated, 0.0)
        returns, running = torch.empty_like(reward), next_value[-1]
        for t in reversed(range(len(reward))):
            # LaTeX: G_t = r_t + \gamma \left[ e_t b_t + (1 - e_t) G_{t+1} \right]
            running = reward[t] + gamma * torch.where(ended[t], bootstrap[t], running)
            returns[t] = running
        return returns


def gae(
    reward: Tensor,  # [T, B]  r_t, reward units
    value: Tensor,  # [T, B]  V(s_t), return units
    next_value: Tensor,  # [T, B]  V(s_{t+1}) of the true successor, return units
    terminated: Tensor,  # [T, B]  bool: no bootstrap
    truncated: Tensor,  # [T, B]  bool: bootstrap from the true successor, but stop the trace
    *,
    gamma: float,
    lam: float,
) -> Tensor:  # [T, B]  A_t, return units, detached
    r"""Generalized advantage estimates: an exponential average of k-step advantages.

    With lam = 0 this is the one-step TD error, with lam = 1 the bootstrapped return minus V.

    Source: Schulman et al. 2016, arXiv:1506.02438. Book: eq. ac-recursion.
    Raises ValueError: shapes differ, a flag is not bool, or gamma or lam lies outside [0, 1].
    """
    require_same_shape(reward=reward, value=value, next_value=next_value, terminated=terminated, truncated=truncated)
    require_bool(terminated=terminated, truncated=truncated)
    require_unit_interval(gamma=gamma, lam=lam)
    with torch.no_grad():
        # LaTeX: \delta_t = r_t + \gamma (1 - d_t) V(s_{t+1}) - V(s_t)
        td_error = reward + gamma * next_value.masked_fill(terminated, 0.0) - value
        # LaTeX: w_t = \gamma \lambda (1 - d_t) (1 - z_t)
        weight = (gamma * lam) * (~(terminated | truncated)).to(reward.dtype)
        # No trace enters from beyond the last row: A_T = 0, and the last row is one TD error.
        advantage, running = torch.empty_like(reward), torch.zeros_like(reward[0])
        for t in reversed(range(len(reward))):
            # LaTeX: A_t = \delta_t + w_t A_{t+1}
            running = td_error[t] + weight[t] * running
            advantage[t] = running
        return advantage


def leave_one_out_baseline(returns: Tensor, mask: Tensor) -> Tensor:
    r"""For each environment the mean return of the *other* environments that are still running: [T, B], detached.

    returns: [T, B]. mask: [T, B] bool, true while an environment is in its first episode. The baseline is 0 where no
    other environment is running. It leaves out the row's own return, so it does not depend on the row's action, and
    the gradient stays unbiased.

    Source: Kool et al. 2019, "Buy 4 REINFORCE samples, get a baseline for free!". Book: eq. loo-baseline.
    Raises ValueError: shapes differ or the mask is not bool.
    """
    require_same_shape(returns=returns, mask=mask)
    require_bool(mask=mask)
    with torch.no_grad():
        # LaTeX: S_{ti} = \sum_j m_{tj} G_{tj} - m_{ti} G_{ti}
        others = returns.masked_fill(~mask, 0.0).sum(1, keepdim=True) - returns.masked_fill(~mask, 0.0)
        # LaTeX: n_{ti} = \sum_j m_{tj} - m_{ti}
        count = mask.sum(1, keepdim=True) - mask.long()
        # LaTeX: b_{ti} = \frac{S_{ti}}{\max(1, n_{ti})}
        return others / count.clamp(min=1)


def retrace_targets(
    reward: Tensor,  # [T, B]  r_t, reward units
    q_value: Tensor,  # [T, B]  Q'(s_t, a_t), target critic
    next_value: Tensor,  # [T, B]  E_{a ~ pi'} Q'(s_{t+1}, a), true successor
    log_ratio: Tensor,  # [T, B]  log pi' - log pi_b at a_t, nats
    terminated: Tensor,  # [T, B]  bool: no bootstrap
    truncated: Tensor,  # [T, B]  bool: bootstrap from the true successor, but stop the trace
    *,
    gamma: float,
    lam: float = 1.0,
) -> Tensor:  # [T, B]  return units, detached
    r"""Retrace(lambda) targets for Q. The behavior policy may be any; the traces never exceed 1.

    With lam = 0 this is one-step expected SARSA. The first ratio of a sequence is never used: the action a_t is given,
    so the correction of step t starts with the ratio of step t + 1.

    Source: Munos et al. 2016, arXiv:1606.02647. Book: eq. retrace-recursion.
    Raises ValueError: shapes differ, a flag is not bool, or gamma or lam lies outside [0, 1].
    """
    require_same_shape(
        reward=reward,
        q_value=q_value,
        next_value=next_value,
        log_ratio=log_ratio,
        terminated=terminated,
        truncated=truncated,
    )
    require_bool(terminated=terminated, truncated=truncated)
    require_unit_interval(gamma=gamma, lam=lam)
    with torch.no_grad():
        # LaTeX: c_t = \lambda \exp\left( \min(0, \log \rho_t) \right)
        trace = lam * log_ratio.clamp(max=0.0).exp()
        # LaTeX: \delta_t = r_t + \gamma (1 - d_t) V(s_{t+1}) - Q(s_t, a_t)
        td_error = reward + gamma * next_value.masked_fill(terminated, 0.0) - q_value
        # No trace enters from beyond the last row, nor from the next episode.
        next_trace = torch.cat([trace[1:], torch.zeros_like(trace[:1])])
        # LaTeX: w_t = \gamma (1 - d_t) (1 - z_t) c_{t+1}
        weight = gamma * next_trace.masked_fill(terminated | truncated, 0.0)
        correction, running = torch.empty_like(td_error), torch.zeros_like(td_error[0])
        for t in reversed(range(len(td_error))):
            # LaTeX: \Delta_t = \delta_t + w_t \Delta_{t+1}
            running = td_error[t] + weight[t] * running
            correction[t] = running
        # LaTeX: Q^{\mathrm{ret}}_t = Q(s_t, a_t) + \Delta_t
        return q_value + correction
