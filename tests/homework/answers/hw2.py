"""Answers to homework 2 of the example seed: right ones, and the package's own."""

RIGHT = {
    "q2": {
        "numpy": """
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
    with torch.no_grad():
        y = reward + gamma * (~terminated) * next_value
    rows = torch.nn.functional.huber_loss(value, y, delta=0.7, reduction="none")
    return torch.sum(rows * (-0.8 * age.flatten()).softmax(0).reshape(age.shape))
""",
    },
    "q4": {
        "shares as tensors": """
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
    return gae(reward, value, next_value, terminated, truncated, gamma=gamma, lam=lam)
""",
    "q3": """
    from minerva_lite.formulas.objectives import value_loss
    return value_loss(value, (reward + gamma * next_value.masked_fill(terminated, 0.0)).detach())
""",
    "q4": """
    from minerva_lite.formulas.returns import discounted_returns
    return discounted_returns(reward, next_value, terminated, truncated, gamma=gamma)
""",
}
