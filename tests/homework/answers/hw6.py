"""Answers to homework 6 of the example seed: right ones, and the package's own."""

RIGHT = {
    "q2": {
        "numpy": """
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
    },
    "q3": {
        "only the kept, log-softmax": """
    with torch.no_grad():
        a, rho = advantage[kept], log_ratio[kept].exp()
        share = torch.where(a >= 0, torch.ones_like(a), torch.full_like(a, 0.05)) * 1.5 * rho / (1.5 + rho)
        share = share / share.sum()
        psi = torch.softmax(share.log() + a / eta, dim=0)
    dual = eps_eta * eta + eta * torch.logsumexp(share.log() + a / eta, 0)
    return dual - torch.dot(psi, log_prob[kept])
""",
    },
    "q4": {
        "ranks, softmax and log-sum-exp": """
    i = torch.arange(len(advantage))
    before = (advantage > advantage[:, None]) | (advantage == advantage[:, None]) & (i > i[:, None])
    k = math.ceil(kappa * eligible.sum().item())
    m = eligible & ((before & eligible).sum(1) < k)
    logits = (advantage / eta).masked_fill(~m, -torch.inf)
    psi = 0.9 * logits.softmax(0) + 0.1 * m / m.sum()
    return psi, eta * (eps_eta + logits.logsumexp(0) - math.log(k))
""",
    },
}

PACKAGE = {
    "q2": """
    from minerva_lite.formulas.duals import top_k_mask
    return top_k_mask(advantage.flatten(), eligible.flatten(), kappa).view_as(eligible)
""",
    "q3": """
    from minerva_lite.formulas.duals import vmpo_temperature_loss, vmpo_weights
    from minerva_lite.formulas.objectives import weighted_nll
    psi = vmpo_weights(advantage, kept, log_ratio, eta)
    return weighted_nll(log_prob, psi) + vmpo_temperature_loss(advantage, kept, log_ratio, eta, eps_eta)
""",
    "q4": """
    from minerva_lite.formulas.duals import top_k_mask, vmpo_temperature_loss, vmpo_weights
    kept, flat, eta = top_k_mask(advantage, eligible, kappa), torch.zeros_like(advantage), torch.tensor(eta)
    return vmpo_weights(advantage, kept, flat, eta), vmpo_temperature_loss(advantage, kept, flat, eta, eps_eta)
""",
}
