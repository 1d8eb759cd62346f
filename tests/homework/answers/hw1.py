"""Answers to homework 1 of the example seed: wrong ones (edits of the reference), right ones, the package's own."""

MOVE = "move = 0.7 * transition + 0.3 * torch.eye(states, dtype=reward.dtype).unsqueeze(1)"
DANGER = "torch.where(height < 0.0, 0.5 * gamma, gamma).unsqueeze(1)"
AGE = "weight[t] = torch.where(ended[t - 1], 1.0, gamma * weight[t - 1])"
RUNNING = "running = running.masked_fill(ended[t + k], 0.0)"
BASELINE = "baseline = 0.75 * guess + 0.25 * others(credit) / max(envs - 1, 1)"
RETURN = "return -mean_of(objective)"
SPREAD = "spread = mean_of((advantage - mean).square()).sqrt()"

WRONG = {
    "q2": {
        "the floor does not stick": [(MOVE, "move = transition")],
        "the two chances are exchanged": [
            (MOVE, MOVE.replace("0.7", "0.x").replace("0.3", "0.7").replace("0.x", "0.3"))
        ],
        "one stays in the successor, not in the state": [
            ("torch.eye(states, dtype=reward.dtype).unsqueeze(1)", "torch.eye(states).unsqueeze(0)")
        ],
        "the fee is paid out": [("pay = -0.65", "pay = 0.65")],
        "the fee counts the climb only": [(".abs()", ".clamp(min=0.0)")],
        "the fee is squared": [(".abs()", ".square()")],
        "the fee without the sticky floor": [('sax,sx->sa", move, pay', 'sax,sx->sa", transition, pay')],
        "the fee is discounted": [('einsum("sax,sx->sa", move, pay)', 'einsum("sax,sx->sa", move, discount * pay)')],
        "high ground is dangerous": [("height < 0.0", "height > 0.0")],
        "the danger lies in the successor": [(DANGER, DANGER.replace("unsqueeze(1)", "unsqueeze(0)"))],
        "the share replaces the discount": [("0.5 * gamma, gamma", "torch.tensor(0.5).double(), gamma")],
        "the successor of the old world": [('sax,sx,x->sa", move', 'sax,sx,x->sa", transition')],
        "the discount forgotten in the last line": [
            ('"sax,sx,x->sa", move, discount, value', '"sax,x->sa", move, value')
        ],
        "the chain backward: a visitation's system": [("- chain,", "- chain.T,")],
        "values where action values belong": [
            ('return earned + torch.einsum("sax,sx,x->sa", move, discount, value)', "return value")
        ],
        "thirty looks are not ten digits": [
            (
                "value = torch.linalg.solve(torch.eye(states, dtype=reward.dtype) - chain, (policy * earned).sum(-1))",
                "value = torch.zeros(states)\n"
                "    for _ in range(30):\n        value = (policy * earned).sum(-1) + chain @ value",
            )
        ],
    },
    "q3": {
        "ascent for descent": [("return -(weight", "return (weight")],
        "the baseline carries a gradient": [("value.detach()", "value")],
        "one reward too many": [("k < 4", "k <= 4")],
        "one reward too few": [("k < 4", "k < 3")],
        "no limit of the memory": [("if k < 4 else 0.0", "if k < 400 else 0.0")],
        "the next episode leaks in (fault 5)": [(RUNNING, "pass")],
        "the flag of the next row (fault 4)": [
            (RUNNING, RUNNING.replace("ended[t + k]", "ended[min(t + k + 1, steps - 1)]"))
        ],
        "the discount counts from the start of the batch": [("gamma**k if", "gamma ** (t + k) if")],
        "no discount": [("gamma**k if", "1.0 if")],
        "the shares are exchanged": [("0.75 * guess + 0.25 *", "0.25 * guess + 0.75 *")],
        "a mean that contains one's own credit": [
            ("others(credit) / max(envs - 1, 1)", "credit.mean(1, keepdim=True)")
        ],
        "the others' sum is divided by all": [("/ max(envs - 1, 1)", "/ envs")],
        "the others in time, not in environments": [("x.sum(1, keepdim=True) - x", "x.sum(0, keepdim=True) - x")],
        "the baseline is added": [("credit - baseline", "credit + baseline")],
        "the age goes on over an end": [(AGE, "weight[t] = gamma * weight[t - 1]")],
        "the age starts again one row early": [(AGE, AGE.replace("ended[t - 1]", "ended[t]"))],
        "divided by the weights": [("weight / weight.numel()", "weight / weight.sum()")],
        "divided by the number of steps": [("weight / weight.numel()", "weight / steps")],
        "a softmax over the environments": [("log_softmax(-1)", "log_softmax(1)")],
        "a column times a table (fault 15)": [
            (
                "return -(weight * (credit - baseline) * log_prob).sum()",
                "return -(weight * (credit - baseline).unsqueeze(-1) * log_prob.flatten()).sum() / weight.numel()",
            )
        ],
        "the probability, not its logarithm": [("log_softmax(-1)", "softmax(-1)")],
    },
    "q4": {
        "the fault as it was given: padding in the divisor": [
            (RETURN, "return -objective.masked_fill(~real, 0.0).mean()")
        ],
        "[N, 1] against [N] (fault 15)": [("value.squeeze(-1).detach()", "value.detach()")],
        "the policy's loss trains the critic": [(".detach()", "")],
        "padding enters the mean (fault 25)": [("mean = mean_of(advantage)", "mean = advantage.mean()")],
        "a price on doubt (fault 28)": [("log_prob + 0.05", "log_prob - 0.05")],
        "no mask at all": [(RETURN, "return -objective.mean()")],
        "the other rows": [("masked_fill(~real, 0.0)", "masked_fill(real, 0.0)")],
        "ascent for descent": [(RETURN, "return mean_of(objective)")],
        "the unbiased spread (fault 11)": [
            (SPREAD, "spread = (mean_of((advantage - mean).square()) * real.sum() / (real.sum() - 1)).sqrt()")
        ],
        "padding enters the spread": [(SPREAD, "spread = (advantage - mean).square().mean().sqrt()")],
        "the variance for the spread": [(".square()).sqrt()", ".square())")],
        "the floor is added": [("spread.clamp(min=0.2)", "(spread + 0.2)")],
        "no limit": [(".clamp(-1.2, 1.2)", "")],
        "limited before it is scaled": [
            (
                "((advantage - mean) / spread.clamp(min=0.2)).clamp(-1.2, 1.2)",
                "(advantage - mean).clamp(-1.2, 1.2) / spread.clamp(min=0.2)",
            )
        ],
        "the likeliest action, not the one taken": [
            ("log_policy[torch.arange(len(action)), action]", "log_policy.max(-1).values")
        ],
        "a softmax over the rows": [("log_softmax(-1)", "log_softmax(0)")],
        "the entropy carries no gradient": [("+ 0.05 * entropy", "+ 0.05 * entropy.detach()")],
    },
}

