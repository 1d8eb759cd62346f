"""Answers to homework 6 of the example seed: wrong ones (edits of the reference), right ones, the package's own."""

WRONG = {
    "q2": {
        "one cut through the whole batch": [
            ("(2 * (index // advantage.shape[1]) < len(advantage)).long()", "torch.zeros_like(index)")
        ],
        "the halves are halves of the columns": [("index // advantage.shape[1]", "index % advantage.shape[1]")],
        "the middle row goes to the second half": [
            ("(2 * (index // advantage.shape[1])", "(2 * (index // advantage.shape[1]) + 1")
        ],
        "floor, not rounded": [("kappa * n + 0.5", "kappa * n")],
        "halves go to the even number": [("max(1, math.floor(kappa * n + 0.5))", "max(1, round(kappa * n))")],
        "ceiling": [("max(1, math.floor(kappa * n + 0.5))", "math.ceil(kappa * n)")],
        "the count is of all, eligible or not": [("kappa * n +", "kappa * int((group == each).sum()) +")],
        "what is not eligible stands in the way (fault 36's cousin)": [
            ("(group == each) & able]", "group == each]"),
            ("kept[best] = True", "kept[best] = able[best]"),
        ],
        "ties to the smaller age": [("old[members].argsort(descending=True", "old[members].argsort(descending=False")],
        "ties to the index, whatever the age": [
            ("        members = members[old[members].argsort(descending=True, stable=True)]\n", "")
        ],
        "ties to the later place": [("(group == each) & able]", "(group == each) & able].flip(0)")],
        "the age comes before the advantage": [
            ("members[flat[members].argsort", "members[old[members].argsort"),
            (
                "members = members[old[members].argsort(descending=True, stable=True)]\n        members = members[old",
                "members = members[flat[members].argsort(descending=True, stable=True)]\n        members = members[old",
            ),
        ],
        "the worst are kept": [("flat[members].argsort(descending=True", "flat[members].argsort(descending=False")],
        "all that tie with the last one are kept (fault 27)": [
            (
                "best = members[: k if n >= 3 else n]",
                "best = members[flat[members] >= flat[members[(k if n >= 3 else n) - 1]]]",
            )
        ],
        "no exception": [("[: k if n >= 3 else n]", "[:k]")],
        "the exception reaches to three": [("n >= 3", "n > 3")],
    },
    "q3": {
        "a hard cap": [("log_ratio - (1.0 + log_ratio.exp() / 1.5).log()", "log_ratio.clamp(max=math.log(1.5))")],
        "the cap multiplies": [("log_ratio.exp() / 1.5", "log_ratio.exp() * 1.5")],
        "the ratio is upside down": [("log_w = log_ratio -", "log_w = -log_ratio -")],
        "no importance weights": [("base = log_m + log_w", "base = log_m")],
        "the share is taken for its logarithm": [("math.log(0.05)", "0.05")],
        "negative advantages are dropped": [("math.log(0.05)", "-100.0")],
        "the samples that are not kept count too": [(".masked_fill(~kept, -torch.inf)", "")],
        "weights masked, the temperature's loss not (fault 25)": [
            (
                "(eps_eta + logits.logsumexp(0) - log_total)",
                "(eps_eta + ((advantage - top) / eta + log_w).logsumexp(0) - log_total)",
            )
        ],
        "the normalizer is a count": [("base.logsumexp(0)", "kept.sum().log()")],
        "the normalizer has no mask": [("base.logsumexp(0)", "log_w.logsumexp(0)")],
        "no normalizer": [(" - log_total", "")],
        "the maximum over everybody, and no log-sum-exp (fault 26)": [
            ("advantage[counts].max()", "advantage.max()"),
            ("logits.detach().softmax(0)", "logits.detach().exp() / logits.detach().exp().sum()"),
            ("+ logits.logsumexp(0)", "+ logits.exp().sum().log()"),
        ],
        "the weights carry a gradient to eta": [("logits.detach().softmax(0)", "logits.softmax(0)")],
        "advantages and ratios carry a gradient": [
            ("    advantage, log_ratio = advantage.detach(), log_ratio.detach()\n", "")
        ],
        "eta is detached": [("dual = top + eta *", "dual = top + eta.detach() *")],
        "the bound has the wrong sign": [("eta * (eps_eta +", "eta * (-eps_eta +")],
        "the constraint is rewarded for being violated (fault 28)": [
            (
                "dual = top + eta * (eps_eta + logits.logsumexp(0) - log_total)",
                "dual = -top - eta * (eps_eta + logits.logsumexp(0) - log_total)",
            )
        ],
        "the fit has the wrong sign": [("return dual - ", "return dual + ")],
        "the fit is a mean": [("(psi * log_prob).sum()", "(psi * log_prob).mean()")],
        "the maximum does not come back": [("dual = top + eta", "dual = eta")],
    },
    "q4": {
        "ties at the threshold are all kept (fault 27)": [
            ("chosen = ranked[:k]", "chosen = ranked[advantage[ranked] >= advantage[ranked[k - 1]]]")
        ],
        "the temperature's loss is not masked (fault 25)": [("mass[kept].mean()", "mass[eligible].mean()")],
        "the maximum over all samples (fault 26)": [("advantage[kept].max()", "advantage.max()")],
        "weights in one order, places in another": [("psi[chosen] =", "psi[kept] =")],
        "floor, not ceiling": [("math.ceil(kappa * n)", "max(1, math.floor(kappa * n))")],
        "rounded": [("math.ceil(kappa * n)", "max(1, round(kappa * n))")],
        "the count is of all, eligible or not": [("n = len(able)", "n = len(eligible)")],
        "who is not eligible is ranked": [("eligible.nonzero()", "torch.ones_like(eligible).nonzero()")],
        "ties to the lower index": [("eligible.nonzero().flatten().flip(0)", "eligible.nonzero().flatten()")],
        "the shares are exchanged": [("(1 - 0.1) * mass", "0.1 * mass"), ("0.1 / k +", "(1 - 0.1) / k +")],
        "equal shares of the batch": [("0.1 / k +", "0.1 / n +")],
        "the sum, not the mean": [("mass[kept].mean()", "mass[kept].sum()")],
        "the mixed weights are mixed in the loss as well": [
            ("mass[kept].mean().log()", "((1 - 0.1) * mass[kept].mean() + 0.1).log()")
        ],
        "the bound has the wrong sign": [("eps_eta + log_mean", "log_mean - eps_eta")],
        "the temperature misses the bracket": [("eta * (eps_eta", "(eps_eta")],
        "the shift does not come back": [("log_mean = shift + ", "log_mean = ")],
    },
}

