"""Answers to homework 8 of the example seed: wrong ones (edits of the reference), right ones, the package's own."""

WRONG = {
    "q2": {
        "the price is on the last token alone": [("beta * (torch", "last * beta * (torch")],
        "what stands behind the end is priced": [
            (".detach().masked_fill(~mask, 0.0)", ".detach()"),
            (".masked_fill(~mask, 0.0)\n    returns", "\n    returns"),
        ],
        "multiplied by the mask, too late": [
            (".detach().masked_fill(~mask, 0.0)", ".detach()"),
            (".masked_fill(~mask, 0.0)\n    returns", " * mask\n    returns"),
        ],
        "an answer that is cut off is paid": [("torch.where(mask[-1], -0.3, reward)", "reward")],
        "a fine on top of the reward": [("torch.where(mask[-1], -0.3, reward)", "(reward - 0.3 * mask[-1])")],
        "the mean over all tokens": [("(term.sum(0) / length).mean()", "term.sum() / mask.sum()")],
    },
    "q3": {
        "the columns come back in another order": [(".T.flatten()", ".flatten()")],
        "the best of the others": [("others.mean(2)", "others.amax(2)")],
        "upside down": [("difference * len(rows) / told.sum()", "difference * told.sum() / len(rows)")],
        "no scale": [("difference * len(rows) / told.sum()", "difference")],
        "heard is who has one right answer": [("> rows.amin(1, keepdim=True)", "> 0.0")],
        "heard is who has a wrong answer": [("> rows.amin(1, keepdim=True)", "< 1.0")],
    },
    "q4": {
        "log of a sigmoid, which underflows": [
            (
                "0.8 * softplus(-beta * margin) + 0.2 * softplus(beta * margin)",
                "-0.8 * (beta * margin).sigmoid().log() - 0.2 * (-beta * margin).sigmoid().log()",
            )
        ],
        "per token": [("margin = up - down", "margin = up / length_chosen - down / length_rejected")],
        "the fit is not divided by the length": [("chosen / length_chosen", "chosen")],
        "the weights are left out": [
            (
                "(weight * (each - 0.5 * chosen / length_chosen)).sum() / weight.sum()",
                "(each - 0.5 * chosen / length_chosen).mean()",
            )
        ],
        "divided by the number of pairs": [("/ weight.sum()", "/ len(weight)")],
        "the fit is not weighted": [
            (
                "(weight * (each - 0.5 * chosen / length_chosen)).sum() / weight.sum()",
                "(weight * each).sum() / weight.sum() - 0.5 * (chosen / length_chosen).mean()",
            )
        ],
    },
    "q5": {
        "ties at random": [
            ("    equal = index == index[:, None]\n", ""),
            ("    lower = lower | equal & (index > index[:, None])\n", ""),
        ],
        "ties to the higher index": [("(index > index[:, None])", "(index < index[:, None])")],
        "the reference": [("return mass**n", "return mass")],
        "one draw too few": [("return mass**n", "return mass ** (n - 1)")],
        "one draw too many": [("return mass**n", "return mass ** (n + 1)")],
        "the worst": [("lower, equal = reward < reward[:, None]", "lower, equal = reward > reward[:, None]")],
    },
    "q6": {
        "the fault as it was given": [(".repeat_interleave(group)", ".repeat(group)")],
        "the end token does not count": [("ends.cumsum(0) - ends.long() == 0", "ends.cumsum(0) == 0")],
        "all tokens that are not the end": [("ends.cumsum(0) - ends.long() == 0", "~ends")],
        "one token behind the end counts": [
            ("ends.cumsum(0) - ends.long() == 0", "(ends.cumsum(0) - ends.long()).cumsum(0) <= 1")
        ],
        "all rows count": [(".masked_fill(~mask, 0.0)", "")],
        "the clip is symmetric": [("clamp(0.9, 1.3)", "clamp(0.9, 1.1)")],
    },
}

