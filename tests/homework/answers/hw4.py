"""Answers to homework 4 of the example seed: wrong ones (edits of the reference), right ones, the package's own."""

END = "end = torch.where(good, 1.0 + 0.4 * clip_eps, 1.0 - clip_eps)"
PAST = "past = torch.where(good, ratio > end, ratio < end)"
TERM = "term = advantage * torch.where(past, end + 0.1 * torch.tanh((ratio - end) / 0.1), ratio)"
WRONG_WAY = "wrong = outside & ~silent & (a != 0.0)"
ESTIMATE = "estimate = (ratio * u - ratio + 1.0).mean()"
STOP = "ended = (drift > 2.0 * target_kl).cumsum(0) > 0"
CLIPPED = "bounded = ratio.clamp(1.0 - clip_eps, 1.0 + 1.4 * clip_eps)"
K3 = "average(torch.expm1(log_ratio) - log_ratio)"
MEAN = "average(advantage)[:, None]"

WRONG = {
    "q2": {
        "the advantage carries a gradient": [("advantage = advantage.detach()", "advantage = 1.0 * advantage")],
        "the behavior policy carries a gradient": [("behavior_log_prob.detach()", "behavior_log_prob")],
        "the new policy is detached (fault 14, mirrored)": [
            ("(log_prob - behavior_log_prob.detach()).exp()", "(log_prob.detach() - behavior_log_prob.detach()).exp()")
        ],
        "the ratio upside down": [
            ("(log_prob - behavior_log_prob.detach())", "(behavior_log_prob.detach() - log_prob)")
        ],
        "ends of log-ratios (fault 13)": [
            (END, "end = torch.where(good, math.exp(0.4 * clip_eps), math.exp(-clip_eps))")
        ],
        "a symmetric range": [("0.4 * clip_eps", "clip_eps")],
        "the factor at the lower end": [
            ("1.0 + 0.4 * clip_eps, 1.0 - clip_eps", "1.0 + clip_eps, 1.0 - 0.4 * clip_eps")
        ],
        "silent on both sides": [(PAST, "past = (ratio > 1.0 + 0.4 * clip_eps) | (ratio < 1.0 - clip_eps)")],
        "the unpaid side is clipped (max where min belongs)": [
            (PAST, "past = torch.where(good, ratio < end, ratio > end)")
        ],
        "flat beyond the end": [(TERM, "term = advantage * torch.where(past, end, ratio)")],
        "not continuous at the end": [("end + 0.1 * torch.tanh", "0.1 * torch.tanh")],
        "no width in the soft clip": [("torch.tanh((ratio - end) / 0.1)", "torch.tanh(ratio - end)")],
        "the mean divides by the number of entries": [("/ weight.sum()", "/ weight.numel()")],
        "the mean divides by the number of eligible steps": [("/ weight.sum()", "/ eligible.sum()")],
        "no mask": [("eligible * 0.8 **", "torch.ones_like(term) * 0.8 **")],
        "every row counts alike": [("eligible * 0.8 **", "eligible * 1.0 **")],
        "the weights run over the other axis": [
            ("0.8 ** torch.arange(len(term))[:, None]", "0.8 ** torch.arange(term.shape[1])[None]")
        ],
        "the weights run backward in time": [
            ("torch.arange(len(term))[:, None]", "torch.arange(len(term)).flip(0)[:, None]")
        ],
        "a loss, not an objective": [("return (weight", "return -(weight")],
    },
    "q3": {
        "the usual k3": [(ESTIMATE, "estimate = (ratio - 1.0 - u).mean()")],
        "k1 (fault 10)": [(ESTIMATE, "estimate = -u.mean()")],
        "without the control variate": [(ESTIMATE, "estimate = (ratio * u).mean()")],
        "the control variate has the wrong sign": [("u - ratio + 1.0", "u + ratio - 1.0")],
        "weighted twice": [(ESTIMATE, "estimate = (ratio * (ratio * u - ratio + 1.0)).mean()")],
        "padding counts": [
            ("u, a = log_ratio[k][valid[k]], advantage[k][valid[k]]", "u, a = log_ratio[k], advantage[k]"),
        ],
        "the interval of log-ratios (fault 13)": [
            ("outside = (ratio > 1.0 + clip_eps) | (ratio < 1.0 - clip_eps)", "outside = u.abs() > clip_eps"),
        ],
        "the silent ones are counted": [(WRONG_WAY, "wrong = silent")],
        "everything outside": [(WRONG_WAY, "wrong = outside")],
        "no advantage is a wrong way": [(WRONG_WAY, "wrong = outside & ~silent")],
        "divided by all valid entries": [("max(int(outside.sum()), 1)", "len(u)")],
        "0 divided by 0 is NaN (a cousin of fault 11)": [("max(int(outside.sum()), 1)", "outside.sum()")],
        "only what is out above": [(" | (ratio < 1.0 - clip_eps)\n", "\n")],
        "the largest so far, without this one": [("max([estimate] +", "max([0.0 * estimate] +")],
        "the smallest so far": [("max([estimate] +", "min([estimate] +")],
        "the largest of the last two": [("for row in rows])", "for row in rows[-1:]])")],
        "transposed": [("torch.tensor(rows).T", "torch.tensor(rows)")],
    },
    "q4": {
        "k1 (fault 10)": [(K3, "average(-log_ratio)")],
        "the spread of one row is NaN (fault 11)": [("(size - 1).clamp(min=1)", "(size - 1)")],
        "the stop on the last minibatch only (fault 12)": [("(drift > ", "(drift[-1:] > ")],
        "the last minibatch alone can be left out": [
            (STOP, "ended = (drift > 2.0 * target_kl) & (torch.arange(len(size)) + 1 == len(size))")
        ],
        "the clip range is one of log-ratios (fault 13)": [
            (CLIPPED, "bounded = log_ratio.clamp(-clip_eps, 1.4 * clip_eps).exp()")
        ],
        "the mean divides by the padded length": [("(valid * x).sum(1) / size", "(valid * x).mean(1)")],
        "padding counts": [("(valid * x).sum(1) / size", "x.mean(1)")],
        "no slack": [("drift > 2.0 * target_kl", "drift > target_kl")],
        "k2 for k3": [(K3, "average(0.5 * log_ratio.square())")],
        "the absolute value of k1's mean": [(K3, "average(log_ratio).abs()")],
        "a minibatch is left out, not the rest of the epoch": [(".cumsum(0) > 0", "")],
        "no stop": [(STOP, "ended = drift < 0.0")],
        "the stop after the step": [(STOP, "ended = (drift > 2.0 * target_kl).cumsum(0).cumsum(0) > 1")],
        "the mean of the whole epoch is subtracted": [(MEAN, "advantage[valid].mean()")],
        "the mean of a column is subtracted": [(MEAN, "advantage.mean(0)")],
        "the population's spread": [("(size - 1).clamp(min=1)", "size")],
        "the variance for the standard deviation": [("variance.sqrt()", "variance")],
        "a maximum for the minimum": [("torch.minimum", "torch.maximum")],
        "the ratio without a clip": [(CLIPPED, "bounded = ratio")],
        "the factor at the lower end": [
            ("1.0 - clip_eps, 1.0 + 1.4 * clip_eps", "1.0 - 1.4 * clip_eps, 1.0 + clip_eps")
        ],
        "a sum, not a mean": [("gain = average(", "gain = size * average(")],
    },
}

