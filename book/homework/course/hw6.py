"""Homework 6: learning from the better half (chapters 7 and 7b)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from random import Random

import torch
from torch import Generator, Tensor

from .question import Assignment, Case, Code, Experiment, Fault, Written


def make(draw: Random) -> Assignment:
    return Assignment(
        name="hw6_vmpo",
        title="Homework 6: learning from the better half",
        chapters="chapters 7 and 7b",
        intro="V-MPO keeps some samples, weighs them, and asks a temperature how unequal the weights may be. What if one of the three is done otherwise?",
        questions=[cut_or_cap(draw), selection(draw), loss(draw), estep(draw), tails(draw)],
    )


def cut_or_cap(draw: Random) -> Written:
    return Written(
        name="q1",
        title="Cut or cap",
        points=5,
        minutes=45,
        goal="what keeping the best does to a target, by comparing it with an upper limit on every weight",
        text=r"""
Let $A_1 > A_2 > \dots > A_n$ be the advantages of a batch, best first, $2 \le k < n$ and $\eta > 0$. Call the distribution
$p_t = 1/n$ the batch. V-MPO *cuts*: $\psi^\mathrm{cut}_t = e^{A_t/\eta} / \sum_{u \le k} e^{A_u/\eta}$ for $t \le k$, and 0 for $t > k$. One could also
*cap*: no sample may weigh more than $1/k$, and within this limit

$$
\psi^\mathrm{cap} = \operatorname*{arg\,max}_\psi \Big[ \sum_t \psi_t A_t - \eta\, \mathrm{KL}(\psi \Vert p) \Big]
\quad \text{subject to} \quad \sum_t \psi_t = 1, \quad 0 \le \psi_t \le \tfrac1k .
$$

1. First without a price for the divergence: show that $\sum_t \psi_t A_t$ under these constraints is at most the mean of the $k$ largest
   advantages, and that only equal shares on those $k$ samples reach it.
2. Now with the price: show that $\psi^\mathrm{cap}_t = \min(1/k,\ \nu\, e^{A_t/\eta})$ for a number $\nu > 0$, and that exactly one $\nu$ makes these
   weights sum to 1.
3. Let $\mathrm{ESS}(\psi) = 1 / \sum_t \psi_t^2$. Show that at every temperature
   $\mathrm{KL}(\psi^\mathrm{cap} \Vert p) \le \log \frac nk \le \mathrm{KL}(\psi^\mathrm{cut} \Vert p)$ and $\mathrm{ESS}(\psi^\mathrm{cap}) \ge k \ge \mathrm{ESS}(\psi^\mathrm{cut})$.
4. Where do the two go as $\eta \to 0$ and as $\eta \to \infty$? Which target is a limit of both? One sample was very lucky: $A_1 \to \infty$, all else as it is. What is
   its weight in each?
""",
        solution=r"""
1. Subtract the mean of the $k$ best: $\sum_t \psi_t A_t - \frac1k \sum_{t \le k} A_t = \sum_{t \le k} (\psi_t - \frac1k) A_t + \sum_{t > k} \psi_t A_t$. In the first sum the
   brackets are at most 0 and $A_t \ge A_k$; in the second $\psi_t \ge 0$ and $A_t < A_k$. Put $A_k$ in for every $A_t$, which makes no term
   smaller: the whole is at most $A_k \big( \sum_t \psi_t - 1 \big) = 0$. Equality needs $\psi_t = 0$ for all $t > k$, where $A_t < A_k$ is strict; then the $k$
   weights that are left sum to 1 with none above $1/k$, so all are $1/k$.
2. *One* $\nu$: $S(\nu) = \sum_t \min(1/k, \nu e^{A_t/\eta})$ is continuous, $S(0) = 0$, and it rises strictly until all terms have reached the cap, where
   it is $n/k > 1$. So it passes 1 exactly once. *Optimal*: write $F(\psi) = \sum_t \psi_t A_t - \eta \sum_t \psi_t \log(n \psi_t)$, which is strictly concave, so
   it has at most one maximizer, and let $\psi$ be the weights with this $\nu$, all of them above 0. For any other allowed $\varphi$ concavity gives
   $F(\varphi) - F(\psi) \le \sum_t (\varphi_t - \psi_t) F_t$ with $F_t = A_t - \eta \log(n \psi_t) - \eta$. Where the cap does not bind, $\psi_t = \nu e^{A_t/\eta}$ and
   $F_t = -\eta \log(n\nu) - \eta =: c$, the same for all. Where it does, $\psi_t = 1/k \le \nu e^{A_t/\eta}$ makes $F_t \ge c$, and there $\varphi_t - \psi_t \le 0$. So the sum
   is at most $c \sum_t (\varphi_t - \psi_t) = c\,(1 - 1) = 0$.
