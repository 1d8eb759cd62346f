"""Answers to homework 8 of the example seed: wrong ones (edits of the reference), right ones, the package's own."""

WRONG = {
    "q2": {
        "the reward on the last row, not on the last token": [("== length - 1", "== len(mask) - 1")],
        "the reward one token after the last": [("== length - 1", "== length")],
        "the log-ratio is upside down": [("log_prob - reference_log_prob)", "reference_log_prob - log_prob)")],
        "the price is paid out": [("earned - eta * ", "earned + eta * ")],
        "no price": [("earned - eta * (torch.expm1(-away) + away)", "earned")],
        "k1 for k3": [("torch.expm1(-away) + away", "away")],
        "k2 for k3": [("torch.expm1(-away) + away", "0.5 * away.square()")],
        "the price is on the last token alone": [("eta * (torch", "last * eta * (torch")],
        "what stands behind the end is priced": [
            (".detach().masked_fill(~mask, 0.0)", ".detach()"),
            (".masked_fill(~mask, 0.0)\n    returns", "\n    returns"),
        ],
        "multiplied by the mask, too late": [
            (".detach().masked_fill(~mask, 0.0)", ".detach()"),
            (".masked_fill(~mask, 0.0)\n    returns", " * mask\n    returns"),
        ],
        "the price carries a gradient": [
            ("(log_prob - reference_log_prob).detach()", "(log_prob - reference_log_prob)")
        ],
        "an answer that is cut off is paid": [("torch.where(mask[-1], -0.3, reward)", "reward")],
        "a fine on top of the reward": [("torch.where(mask[-1], -0.3, reward)", "(reward - 0.3 * mask[-1])")],
        "no returns: every token has its own reward": [("returns = paid.flip(0).cumsum(0).flip(0)", "returns = paid")],
        "what was earned so far": [("paid.flip(0).cumsum(0).flip(0)", "paid.cumsum(0)")],
        "all tokens have the whole answer's return": [
            ("paid.flip(0).cumsum(0).flip(0)", "paid.sum(0).expand_as(paid)")
        ],
        "the mean over all tokens": [("(term.sum(0) / length).mean()", "term.sum() / mask.sum()")],
        "divided by the rows": [("(term.sum(0) / length).mean()", "term.mean()")],
        "a sum over answers": [("(term.sum(0) / length).mean()", "(term.sum(0) / length).sum()")],
        "an objective, not a loss": [("return -(", "return (")],
    },
    "q3": {
        "groups side by side": [("view(group, -1).T", "view(-1, group)"), (".T.flatten()", ".flatten()")],
        "the columns come back in another order": [(".T.flatten()", ".flatten()")],
        "the other view": [("view(group, -1).T", "view(len(reward) // group, -1)"), (".T.flatten()", ".flatten()")],
        "the own reward is in the mean": [("others.mean(2)", "rows.mean(1, keepdim=True)")],
        "the mean of the batch": [("others.mean(2)", "rows.mean()")],
        "the best of the others": [("others.mean(2)", "others.amax(2)")],
        "the sum of the others divided by G": [("others.mean(2)", "others.sum(2) / group")],
        "upside down": [("difference * len(rows) / told.sum()", "difference * told.sum() / len(rows)")],
        "no scale": [("difference * len(rows) / told.sum()", "difference")],
        "the number of answers for that of prompts": [("len(rows) / told.sum()", "rows.numel() / told.sum()")],
        "divided by the spread": [
            ("difference * len(rows) / told.sum()", "difference / (rows.std(1, keepdim=True) + 1e-4)")
        ],
        "heard is who has one right answer": [("> rows.amin(1, keepdim=True)", "> 0.0")],
        "heard is who has a wrong answer": [("> rows.amin(1, keepdim=True)", "< 1.0")],
        "the others above the reward": [("rows - (others.mean(2))", "(others.mean(2)) - rows")],
    },
    "q4": {
        "the pair is exchanged": [("margin = up - down", "margin = down - up")],
        "no reference": [
            ("chosen - reference_chosen.detach()", "chosen"),
            ("rejected - reference_rejected.detach()", "rejected"),
        ],
        "the reference of the other answer": [
            ("chosen - reference_chosen.detach()", "chosen - reference_rejected.detach()")
        ],
        "the price is left out": [
            ("softplus(-eta * margin)", "softplus(-margin)"),
            ("softplus(eta * margin)", "softplus(margin)"),
        ],
        "the price divides": [
            ("softplus(-eta * margin)", "softplus(-margin / eta)"),
            ("softplus(eta * margin)", "softplus(margin / eta)"),
        ],
        "no label is wrong": [
            ("0.8 * softplus(-eta * margin) + 0.2 * softplus(eta * margin)", "softplus(-eta * margin)")
        ],
        "the shares are exchanged": [
            ("0.8 * softplus(-eta", "0.2 * softplus(-eta"),
            ("+ 0.2 * softplus(eta", "+ 0.8 * softplus(eta"),
        ],
        "log of a sigmoid, which underflows": [
            (
                "0.8 * softplus(-eta * margin) + 0.2 * softplus(eta * margin)",
                "-0.8 * (eta * margin).sigmoid().log() - 0.2 * (-eta * margin).sigmoid().log()",
            )
        ],
        "per token": [("margin = up - down", "margin = up / length_chosen - down / length_rejected")],
        "the fit is not divided by the length": [("chosen / length_chosen", "chosen")],
        "no fit": [(" - 0.5 * chosen / length_chosen", "")],
        "the fit has the wrong sign": [("each - 0.5", "each + 0.5")],
        "the fit is of the log-ratio": [("0.5 * chosen / length_chosen", "0.5 * up / length_chosen")],
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
        "the reference carries a gradient": [("reference_chosen.detach()", "reference_chosen")],
        "the rejected answer is a constant": [("rejected - reference", "rejected.detach() - reference")],
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
        "the second best": [("return mass**n", "return mass**n + n * mass ** (n - 1) * (1.0 - mass)")],
        "the worst": [("lower, equal = reward < reward[:, None]", "lower, equal = reward > reward[:, None]")],
        "the divergence from the other side": [
            (
                "(q[some] * (q[some] / probability[some]).log()).sum()",
                "(probability[some] * (probability[some] / q[some]).log()).sum()",
            )
        ],
        "the bound for the divergence": [
            ("(q[some] * (q[some] / probability[some]).log()).sum()", "torch.tensor(math.log(n) - (n - 1) / n)")
        ],
        "in bits": [("probability[some]).log()", "probability[some]).log2()")],
        "weights in place of a law": [
            (
                "q = probability / level.clamp(min=1e-30) * (at_most(below + level) - at_most(below))",
                "q = n * probability * below ** (n - 1)",
            )
        ],
        "top probability alone": [("(at_most(below + level) - at_most(below))", "at_most(below + level)")],
    },
    "q6": {
        "the fault as it was given": [(".repeat_interleave(group)", ".repeat(group)")],
        "the end token does not count": [("ends.cumsum(0) - ends.long() == 0", "ends.cumsum(0) == 0")],
        "all tokens that are not the end": [("ends.cumsum(0) - ends.long() == 0", "~ends")],
        "one token behind the end counts": [
            ("ends.cumsum(0) - ends.long() == 0", "(ends.cumsum(0) - ends.long()).cumsum(0) <= 1")
        ],
        "all rows count": [(".masked_fill(~mask, 0.0)", "")],
        "the ratio to the reference": [("log_ratio = log_prob - behavior", "log_ratio = log_prob - reference")],
        "k1 in the loss": [("torch.expm1(-away) + away", "away")],
        "k2 for k3": [("torch.expm1(-away) + away", "0.5 * away.square()")],
        "k3 with its ratio upside down": [("torch.expm1(-away) + away", "torch.expm1(away) - away")],
        "the own reward is in the mean": [("(reward - mean) * group / (group - 1)", "reward - mean")],
        "the clip is symmetric": [("clamp(0.9, 1.3)", "clamp(0.9, 1.1)")],
        "the larger of the two": [("torch.minimum", "torch.maximum")],
        "no clip": [("torch.minimum(ratio * advantage, ratio.clamp(0.9, 1.3) * advantage)", "ratio * advantage")],
        "only the clip": [
            ("torch.minimum(ratio * advantage, ratio.clamp(0.9, 1.3) * advantage)", "ratio.clamp(0.9, 1.3) * advantage")
        ],
        "the price is paid out": [("gain - eta * price", "gain + eta * price")],
        "a mean over answers of means": [("term.sum() / mask.sum()", "(term.sum(0) / mask.sum(0)).mean()")],
        "divided by the rows": [("term.sum() / mask.sum()", "term.mean()")],
        "the behavior policy carries a gradient": [("behavior_log_prob.detach()", "behavior_log_prob")],
        "the reference carries a gradient": [("reference_log_prob.detach()", "reference_log_prob")],
    },
}