RIGHT = {
    "q2": {
        "loops and other names": """
def twisted_surrogate(new, old, adv, counts, eps):
    total, norm = 0.0, 0.0
    T, B = new.shape
    for t in range(T):
        for b in range(B):
            if counts[t, b]:
                a = adv[t, b].item()
                rho = torch.exp(new[t, b] - old[t, b].item())
                if a >= 0 and rho > 1 + 0.4 * eps:
                    f = a * (1 + 0.4 * eps + 0.1 * torch.tanh((rho - 1 - 0.4 * eps) / 0.1))
                elif a < 0 and rho < 1 - eps:
                    f = a * (1 - eps + 0.1 * torch.tanh((rho - 1 + eps) / 0.1))
                else:
                    f = a * rho
                total = total + 0.8**t * f
                norm += 0.8**t
    return total / norm
""",
        "inside and beyond added up": """
def twisted_surrogate(log_prob, behavior_log_prob, advantage, eligible, clip_eps):
    with torch.no_grad():
        sign = torch.where(advantage < 0, -1.0, 1.0)
        end = torch.where(advantage < 0, 1 - clip_eps, 1 + 0.4 * clip_eps)
        w = torch.pow(torch.tensor(0.8), torch.arange(log_prob.shape[0])).unsqueeze(1).expand_as(log_prob) * eligible
        w = w / w.sum() * advantage
    rho = torch.exp(log_prob - behavior_log_prob.detach())
    beyond = torch.relu(sign * (rho - end))
    return torch.einsum("tb,tb->", w, rho - sign * beyond + sign * 0.1 * torch.tanh(beyond / 0.1))
""",
        "only the eligible entries": """
def twisted_surrogate(log_prob, behavior_log_prob, advantage, eligible, clip_eps):
    t, b = eligible.nonzero(as_tuple=True)
    a = advantage.data[t, b]
    rho = (log_prob[t, b] - behavior_log_prob.data[t, b]).exp()
    high, low = 1 + 0.4 * clip_eps, 1 - clip_eps
    soft = lambda e: e + (1 - 2 / (torch.exp(2 * (rho - e) / 0.1) + 1)) / 10
    f = torch.where((a > 0) & (rho > high), a * soft(high), torch.where((a < 0) & (rho < low), a * soft(low), a * rho))
    w = 0.8 ** t
    return (w * f).sum() / w.sum()
""",
        "float32": """
def twisted_surrogate(log_prob, behavior_log_prob, advantage, eligible, clip_eps):
    a, rho = advantage.detach().float(), (log_prob.float() - behavior_log_prob.detach().float()).exp()
    up, down = 1 + 0.4 * clip_eps, 1 - clip_eps
    above = torch.minimum(rho, torch.tensor(up)) + 0.1 * torch.tanh((rho - up).clamp(min=0) / 0.1)
    below = torch.maximum(rho, torch.tensor(down)) - 0.1 * torch.tanh((down - rho).clamp(min=0) / 0.1)
    f = (a * torch.where(a >= 0, above, below)).masked_fill(~eligible, 0.0)
    weights = [0.8**t for t in range(len(a))]
    rows = sum(w * row.sum() for w, row in zip(weights, f))
    return rows / sum(w * int(row.sum()) for w, row in zip(weights, eligible))
""",
    },
    "q3": {
        "loops": """
def drift_report(lr, adv, ok, eps):
    K, N = lr.shape
    report, worst = torch.zeros(3, K), -math.inf
    for k in range(K):
        n = kl = out = bad = 0
        for i in range(N):
            if not ok[k, i]:
                continue
            u, a = lr[k, i].item(), adv[k, i].item()
            r = math.exp(u)
            n, kl = n + 1, kl + r * u - r + 1
            if r > 1 + eps or r < 1 - eps:
                out += 1
                bad += (a < 0) if r > 1 else (a > 0)
        worst = max(worst, kl / n)
        report[0, k], report[1, k], report[2, k] = kl / n, bad / out if out else 0.0, worst
    return report
""",
        "masks and cummax": """
def drift_report(log_ratio, advantage, valid, clip_eps):
    rho = log_ratio.exp()
    kl = (valid * (rho * (log_ratio - 1) + 1)).sum(1) / valid.sum(1)
    outside = valid & ((rho - 1).abs() > clip_eps)
    wrong = outside & ((rho - 1) * advantage < 0)
    fraction = wrong.sum(1) / outside.sum(1).clamp(min=1)
    return torch.stack([kl, fraction, kl.cummax(0).values])
""",
        "numpy": """
def drift_report(log_ratio, advantage, valid, clip_eps):
    import numpy as np
    u, a, v = log_ratio.numpy(), advantage.numpy(), valid.numpy()
    r = np.exp(u)
    kl = np.average(r * u - np.expm1(u), axis=1, weights=v)
    out = v * (np.abs(r - 1) > clip_eps)
    wrong = out * (np.sign(r - 1) == -np.sign(a))
    share = np.nan_to_num(wrong.sum(1) / np.maximum(out.sum(1), 1e-300))
    return np.array([kl, share, np.maximum.accumulate(kl)])
""",
        "float32": """
def drift_report(log_ratio, advantage, valid, clip_eps):
    nan = torch.tensor(math.nan)
    u = torch.where(valid, log_ratio, nan).float()
    r = u.exp()
    kl = (torch.exp(u) * u - torch.expm1(u)).nanmean(1)
    up, down = r > 1 + clip_eps, r < 1 - clip_eps
    lost = (up & (advantage < 0)).sum(1) + (down & (advantage > 0)).sum(1)
    share = (lost / (up.sum(1) + down.sum(1))).nan_to_num(0.0)
    return torch.stack([kl, share.float(), torch.stack([kl[: k + 1].max() for k in range(len(kl))])])
""",
    },
    "q4": {
        "loops": """
def epoch_objectives(lr, adv, ok, eps, kl):
    out = [0.0] * len(lr)
    for k in range(len(lr)):
        pairs = [(u, a) for u, a, v in zip(lr[k].tolist(), adv[k].tolist(), ok[k].tolist()) if v]
        n = len(pairs)
        if sum(math.exp(u) - 1 - u for u, _ in pairs) / n > 2 * kl:
            break
        if n == 1:
            continue
        mean = sum(a for _, a in pairs) / n
        std = math.sqrt(sum((a - mean) ** 2 for _, a in pairs) / (n - 1))
        for u, a in pairs:
            a, r = (a - mean) / (std + 1e-8), math.exp(u)
            out[k] += min(r * a, min(max(r, 1 - eps), 1 + 1.4 * eps) * a) / n
    return torch.tensor(out)
""",
        "masks, all minibatches at once": """
def epoch_objectives(log_ratio, advantage, valid, clip_eps, target_kl):
    n = valid.sum(1, keepdim=True)
    mean = lambda x: (x * valid).sum(1, keepdim=True) / n
    r = log_ratio.exp()
    gone = (mean(r - 1 - log_ratio) > 2 * target_kl).cumsum(0) > 0
    a = (advantage - mean(advantage)) * valid
    a = a / ((a.square().sum(1, keepdim=True) / (n - 1).clamp(min=1)).sqrt() + 1e-8)
    f = a * torch.where(a >= 0, r.clamp(max=1 + 1.4 * clip_eps), r.clamp(min=1 - clip_eps))
    return torch.where(gone, 0.0, mean(f))[:, 0]
""",
        "torch's own spread": """
def epoch_objectives(log_ratio, advantage, valid, clip_eps, target_kl):
    made, going = [], True
    for u, a, v in zip(log_ratio, advantage, valid):
        u, a = u[v], a[v]
        going = going and not (u.exp() - 1 - u).mean() > 2.0 * target_kl
        if not going or len(a) == 1:
            made.append(0.0)
            continue
        spread, mean = torch.std_mean(a)
        a = (a - mean) / (spread + 1e-8)
        bounded = torch.clip(u.exp(), 1 - clip_eps, 1 + 1.4 * clip_eps)
        made.append(float(torch.stack([u.exp() * a, bounded * a]).amin(0).mean()))
    return torch.tensor(made)
""",
        "numpy in float32": """
def epoch_objectives(log_ratio, advantage, valid, clip_eps, target_kl):
    import numpy as np
    found = np.zeros(len(log_ratio), dtype=np.float32)
    for k, row in enumerate(valid.numpy()):
        u, a = (x[k].numpy()[row].astype(np.float32) for x in (log_ratio, advantage))
        if np.mean(np.expm1(u) - u) > 2 * target_kl:
            return found
        a = (a - a.mean()) / (a.std(ddof=1) + 1e-8) if len(a) > 1 else np.zeros_like(a)
        found[k] = np.minimum(np.exp(u) * a, np.clip(np.exp(u), 1 - clip_eps, 1 + 1.4 * clip_eps) * a).mean()
    return found
""",
    },
}

