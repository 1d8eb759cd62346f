"""Answers to homework 5 of the example seed: wrong ones (edits of the reference), right ones, the package's own."""

OLD = "q, mean_old, std_old = weights.detach(), mean_old.detach(), std_old.detach()"
LEFT = "alpha @ left.detach()"

WRONG = {
    "q2": {
        "the critics carry a gradient": [(".clamp(min=0.0)).detach()", ".clamp(min=0.0))")],
        "the temperature is detached": [("own = eta", "own = eta.detach()")],
        "the temperature is detached in the exponent alone": [
            ("(value - best) / own", "(value - best) / own.detach()")
        ],
        "no maximum taken out, and exp before log": [
            ("(base.log() + (value - best) / own).logsumexp(0)", "(base * ((value / own).exp())).sum(0).log()"),
            ("best + own", "own"),
        ],
        "a maximum over all states, and exp before log (like fault 26)": [
            ("value.max(0).values", "value.max()"),
            ("(base.log() + (value - best) / own).logsumexp(0)", "(base * ((value - best) / own).exp()).sum(0).log()"),
        ],
        "the maximum is not put back": [("best + own", "own")],
        "a sum over the candidates, no prior": [("base.log() + (value", "0.0 * base + (value")],
        "a plain mean over the candidates": [("base.log() + (value", "-math.log(len(base)) + (value")],
        "the prior as it came": [("0.8 * prior + 0.2 / len(prior)", "prior")],
        "the shares of the prior are exchanged": [("0.8 * prior + 0.2 / len(prior)", "0.2 * prior + 0.8 / len(prior)")],
        "the mixture divides by the number of states": [("0.2 / len(prior)", "0.2 / prior.shape[1]")],
        "the second critic promises more": [("(q_value - second).clamp", "(second - q_value).clamp")],
        "both signs of the difference count": [("(q_value - second).clamp(min=0.0)", "(q_value - second)")],
        "all states count": [("each[state_weight > 0.0].mean()", "each.mean()")],
        "a weighted mean": [("each[state_weight > 0.0].mean()", "(state_weight * each).sum() / state_weight.sum()")],
        "a sum over the states": [("each[state_weight > 0.0].mean()", "each[state_weight > 0.0].sum()")],
        "the bound with the wrong sign (fault 28)": [("eps_eta + log_normalizer", "log_normalizer - eps_eta")],
        "the normalizer over the wrong axis": [(".logsumexp(0)", ".logsumexp(1).mean()")],
    },
    "q3": {
        "the trace of the own row (fault 22)": [("trace[1:].masked_fill", "trace[:-1].masked_fill")],
        "a hard clip": [("torch.sigmoid(log_ratio - math.log(3.0))", "log_ratio.clamp(max=0.0).exp()")],
        "the clip's constant upside down": [("- math.log(3.0)", "+ math.log(3.0)")],
        "a quotient of ratios that overflow": [
            ("torch.sigmoid(log_ratio - math.log(3.0))", "log_ratio.exp() / (log_ratio.exp() + 3.0)")
        ],
        "lambda is left out": [("lam * torch", "torch")],
        "no discount of the trace": [("gamma * trace[1:]", "trace[1:]")],
        "no discount of the successor": [("reward + gamma * successor", "reward + successor")],
        "no terminal mask (fault 3)": [("successor.masked_fill(terminated, 0.0)", "successor")],
        "a time limit taken for a terminal state (fault 1)": [
            ("successor.masked_fill(terminated, 0.0)", "successor.masked_fill(terminated | truncated, 0.0)")
        ],
        "the shares of the bridge are exchanged": [
            ("0.4 * next_value + 0.6 * q_value", "0.6 * next_value + 0.4 * q_value")
        ],
        "no bridge": [("torch.where(truncated, 0.4 * next_value + 0.6 * q_value, next_value)", "next_value")],
        "the trace leaks over a truncation (fault 5)": [("ended = terminated | truncated", "ended = terminated")],
        "the flag of the next row (fault 4)": [("ended[:-1]", "ended[1:]")],
        "one row too short": [("(n <= 3)", "(n < 3)")],
        "no horizon": [(" * (n <= 3)", "")],
        "computed and never used (fault 23)": [("return q_value + correction", "return q_value + td_error")],
        "the correction without the critic": [("return q_value + correction", "return correction")],
        "the first row's ratio is read": [("torch.ones_like(td_error)", "trace / trace")],
    },
    "q4": {
        "the old policy is not held fixed (faults 14 and 19)": [(OLD, "q = weights.detach()")],
        "the new std under the mean's part (fault 24)": [("mean_old).square() / var_old", "mean_old).square() / var")],
        "the multipliers' sign (fault 28)": [(LEFT, "alpha @ -left.detach()")],
        "the price moves the multipliers, too": [("alpha.detach() @ spent", "alpha @ spent")],
        "the multipliers' loss moves the policy, too": [(LEFT, "alpha @ left")],
        "the weights carry a gradient": [(OLD, "q, mean_old, std_old = weights, mean_old.detach(), std_old.detach()")],
        "new first in the std's part": [("shrink = var_old / var", "shrink = var / var_old")],
        "stds for variances": [("std_old.square(), std.square()", "std_old, std")],
        "a sum over the states in place of the largest": [("sum(-1).amax(-1)", "sum(-1).sum(-1)")],
        "the mean over the states": [("sum(-1).amax(-1)", "sum(-1).mean(-1)")],
        "the mean over the dimensions": [("sum(-1).amax(-1)", "mean(-1).amax(-1)")],
        "the state with the largest sum of both parts": [
            ("parts.sum(-1).amax(-1)", "parts.sum(-1)[:, parts.sum((0, -1)).argmax()]")
        ],
        "the bounds are exchanged": [("[0.01, 0.002]", "[0.002, 0.01]")],
        "the std's fit counts in full": [("0.5 * q)", "q)")],
        "the std is fitted around the new mean": [("misfit(mean_old, var, ", "misfit(mean, var, ")],
        "the mean is fitted with the new std": [("misfit(mean, var_old, q)", "misfit(mean, var, q)")],
        "a sum over the states": [("shares, cost).mean()", "shares, cost).sum()")],
    },
}

