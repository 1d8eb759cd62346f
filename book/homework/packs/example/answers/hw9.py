"""Answers to homework 9 of the seed `example`: wrong ones (edits of the reference), right ones of other kinds."""

FLAGS, MEAN = "masked_fill(terminated | truncated, 0.0)", "(shortfall * valid).sum() / valid.sum()"

WRONG = {
    "q2": {
        "no cap on what the target aims at": [("ratio.clamp(max=2.0) * error", "ratio * error")],
        "no correction of the last error": [("ratio.clamp(max=2.0) * error", "error")],
        "no cap on the trace": [("gamma * ratio.clamp(max=0.9)", "gamma * ratio")],
        "the caps are exchanged": [("clamp(max=2.0)", "clamp(max=CAP)"), ("max=0.9", "max=2.0"), ("CAP", "0.9")],
        "the trace of the next row": [("trace[t] * correction", "trace[t + 1] * correction")],
        "no discount of the trace": [("trace = gamma * ", "trace = ")],
        "a bootstrap after the end": [("next_value.masked_fill(terminated, 0.0)", "next_value")],
        "a time limit taken for a terminal state": [
            ("next_value.masked_fill(terminated, 0.0)", "next_value.masked_fill(terminated | truncated, 0.0)")
        ],
        "the trace leaks over a truncation": [
            ("masked_fill(terminated | truncated, 0.0)", "masked_fill(terminated, 0.0)")
        ],
        "the advantage in place of the target": [("return value + correction", "return correction")],
    },
    "q3": {
        "rows that do not count are in the mean": [(MEAN, "(shortfall * valid).mean()")],
        "all rows count": [(MEAN, "shortfall.mean()")],
        "a ceiling for the floor": [("clamp(0.6 - share", "clamp(share - 0.6")],
        "the fault as it was given": [("entropy / math.log(logits.shape[-1])", "entropy")],
        "bits": [("math.log(logits.shape[-1])", "math.log2(logits.shape[-1])")],
        "the temperature on the wrong side": [("logits / 0.5", "logits * 0.5")],
        "no temperature": [("logits / 0.5", "logits")],
        "rows above the floor pay back": [("torch.clamp(0.6 - share, min=0.0)", "0.6 - share")],
        "no gradient": [("(shortfall * valid)", "(shortfall.detach() * valid)")],
    },
}

RIGHT = {
    "q2": {
        "loops": """
def corrected_return(r, v, n, d, z, w, g):
    T, B = r.shape
    out = torch.zeros(T, B)
    for b in range(B):
        carried = 0.0
        for t in range(T - 1, -1, -1):
            over = bool(d[t, b] or z[t, b])
            delta = r[t, b] + (0 if d[t, b] else g * n[t, b]) - v[t, b]
            carried = min(w[t, b], 2.0) * delta + (0.0 if over else g * min(w[t, b], 0.9) * carried)
            out[t, b] = v[t, b] + carried
    return out
""",
        "a matrix of products": """
def corrected_return(reward, value, next_value, terminated, truncated, ratio, gamma):
    delta = reward + gamma * torch.where(terminated, 0.0, next_value) - value
    aimed = torch.minimum(ratio, torch.tensor(2.0)) * delta
    c = gamma * torch.minimum(ratio, torch.tensor(0.9)) * ~(terminated | truncated)
    rows = []
    for t in range(len(reward)):
        reach = torch.cat([torch.ones_like(c[:1]), c[t:-1].cumprod(0)])
        rows.append(value[t] + (reach * aimed[t:]).sum(0))
    return torch.stack(rows)
""",
        "numpy in float32": """
def corrected_return(reward, value, next_value, terminated, truncated, ratio, gamma):
    import numpy as np
    r, v, n, w = (x.numpy().astype(np.float32) for x in (reward, value, next_value, ratio))
    d, z = terminated.numpy(), truncated.numpy()
    target = v + np.minimum(w, 2.0) * (r + gamma * n * ~d - v)
    for t in range(len(r) - 2, -1, -1):
        target[t] += gamma * np.minimum(w[t], 0.9) * ~(d[t] | z[t]) * (target[t + 1] - v[t + 1])
    return target
""",
    },
    "q3": {
        "rows that count alone": """
def entropy_floor(logits, valid):
    rows = torch.softmax(logits[valid] / 0.5, 1)
    share = -(rows * rows.log()).sum(1) / math.log(rows.shape[1])
    return (0.6 - share).relu().mean()
""",
        "torch's own distribution": """
def entropy_floor(logits, valid):
    entropy = torch.distributions.Categorical(logits=2.0 * logits).entropy()
    short = torch.maximum(torch.zeros(()), 0.6 - entropy / torch.log(torch.tensor(float(logits.shape[1]))))
    return torch.where(valid, short, 0.0).sum() / valid.double().sum()
""",
        "loops": """
def entropy_floor(logits, valid):
    prices = []
    for z, counts in zip(logits, valid):
        if counts:
            powers = torch.exp((z - z.max().detach()) / 0.5)
            p = powers / powers.sum()
            share = -sum(x * torch.log(x) for x in p) / math.log(len(p))
            prices.append(0.6 - share if share < 0.6 else 0.0 * share)
    return sum(prices) / len(prices)
""",
    },
}

PACKAGE = {
    "q2": """
from minerva_lite.formulas.returns import gae
def corrected_return(reward, value, next_value, terminated, truncated, ratio, gamma):
    return value + gae(reward, value, next_value, terminated, truncated, gamma=gamma, lam=0.9)
""",
}
