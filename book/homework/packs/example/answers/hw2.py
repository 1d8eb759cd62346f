"""Answers to the one question that is our own; for the others the book's answers are tried."""

VALUE = "next_value[u].clamp(max=0.2)"

WRONG = {
    "q3": {
        "a step too many": [("min(t + 3, len(reward))", "min(t + 4, len(reward))")],
        "a step too few": [("min(t + 3, len(reward))", "min(t + 2, len(reward))")],
        "no discount": [("            factor *= gamma\n", "")],
        "a value after the end": [("going = going & ~terminated[u]", "going = going.clone()")],
        "a time limit taken for a terminal state": [
            ("going = going & ~terminated[u]", "going = going & ~terminated[u] & ~truncated[u]")
        ],
        "no value at a truncation": [("going & truncated[u] if u < end else going", "going & (u == end)")],
        "the next episode leaks over a truncation": [("            going = going & ~truncated[u]\n", "")],
        "no cap": [(VALUE, "next_value[u]")],
        "a floor for the cap": [("clamp(max=0.2)", "clamp(min=0.2)")],
        "the first row's value": [(VALUE, "next_value[t].clamp(max=0.2)")],
    },
}

RIGHT = {
    "q3": {
        "loops": """
def long_target(r, v, d, z, g):
    T, B = r.shape
    y = torch.zeros(T, B)
    for t in range(T):
        for b in range(B):
            for l in range(3):
                y[t, b] += g**l * r[t + l, b]
                if d[t + l, b]:
                    break
                if z[t + l, b] or l == 2 or t + l == T - 1:
                    y[t, b] += g ** (l + 1) * min(v[t + l, b], 0.2)
                    break
    return y
""",
        "from one step to three": """
def long_target(reward, next_value, terminated, truncated, gamma):
    one = reward + gamma * torch.where(terminated, 0.0, next_value.clip(max=0.2))
    target = one
    for _ in range(2):
        longer = one.clone()
        longer[:-1] = reward[:-1] + gamma * target[1:]
        target = torch.where(terminated | truncated, one, longer)
    return target
""",
        "float32": """
def long_target(reward, next_value, terminated, truncated, gamma):
    r, v = reward.float(), torch.minimum(next_value.float(), torch.tensor(0.2).float())
    def ahead(t, left):
        end = r[t] + gamma * v[t] * ~terminated[t]
        if left == 1 or t + 1 == len(r):
            return end
        return torch.where(terminated[t] | truncated[t], end, r[t] + gamma * ahead(t + 1, left - 1))
    return torch.stack([ahead(t, 3) for t in range(len(r))])
""",
    },
}

PACKAGE = {
    "q3": """
from minerva_lite.formulas.returns import discounted_returns
def long_target(reward, next_value, terminated, truncated, gamma):
    return discounted_returns(reward, next_value, terminated, truncated, gamma=gamma)
""",
}