PACKAGE = {
    "q2": """
from minerva_lite.formulas.objectives import ppo_clip_objective
def twisted_surrogate(log_prob, behavior_log_prob, advantage, eligible, clip_eps):
    log_ratio = log_prob - behavior_log_prob.detach()
    return ppo_clip_objective(log_ratio[eligible], advantage.detach()[eligible], clip_eps).mean()
""",
    "q3": """
from minerva_lite.formulas.distributions import kl_estimates
from minerva_lite.formulas.objectives import ppo_clip_fraction
def drift_report(log_ratio, advantage, valid, clip_eps):
    kl = torch.stack([kl_estimates(u[v])[2].mean() for u, v in zip(log_ratio, valid)])
    fraction = torch.stack([ppo_clip_fraction(u[v], clip_eps) for u, v in zip(log_ratio, valid)])
    return torch.stack([kl, fraction, kl.cummax(0).values])
""",
    "q4": """
from minerva_lite.formulas.distributions import kl_estimates
from minerva_lite.formulas.objectives import normalize_advantage, ppo_clip_objective
def epoch_objectives(log_ratio, advantage, valid, clip_eps, target_kl):
    objectives = torch.zeros(len(log_ratio))
    for k, v in enumerate(valid):
        if kl_estimates(log_ratio[k][v])[2].mean() > target_kl:
            break
        if v.sum() > 1:
            objectives[k] = ppo_clip_objective(log_ratio[k][v], normalize_advantage(advantage[k][v]), clip_eps).mean()
    return objectives
""",
}
