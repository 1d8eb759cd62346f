"""Answers to homework 3 of the example seed: wrong ones (edits of the reference), right ones, the package's own."""

ACCEPT = "gain >= 0.4 * fraction * expected"
MIXTURE = "(0.2 * old.exp() + 0.8 * log_policy.exp())"

WRONG = {
    "q2": {
        "no scale": [("metric = scale**0.75", "metric = torch.ones_like(scale)")],
        "the scale itself, no power": [("scale**0.75", "scale")],
        "the scale multiplies": [("metric = scale**0.75", "metric = scale**-0.75")],
        "the scale is missing in the new direction": [
            ("search = scaled + squared_next", "search = residual + squared_next")
        ],
        "the scale is missing in the first direction": [
            ("    search = scaled\n    for k", "    search = residual\n    for k")
        ],
        "plain squares in the lengths": [("squared_next = residual @ scaled", "squared_next = residual @ residual")],
        "damping by a multiple of the identity": [("damping * scale.sqrt() * vector", "damping * vector")],
        "no damping": [(" + damping * scale.sqrt() * vector", "")],
        "the root in the damping is missing": [("damping * scale.sqrt()", "damping * scale")],
        "the start itself, not the best multiple": [
            ("multiple = (target @ start) / (start @ image)", "multiple = 1.0")
        ],
        "the multiple upside down": [("(target @ start) / (start @ image)", "(start @ image) / (target @ start)")],
        "the first residual is the target": [
            ("multiple * start, target - multiple * image", "multiple * start, target")
        ],
        "stops by the norm without the scale": [
            (
                "squared <= tolerance * (target @ (target / metric))",
                "residual @ residual <= tolerance * (target @ target)",
            )
        ],
        "stops by the first residual": [
            ("    search = scaled\n    for k", "    search = scaled\n    first = squared\n    for k"),
            ("(target @ (target / metric))", "first"),
        ],
        "never stops early": [(" or (squared <= tolerance * (target @ (target / metric)))", "")],
        "the square of the tolerance": [("squared <= tolerance *", "squared <= tolerance**2 *")],
        "exactly at the tolerance goes on": [("squared <= tolerance *", "squared < tolerance *")],
        "one iteration too few": [("range(iterations)", "range(iterations - 1)")],
        "the direction's factor upside down": [("squared_next / squared *", "squared / squared_next *")],
        "directions are never mixed: steepest descent": [("scaled + squared_next / squared * search", "scaled")],
        "a product too many in every iteration": [
            ("residual = residual - length * image", "residual = target - matrix(solution)")
        ],
    },
    "q3": {
        "the old policy carries a gradient (fault 14)": [("old_logits.detach()", "old_logits")],
        "both sides live: the ratio is always 1 (fault 14)": [
            ("old_logits.detach().log_softmax(-1)", "logits.log_softmax(-1)")
        ],
        "the advantages carry a gradient": [("advantage.detach()", "advantage")],
        "ratios [N, 1] times advantages [N] (fault 15)": [(".squeeze(1)", "")],
        "the KL of a policy with itself (fault 19)": [
            ("(old.exp() * (old -", "(log_policy.detach().exp() * (log_policy.detach() -"),
            ("(0.2 * old.exp() +", "(0.2 * log_policy.exp() +"),
        ],
        "the shares of the mixture exchanged": [(MIXTURE, "(0.8 * old.exp() + 0.2 * log_policy.exp())")],
        "no mixture": [(MIXTURE, "log_policy.exp()")],
        "new first": [
            (
                "(old.exp() * (old - (0.2 * old.exp() + 0.8 * log_policy.exp()).log()))",
                "(log_policy.exp() * (log_policy - (0.2 * log_policy.exp() + 0.8 * old.exp()).log()))",
            )
        ],
        "the price is a reward (fault 28's cousin)": [("- price * distance", "+ price * distance")],
        "no price": [("gain * fixed - price * distance", "gain * fixed")],
        "a price without size": [("(weight * fixed.abs()).sum() / weight.sum()\n", "1.0\n")],
        "the mean advantage, not the mean size": [("(weight * fixed.abs())", "(weight * fixed)")],
        "the price without weights": [("(weight * fixed.abs()).sum() / weight.sum()\n", "fixed.abs().mean()\n")],
        "the mean divides by the number of rows": [
            ("price * distance)).sum() / weight.sum()", "price * distance)).mean()")
        ],
        "no weights": [("1.0 / (1.0 + 0.8 * time)", "torch.ones_like(time)")],
        "the ratio is not divided by the power": [("(ratio**0.6 - 1.0) / 0.6", "ratio**0.6 - 1.0")],
        "the plain ratio": [("(ratio**0.6 - 1.0) / 0.6", "ratio")],
        "minus 1 forgotten": [("(ratio**0.6 - 1.0) / 0.6", "ratio**0.6 / 0.6")],
        "a loss, not an objective": [("return (weight", "return -(weight")],
    },
    "q4": {
        "the fault as it was given (fault 14)": [("log_policy(theta).detach()", "log_policy(theta)")],
        "ratios [N, 1] times advantages [N] (fault 15)": [(".squeeze(1)", "")],
        "a search that wants a falling surrogate (fault 16)": [
            ("gain = surrogate(trial) - surrogate(theta)", "gain = surrogate(theta) - surrogate(trial)")
        ],
        "a step downhill (fault 16)": [(".sqrt() * direction", ".sqrt() * -direction")],
        "accepts what is positive (fault 17)": [(ACCEPT, "surrogate(trial) > 0.0")],
        "the KL of a policy with itself (fault 19)": [("mean_kl(old, theta)", "mean_kl(log_policy(theta), theta)")],
        "the last trial where none passes (fault 20)": [("return theta.detach()", "return trial.detach()")],
        "any gain will do": [(ACCEPT, "gain > 0.0")],
        "the whole step's gain is asked of a fraction": [(ACCEPT, "gain >= 0.4 * expected")],
        "no test of the KL": [("kl <= 2.0 * kl_bound and ", "")],
        "no slack": [("kl <= 2.0 * kl_bound", "kl <= kl_bound")],
        "no square root": [("(gradient @ direction)).sqrt()", "(gradient @ direction))")],
        "the 2 is missing": [("(2.0 * kl_bound / (gradient", "(kl_bound / (gradient")],
        "no damping": [(" + damping * torch.eye(len(theta))", "")],
        "the norm of the direction for its length in F": [
            ("(gradient @ direction)).sqrt()", "(direction @ direction)).sqrt()")
        ],
        "fractions from the second": [("0.7**j", "0.7**(j + 1)")],
        "one trial too few": [("range(5)", "range(4)")],
        "a sum, not a mean, in the KL": [("log_policy(point))).sum(-1).mean()", "log_policy(point))).sum(-1).sum()")],
    },
}

