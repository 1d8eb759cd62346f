"""Answers to homework 4 of the example seed: right ones, and the package's own."""

RIGHT = {
    "q2": {
        "inside and beyond added up": """
    with torch.no_grad():
        sign = torch.where(advantage < 0, -1.0, 1.0)
        end = torch.where(advantage < 0, 1 - clip_eps, 1 + 0.4 * clip_eps)
        w = torch.pow(torch.tensor(0.8), torch.arange(log_prob.shape[0])).unsqueeze(1).expand_as(log_prob) * eligible
        w = w / w.sum() * advantage
    rho = torch.exp(log_prob - behavior_log_prob.detach())
    beyond = torch.relu(sign * (rho - end))
    return torch.einsum("tb,tb->", w, rho - sign * beyond + sign * 0.1 * torch.tanh(beyond / 0.1))
""",
    },
    "q3": {
        "numpy": """
    import numpy as np
    u, a, v = log_ratio.numpy(), advantage.numpy(), valid.numpy()
    r = np.exp(u)
    kl = np.average(r * u - np.expm1(u), axis=1, weights=v)
    out = v * (np.abs(r - 1) > clip_eps)
    wrong = out * (np.sign(r - 1) == -np.sign(a))
    share = np.nan_to_num(wrong.sum(1) / np.maximum(out.sum(1), 1e-300))
    return np.array([kl, share, np.maximum.accumulate(kl)])
""",
    },
    "q4": {
        "numpy in float32": """
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
    log_ratio = log_prob - behavior_log_prob.detach()
    return ppo_clip_objective(log_ratio[eligible], advantage.detach()[eligible], clip_eps).mean()
""",
    "q3": """
    from minerva_lite.formulas.distributions import kl_estimates
    from minerva_lite.formulas.objectives import ppo_clip_fraction
    kl = torch.stack([kl_estimates(u[v])[2].mean() for u, v in zip(log_ratio, valid)])
    fraction = torch.stack([ppo_clip_fraction(u[v], clip_eps) for u, v in zip(log_ratio, valid)])
    return torch.stack([kl, fraction, kl.cummax(0).values])
""",
    "q4": """
    from minerva_lite.formulas.distributions import kl_estimates
    from minerva_lite.formulas.objectives import normalize_advantage, ppo_clip_objective
    objectives = torch.zeros(len(log_ratio))
    for k, v in enumerate(valid):
        if kl_estimates(log_ratio[k][v])[2].mean() > target_kl:
            break
        if v.sum() > 1:
            objectives[k] = ppo_clip_objective(log_ratio[k][v], normalize_advantage(advantage[k][v]), clip_eps).mean()
    return objectives
""",
}