RIGHT = {
    "q2": {
        "iteration with loops": """
def quirky_q_value(P, r, h, pi, g):
    S, A = r.shape
    Q = torch.zeros(S, A)
    for sweep in range(900):
        V = [float((pi[s] * Q[s]).sum()) for s in range(S)] if sweep % 10 == 0 else (pi * Q).sum(1).tolist()
        V = torch.tensor(V)
        for s in range(S):
            factor = g if h[s] >= 0 else 0.5 * g
            gain = factor * V - 0.65 * (h - h[s]).abs()
            Q[s] = r[s] + 0.7 * P[s] @ gain + 0.3 * gain[s]
    return Q
""",
        "a system for pairs of state and action": """
def quirky_q_value(transition, reward, height, policy, gamma):
    S, A = reward.shape
    move = 0.7 * transition
    for s in range(S):
        move[s, :, s] += 0.3
    survive = torch.where(height < 0, 0.5, 1.0) * gamma
    pairs = torch.einsum("s,sax,xb->saxb", survive, move, policy).reshape(S * A, S * A)
    fee = 0.65 * torch.einsum("sax,sx->sa", move, torch.cdist(height[:, None], height[:, None], p=1))
    return torch.linalg.inv(torch.eye(S * A) - pairs).matmul((reward - fee).flatten()).view(S, A)
""",
        "float32": """
def quirky_q_value(transition, reward, height, policy, gamma):
    t, r, h, p = (x.float() for x in (transition, reward, height, policy))
    n = len(h)
    m = 0.7 * t + 0.3 * torch.eye(n, dtype=torch.float32)[:, None]
    own = r - 0.65 * (m * (h[None, :] - h[:, None]).abs()[:, None]).sum(-1)
    g = gamma * (1 - 0.5 * (h < 0).float())
    v = torch.zeros(n, dtype=torch.float32)
    for _ in range(600):
        v = (p * (own + g[:, None] * (m @ v))).sum(-1)
    return own + g[:, None] * (m @ v)
""",
        "numpy": """
def quirky_q_value(transition, reward, height, policy, gamma):
    import numpy as np
    P, r, h, pi = (x.numpy() for x in (transition, reward, height, policy))
    S = len(h)
    M = 0.7 * P + 0.3 * np.eye(S)[:, None, :]
    r = r - 0.65 * (M * np.abs(h[:, None] - h)[:, None]).sum(2)
    D = np.diag(np.where(h < 0, 0.5 * gamma, gamma))
    V = np.linalg.solve(np.eye(S) - D @ (pi[:, :, None] * M).sum(1), (pi * r).sum(1))
    return r + D @ (M @ V)
""",
    },
    "q3": {
        "loops and other names": """
def episode_loss(x, a, r, v, e, g):
    T, B = r.shape
    G = [[0.0] * B for _ in range(T)]
    age = [[0] * B for _ in range(T)]
    for i in range(B):
        for t in range(T):
            if t > 0 and not e[t - 1, i]:
                age[t][i] = age[t - 1][i] + 1
            for k in range(4):
                if t + k >= T:
                    break
                G[t][i] += g**k * r[t + k, i].item()
                if e[t + k, i]:
                    break
    total = 0.0
    for t in range(T):
        for i in range(B):
            rest = [G[t][j] for j in range(B) if j != i]
            b = 0.75 * v[t, i].item() + (0.25 * sum(rest) / len(rest) if rest else 0.0)
            total = total - g ** age[t][i] * (G[t][i] - b) * torch.log_softmax(x[t, i], 0)[a[t, i]]
    return total / (T * B)
""",
        "a matrix of who is in whose episode": """
def episode_loss(logits, action, reward, value, ended, gamma):
    T, B = reward.shape
    with torch.no_grad():
        number = torch.cat([torch.zeros(1, B, dtype=torch.int64), ended[:-1].long().cumsum(0)])
        ahead = torch.arange(T) - torch.arange(T)[:, None]
        kernel = torch.where((ahead >= 0) & (ahead < 4), gamma ** ahead.clamp(min=0).double(), 0.0)
        same = (number[:, None] == number[None]).double()
        G = torch.einsum("tu,tub,ub->tb", kernel, same, reward)
        age = torch.einsum("tu,tub->tb", (ahead < 0).double(), same)
        rest = torch.ones(B, B) - torch.eye(B)
        b = 0.75 * value + 0.25 * (G @ rest) / max(B - 1, 1)
        push = gamma**age * (G - b)
    losses = torch.nn.functional.cross_entropy(logits.reshape(T * B, -1), action.flatten(), reduction="none")
    return (losses * push.flatten()).mean()
""",
        "shifted sums": """
def episode_loss(logits, action, reward, value, ended, gamma):
    running, shifted, G = torch.ones_like(reward), reward.clone(), reward.clone()
    alive = (~ended).double()
    for k in range(1, 4):
        running = running * alive
        alive = torch.cat([alive[1:], torch.zeros_like(alive[:1])])
        shifted = torch.cat([shifted[1:], torch.zeros_like(shifted[:1])])
        G = G + gamma**k * running * shifted
    others = (G.sum(1, keepdim=True) - G) / max(1, G.shape[1] - 1)
    weights = [torch.ones_like(reward[0])]
    for flag in ended[:-1]:
        weights.append(torch.where(flag, torch.ones_like(reward[0]), gamma * weights[-1]))
    A = (G - 0.75 * value - 0.25 * others).detach()
    log_prob = torch.distributions.Categorical(logits=logits).log_prob(action)
    return -(torch.stack(weights) * A * log_prob).mean()
""",
        "float32": """
def episode_loss(logits, action, reward, value, ended, gamma):
    T, B = reward.shape
    r, v = reward.float(), value.detach().float()
    G, w = torch.zeros(T, B, dtype=torch.float32), torch.zeros(T, B, dtype=torch.float32)
    for i in range(B):
        first = 0
        for t in range(T):
            if ended[t, i] or t == T - 1:
                for s in range(first, t + 1):
                    G[s, i] = sum(gamma ** (u - s) * r[u, i] for u in range(s, min(t, s + 3) + 1))
                    w[s, i] = gamma ** (s - first)
                first = t + 1
    b = 0.75 * v + 0.25 * (G.sum(1)[:, None] - G) / max(B - 1, 1)
    logp = logits.float() - logits.float().logsumexp(-1, keepdim=True)
    chosen = (logp * torch.nn.functional.one_hot(action, logits.shape[-1])).sum(-1)
    return -(w * (G - b) * chosen).mean()
""",
    },
    "q4": {
        "the real rows alone": """
def padded_loss(logits, action, returns, value, real):
    logits, action, gap = logits[real], action[real], (returns - value.detach()[:, 0])[real]
    policy = torch.distributions.Categorical(logits=logits)
    credit = (gap - gap.mean()) / max(gap.std(unbiased=False).item(), 0.2)
    return -(credit.clip(-1.2, 1.2) * policy.log_prob(action)).mean() - 0.05 * policy.entropy().mean()
""",
        "loops": """
def padded_loss(x, a, G, V, real):
    rows = [i for i in range(len(a)) if real[i]]
    A = {i: G[i].item() - V[i].item() for i in rows}
    m = sum(A.values()) / len(rows)
    s = math.sqrt(sum((A[i] - m) ** 2 for i in rows) / len(rows))
    loss = 0.0
    for i in rows:
        c = max(-1.2, min(1.2, (A[i] - m) / max(s, 0.2)))
        logp = torch.log_softmax(x[i], 0)
        loss = loss - c * logp[a[i]] + 0.05 * (logp.exp() * logp).sum()
    return loss / len(rows)
""",
        "weights and a dot product": """
def padded_loss(logits, action, returns, value, real):
    w = real.double() / real.sum()
    with torch.no_grad():
        A = returns - value.flatten()
        A = A - w @ A
        C = torch.minimum(torch.tensor(1.2), torch.maximum(torch.tensor(-1.2), A / torch.sqrt(w @ A**2).clip(0.2)))
    log_pi = logits - logits.logsumexp(1, keepdim=True)
    H = torch.special.entr(log_pi.exp()).sum(1)
    return -w @ (C * log_pi.gather(1, action[:, None]).squeeze(1)) - 0.05 * (w @ H)
""",
        "float32": """
def padded_loss(logits, action, returns, value, real):
    n = int(real.sum())
    A = torch.where(real, returns - value.detach().squeeze(1), 0.0).float()
    mean = A.sum() / n
    spread = (((A - mean) ** 2)[real].sum() / n).sqrt()
    C = torch.clamp((A - mean) / torch.clamp(spread, min=0.2), -1.2, 1.2)
    p = logits.float().softmax(1)
    log_p = logits.float().log_softmax(1)
    rows = -C * log_p[range(len(C)), action] + 0.05 * (p * log_p).sum(1)
    return rows[real].sum() / n
""",
    },
}