RIGHT = {
    "q2": {
        "in the new coordinates, word by word": """
def warm_cg(product, target, scale, start, damping, tolerance, iterations):
    root = scale ** 0.375
    M = lambda y: (product(y / root) + damping * scale.sqrt() * (y / root)) / root
    b, v = target / root, start * root
    Mv = M(v)
    x = v * (b @ v) / (v @ Mv)
    r = b - Mv * (b @ v) / (v @ Mv)
    p = r.clone()
    for _ in range(iterations):
        s = r @ r
        if s <= tolerance * (b @ b):
            break
        Mp = M(p)
        a = s / (p @ Mp)
        x, r = x + a * p, r - a * Mp
        p = r + (r @ r) / s * p
    return x / root
""",
        "conjugate by another formula": """
def warm_cg(operator, b, u, v, omega, tau, limit):
    w = u ** 0.75
    lift = lambda d: operator(d) + omega * torch.sqrt(u) * d
    image = lift(v)
    x = v * torch.dot(b, v) / torch.dot(v, image)
    r = b - image * torch.dot(b, v) / torch.dot(v, image)
    p = None
    enough = tau * sum(float(e) ** 2 / float(f) for e, f in zip(b, w))
    done = 0
    while done < limit and (r * r / w).sum() > enough:
        z = r / w
        p = z if p is None else z - (z @ Mp) / (p @ Mp) * p
        Mp = lift(p)
        a = (p @ r) / (p @ Mp)
        x, r, done = x + a * p, r - a * Mp, done + 1
    return x
""",
        "float32": """
def warm_cg(product, target, scale, start, damping, tolerance, iterations):
    b, u, v = target.float(), scale.float(), start.float()
    matrix = lambda d: product(d) + damping * u.sqrt() * d
    w, image = u.pow(0.75), matrix(v)
    c = (b @ v) / (v @ image)
    x, r = c * v, b - c * image
    p = z = r / w
    for _ in range(iterations):
        if r @ z <= tolerance * (b @ (b / w)):
            return x
        q = matrix(p)
        a = (r @ z) / (p @ q)
        old = r @ z
        x, r = x + a * p, r - a * q
        z = r / w
        p = z + (r @ z) / old * p
    return x
""",
        "a list of floats, loops": """
def warm_cg(product, target, scale, start, damping, tolerance, iterations):
    n = len(target)
    b, u, v = target.tolist(), scale.tolist(), start.tolist()
    dot = lambda p, q: sum(i * j for i, j in zip(p, q))
    def M(d):
        Fd = product(torch.tensor(d)).tolist()
        return [Fd[i] + damping * math.sqrt(u[i]) * d[i] for i in range(n)]
    image = M(v)
    c = dot(b, v) / dot(v, image)
    x, r = [c * e for e in v], [b[i] - c * image[i] for i in range(n)]
    over = lambda d: [d[i] / u[i] ** 0.75 for i in range(n)]
    p, s = over(r), dot(r, over(r))
    for _ in range(iterations):
        if s <= tolerance * dot(b, over(b)) or s == 0:
            break
        q = M(p)
        a = s / dot(p, q)
        x, r = [x[i] + a * p[i] for i in range(n)], [r[i] - a * q[i] for i in range(n)]
        s, before, z = dot(r, over(r)), s, over(r)
        p = [z[i] + s / before * p[i] for i in range(n)]
    return x
""",
        "numpy": """
def warm_cg(product, target, scale, start, damping, tolerance, iterations):
    import numpy as np
    b, u, v = target.numpy(), scale.numpy(), start.numpy()
    M = lambda d: product(torch.from_numpy(d)).numpy() + damping * np.sqrt(u) * d
    w, Mv = u**0.75, M(v)
    c = b @ v / (v @ Mv)
    x, r = c * v, b - c * Mv
    p = r / w
    for k in range(iterations):
        s = r @ (r / w)
        if s <= tolerance * (b @ (b / w)):
            break
        Mp = M(p)
        x, r = x + s / (p @ Mp) * p, r - s / (p @ Mp) * Mp
        p = r / w + r @ (r / w) / s * p
    return x
""",
    },
    "q3": {
        "probabilities and one-hot rows": """
def penalized_surrogate(new, old, a, A, n, beta):
    p, q = torch.softmax(new, 1), torch.softmax(old, 1).detach()
    hot = torch.nn.functional.one_hot(a, p.shape[1]).double()
    rho = (p * hot).sum(1) / (q * hot).sum(1)
    A = A.clone().detach()
    w = 1 / (1 + 0.8 * n)
    w = w / w.sum()
    D = torch.einsum("na,na->n", q, torch.log(q / (0.2 * q + 0.8 * p)))
    return w @ (A * (rho.pow(0.6) - 1) / 0.6) - beta * (w @ A.abs()) * (w @ D)
""",
        "loops over rows": """
def penalized_surrogate(logits, old_logits, action, advantage, time, kl_penalty):
    weights = [1 / (1 + 0.8 * t) for t in time.tolist()]
    whole = sum(weights)
    price = kl_penalty * sum(w * abs(a) for w, a in zip(weights, advantage.tolist())) / whole
    total = 0
    for t, w in enumerate(weights):
        p = logits[t].exp() / logits[t].exp().sum()
        q = old_logits[t].detach().exp() / old_logits[t].detach().exp().sum()
        gain = ((p[action[t]] / q[action[t]]) ** 0.6 - 1) / 0.6
        D = sum(q[a] * torch.log(q[a] / (0.2 * q[a] + 0.8 * p[a])) for a in range(len(p)))
        total = total + w * (gain * advantage[t].item() - price * D)
    return total / whole
""",
        "float32": """
def penalized_surrogate(logits, old_logits, action, advantage, time, kl_penalty):
    with torch.no_grad():
        q, A = old_logits.float().log_softmax(-1), advantage.float()
        w = 1 / (1 + 0.8 * time.float())
        w /= w.sum()
        price = kl_penalty * (w * A.abs()).sum()
    p = logits.float().log_softmax(-1)
    rows = torch.arange(len(A))
    gain = torch.expm1(0.6 * (p[rows, action] - q[rows, action])) / 0.6
    D = (q.exp() * (q - torch.logaddexp(q + math.log(0.2), p + math.log(0.8)))).sum(-1)
    return (w * (gain * A - price * D)).sum()
""",
        "distributions": """
def penalized_surrogate(logits, old_logits, action, advantage, time, kl_penalty):
    from torch.distributions import Categorical, kl_divergence
    new, old = Categorical(logits=logits), Categorical(logits=old_logits.detach())
    mixed = Categorical(probs=0.2 * old.probs + 0.8 * new.probs)
    ratio = torch.exp(new.log_prob(action) - old.log_prob(action))
    weight, size = (1 + 0.8 * time).reciprocal(), advantage.detach().abs()
    price = kl_penalty * torch.dot(weight, size) / weight.sum()
    rows = (ratio**0.6 - 1) / 0.6 * advantage.detach() - price * kl_divergence(old, mixed)
    return torch.dot(weight, rows) / weight.sum()
""",
    },
    "q4": {
        "closed forms": """
def trust_step(theta, phi, a, A, delta, omega):
    rows = torch.arange(len(a))
    def probs(point):
        return torch.softmax(phi @ point, 1)
    p = probs(theta)
    centered = phi - (p[..., None] * phi).sum(1, keepdim=True)
    g = (A[:, None] * centered[rows, a]).mean(0)
    F = torch.einsum("ta,tai,taj->ij", p, centered, centered) / len(a)
    x = torch.linalg.inv(F + omega * torch.eye(len(g))) @ g
    s = x * (2 * delta / (g @ x)) ** 0.5
    f = 1.0
    for _ in range(5):
        q = probs(theta + f * s)
        kl = (p * (p / q).log()).sum(1).mean()
        rise = (A * (q[rows, a] / p[rows, a] - 1)).mean()
        if kl <= 2 * delta and rise >= 0.4 * f * (g @ s):
            return theta + f * s
        f *= 0.7
    return theta
""",
        "torch's own Hessian": """
def trust_step(theta, features, action, advantage, kl_bound, damping):
    old = torch.log_softmax(features @ theta, -1)
    pick = lambda lp: lp.gather(1, action.unsqueeze(1)).flatten()
    L = lambda t: ((pick(torch.log_softmax(features @ t, -1)) - pick(old)).exp() * advantage).mean()
    def kl(t):
        new = torch.log_softmax(features @ t, -1)
        return torch.nn.functional.kl_div(new, old, reduction="batchmean", log_target=True)
    g = torch.autograd.functional.jacobian(L, theta)
    H = torch.autograd.functional.hessian(kl, theta) + damping * torch.eye(len(theta))
    x = torch.cholesky_solve(g[:, None], torch.linalg.cholesky(H))[:, 0]
    s = math.sqrt(2 * kl_bound / float(x @ H @ x)) * x
    fine = lambda f: kl(theta + f * s) <= 2 * kl_bound and L(theta + f * s) - L(theta) >= 0.4 * f * (g @ s)
    good = [0.7**j for j in range(5) if fine(0.7**j)]
    return theta + (good[0] if good else 0.0) * s
""",
        "float32": """
def trust_step(theta, features, action, advantage, kl_bound, damping):
    theta, features, advantage = theta.float(), features.float(), advantage.float()
    log_policy = lambda t: (features @ t).log_softmax(-1)
    old, rows = log_policy(theta), range(len(action))
    mean = (old.exp()[..., None] * features).sum(1)
    g = sum(advantage[t] * (features[t, action[t]] - mean[t]) for t in rows) / len(action)
    square = torch.einsum("ta,tai,taj->ij", old.exp(), features, features) - mean.T @ mean
    x = torch.linalg.solve(square / len(action) + damping * torch.eye(len(g), dtype=torch.float32), g)
    s = x * torch.sqrt(2 * kl_bound / (g @ x))
    for j in range(5):
        new = log_policy(theta + 0.7**j * s)
        kl = (old.exp() * (old - new)).sum() / len(action)
        gain = ((torch.expm1((new - old)[rows, action])) * advantage).mean()
        if kl <= 2 * kl_bound and gain >= 0.4 * 0.7**j * (g @ s):
            return theta + 0.7**j * s
    return theta
""",
        "numpy": """
def trust_step(theta, features, action, advantage, kl_bound, damping):
    import numpy as np
    theta, phi, a, A = (x.numpy() for x in (theta, features, action, advantage))
    def policy(t):
        e = np.exp(phi @ t - (phi @ t).max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)
    p, N = policy(theta), len(a)
    c = phi - np.einsum("ta,tai->ti", p, phi)[:, None]
    g = A @ c[np.arange(N), a] / N
    F = np.einsum("ta,tai,taj->ij", p, c, c) / N + damping * np.eye(len(theta))
    x = np.linalg.solve(F, g)
    s = x * np.sqrt(2 * kl_bound / (g @ x))
    for f in 0.7 ** np.arange(5):
        q = policy(theta + f * s)
        if (p * np.log(p / q)).sum() / N <= 2 * kl_bound and A @ (q / p - 1)[np.arange(N), a] / N >= 0.4 * f * (g @ s):
            return theta + f * s
    return theta
""",
    },
}