RIGHT = {
    "q2": {
        "loops": """
def token_loss(lp, ref, m, r, eta):
    L, B = lp.shape
    total = 0.0
    for b in range(B):
        n = int(m[:, b].sum())
        credit, own = 0.0, 0.0
        for t in reversed(range(n)):
            u = (lp[t, b] - ref[t, b]).item()
            credit -= eta * (math.exp(-u) - 1 + u)
            if t == n - 1:
                credit += -0.3 if n == L else r[b].item()
            own = own + credit * lp[t, b]
        total = total - own / n / B
    return total
""",
        "a triangle of ones": """
def token_loss(log_prob, reference_log_prob, mask, reward, eta):
    with torch.no_grad():
        L = len(mask)
        n = mask.sum(0)
        u = torch.where(mask, log_prob - reference_log_prob, 0.0)
        pay = -eta * (torch.exp(-u) - 1 + u)
        pay[n - 1, torch.arange(len(n))] += torch.where(n == L, torch.full_like(reward, -0.3), reward)
        later = torch.triu(torch.ones(L, L)) @ pay
        weight = torch.where(mask, later, 0.0) / (n * len(n))
    return -(weight * torch.where(mask, log_prob, 0.0)).sum()
""",
        "numpy for the returns, float32": """
def token_loss(log_prob, reference_log_prob, mask, reward, eta):
    import numpy as np
    u = (log_prob - reference_log_prob).detach().numpy().astype(np.float32)
    m, r = mask.numpy(), reward.numpy().astype(np.float32)
    u = np.where(m, u, 0)
    n = m.sum(0)
    pay = -eta * (np.exp(-u) - 1 + u)
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
        "the group's mean, stretched": """
def heard_advantage(reward, group):
    table = reward.reshape(group, -1)
    a = (table - table.mean(0)) * group / (group - 1)
    differ = (table != table[0]).any(0)
    factor = table.shape[1] / max(int(differ.sum()), 1)
    return (a * differ * factor).reshape(-1)
""",
        "numpy": """
def heard_advantage(reward, group):
    import numpy as np
    x = reward.numpy().reshape(group, -1)
    rest = (x.sum(0) - x) / (group - 1)
    heard = np.ptp(x, axis=0) > 0
    return np.where(heard, (x - rest) / max(heard.mean(), 1e-9), 0.0).ravel()
""",
        "all pairs, float32": """
def heard_advantage(reward, group):
    r = reward.float()
    p = torch.arange(len(r)) % (len(r) // group)
    same = (p[:, None] == p).float()
    a = (same * (r[:, None] - r)).sum(1) / (group - 1)
    silent = (same * (r[:, None] - r).abs()).sum(1) == 0
    heard = len(set(p[~silent].tolist()))
    return torch.where(silent, torch.zeros_like(a), a * (len(r) // group) / max(heard, 1))
""",
    },
    "q4": {
        "loops": """
def preference_loss(a, b, ra, rb, n, m, w, eta):
    total = 0.0
    for i in range(len(a)):
        x = eta * ((a[i] - ra[i].item()) - (b[i] - rb[i].item()))
        lost = torch.log1p(torch.exp(-x)) if x > 0 else torch.log1p(torch.exp(x)) - x
        if w[i] > 0:
            total = total + w[i] * (lost + 0.2 * x - 0.5 * a[i] / n[i])
    return total / w.sum()
""",
        "log-sigmoid": """
def preference_loss(chosen, rejected, reference_chosen, reference_rejected, length_chosen, other, weight, eta):
    with torch.no_grad():
        base = reference_chosen - reference_rejected
        share = weight / weight.sum()
    h = chosen - rejected - base
    log_sigmoid = torch.nn.functional.logsigmoid
    value = 0.8 * log_sigmoid(eta * h) + 0.2 * log_sigmoid(-eta * h) + 0.5 * chosen / length_chosen
    return -torch.dot(share, value)
""",
        "a cross-entropy of two scores": """
def preference_loss(chosen, rejected, reference_chosen, reference_rejected, length_chosen, other, weight, eta):
    score = eta * torch.stack([chosen - reference_chosen.detach(), rejected - reference_rejected.detach()], 1)
    target = torch.tensor([[0.8, 0.2]]).expand(len(score), 2)
    each = torch.nn.functional.cross_entropy(score, target, reduction="none")
    return ((each - 0.5 * chosen / length_chosen) * weight).sum() / weight.sum()
""",
        "float32, numbers for slopes": """
def preference_loss(chosen, rejected, reference_chosen, reference_rejected, length_chosen, other, weight, eta):
    c, d = chosen.float(), rejected.float()
    h = (c - d - (reference_chosen - reference_rejected).float()).detach()
    w = (weight / weight.sum()).float()
    zero = torch.zeros_like(h)
    value = w * (0.8 * torch.logaddexp(zero, -eta * h) + 0.2 * torch.logaddexp(zero, eta * h))
    pull = w * eta * (torch.sigmoid(eta * h) - 0.8)
    grow = pull * (c - c.detach()) - pull * (d - d.detach())
    return (value + grow - 0.5 * w * c / length_chosen).sum()
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
        "draw after draw": """
def kept_law(probability, reward, length, n):
    i = torch.arange(len(reward))
    beats = (reward[:, None] > reward) | (reward[:, None] == reward) & (i[:, None] < i)
    law = probability
    for _ in range(n - 1):
        stays = (beats | (i[:, None] == i)).to(law) @ probability
        law = law * stays + probability * (beats.to(law) @ law)
    safe = torch.where(law > 0, law / probability.clamp(min=1e-300), 1.0)
    return law, (law * safe.log()).sum()
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
        "float32": """
def kept_law(probability, reward, length, n):
    p = probability.float()
    order = torch.sort(reward.flip(0), stable=True).indices
    order = len(p) - 1 - order
    top = torch.cumsum(p[order], 0) ** n
    q = torch.zeros(len(p)).float()
    q[order] = torch.cat([top[:1], top[1:] - top[:-1]])
    return q, torch.xlogy(q, q).sum() - torch.xlogy(q, p).sum()
""",
    },
    "q6": {
        "loops": """
def update(lp, old, ref, token, r, G, eta):
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
            total, count = total + gain - eta * (u.exp() - 1 - u), count + 1
            if token[t, i] == 1:
                break
    return total / count
""",
        "only the tokens that count": """
def update(log_prob, behavior_log_prob, reference_log_prob, token, reward, group, eta):
    L = len(token)
    first = torch.where(token == 1, torch.arange(L)[:, None], L).amin(0)
    keep = torch.arange(L)[:, None] <= first
    rows = reward.reshape(-1, group)
    a = ((rows * group - rows.sum(1, keepdim=True)) / (group - 1)).reshape(-1).expand_as(log_prob)[keep]
    x = log_prob[keep]
    ratio = torch.exp(x - behavior_log_prob.detach()[keep])
    gain = torch.where(a > 0, ratio.clamp(max=1.3), ratio.clamp(min=0.9)) * a
    u = reference_log_prob.detach()[keep] - x
    return (gain - eta * (u.exp() - u - 1)).mean()
""",
        "float32": """
def update(log_prob, behavior_log_prob, reference_log_prob, token, reward, group, eta):
    x, old, ref = log_prob.float(), behavior_log_prob.detach().float(), reference_log_prob.detach().float()
    alive = torch.ones(token.shape[1], dtype=torch.bool)
    r = reward.float()
    member = torch.arange(len(r)) // group
    same = (member[:, None] == member) & ~torch.eye(len(r), dtype=torch.bool)
    a = r - (same * r).sum(1) / (group - 1)
    total, count = 0.0, 0
    for t in range(len(token)):
        ratio = (x[t] - old[t]).exp()
        gain = torch.min(ratio * a, ratio.clip(0.9, 1.3) * a)
        u = ref[t] - x[t]
        total = total + ((gain - eta * (u.exp() - 1 - u)) * alive).sum()
        count += int(alive.sum())
        alive = alive & (token[t] != 1)
    return total / count
""",
    },
}

PACKAGE = {
    "q2": """
from minerva_lite.formulas.sequences import average_tokens, kl_rewards
def token_loss(log_prob, reference_log_prob, mask, reward, eta):
    paid = kl_rewards(log_prob, reference_log_prob, mask, reward, eta)
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
def preference_loss(chosen, rejected, reference_chosen, reference_rejected, length_chosen, other, weight, eta):
    return dpo_loss(chosen, rejected, reference_chosen, reference_rejected, eta)
""",
    "q5": """
from minerva_lite.formulas.preferences import best_of_n_kl, best_of_n_law
def kept_law(probability, reward, length, n):
    return best_of_n_law(probability, reward, n), torch.tensor(best_of_n_kl(n))
""",
    "q6": """
from minerva_lite.formulas.sequences import average_tokens, clipped_token_objective
from minerva_lite.formulas.sequences import kl_loss_terms, leave_one_out_advantage
def update(log_prob, behavior_log_prob, reference_log_prob, token, reward, group, eta):
    mask = (token == 1).cumsum(0) - (token == 1).long() == 0
    ratio = log_prob - behavior_log_prob.detach()
    gain = clipped_token_objective(ratio, leave_one_out_advantage(reward, group), 0.2, 0.2)
    price = kl_loss_terms(log_prob, reference_log_prob)[2]
    return average_tokens(gain - eta * price, mask, "token")
""",
}