RIGHT = {
    "q2": {
        "loops over scalars": """
def twisted_dual(Q, Q2, p, w, temperature, eps):
    N, B = Q.shape
    total, count = 0.0, 0
    for b in range(B):
        if w[b] == 0:
            continue
        u = [float(Q[i, b]) - 0.7 * max(0.0, float(Q[i, b] - Q2[i, b])) for i in range(N)]
        top = max(u)
        z = sum((0.8 * float(p[i, b]) + 0.2 / N) * torch.exp((u[i] - top) / temperature) for i in range(N))
        total = total + temperature * eps + top + temperature * torch.log(z)
        count += 1
    return total / count
""",
        "logsumexp of everything": """
def twisted_dual(q_value, second, prior, state_weight, eta, eps_eta):
    with torch.no_grad():
        u = torch.where(q_value > second, 0.3 * q_value + 0.7 * second, q_value)
        p = torch.lerp(prior, torch.full_like(prior, 1 / prior.size(0)), 0.2)
        counts = (state_weight > 0).to(u)
    g = eta * (eps_eta + torch.logsumexp(u / eta + torch.log(p), dim=0))
    return torch.dot(g, counts) / torch.count_nonzero(counts)
""",
        "Gibbs: means less prices, with a hand-made slope": """
def twisted_dual(q_value, second, prior, state_weight, eta, eps_eta):
    keep = state_weight > 0
    q, s, p = q_value.detach()[:, keep], second.detach()[:, keep], prior[:, keep]
    u, p = q - 0.7 * torch.relu(q - s), 0.8 * p + 0.2 / len(p)
    e = eta.detach()
    weights = (p.log() + u / e).softmax(0)
    kl = (torch.xlogy(weights, weights) - weights * p.log()).sum(0).mean()
    value = e * eps_eta + (weights * u).sum(0).mean() - e * kl
    return value + (eta - e) * (eps_eta - kl)
""",
        "float32": """
def twisted_dual(q_value, second, prior, state_weight, eta, eps_eta):
    q, s, p, eta = q_value.detach().float(), second.detach().float(), prior.float(), eta.float()
    u = q - 0.7 * torch.clamp(q - s, min=0)
    p = 0.8 * p + 0.2 / p.shape[0]
    c, _ = u.max(dim=0, keepdim=True)
    g = c[0] + eta * (eps_eta + (p * ((u - c) / eta).exp()).sum(0).log())
    return g[state_weight > 0].mean()
""",
    },
    "q3": {
        "loops and other names": """
def twisted_retrace(r, q, v, u, d, z, g, l):
    T, B = r.shape
    y = torch.zeros(T, B)
    for b in range(B):
        delta = []
        for t in range(T):
            after = 0.0 if d[t, b] else (0.4 * v[t, b] + 0.6 * q[t, b] if z[t, b] else v[t, b])
            delta.append(float(r[t, b] + g * after - q[t, b]))
        for t in range(T):
            total, weight = float(q[t, b]) + delta[t], 1.0
            for n in (1, 2, 3):
                if t + n >= T or d[t + n - 1, b] or z[t + n - 1, b]:
                    break
                weight *= g * l / (1 + 3 * math.exp(min(700.0, -float(u[t + n, b]))))
                total += weight * delta[t + n]
            y[t, b] = total
    return y
""",
        "three sweeps": """
def twisted_retrace(reward, q_value, next_value, log_ratio, terminated, truncated, gamma, lam):
    bridge = torch.where(truncated, 0.6, 0.0)
    after = (1 - terminated.double()) * torch.lerp(next_value, q_value, bridge)
    td_error = reward + gamma * after - q_value
    c = lam / (1 + (math.log(3) - log_ratio).exp())
    delta = td_error.clone()
    for _ in range(3):  # each sweep looks one row further
        ahead = torch.zeros_like(delta)
        ahead[:-1] = torch.where((terminated | truncated)[:-1], 0.0, gamma * c[1:] * delta[1:])
        delta = td_error + ahead
    return q_value + delta
""",
        "a matrix for each environment": """
def twisted_retrace(reward, q_value, next_value, log_ratio, terminated, truncated, gamma, lam):
    T, B = reward.shape
    after = torch.where(truncated, 0.4 * next_value + 0.6 * q_value, next_value)
    delta = reward + torch.where(terminated, 0.0, gamma * after) - q_value
    trace = lam * (1 + torch.tanh((log_ratio - math.log(3)) / 2)) / 2
    columns = []
    for b in range(B):
        step = gamma * trace[1:, b] * ~(terminated | truncated)[:-1, b]
        M = torch.diag(step, 1)
        columns.append((torch.eye(T) + M + M @ M + M @ M @ M) @ delta[:, b])
    return q_value + torch.stack(columns, 1)
""",
        "float32": """
def twisted_retrace(reward, q_value, next_value, log_ratio, terminated, truncated, gamma, lam):
    r, q, v, u = (x.float() for x in (reward, q_value, next_value, log_ratio))
    after = torch.where(truncated, 0.4 * v + 0.6 * q, v).masked_fill(terminated, 0)
    delta = r + gamma * after - q
    ends = (terminated | truncated).cumsum(0)
    out = []
    for t in range(len(r)):
        total, weight = delta[t], torch.ones_like(delta[t])
        for k in range(t + 1, min(t + 4, len(r))):
            weight = weight * gamma * lam * torch.sigmoid(u[k] - math.log(3.0))
            same = ends[k - 1] - ends[t] + (terminated | truncated)[t].long() == 0
            total = total + torch.where(same, weight * delta[k], 0.0)
        out.append(q[t] + total)
    return torch.stack(out)
""",
        "numpy": """
def twisted_retrace(reward, q_value, next_value, log_ratio, terminated, truncated, gamma, lam):
    import numpy as np
    r, q, v, u, d, z = (x.numpy() for x in (reward, q_value, next_value, log_ratio, terminated, truncated))
    delta = r + gamma * np.where(d, 0, np.where(z, 0.4 * v + 0.6 * q, v)) - q
    with np.errstate(over="ignore"):
        c = lam / (1 + 3 * np.exp(-u))
    y = q + delta
    for t in range(len(r)):
        w = np.ones(r.shape[1])
        for k in range(t + 1, min(t + 4, len(r))):
            w = np.where(d[k - 1] | z[k - 1], 0, w * gamma * c[k])
            y[t] += w * delta[k]
    return y
""",
    },
    "q4": {
        "loops": """
def mstep_objective(a, q, m0, s0, m, s, alpha):
    N, B, D = a.shape
    q, m0, s0 = q.detach(), m0.detach(), s0.detach()
    total, by_mean, by_std = 0.0, [], []
    for b in range(B):
        km = ks = 0.0
        for d in range(D):
            for i in range(N):
                total = total + q[i, b] * (torch.log(s0[b, d]) + (a[i, b, d] - m[b, d]) ** 2 / 2 / s0[b, d] ** 2) / B
                total = total + q[i, b] * (torch.log(s[b, d]) + (a[i, b, d] - m0[b, d]) ** 2 / 2 / s[b, d] ** 2) / B / 2
            km = km + (m[b, d] - m0[b, d]) ** 2 / (2 * s0[b, d] ** 2)
            ks = ks + (s0[b, d] ** 2 / s[b, d] ** 2 - 1) / 2 - torch.log(s0[b, d] / s[b, d])
        by_mean.append(km)
        by_std.append(ks)
    for part, bound, price in ((by_mean, 0.01, alpha[0]), (by_std, 0.002, alpha[1])):
        worst = max(part)
        total = total + price.item() * worst + price * (bound - worst.item())
    return total
""",
        "distributions": """
def mstep_objective(action, weights, mean_old, std_old, mean, std, alpha):
    from torch.distributions import Normal, kl_divergence
    with torch.no_grad():
        weights, mean_old, std_old = weights.clone(), mean_old.clone(), std_old.clone()
    half = 0.5 * math.log(2 * math.pi)
    one = -(Normal(mean, std_old).log_prob(action) + half).sum(-1)
    two = -(Normal(mean_old, std).log_prob(action) + half).sum(-1)
    old = Normal(mean_old, std_old)
    kls = [kl_divergence(old, new).sum(-1).max() for new in (Normal(mean, std_old), Normal(mean_old, std))]
    loss = torch.einsum("nb,nb->", weights, one + 0.5 * two) / len(mean)
    for j, (kl, bound) in enumerate(zip(kls, (0.01, 0.002))):
        loss = loss + alpha[j].detach() * kl + alpha[j] * (bound - kl.detach())
    return loss
""",
        "moments of the weights": """
def mstep_objective(action, weights, mean_old, std_old, mean, std, alpha):
    w, m0, v0 = weights.detach()[..., None], mean_old.detach(), std_old.detach() ** 2
    total = w.sum(0)
    near = (w * action).sum(0) / total
    spread = (w * (action - near) ** 2).sum(0)
    by_mean = total * v0.log() / 2 + (spread + total * (near - mean) ** 2) / (2 * v0)
    by_std = total * std.log() + (spread + total * (near - m0) ** 2) / (2 * std**2)
    kl_mean = ((mean - m0) ** 2 / (2 * v0)).sum(-1)
    ratio = v0 / std**2
    kl_std = (0.5 * (ratio - 1 - ratio.log())).sum(-1)
    kl = torch.stack((kl_mean, kl_std)).amax(-1)
    fixed = kl.detach()
    slack = torch.tensor([0.01, 0.002]) - fixed
    return (by_mean + 0.5 * by_std).sum() / len(mean) + alpha @ slack + alpha.detach() @ kl
""",
        "float32": """
def mstep_objective(action, weights, mean_old, std_old, mean, std, alpha):
    action, weights, mean_old, std_old = (x.detach().float() for x in (action, weights, mean_old, std_old))
    mean, std, alpha = mean.float(), std.float(), alpha.float()
    loss = 0.0
    for j, (m, s, share, bound) in enumerate(((mean, std_old, 1.0, 0.01), (mean_old, std, 0.5, 0.002))):
        nll = (s.log() + (action - m) ** 2 / (2 * s**2)).sum(-1)
        r = std_old / s
        kl = ((r**2 - 1 + ((m - mean_old) / s) ** 2) / 2 - r.log()).sum(-1).max()
        price = alpha[j].detach() * kl + alpha[j] * (bound - kl.detach())
        loss = loss + share * (weights * nll).sum() / len(mean) + price
    return loss
""",
    },
}

