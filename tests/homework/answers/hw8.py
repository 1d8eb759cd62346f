"""Answers to homework 8 of the example seed: right ones, and the package's own."""

RIGHT = {
    "q2": {
        "numpy for the returns, float32": """
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
        "numpy": """
    import numpy as np
    x = reward.numpy().reshape(group, -1)
    rest = (x.sum(0) - x) / (group - 1)
    heard = np.ptp(x, axis=0) > 0
    return np.where(heard, (x - rest) / max(heard.mean(), 1e-9), 0.0).ravel()
""",
    },
    "q4": {
        "a cross-entropy of two scores": """
    score = beta * torch.stack([chosen - reference_chosen.detach(), rejected - reference_rejected.detach()], 1)
    target = torch.tensor([[0.8, 0.2]]).expand(len(score), 2)
    each = torch.nn.functional.cross_entropy(score, target, reduction="none")
    return ((each - 0.5 * chosen / length_chosen) * weight).sum() / weight.sum()
""",
    },
    "q5": {
        "numpy": """
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
        "only the tokens that count": """
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
    paid = kl_rewards(log_prob, reference_log_prob, mask, reward, beta)
    returns = paid.flip(0).cumsum(0).flip(0)
    return -average_tokens(returns * log_prob, mask, "sequence")
""",
    "q3": """
    from minerva_lite.formulas.sequences import leave_one_out_advantage
    return leave_one_out_advantage(reward, group)
""",
    "q4": """
    from minerva_lite.formulas.preferences import dpo_loss
    return dpo_loss(chosen, rejected, reference_chosen, reference_rejected, beta)
""",
    "q5": """
    from minerva_lite.formulas.preferences import best_of_n_kl, best_of_n_law
    return best_of_n_law(probability, reward, n), torch.tensor(best_of_n_kl(n))
""",
    "q6": """
    from minerva_lite.formulas.sequences import average_tokens, clipped_token_objective
    from minerva_lite.formulas.sequences import kl_loss_terms, leave_one_out_advantage
    mask = (token == 1).cumsum(0) - (token == 1).long() == 0
    ratio = log_prob - behavior_log_prob.detach()
    gain = clipped_token_objective(ratio, leave_one_out_advantage(reward, group), 0.2, 0.2)
    price = kl_loss_terms(log_prob, reference_log_prob)[2]
    return average_tokens(gain - beta * price, mask, "token")
""",
}