RIGHT = {
    "q2": {
        "loops": """
def token_loss(lp, ref, m, r, beta):
    L, B = lp.shape
    total = 0.0
    for b in range(B):
        n = int(m[:, b].sum())
        credit, own = 0.0, 0.0
        for t in reversed(range(n)):
            u = (lp[t, b] - ref[t, b]).item()
            credit -= beta * (math.exp(-u) - 1 + u)
            if t == n - 1:
                credit += -0.3 if n == L else r[b].item()
            own = own + credit * lp[t, b]
        total = total - own / n / B
    return total
""",
        "numpy for the returns, float32": """
def token_loss(log_prob, reference_log_prob, mask, reward, beta):
    import numpy as np
    u = (log_prob - reference_log_prob).detach().numpy().astype(np.float32)
    m, r = mask.numpy(), reward.numpy().astype(np.float32)
    u = np.where(m, u, 0)
    n = m.sum(0)
    pay = -beta * (np.exp(-u) - 1 + u)
    for b in range(len(r)):
        pay[n[b] - 1, b] += -0.3 if m[-1, b] else r[b]
    back = np.cumsum(pay[::-1], 0)[::-1]
    weight = torch.as_tensor(np.where(m, back / n / len(r), 0).astype(np.float32))
    return -torch.sum(weight[mask] * log_prob.float()[mask])
""",
    },
    "q3": {
        "loops": """
def heard_advantage(r, G):
    P = len(r) // G
    v = r.tolist()
    told = [p for p in range(P) if max(v[p::P]) > min(v[p::P])]
    out = [0.0] * len(v)
    for p in told:
        for i in range(p, len(v), P):
            out[i] = (v[i] - (sum(v[p::P]) - v[i]) / (G - 1)) * P / len(told)
    return torch.tensor(out)
""",
        "numpy": """
def heard_advantage(reward, group):
    import numpy as np
    x = reward.numpy().reshape(group, -1)
    rest = (x.sum(0) - x) / (group - 1)
    heard = np.ptp(x, axis=0) > 0
    return np.where(heard, (x - rest) / max(heard.mean(), 1e-9), 0.0).ravel()
""",
    },
    "q4": {
        "loops": """
def preference_loss(a, b, ra, rb, n, m, w, beta):
    total = 0.0
    for i in range(len(a)):
        x = beta * ((a[i] - ra[i].item()) - (b[i] - rb[i].item()))
        lost = torch.log1p(torch.exp(-x)) if x > 0 else torch.log1p(torch.exp(x)) - x
        if w[i] > 0:
            total = total + w[i] * (lost + 0.2 * x - 0.5 * a[i] / n[i])
    return total / w.sum()
""",
        "a cross-entropy of two scores": """
def preference_loss(chosen, rejected, reference_chosen, reference_rejected, length_chosen, other, weight, beta):
    score = beta * torch.stack([chosen - reference_chosen.detach(), rejected - reference_rejected.detach()], 1)
    target = torch.tensor([[0.8, 0.2]]).expand(len(score), 2)
    each = torch.nn.functional.cross_entropy(score, target, reduction="none")
    return ((each - 0.5 * chosen / length_chosen) * weight).sum() / weight.sum()
""",
    },
    "q5": {
        "sorted, one after the other": """
def kept_law(p, r, length, n):
    order = sorted(range(len(p)), key=lambda i: (r[i].item(), -i))
    q, mass = torch.zeros(len(p)), 0.0
    for i in order:
        q[i] = (mass + p[i].item()) ** n - mass**n
        mass += p[i].item()
    kl = sum(x * math.log(x / y) for x, y in zip(q.tolist(), p.tolist()) if x > 0)
    return q, torch.tensor(kl)
""",
        "numpy": """
def kept_law(probability, reward, length, n):
    import numpy as np
    p, r = probability.numpy(), reward.numpy()
    order = np.lexsort((-np.arange(len(r)), r))
    top = np.cumsum(p[order]) ** n
    q = np.empty(len(p))
    q[order] = np.diff(top, prepend=0.0)
    ratio = np.divide(q, p, out=np.ones(len(p)), where=q > 0)
    return q, np.asarray((q * np.log(ratio)).sum())
""",
    },
    "q6": {
        "loops": """
def update(lp, old, ref, token, r, G, beta):
    L, B = lp.shape
    total, count = 0.0, 0
    for i in range(B):
        start = (i // G) * G
        mates = [r[j].item() for j in range(start, start + G) if j != i]
        a = r[i].item() - sum(mates) / (G - 1)
        for t in range(L):
            ratio = (lp[t, i] - old[t, i].item()).exp()
            flat = (a > 0 and ratio > 1.3) or (a < 0 and ratio < 0.9)
            gain = a * (1.3 if a > 0 else 0.9) if flat else a * ratio
            u = ref[t, i].item() - lp[t, i]
            total, count = total + gain - beta * (u.exp() - 1 - u), count + 1
            if token[t, i] == 1:
                break
    return total / count
""",
        "only the tokens that count": """
def update(log_prob, behavior_log_prob, reference_log_prob, token, reward, group, beta):
    L = len(token)
    first = torch.where(token == 1, torch.arange(L)[:, None], L).amin(0)
    keep = torch.arange(L)[:, None] <= first
    rows = reward.reshape(-1, group)
    a = ((rows * group - rows.sum(1, keepdim=True)) / (group - 1)).reshape(-1).expand_as(log_prob)[keep]
    x = log_prob[keep]
    ratio = torch.exp(x - behavior_log_prob.detach()[keep])
    gain = torch.where(a > 0, ratio.clamp(max=1.3), ratio.clamp(min=0.9)) * a
    u = reference_log_prob.detach()[keep] - x
    return (gain - beta * (u.exp() - u - 1)).mean()
""",
    },
}

PACKAGE = {
    "q2": """
from minerva_lite.formulas.sequences import average_tokens, kl_rewards
def token_loss(log_prob, reference_log_prob, mask, reward, beta):
    paid = kl_rewards(log_prob, reference_log_prob, mask, reward, beta)
    returns = paid.flip(0).cumsum(0).flip(0)
    return -average_tokens(returns * log_prob, mask, "sequence")
""",
    "q3": """
from minerva_lite.formulas.sequences import leave_one_out_advantage
def heard_advantage(reward, group):
    return leave_one_out_advantage(reward, group)
""",
    "q4": """
from minerva_lite.formulas.preferences import dpo_loss
def preference_loss(chosen, rejected, reference_chosen, reference_rejected, length_chosen, other, weight, beta):
    return dpo_loss(chosen, rejected, reference_chosen, reference_rejected, beta)
""",
    "q5": """
from minerva_lite.formulas.preferences import best_of_n_kl, best_of_n_law
def kept_law(probability, reward, length, n):
    return best_of_n_law(probability, reward, n), torch.tensor(best_of_n_kl(n))
""",
    "q6": """
from minerva_lite.formulas.sequences import average_tokens, clipped_token_objective
from minerva_lite.formulas.sequences import kl_loss_terms, leave_one_out_advantage
def update(log_prob, behavior_log_prob, reference_log_prob, token, reward, group, beta):
    mask = (token == 1).cumsum(0) - (token == 1).long() == 0
    ratio = log_prob - behavior_log_prob.detach()
    gain = clipped_token_objective(ratio, leave_one_out_advantage(reward, group), 0.2, 0.2)
    price = kl_loss_terms(log_prob, reference_log_prob)[2]
    return average_tokens(gain - beta * price, mask, "token")
""",
}
