"""Answers to homework 2 of the example seed: wrong ones (edits of the reference), right ones, the package's own."""

LOOP = "    for t in reversed(range(len(td_error) - 1)):"
SHARE = "torch.where(truncated[t], 0.0, 0.7)"

WRONG = {
    "q2": {
        "the cost is added": [("reward - 0.7", "reward + 0.7")],
        "no discount of the successor": [("earned + gamma * successor", "earned + successor")],
        "the flag of the next step (fault 4)": [("masked_fill(ended[t], 0.0)", "masked_fill(ended[t + 1], 0.0)")],
        "the trace leaks over a truncation (fault 5)": [("ended = terminated | truncated", "ended = terminated")],
        "this step's TD error in the trace": [("ahead = td_error[t + 1]", "ahead = td_error[t]")],
        "one row too few": [(LOOP, "    for t in reversed(range(len(td_error) - 2)):")],
    },
    "q3": {
        "the target carries a gradient": [(".detach()", "")],
        "the value is detached, not the target": [(").detach()\n    error = value", ")\n    error = value.detach()")],
        "no terminal mask": [("next_value.masked_fill(terminated, 0.0)", "next_value")],
        "a time limit taken for a terminal state": [("terminated, 0.0", "terminated | truncated, 0.0")],
    },
    "q4": {
        "a time limit taken for a terminal state": [
            ("bracket.masked_fill(terminated[t], 0.0)", "bracket.masked_fill((terminated | truncated)[t], 0.0)")
        ],
        "the next episode leaks over a truncation": [(SHARE, "0.7")],
        "a bootstrap where the episode terminated": [("bracket.masked_fill(terminated[t], 0.0)", "bracket")],
        "the discount misses the bracket": [("reward[t] + gamma * bracket", "reward[t] + bracket")],
    },
}

RIGHT = {
    "q2": {
        "numpy": """
def twisted_gae(reward, value, next_value, terminated, truncated, cost, gamma, lam):
    import numpy as np
    r, v, n, d, z, c = (x.numpy() for x in (reward, value, next_value, terminated, truncated, cost))
    delta = r - 0.7 * c + gamma * np.where(d, 0, np.where(z, 0.25 * n + 0.75 * v, n)) - v
    a = delta.copy()
    for t in range(len(a) - 2, -1, -1):
        a[t] += np.where(d[t] | z[t], 0, gamma * lam / (1 + np.abs(delta[t + 1])) * a[t + 1])
    return a
""",
    },
    "q3": {
        "torch's own Huber": """
def critic_loss(reward, value, next_value, terminated, truncated, age, gamma):
    with torch.no_grad():
        y = reward + gamma * (~terminated) * next_value
    rows = torch.nn.functional.huber_loss(value, y, delta=0.7, reduction="none")
    return torch.sum(rows * (-0.8 * age.flatten()).softmax(0).reshape(age.shape))
""",
    },
    "q4": {
        "shares as tensors": """
def mixed_return(reward, next_value, terminated, truncated, gamma):
    u = torch.maximum(next_value, torch.tensor(-1.2))
    share = 0.7 * (~truncated).double()
    share[-1] = 0.0
    g, rows = torch.zeros_like(reward[0]), []
    for r, x, d, s in zip(reward.flip(0), u.flip(0), terminated.flip(0), share.flip(0)):
        g = r + gamma * (~d) * ((1 - s) * x + s * g)
        rows.append(g)
    return torch.stack(rows[::-1])
""",
    },
}

PACKAGE = {
    "q2": """
from minerva_lite.formulas.returns import gae
def twisted_gae(reward, value, next_value, terminated, truncated, cost, gamma, lam):
    return gae(reward, value, next_value, terminated, truncated, gamma=gamma, lam=lam)
""",
    "q3": """
from minerva_lite.formulas.objectives import value_loss
def critic_loss(reward, value, next_value, terminated, truncated, age, gamma):
    return value_loss(value, (reward + gamma * next_value.masked_fill(terminated, 0.0)).detach())
""",
    "q4": """
from minerva_lite.formulas.returns import discounted_returns
def mixed_return(reward, next_value, terminated, truncated, gamma):
    return discounted_returns(reward, next_value, terminated, truncated, gamma=gamma)
""",
}
