"""Answers to homework 4 of the example seed: wrong ones (edits of the reference), right ones, the package's own."""

END = "end = torch.where(good, 1.0 + 0.4 * clip_eps, 1.0 - clip_eps)"
PAST = "past = torch.where(good, ratio > end, ratio < end)"
WRONG_WAY = "wrong = outside & ~silent & (a != 0.0)"
STOP = "ended = (drift > 2.0 * target_kl).cumsum(0) > 0"
K3 = "average(torch.expm1(log_ratio) - log_ratio)"

WRONG = {
    "q2": {
        "ends of log-ratios (fault 13)": [
            (END, "end = torch.where(good, math.exp(0.4 * clip_eps), math.exp(-clip_eps))")
        ],
        "the factor at the lower end": [
            ("1.0 + 0.4 * clip_eps, 1.0 - clip_eps", "1.0 + clip_eps, 1.0 - 0.4 * clip_eps")
        ],
        "silent on both sides": [(PAST, "past = (ratio > 1.0 + 0.4 * clip_eps) | (ratio < 1.0 - clip_eps)")],
        "no mask": [("eligible * 0.8 **", "torch.ones_like(term) * 0.8 **")],
    },
    "q3": {
        "padding counts": [
            ("u, a = log_ratio[k][valid[k]], advantage[k][valid[k]]", "u, a = log_ratio[k], advantage[k]"),
        ],
        "no advantage is a wrong way": [(WRONG_WAY, "wrong = outside & ~silent")],
        "only what is out above": [(" | (ratio < 1.0 - clip_eps)\n", "\n")],
        "the largest of the last two": [("for row in rows])", "for row in rows[-1:]])")],
    },
    "q4": {
        "the spread of one row is NaN (fault 11)": [("(size - 1).clamp(min=1)", "(size - 1)")],
        "the last minibatch alone can be left out": [
            (STOP, "ended = (drift > 2.0 * target_kl) & (torch.arange(len(size)) + 1 == len(size))")
        ],
        "no slack": [("drift > 2.0 * target_kl", "drift > target_kl")],
        "the absolute value of k1's mean": [(K3, "average(log_ratio).abs()")],
    },
}

RIGHT = {
    "q2": {
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
    },
    "q3": {
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
    },
    "q4": {
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