3. Cap: $\mathrm{KL} = \sum_t \psi_t \log(n \psi_t) \le \sum_t \psi_t \log \frac nk = \log \frac nk$ and $\sum_t \psi_t^2 \le \frac1k \sum_t \psi_t = \frac1k$, both from $\psi_t \le \frac1k$ alone. Cut:
   $\mathrm{KL}(\psi \Vert p) = \mathrm{KL}(\psi \Vert \text{kept}) + \log \frac nk$, where a divergence is not negative; and with $k$ terms
   $1 = \big( \sum_{t \le k} \psi_t \big)^2 \le k \sum_t \psi_t^2$ (Cauchy-Schwarz).
4. Cut: all weight on the best sample as $\eta \to 0$; $1/k$ on each of the $k$ best as $\eta \to \infty$. Cap: as $\eta \to \infty$ only the divergence counts, and
   the batch itself, $1/n$ each, is allowed. As $\eta \to 0$ the price vanishes (it is at most $\eta \log \frac nk$ by 3), so the mean advantage tends to the
   maximum of part 1, which only equal shares on the $k$ best reach. That target is a limit of both: the capped target runs from the batch to
   the $k$ best as $\eta$ falls, and the cut one goes on from there to a single sample. The lucky sample's weight tends to 1 under the cut
   and to $1/k$ under the cap, which never allows more. (The maximum of part 1 is known as the expected shortfall, or CVaR, of the batch.)
""",
        rubric=r"""1 point for 1: the bound and the case of equality. 2 for 2: 1 for the form with a reason for the sign where the cap binds, 1 for