RIGHT = {
    "q2": {
        "loops and other names": """
def select(A, e, g, share):
    T, B = A.shape
    out = [[False] * B for _ in range(T)]
    for half in (True, False):
        rows = [t for t in range(T) if (2 * t < T) == half]
        pool = [(-A[t, b].item(), -g[t, b].item(), t * B + b) for t in rows for b in range(B) if e[t, b]]
        size = len(pool)
        keep = size if size < 3 else max(1, int(share * size + 0.5))
        for _, _, place in sorted(pool)[:keep]:
            out[place // B][place % B] = True
    return torch.tensor(out)
""",
        "ranks by comparing all pairs": """
def select(advantage, eligible, age, kappa):
    T, B = advantage.shape
    a, e, g, i = advantage.reshape(-1), eligible.reshape(-1), age.reshape(-1), torch.arange(T * B)
    half = (2 * (i // B) < T)
    same = (half[:, None] == half) & e
    more, level = a > a[:, None], a == a[:, None]
    older, peers = g > g[:, None], g == g[:, None]
    before = same & (more | level & (older | peers & (i < i[:, None])))
    n = same.sum(1)
    k = torch.where(n < 3, n, (kappa * n + 0.5).floor().clamp(min=1))
    return (e & (before.sum(1) < k)).view(T, B)
""",
        "numpy": """
def select(advantage, eligible, age, kappa):
    import numpy as np
    a, e, g = advantage.numpy(), eligible.numpy(), age.numpy()
    mask = np.zeros(a.shape)
    middle = (len(a) + 1) // 2
    for rows in (slice(0, middle), slice(middle, None)):
        part = np.zeros(a[rows].size)
        order = np.lexsort((np.arange(a[rows].size), -g[rows].ravel(), -a[rows].ravel(), ~e[rows].ravel()))
        n = e[rows].sum()
        part[order[: n if n < 3 else max(1, int(np.floor(kappa * n + 0.5)))]] = 1
        mask[rows] = part.reshape(a[rows].shape)
    return mask
""",
        "float32, one key after the other": """
def select(advantage, eligible, age, kappa):
    def half(a, e, g):
        a, e, g = a.float().flatten(), e.flatten(), g.flatten()
        n = int(e.sum())
        if n < 3:
            return e
        k = max(1, math.floor(kappa * n + 0.5))
        first = torch.sort(g, descending=True, stable=True).indices
        second = torch.sort(a[first].masked_fill(~e[first], float("-inf")), descending=True, stable=True).indices
        mask = torch.zeros(len(a))
        mask[first[second[:k]]] = 1
        return mask
    cut = math.ceil(len(advantage) / 2)
    parts = [half(advantage[s], eligible[s], age[s]) for s in (slice(0, cut), slice(cut, None))]
    return torch.cat([p.bool() for p in parts]).view(advantage.shape)
""",
    },
    "q3": {
        "loops": """
def vmpo_loss(lp, adv, keep, lr, temp, eps):
    rows = [t for t in range(len(adv)) if keep[t]]
    A = [adv[t].item() for t in rows]
    c = max(A)
    base = []
    for t, a in zip(rows, A):
        rho = math.exp(lr[t].item())
        base.append((0.05 if a < 0 else 1.0) * rho / (1 + rho / 1.5))
    mass = [b * ((a - c) / temp).exp() for a, b in zip(A, base)]
    z = sum(mass)
    fit = 0.0
    for t, x in zip(rows, mass):
        fit = fit - (x / z).item() * lp[t]
    return fit + c + temp * (eps + z.log() - math.log(sum(base)))
""",
        "only the kept, log-softmax": """
def vmpo_loss(log_prob, advantage, kept, log_ratio, eta, eps_eta):
    with torch.no_grad():
        a, rho = advantage[kept], log_ratio[kept].exp()
        share = torch.where(a >= 0, torch.ones_like(a), torch.full_like(a, 0.05)) * 1.5 * rho / (1.5 + rho)
        share = share / share.sum()
        psi = torch.softmax(share.log() + a / eta, dim=0)
    dual = eps_eta * eta + eta * torch.logsumexp(share.log() + a / eta, 0)
    return dual - torch.dot(psi, log_prob[kept])
""",
        "float32": """
def vmpo_loss(log_prob, advantage, kept, log_ratio, eta, eps_eta):
    a, rho = advantage.detach().float(), log_ratio.detach().float().exp()
    base = kept * rho / (1 + rho / 1.5)
    base[a < 0] *= 0.05
    top = a[kept].max()
    grown = base[kept] * ((a[kept] - top) / eta.float()).exp()
    psi = torch.zeros_like(a)
    psi[kept] = (grown / grown.sum()).detach()
    return top + eta.float() * (eps_eta + (grown.sum() / base.sum()).log()) - (psi * log_prob.float()).sum()
""",
        "the slope of the dual put in by hand": """
def vmpo_loss(log_prob, advantage, kept, log_ratio, eta, eps_eta):
    a, x, e = advantage.detach(), log_ratio.detach(), eta.detach()
    log_base = (x - torch.log1p(x.exp() / 1.5) + torch.where(a < 0, math.log(0.05), 0.0))[kept]
    a = a[kept]
    prior = log_base.log_softmax(0)
    log_psi = (prior + (a - a.max()) / e).log_softmax(0)
    psi = log_psi.exp()
    slack = eps_eta - (psi * (log_psi - prior)).sum()
    value = (psi * a).sum() + e * slack
    return value + slack * (eta - e) - torch.einsum("t,t->", psi, log_prob[kept])
""",
    },
    "q4": {
        "sorted lists": """
def estep(A, able, T, eps, share):
    rows = sorted((i for i in range(len(A)) if able[i]), key=lambda i: (-A[i].item(), -i))
    rows = rows[: math.ceil(share * len(rows))]
    top = A[rows[0]].item()
    mass = [math.exp((A[i].item() - top) / T) for i in rows]
    psi = torch.zeros(len(A))
    for i, m in zip(rows, mass):
        psi[i] = 0.9 * m / sum(mass) + 0.1 / len(rows)
    return psi, top + T * (eps + math.log(sum(mass) / len(rows)))
""",
        "ranks, softmax and log-sum-exp": """
def estep(advantage, eligible, eta, eps_eta, kappa):
    i = torch.arange(len(advantage))
    before = (advantage > advantage[:, None]) | (advantage == advantage[:, None]) & (i > i[:, None])
    k = math.ceil(kappa * eligible.sum().item())
    m = eligible & ((before & eligible).sum(1) < k)
    logits = (advantage / eta).masked_fill(~m, -torch.inf)
    psi = 0.9 * logits.softmax(0) + 0.1 * m / m.sum()
    return psi, eta * (eps_eta + logits.logsumexp(0) - math.log(k))
""",
        "numpy": """
def estep(advantage, eligible, eta, eps_eta, kappa):
    import numpy as np
    a, e = advantage.numpy(), eligible.numpy()
    order = np.lexsort((-np.arange(len(a)), -a, ~e))
    keep = order[: int(np.ceil(kappa * e.sum()))]
    w = np.exp((a[keep] - a[keep].max()) / eta)
    psi = np.zeros(len(a))
    psi[keep] = 0.9 * w / w.sum() + 0.1 / len(keep)
    return psi, np.asarray(a[keep].max() + eta * (eps_eta + np.log(w.mean())))
""",
        "float32": """
def estep(advantage, eligible, eta, eps_eta, kappa):
    index = eligible.nonzero().flatten().flip(0)
    a = advantage.float()
    index = index[a[index].argsort(descending=True, stable=True)][: math.ceil(kappa * len(index))]
    x = (a[index] - a[index[0]]) / eta
    psi = torch.zeros(len(a)).float()
    psi[index] = 0.9 * x.softmax(0) + 0.1 / len(index)
    return psi, a[index[0]] + eta * (eps_eta + x.exp().mean().log())
""",
    },
}

PACKAGE = {
    "q2": """
from minerva_lite.formulas.duals import top_k_mask
def select(advantage, eligible, age, kappa):
    return top_k_mask(advantage.flatten(), eligible.flatten(), kappa).view_as(eligible)
""",
    "q3": """
from minerva_lite.formulas.duals import vmpo_temperature_loss, vmpo_weights
from minerva_lite.formulas.objectives import weighted_nll
def vmpo_loss(log_prob, advantage, kept, log_ratio, eta, eps_eta):
    psi = vmpo_weights(advantage, kept, log_ratio, eta)
    return weighted_nll(log_prob, psi) + vmpo_temperature_loss(advantage, kept, log_ratio, eta, eps_eta)
""",
    "q4": """
from minerva_lite.formulas.duals import top_k_mask, vmpo_temperature_loss, vmpo_weights
def estep(advantage, eligible, eta, eps_eta, kappa):
    kept, flat, eta = top_k_mask(advantage, eligible, kappa), torch.zeros_like(advantage), torch.tensor(eta)
    return vmpo_weights(advantage, kept, flat, eta), vmpo_temperature_loss(advantage, kept, flat, eta, eps_eta)
""",
}
