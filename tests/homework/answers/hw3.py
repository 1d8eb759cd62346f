"""Answers to homework 3 of the example seed: right ones, and the package's own."""

RIGHT = {
    "q2": {
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
    },
    "q4": {
        "numpy": """
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
    return conjugate_gradient(lambda v: product(v) + damping * v, target, iterations, tolerance=tolerance)
""",
    "q3": """
    from minerva_lite.formulas.objectives import kl_penalty_loss
    log_policy, old = logits.log_softmax(-1), old_logits.detach().log_softmax(-1)
    log_ratio = (log_policy - old).gather(1, action[:, None]).squeeze(1)
    return -kl_penalty_loss(log_ratio, advantage.detach(), (old.exp() * (old - log_policy)).sum(-1), kl_penalty)
""",
    "q4": """
    from minerva_lite.formulas.trust_region import conjugate_gradient, fisher_vector_product, full_step, line_search
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