PACKAGE = {
    "q2": """
from minerva_lite.worlds.tabular import TabularMDP
def quirky_q_value(transition, reward, height, policy, gamma):
    return TabularMDP(transition, reward, torch.full_like(height, 1 / len(height)), gamma).q_value(policy)
""",
    "q3": """
from minerva_lite.formulas.objectives import policy_gradient_loss
from minerva_lite.formulas.returns import discounted_returns, leave_one_out_baseline
def episode_loss(logits, action, reward, value, ended, gamma):
    nothing = torch.zeros_like(ended)
    returns = discounted_returns(reward, torch.zeros_like(reward), ended, nothing, gamma=gamma)
    baseline = leave_one_out_baseline(returns, ~nothing)
    log_prob = logits.log_softmax(-1).gather(-1, action.unsqueeze(-1)).squeeze(-1)
    return policy_gradient_loss(log_prob, returns - baseline)
""",
    "q4": """
from minerva_lite.formulas.objectives import normalize_advantage, policy_gradient_loss
def padded_loss(logits, action, returns, value, real):
    log_prob = logits.log_softmax(-1).gather(-1, action.unsqueeze(-1)).squeeze(-1)
    return policy_gradient_loss(log_prob, normalize_advantage(returns - value.squeeze(-1)))
""",
}