PACKAGE = {
    "q2": """
from minerva_lite.formulas.duals import temperature_loss
def twisted_dual(q_value, second, prior, state_weight, eta, eps_eta):
    return temperature_loss(q_value, prior.log(), eta, eps_eta)
""",
    "q3": """
from minerva_lite.formulas.returns import retrace_targets
def twisted_retrace(reward, q_value, next_value, log_ratio, terminated, truncated, gamma, lam):
    return retrace_targets(reward, q_value, next_value, log_ratio, terminated, truncated, gamma=gamma, lam=lam)
""",
    "q4": """
from minerva_lite.formulas.distributions import gaussian_kl_mean_std, gaussian_log_prob
from minerva_lite.formulas.duals import kl_price, multiplier_loss
from minerva_lite.formulas.objectives import weighted_nll
def mstep_objective(action, weights, mean_old, std_old, mean, std, alpha):
    old = [x.expand_as(action) for x in (mean_old, std_old)]
    new = [x.expand_as(action) for x in (mean, std)]
    fit = weighted_nll(gaussian_log_prob(action, new[0], old[1]), weights)
    fit = fit + weighted_nll(gaussian_log_prob(action, old[0], new[1]), weights)
    parts = [part.sum(-1).mean() for part in gaussian_kl_mean_std(mean_old, std_old, mean, std)]
    bounds = [multiplier_loss(a, kl, eps) for a, kl, eps in zip(alpha, parts, (0.01, 0.002))]
    return fit + sum(bounds) + sum(kl_price(a, kl) for a, kl in zip(alpha, parts))
""",
}