PACKAGE = {
    "q2": """
from minerva_lite.formulas.trust_region import conjugate_gradient
def warm_cg(product, target, scale, start, damping, tolerance, iterations):
    return conjugate_gradient(lambda v: product(v) + damping * v, target, iterations, tolerance=tolerance)
""",
    "q3": """
from minerva_lite.formulas.objectives import kl_penalty_loss
def penalized_surrogate(logits, old_logits, action, advantage, time, kl_penalty):
    log_policy, old = logits.log_softmax(-1), old_logits.detach().log_softmax(-1)
    log_ratio = (log_policy - old).gather(1, action[:, None]).squeeze(1)
    return -kl_penalty_loss(log_ratio, advantage.detach(), (old.exp() * (old - log_policy)).sum(-1), kl_penalty)
""",
    "q4": """
from minerva_lite.formulas.trust_region import conjugate_gradient, fisher_vector_product, full_step, line_search
def trust_step(theta, features, action, advantage, kl_bound, damping):
    theta = theta.clone().requires_grad_()
    log_policy = lambda point: (features @ point).log_softmax(-1)
    old, rows = log_policy(theta).detach(), torch.arange(len(action))
    surrogate = lambda point: ((log_policy(point) - old)[rows, action].exp() * advantage).mean()
    mean_kl = lambda point: (old.exp() * (old - log_policy(point))).sum(-1).mean()
    gradient = torch.autograd.grad(surrogate(theta), theta)[0]
    slope = torch.autograd.grad(mean_kl(theta), theta, create_graph=True)[0]
    product = lambda v: fisher_vector_product(slope, [theta], v, damping=damping)
    step = full_step(gradient, conjugate_gradient(product, gradient, len(theta)), kl_bound)
    start = surrogate(theta)
    evaluate = lambda f: (surrogate(theta + f * step) - start, mean_kl(theta + f * step))
    found = line_search(evaluate, float(gradient @ step), kl_bound=kl_bound)
    return (theta + found.fraction * step).detach()
""",
}