existence and uniqueness of $\nu$. 1 for 3: all four inequalities. 1 for 4: four limits, the target that is common to both, both weights of the lucky
sample.""",
    )


def spaced(generator: Generator, *shape: int, step: float = 0.05) -> Tensor:
    """Distinct advantages around 0 in random order, `step` apart, none of them at a multiple of `step`."""
    count = math.prod(shape)
    return ((torch.randperm(count, generator=generator) - count // 2 + 0.37) * step).double().reshape(shape)


def tied(generator: Generator, *shape: int) -> Tensor:
    """Advantages of which many are equal."""
    return 0.5 * torch.randint(-1, 2, shape, generator=generator).double() + 0.13


def coin(generator: Generator, chance: float, *shape: int) -> Tensor:
    return torch.rand(shape, generator=generator) < chance


def kept_by(
    rows: list[tuple],
    kappa: float,
    group: Callable,
    count: Callable,
    beats: Callable,
    guard: Callable,
    sizes: Callable = lambda eligible, everybody: (eligible, eligible),
) -> list[bool]:
    """For each sample (group's arguments, advantage, eligible, age, place) whether it is kept, by how many go before it.

    sizes: numbers of eligible samples and of all samples of a group -> what the count and what the guard take for n.
    """
    pools = defaultdict(list)
    for at, a, e, g, i in rows:
        pools[group(*at)].append((a, *beats(g, i), e))
    wanted = []
    for where, mine, able, age, place in rows:
        rivals = [rival[:-1] for rival in pools[group(*where)] if rival[-1]]
        rank = sum(rival > (mine, *beats(age, place)) for rival in rivals)
        counted, guarded = sizes(len(rivals), len(pools[group(*where)]))
        top = max(rivals, default=(mine,))[0]
        wanted.append(able and guard(rank, count(kappa * counted), guarded, mine, top))
    return wanted


def rows_of(advantage: Tensor, eligible: Tensor, age: Tensor) -> list[tuple]:
    """The samples of a batch as `kept_by` wants them."""
    steps, envs = advantage.shape
    values = zip(advantage.flatten().tolist(), eligible.flatten().tolist(), age.flatten().tolist(), strict=True)
    return [((i // envs, i % envs, g, steps), a, e, g, i) for i, (a, e, g) in enumerate(values)]


def telling(steps: int, envs: int, rule: dict[str, Callable], slips: list[tuple[int, dict]], lower: bool) -> dict:
    """A small batch on which the slips (weight, what is otherwise) give another mask than the rule: the best of 400."""
    random, best, fewest = Random(0), {}, math.inf
    for _ in range(400):
        likely, shift = (defaultdict(lambda of=of: random.choice(of)) for of in ([0.3, 0.6, 0.9], [0.0, 0.0, -1.0]))
        drawn = []
        for i in range(steps * envs):
            age = random.choice([0, 1, 1, 2])
            own = rule["group"](i // envs, i % envs, age, steps)
            able = random.random() < likely[own]
            value = random.choice([-0.5, 0.5, 0.5, 0.875]) + (shift[own] if lower else 0.0)
            drawn.append((value if able or random.random() < 0.5 else 9.0, able, age))
        advantage, eligible, age = (torch.tensor(column).view(steps, envs) for column in zip(*drawn, strict=True))
        kappa, rows = random.choice([0.375, 0.4375, 0.5, 0.5625, 0.625]), rows_of(advantage, eligible, age)
        right = kept_by(rows, kappa, **rule)
        blind = sum(weight * (kept_by(rows, kappa, **(rule | slip)) == right) for weight, slip in slips)
        # One slip is not in the rule: what is not eligible stands in the others' way.
        anybody = kept_by([(*row[:2], True, *row[3:]) for row in rows], kappa, **rule)
        blind += [x and row[2] for x, row in zip(anybody, rows, strict=True)] == right
        if blind < fewest:
            fewest = blind
            best = {"advantage": advantage.double(), "eligible": eligible, "age": age, "kappa": kappa}
        if not blind:
            break
    return best


def by_columns(rows: list[tuple]) -> list[tuple]:
    """The samples with places counted down the columns: a slip."""
    return [(at, *rest, at[1] * at[3] + at[0]) for at, *rest, _ in rows]


def edge(generator: Generator, steps: int, envs: int, rule: dict, slips: list[dict], values: list[float]) -> dict:
    """A batch full of ties, of those drawn the one on which the most of the slips give another mask; takes them off the list."""
    best: dict = {}
    unseen = slips
    for _ in range(30):
        pick = torch.randint(len(values), (steps, envs), generator=generator)
        given = {
            "advantage": torch.tensor(values).double()[pick],
            "eligible": coin(generator, [0.1, 0.5, 0.8][int(torch.randint(3, (), generator=generator))], steps, envs),
            "age": torch.randint(0, 3, (steps, envs), generator=generator),
            "kappa": [0.25, 0.43, 0.5, 0.59][int(torch.randint(4, (), generator=generator))],
        }
        rows = rows_of(given["advantage"], given["eligible"], given["age"])
        right = kept_by(rows, given["kappa"], **rule)
        blind = []
        for slip in slips:
            places = by_columns(rows) if slip is COLUMNS else rows
            if kept_by(places, given["kappa"], **(rule | slip)) == right:
                blind.append(slip)
        if not best or len(blind) < len(unseen):
            best, unseen = given, blind
        if not unseen:
            break
    slips[:] = unseen
    return best


COLUMNS: dict[str, Callable] = {}  # the slip of `by_columns`: another place, the same rule


def selection(draw: Random) -> Code:
    """The best of every group: four kinds of groups, three counts, four rules for ties, three exceptions."""
    margin, small = draw.choice([0.1, 0.25, 0.4]), draw.choice([3, 4])
    group_text, group_code, where, group = draw.choice([
        ("in every environment by itself: a group is a column of the batch", "index % advantage.shape[1]", "row", lambda t, b, age, steps: b),
        ("at every time step by itself: a group is a row of the batch", "index // advantage.shape[1]", "column", lambda t, b, age, steps: t),
        ("among samples of the same age: a group is all samples, of whatever row and column, that share a value of `age`", "old", "place", lambda t, b, age, steps: age),
        ("in each half of the rollout by itself: one group is all samples of rows with $2t < T$, the other all the rest", "(2 * (index // advantage.shape[1]) < len(advantage)).long()", "place", lambda t, b, age, steps: 2 * t < steps),
    ])  # fmt: skip
    count_text, whole, count_code, count = draw.choice([
        ("$k = \\max(1, \\lfloor \\kappa n \\rfloor)$", "$\\kappa n$", "max(1, math.floor(kappa * n))", lambda x: max(1, int(x))),
        ("$k = \\lceil \\kappa n \\rceil$", "$\\kappa n$", "math.ceil(kappa * n)", lambda x: int(x) + (x > int(x))),
        ("$k = \\max(1, \\lfloor \\kappa n + \\tfrac12 \\rfloor)$ ($\\kappa n$ rounded, halves up)", "$\\kappa n + \\tfrac12$", "max(1, math.floor(kappa * n + 0.5))", lambda x: max(1, int(x) + (x - int(x) >= 0.5))),
    ])  # fmt: skip
    age_text, place_text, flip_code, down, beats = draw.choice([
        ("larger", "later", ".flip(0)", True, lambda age, place: (age, place)),
        ("larger", "earlier", "", True, lambda age, place: (age, -place)),
        ("smaller", "later", ".flip(0)", False, lambda age, place: (-age, place)),
        ("smaller", "earlier", "", False, lambda age, place: (-age, -place)),
    ])  # fmt: skip
    # Within a group of one age only the place can decide, within a row only the column, within a column only the row.
    by_age = "" if group_code == "old" else f"the {age_text} age, and at equal age that of "
    tie_text = f"{by_age}the {place_text} {where}"
    tie_text += " (the place of row $t$ and column $b$ is $tB + b$)" if where == "place" else ""
    guard_text, guard_code, guard = draw.choice([
        (f"of these $k$, those with $A_t \\le -{margin}$ are dropped again, except the best one of the group, which is kept in any case", f"best = members[:k]\n        best = best[(flat[best] > -{margin}) | (best == members[0])]", lambda rank, k, n, mine, top: rank == 0 or (rank < k and mine > -margin)),
        (f"a group with fewer than {small} eligible samples keeps all of them", f"best = members[: k if n >= {small} else n]", lambda rank, k, n, mine, top: rank < k or n < small),
        ("a group whose largest eligible advantage is not above 0 keeps only its best one", "best = members[: k if flat[members[0]] > 0.0 else 1]", lambda rank, k, n, mine, top: rank < (k if top > 0 else 1)),
    ])  # fmt: skip

    rule = {"group": group, "count": count, "beats": beats, "guard": guard}

    def oracle(advantage, eligible, age, kappa):
        wanted = kept_by(rows_of(advantage, eligible, age), kappa, **rule)
        return torch.tensor(wanted).double().view(advantage.shape)

    # A ceiling beside a rounding counts less: with two halves, one of them an exception, no batch tells them and the floor apart.
    counts = [(2, lambda x: max(1, int(x))), (1, lambda x: int(x) + (x > int(x))), (1, lambda x: max(1, int(x + 0.5)))]
    slips = [(w, {"count": other}) for w, other in counts if any(other(x / 16) != count(x / 16) for x in range(1, 64))]
    slips += [(2, {"group": lambda t, b, age, steps: 0}), (2, {"guard": lambda rank, k, n, mine, top: rank < k})]
    slips += [(2, {"beats": lambda age, place: (beats(age, 0)[0], -beats(age, place)[1])})]
    if group_code != "old":
        slips += [(2, {"beats": lambda age, place: (-beats(age, 0)[0], beats(age, place)[1])})]
        slips += [(2, {"beats": lambda age, place: beats(0, place)})]
    shape = (6, 5) if where in ("row", "column") else (5, 4)

    # What the hidden cases must tell apart, too: exceptions at their edge, and another n.
    edges: list[dict] = [slip for _, slip in slips] + [{"count": lambda x: max(1, round(x))}]
    edges += [{"sizes": lambda eligible, everybody: (everybody, eligible)}]
    if "fewer" in guard_text:
        edges += [{"sizes": lambda eligible, everybody: (eligible, everybody)}]
        edges += [{"guard": lambda rank, k, n, mine, top, of=of: rank < k or n < of} for of in (small - 1, small + 1)]
    elif "above" in guard_text:
        edges += [{"guard": lambda rank, k, n, mine, top: rank < (k if top >= 0 else 1)}]
    else:
        edges += [{"guard": lambda rank, k, n, mine, top: rank == 0 or (rank < k and mine >= -margin)}]
        edges += [{"guard": lambda rank, k, n, mine, top: rank < k and (mine > -margin or mine == top)}]
    edges += [COLUMNS] if where == "place" else []
    edges += [{"group": lambda t, b, age, steps: 2 * t < steps - 1}] if "half" in group_text else []

    def cases(generator: Generator) -> list[Case]:
        made, unseen = [], list(edges)
        for name in ("ties and exceptions", "more ties and exceptions", "even more of them"):
            made.append(Case(name, edge(generator, 7, 5, rule, unseen, [0.5, 0.0, 0.0, -margin, -margin, -1.5])))
        for name, steps, envs, chance, kappa in (
            ("one row, all advantages equal", 1, 9, 0.8, 0.5),
            ("one environment, all advantages equal", 12, 1, 0.8, 0.37),
            ("everybody is eligible", 9, 5, 1.0, 0.5),
            ("many ties", 8, 5, 0.9, 0.37),
            ("few are eligible, and the best are not", 8, 4, 0.3, 0.25),
            ("four samples", 2, 2, 1.0, 0.25),
            ("nine samples, all advantages equal", 3, 3, 1.0, 0.25),
            ("a poor batch", 7, 4, 0.8, 0.75),
            ("a poor batch, all advantages equal", 6, 4, 0.9, 0.59),
            ("a tiny share", 5, 4, 1.0, 0.03),
        ):
            values = tied(generator, steps, envs) if "ties" in name else spaced(generator, steps, envs)
            eligible = coin(generator, chance, steps, envs)
            if "the best" in name:
                values = values + 500.0 * ~eligible
            if "poor" in name:
                values = values - 1.0
            if "equal" in name:
                values = torch.full_like(values, -0.63 if "poor" in name else 0.63)
            age = torch.randint(0, 4, (steps, envs), generator=generator)
            if "four" in name:
                age = torch.tensor([[1, 2], [2, 1]])
            if "nine" in name:
                age = torch.tensor([[1, 2, 3]] * 3)
            given = {"advantage": values, "eligible": eligible}
            made.append(Case(name, given | {"age": age, "kappa": kappa}))
        return made

    return Code(
        name="q2",
        title="The best of every group",
        points=5,
        minutes=25,
        goal="what a selection is made of: a pool, a count, an order, and somebody who breaks ties",
        text=rf"""
One cut through the whole batch may keep all of one environment and nothing of another. Write `select`, the mask of the
samples that are kept, with one cut for every group:

- the best are chosen {group_text};
- of the $n$ eligible samples of a group, those with the $k$ largest advantages are kept, {count_text};
- among equal advantages the better one is that of {tie_text};
- an exception: {guard_text}.

What is not eligible is never kept, does not count in $n$ and stands in nobody's way, however large its advantage. A group
without an eligible sample keeps nobody. ($0 < \kappa \le 1$, and in the hidden cases {whole} is either a whole number exactly or far from one.)
""",
        function="select",
        header='''def select(advantage, eligible, age, kappa):
    """The mask of the kept samples [T, B], bool. advantage [T, B] float; eligible [T, B] bool; age [T, B] int; kappa a number."""''',
        body=f"""    flat, able, old = advantage.flatten(), eligible.flatten(), age.flatten()
    index = torch.arange(len(flat))
    group = {group_code}
    kept = torch.zeros_like(able)
    for each in group[able].unique():
        members = index[(group == each) & able]{flip_code}
        n = len(members)
        k = {count_code}
        # Stable sorts, the most important key last.
        members = members[old[members].argsort(descending={down}, stable=True)]
        members = members[flat[members].argsort(descending=True, stable=True)]
        {guard_code}
        kept[best] = True
    return kept.reshape(eligible.shape)""",
        oracle=oracle,
        cases=cases,
        example=Case("example", telling(*shape, rule, slips, lower="fewer" not in guard_text)),
    )


def loss(draw: Random) -> Code:
    """Fit and dual at once: four kinds of importance weights, three soft masks, three normalizers."""
    cap, power = draw.choice([1.25, 1.5, 2.0]), draw.choice([0.5, 0.7, 0.8])
    share, width = draw.choice([0.05, 0.1, 0.2]), draw.choice([0.3, 0.5, 0.8])
    weight_text, weight_code, weigh = draw.choice([
        (f"$w_t = \\min(\\rho_t, {cap})$, a cap", f"log_ratio.clamp(max=math.log({cap}))", lambda r: min(r, cap)),
        (f"$w_t$ is $\\rho_t$ clipped to the range from $1/{cap}$ to ${cap}$", f"log_ratio.clamp(-math.log({cap}), math.log({cap}))", lambda r: max(1 / cap, min(r, cap))),
        (f"$w_t = \\rho_t^{{{power}}}$, a ratio made milder", f"{power} * log_ratio", lambda r: r**power),
        (f"$w_t = \\rho_t / (1 + \\rho_t / {cap})$, a soft cap", f"log_ratio - (1.0 + log_ratio.exp() / {cap}).log()", lambda r: r / (1 + r / cap)),
    ])  # fmt: skip
    mask_text, mask_code, soft = draw.choice([
        (f"$m_t = 1$ where a sample is kept, and ${share}$ where it is not: the rest is heard, but softly", f"torch.where(kept, 0.0, math.log({share}))", lambda kept, a, middle: 1.0 if kept else share),
        (f"$m_t = \\varsigma\\big((A_t - \\bar A) / {width}\\big)$ where a sample is kept, with the logistic function $\\varsigma(x) = 1 / (1 + e^{{-x}})$ and the mean $\\bar A$ of the kept samples' advantages (no kept sample lies more than ${20 * width:g}$ below it); $m_t = 0$ where it is not", f"torch.nn.functional.logsigmoid((advantage - advantage[kept].mean()) / {width}).masked_fill(~kept, -torch.inf)", lambda kept, a, middle: 1 / (1 + math.exp(-(a - middle) / width)) if kept else 0.0),
        (f"$m_t = 1$ where a sample is kept and $A_t \\ge 0$, ${share}$ where it is kept and $A_t < 0$, and 0 where it is not kept", f"torch.where(advantage < 0.0, math.log({share}), 0.0).masked_fill(~kept, -torch.inf)", lambda kept, a, middle: (share if a < 0 else 1.0) if kept else 0.0),
    ])  # fmt: skip
    total_text, total_code, total = draw.choice([
        ("$W = \\sum_t m_t w_t$: the log-sum is measured against the samples as they count", "base.logsumexp(0)", lambda base, w: math.fsum(base)),
        ("$W = \\sum_t w_t$ over **all** samples, with no $m_t$ in it: the log-sum is measured against the whole batch", "log_w.logsumexp(0)", lambda base, w: math.fsum(w)),
        ("$W = \\big(\\sum_t m_t w_t\\big)^2 / \\sum_t (m_t w_t)^2$: the log-sum is measured against the effective number of samples that count", "2.0 * base.logsumexp(0) - (2.0 * base).logsumexp(0)", lambda base, w: math.fsum(base) ** 2 / math.fsum(x * x for x in base)),
    ])  # fmt: skip

    def oracle(log_prob, advantage, kept, log_ratio, eta, eps_eta):
        a, logs, keeps, eta = advantage.tolist(), log_prob.tolist(), kept.tolist(), float(eta)
        middle = math.fsum(x for x, keep in zip(a, keeps, strict=True) if keep) / sum(keeps)
        w = [weigh(math.exp(x)) for x in log_ratio.tolist()]
        base = [soft(keep, x, middle) * y for keep, x, y in zip(keeps, a, w, strict=True)]
        top = max(x for x, y in zip(a, base, strict=True) if y > 0)
        mass = [y * math.exp((x - top) / eta) if y > 0 else 0.0 for x, y in zip(a, base, strict=True)]
        psi = [x / math.fsum(mass) for x in mass]
        level = eps_eta + math.log(math.fsum(mass)) - math.log(total(base, w))
        value = top + eta * level - math.fsum(x * y for x, y in zip(psi, logs, strict=True))
        slope = level - math.fsum(x * (y - top) / eta for x, y in zip(psi, a, strict=True))
        flat = torch.zeros_like(advantage)
        return torch.tensor(value).double(), torch.tensor(slope).double(), -torch.tensor(psi).double(), flat, flat

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, count, chance, spread, eta in (
            ("ordinary", 12, 0.5, 0.4, 0.7),
            ("one sample", 1, 1.0, 0.4, 0.7),
            ("few are kept", 9, 0.2, 0.4, 1.3),
            ("on-policy", 10, 0.5, 0.0, 0.5),
            ("ratios far from 1", 14, 0.6, 1.6, 0.9),
            ("a low temperature", 10, 0.5, 0.4, 0.04),
            ("advantages around -900, one of 0 that is not kept", 8, 0.6, 0.4, 0.8),
            ("advantages around 900", 8, 0.6, 0.4, 0.8),
            ("one is far above the others", 8, 0.6, 0.4, 0.02),
        ):
            advantage, kept = spaced(generator, count, step=0.15), coin(generator, chance, count)
            kept[-1] = True  # somebody is
            if name == "on-policy":
                advantage[-1] = 0.0
            if "around" in name or "far above" in name:  # eighths are exact in float32, and so is the mean of four
                level = -900.0 if "-900" in name else 900.0 if "900" in name else -5.0
                advantage = level + 0.125 * torch.randperm(count, generator=generator).double()
                kept = torch.arange(count) % 2 == 1
            if "one of 0" in name:
                advantage[0] = 0.0625
            if "far above" in name:
                advantage[1] = 15.0
            log_prob, noise = torch.randn(2, count, generator=generator, dtype=torch.float64)
            given = {"log_prob": log_prob - 1.0, "advantage": advantage, "kept": kept, "log_ratio": spread * noise}
            made.append(Case(name, given | {"eta": torch.tensor(eta).double(), "eps_eta": 0.1}))
        return made

    return Code(
        name="q3",
        title="A softer E-step, and what may feel it",
        points=6,
        minutes=35,
        goal="where a weight enters the target and its dual, and which of them may carry a gradient",
        text=rf"""
Write `vmpo_loss`, a fitting loss plus the temperature's loss,

$$
L = -\sum_t \psi_t \log \pi_\theta(a_t \mid s_t) + \eta \Big( \varepsilon_\eta + \log \sum_t m_t\, w_t\, e^{{A_t/\eta}} - \log W \Big), \qquad
\psi_t = \frac{{m_t\, w_t\, e^{{A_t/\eta}} }}{{\sum_u m_u\, w_u\, e^{{A_u/\eta}} }} .
$$

- Importance weights, from $\log \rho_t$ (`log_ratio`): {weight_text}.
- A soft mask: {mask_text}. (Any samples may be kept; `kept` says which. At least one is.)
- The normalizer: {total_text}.
- Only two inputs may feel this loss: $\log \pi_\theta$ through the fit, with the $\psi_t$ **taken as constants**, and $\eta$ through the
  temperature's loss. No gradient reaches the advantages or the log-ratios, by any way. The hidden cases look at the
  gradients by `eta`, `log_prob`, `advantage` and `log_ratio`, in this order.

Advantages may be as large as $1200\,\eta$ in absolute value, all of them at once, and a sample with $m_t = 0$ may lie far above all others.
""",
        function="vmpo_loss",
        header='''def vmpo_loss(log_prob, advantage, kept, log_ratio, eta, eps_eta):
    """The loss, a scalar tensor. log_prob, advantage, log_ratio: [N]; kept: [N] bool; eta: a scalar tensor; eps_eta: a number."""''',
        body=f"""    advantage, log_ratio = advantage.detach(), log_ratio.detach()
    log_w = {weight_code}
    log_m = {mask_code}
    base = log_m + log_w
    counts = base > -torch.inf
    top = advantage[counts].max()
    logits = (advantage - top).masked_fill(~counts, 0.0) / eta + base
    psi = logits.detach().softmax(0)
    log_total = {total_code}
    dual = top + eta * (eps_eta + logits.logsumexp(0) - log_total)
    return dual - (psi * log_prob).sum()""",
        oracle=oracle,
        cases=cases,
        example=Case(
            "example",
            {
                "log_prob": torch.tensor([-1.0, -0.5, -2.0, -1.5]).double(),
                "advantage": torch.tensor([0.5, -0.25, 1.0, -1.0]).double(),
                "kept": torch.tensor([True, True, True, False]),
                "log_ratio": torch.tensor([0.0, 0.875, -0.875, 0.25]).double(),
                "eta": torch.tensor(0.5).double(),
                "eps_eta": 0.1,
            },
        ),
        leaves=("eta", "log_prob", "advantage", "log_ratio"),
    )


def estep(draw: Random) -> Code:
    """Find the bug: selection, weights with a share of equal ones, and the temperature's loss."""
    mix = draw.choice([0.1, 0.2, 0.25, 0.3])
    count_text, count_code, count = draw.choice([
        ("k = \\max(1, \\lfloor \\kappa n \\rfloor)", "max(1, math.floor(kappa * n))", lambda x: max(1, int(x))),
        ("k = \\lceil \\kappa n \\rceil", "math.ceil(kappa * n)", lambda x: int(x) + (x > int(x))),
        ("k = \\min(n, \\lfloor \\kappa n \\rfloor + 1)", "min(n, math.floor(kappa * n) + 1)", None),
    ])  # fmt: skip
    tie_text, flip_code, sign = draw.choice([("the lower index", "", -1), ("the higher index", ".flip(0)", 1)])

    def oracle(advantage, eligible, eta, eps_eta, kappa):
        able = [(float(advantage[t]), sign * t, t) for t in range(len(advantage)) if eligible[t]]
        n = len(able)
        k = count(kappa * n) if count else min(n, int(kappa * n) + 1)
        places = [t for _, _, t in sorted(able, reverse=True)[:k]]
        values = [float(advantage[t]) for t in places]
        log_sum = values[0] / eta  # the log of a sum of exponentials, one after the other
        for x in values[1:]:
            low, high = sorted((log_sum, x / eta))
            log_sum = high + math.log1p(math.exp(low - high))
        psi = torch.zeros(len(advantage)).double()
        for t, mine in zip(places, values, strict=True):
            psi[t] = (1 - mix) * math.exp(mine / eta - log_sum) + mix / k
        return psi, torch.tensor(eta * (eps_eta + log_sum - math.log(k))).double()

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, count_, chance, eta, kappa in (
            ("no ties", 11, 1.0, 0.6, 0.5),
            ("some are not eligible", 16, 0.6, 0.4, 0.37),
            ("one sample", 1, 1.0, 0.7, 0.5),
            ("all are kept", 7, 1.0, 1.1, 1.0),
            ("ties where the cut is", 12, 1.0, 0.5, 0.5),
            ("a restarting row of 0 among advantages of -900", 10, 1.0, 0.9, 0.5),
            ("one is far above the others", 6, 1.0, 0.5, 1.0),
        ):
            advantage, eligible = spaced(generator, count_, step=0.15), coin(generator, chance, count_)
            if "far above" in name:
                advantage[3] = 2000.0
            eligible[-1] = True
            if "ties" in name:
                places = torch.tensor([2.0, 1.5] + [1.0] * 8 + [0.5, -1.0]).double()
                advantage = places[torch.randperm(count_, generator=generator)]
            if "900" in name:  # eighths are exact in float32
                advantage = -900.0 + 0.125 * torch.randperm(count_, generator=generator).double()
                advantage[2], eligible[2] = 0.0, False
            made.append(
                Case(name, {"advantage": advantage, "eligible": eligible, "eta": eta, "eps_eta": 0.1, "kappa": kappa})
            )
        return made

    fault = draw.choice([
        Fault("the temperature's loss is not masked", "mass[kept].mean()", "mass[eligible].mean()", "errata, fault 25: weights masked by top-k, temperature loss not"),
        Fault("the maximum over all samples", "advantage[kept].max()", "advantage.max()", "errata, fault 26: rlax hides the underflow behind 1e-10; without such a term the loss is NaN"),
        Fault("ties at the threshold are all kept", "chosen = ranked[:k]", "chosen = ranked[advantage[ranked] >= advantage[ranked[k - 1]]]", "errata, fault 27: a mask by threshold, of several V-MPO codes"),
        Fault("weights in one order, places in another", "psi[chosen] =", "psi[kept] =", "no public report known to us: what torch.topk and a boolean mask do to each other, as one is sorted and the other is not"),
    ])  # fmt: skip
    return Code(
        name="q4",
        title="Find the bug: a target that is not the one on paper",
        points=4,
        minutes=20,
        goal="to ask of every maximum, every mean and every count over whom it is taken",
        text=rf"""
`faulty_estep` is meant to compute V-MPO's weights, mixed with equal ones so that nobody who is kept goes unheard, and the
temperature's loss:

$$
\psi_t = m_t \Big[ (1 - {mix})\, \frac{{e^{{A_t/\eta}} }}{{\sum_u m_u\, e^{{A_u/\eta}} }} + \frac{{{mix}}}{{k}} \Big], \qquad
g = \eta \Big( \varepsilon_\eta + \log \frac1k \sum_t m_t\, e^{{A_t/\eta}} \Big) .
$$

Here $m_t = 1$ for exactly the $k$ largest advantages of the $n$ eligible samples, ${count_text}$, where equal advantages go to
{tie_text}. Both results must be finite for any finite advantages. One line holds a mistake that is easily made in real code. Find it,
and write the function as it should be, as `estep`. The example below passes with the mistake in.
""",
        function="estep",
        header='''def estep(advantage, eligible, eta, eps_eta, kappa):
    """psi [N] and the scalar g, in this order. advantage: [N]; eligible: [N] bool; eta, eps_eta, kappa: numbers."""''',
        body=f"""    able = eligible.nonzero().flatten(){flip_code}
    n = len(able)
    k = {count_code}
    ranked = able[advantage[able].argsort(descending=True, stable=True)]
    chosen = ranked[:k]
    kept = torch.zeros_like(eligible)
    kept[chosen] = True
    shift = advantage[kept].max() / eta
    mass = (advantage / eta - shift).exp()
    psi = torch.zeros_like(advantage)
    psi[chosen] = {mix} / k + (1 - {mix}) * mass[chosen] / mass[chosen].sum()
    log_mean = shift + mass[kept].mean().log()
    return psi, eta * (eps_eta + log_mean)""",
        oracle=oracle,
        cases=cases,
        example=Case(
            "example",
            {
                "advantage": torch.tensor([1.0, 2.0, 0.5, 0.0, -0.75]).double(),
                "eligible": torch.tensor([True, False, True, True, True]),
                "eta": 0.5,
                "eps_eta": 0.1,
                "kappa": 1.0,
            },
        ),
        fault=fault,
    )


def tails(draw: Random) -> Experiment:
    light, heavy, eps_eta = draw.choice([0.4, 0.5, 0.6]), draw.choice([1.5, 1.75, 2.0]), draw.choice([0.05, 0.1, 0.2])
    return Experiment(
        name="q5",
        title="Which tail does the temperature see?",
        points=5,
        minutes=45,
        goal="why a temperature found on the whole batch does not fit its better part, and on which side it misses",
        text=rf"""
Take $n = 4000$ advantages with no randomness in them, $A_t = (-\log u_t)^p$ with $u_t = (t + \tfrac12) / n$ for $t = 0, \dots, n - 1$, best first. (Their mean is not 0;
the weights do not mind.) At $p = 1$ these are the quantiles of an exponential distribution, at $p = {light}$ the tail is lighter, at
$p = {heavy}$ heavier. Keep the best $k = \lfloor \kappa n \rfloor$ of them; all importance weights are 1. Let $\eta^\star(\kappa)$ be the temperature at which the
weights are exactly $\varepsilon_\eta = {eps_eta}$ nats from equal shares on the kept samples. (The divergence falls in $\eta$, so bisection finds it.)

Draw one figure of two panels, with a line for each of the three $p$, against $\kappa$ from 0.05 to 1 on a logarithmic axis:
left $\eta^\star(\kappa)$, logarithmic too; right the divergence of the weights **in use** from the kept samples if the temperature was found over
the whole batch, $\eta^\star(1)$, and then serves the weights of the best $k$. Mark $\varepsilon_\eta$ on the right. Axes need names.

Then answer in at most six sentences: on which side of the bound does each line on the right lie? Why does one of them hardly
care about $\kappa$? How do the two panels belong together, and which fault of the errata does the right one show?
""",
        code=f"""n, eps_eta = 4000, {eps_eta}
u = (torch.arange(n) + 0.5) / n


def realized(top, eta):  # KL of the weights from equal shares on the kept, nats
    psi = ((top - top.max()) / eta).softmax(0)
    return (torch.xlogy(psi, psi).sum() + math.log(len(top))).item()


def best_eta(top):
    low, high = 1e-4, 1e4
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if realized(top, middle) > eps_eta else (low, middle)
    return middle


kappas = torch.logspace(math.log10(0.05), 0, 20).clamp(max=1.0).tolist()
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.5))
for p in ({light}, 1.0, {heavy}):
    advantage = (-u.log()) ** p
    tops = [advantage[: math.floor(kappa * n + 1e-9)] for kappa in kappas]
    left.plot(kappas, [best_eta(top) for top in tops], label=f"p = {{p}}")
    whole = best_eta(advantage)
    right.plot(kappas, [realized(top, whole) for top in tops], label=f"p = {{p}}")
right.axhline(eps_eta, color="black", linestyle=":", label="bound")
left.set(xlabel="share kept, kappa", ylabel="temperature that meets the bound", xscale="log", yscale="log")
right.set(xlabel="share kept, kappa", ylabel="KL to the kept at eta*(1), nats", xscale="log", yscale="log")
left.legend()
right.legend()
figure.tight_layout()
plt.show()""",
        solution=rf"""
The line of the light tail ($p = {light}$) lies below the bound, further with every sample that is dropped; that of $p = 1$ stays near it,
a little below; that of the heavy tail ($p = {heavy}$) lies above. The reason is the shape of what a cut leaves over. Above any
threshold an exponential distribution is the same exponential again, only shifted, and weights do not notice a shift: at $p = 1$ the
temperature that fits the whole fits the better part too, but for the finite batch, whose far tail ends earlier when fewer are left.
A lighter tail is narrower above a threshold than the whole, so $\eta^\star$ falls as $\kappa$ falls; a heavier one is wider, and $\eta^\star$ rises.
The divergence falls in $\eta$, so the right line is below the bound exactly where $\eta^\star(\kappa) < \eta^\star(1)$ on the left, and above it where
$\eta^\star(\kappa) > \eta^\star(1)$. This is fault 25: the mask stands in the weights and not in the temperature's loss.
""",
        rubric="""2 points: a figure of two panels with all lines and named axes, right in its numbers (at kappa = 1 all lines on the right meet at
the bound). 1: the side of each line (for
p = 1 "on it" and "just below it" are both right). 1: a cut exponential is a shifted exponential, lighter tails get narrower and heavier ones wider.
1: the link of the panels through the monotone divergence, and fault 25 by its nature.""",
    )
