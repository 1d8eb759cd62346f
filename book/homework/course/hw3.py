"""Homework 3: trust regions (chapters 4 and 4b)."""

from __future__ import annotations

import math
from random import Random

import torch
from torch import Generator, Tensor

from .question import Assignment, Case, Code, Experiment, Fault, Written


def make(draw: Random) -> Assignment:
    return Assignment(
        name="hw3_trpo",
        title="Homework 3: steps one can trust",
        chapters="chapters 4 and 4b",
        intro="A step that may not cost anything, a solver that does not start from nothing, a price on the KL, a search that gives up: which promises of TRPO survive?",
        questions=[safe_step(draw), warm_cg(draw), penalized_surrogate(draw), trust_step(draw), promises(draw)],
    )


def normal(generator: Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def safe_step(draw: Random) -> Written:
    return Written(
        name="q1",
        title="A step that may not raise a cost",
        points=5,
        minutes=45,
        goal="to solve a trust region's problem with one more constraint, and to say which of its identities survive a truncated solver",
        text=r"""
Besides its rewards, an agent has a cost. Let $g \ne 0$ be the gradient of the surrogate and $h \ne 0$ the gradient of the
expected cost, both at the old parameters, and let $F$ be symmetric positive definite. We want the step $\Delta\theta$ that maximizes
$g^\top \Delta\theta$ subject to $\tfrac12 \Delta\theta^\top F \Delta\theta \le \delta_{\mathrm{KL}}$ **and** $h^\top \Delta\theta \le 0$. Write $x = F^{-1} g$ and
$y = F^{-1} h$.

1. In which case does TRPO's full step solve this problem as it is? Prove it.
2. In the other case, let $z = x - \frac{h^\top x}{h^\top y}\, y$. Show that $h^\top z = 0$ and $z^\top F z = g^\top z$. Then show that, as long as $z \ne 0$,
   the solution is $\Delta\theta^\star = \sqrt{2\,\delta_{\mathrm{KL}} / (g^\top z)}\; z$. A stationary point is not enough: prove that no admissible step gains more.
3. Let $\cos\alpha = g^\top F^{-1} h \,\big/ \sqrt{(g^\top F^{-1} g)(h^\top F^{-1} h)}$, the cosine of the angle between the two gradients as $F^{-1}$
   measures it. In part 2 it is positive (why?). Which share of the gain of TRPO's full step is left there, as a function of $\alpha$? What happens at
   $\cos\alpha = 1$?
4. Now $x$ and $y$ come from conjugate gradient, started at 0 and stopped after $k$ iterations each. Which of the statements
   $h^\top z = 0$, $z^\top F z = g^\top z$ still hold exactly? Give the one product with $F$ that mends what is broken.
""",
        solution=r"""
1. If $h^\top x \le 0$. The full step is a positive multiple of $x$, so it satisfies $h^\top \Delta\theta \le 0$. It is the best of all steps with
   $\tfrac12 \Delta\theta^\top F \Delta\theta \le \delta_{\mathrm{KL}}$, hence also the best of the fewer ones that satisfy the second constraint too.
2. Let $h^\top x > 0$, and $\nu = h^\top x / h^\top y$, which is positive as $h^\top y = h^\top F^{-1} h > 0$. Then
   $h^\top z = h^\top x - \nu\, h^\top y = 0$, and, with $F z = g - \nu h$, $z^\top F z = z^\top g - \nu\, z^\top h = g^\top z$.
   For any admissible $\Delta\theta$, since $\nu > 0$ and $h^\top \Delta\theta \le 0$,
   $g^\top \Delta\theta \le g^\top \Delta\theta - \nu\, h^\top \Delta\theta = (F z)^\top \Delta\theta$. Cauchy and Schwarz in the inner product of $F$ give
   $z^\top F \Delta\theta \le \sqrt{z^\top F z}\,\sqrt{\Delta\theta^\top F \Delta\theta} \le \sqrt{2\,\delta_{\mathrm{KL}}\; g^\top z}$. And $\Delta\theta^\star$ is admissible
   ($h^\top \Delta\theta^\star = 0$; $\tfrac12 \Delta\theta^{\star\top} F \Delta\theta^\star = \delta_{\mathrm{KL}}\, z^\top F z / g^\top z = \delta_{\mathrm{KL}}$) and reaches the right side:
   $g^\top \Delta\theta^\star = \sqrt{2\,\delta_{\mathrm{KL}}\; g^\top z}$.
3. $\cos\alpha$ has the sign of $g^\top F^{-1} h = h^\top x$, which is positive in part 2. As $g^\top y = h^\top x = g^\top F^{-1} h$,
   $g^\top z = g^\top x - (h^\top x)^2 / h^\top y = g^\top x\,(1 - \cos^2\alpha)$. TRPO gains $\sqrt{2\,\delta_{\mathrm{KL}}\; g^\top x}$, so the share is
   $\sin\alpha = \sqrt{1 - \cos^2\alpha}$. At $\cos\alpha = 1$ (equality in Cauchy and Schwarz) $h$ is a positive multiple of $g$ and $z = 0$: whatever gains costs.
   By the inequality of 2, $g^\top \Delta\theta \le 0$ for every admissible step, and standing still is best.
4. $h^\top z = 0$ holds for *any* $x$ and $y$ with $h^\top y \ne 0$, by the choice of $\nu$. The other breaks: truncated solutions keep
   $x^\top F x = g^\top x$ and $y^\top F y = h^\top y$, but $F z = g - \nu h$ is no longer true, since $x^\top F y$ is neither $h^\top x$ nor $g^\top y$ in
   general. One product $F z$ gives $z^\top F z$, and $\Delta\theta = \sqrt{2\,\delta_{\mathrm{KL}} / (z^\top F z)}\; z$ lies on the ellipsoid again. (That
   $g^\top z > 0$ is then to be checked as well.)
""",
        rubric=r"""1: 1 point, for the case and that a constraint which does not bind takes nothing away. 2: 2 points, one for the two identities, one for the
proof of optimality (a Lagrangian counts if the sign of both multipliers and concavity are used). 3: 1 point, the share and the case $\cos\alpha = 1$. 4: 1 point,
which one breaks, why, and the product $F z$.""",
    )


def warm_cg(draw: Random) -> Code:
    """Preconditioned conjugate gradient from a start: 81 forms, and their constants."""
    share, power, floor = draw.choice([0.7, 0.8, 0.9]), draw.choice([0.5, 0.75]), draw.choice([0.4, 0.5, 0.6])
    damping_text, damping_code, damped = draw.choice([
        ("$M = F + \\omega\\,\\mathrm{diag}(u)$ (damping after Levenberg and Marquardt)", "damping * scale", lambda u: u),
        ("$M = F + \\omega\\,\\bar u\\,I$, where $\\bar u$ is the mean of the entries of $u$", "damping * scale.mean()", lambda u: torch.full_like(u, sum(u.tolist()) / len(u))),
        ("$M = F + \\omega\\,\\mathrm{diag}(\\sqrt{u_1}, \\dots, \\sqrt{u_n})$", "damping * scale.sqrt()", lambda u: u**0.5),
    ])  # fmt: skip
    metric_text, metric_code, metric = draw.choice([
        (f"$w_i = u_i^{{{power}}}$", f"scale**{power}", lambda u, omega: u**power),
        ("$w_i = u_i + \\omega$ (really $\\omega$, whatever the damping adds to $F$)", "scale + damping", lambda u, omega: u + omega),
        (f"$w_i = \\max(u_i, {floor}\\,\\bar u)$, where $\\bar u$ is the mean of the entries of $u$", f"scale.clamp(min={floor} * scale.mean().item())", lambda u, omega: torch.tensor([max(e, floor * sum(u.tolist()) / len(u)) for e in u.tolist()], dtype=torch.float64)),
    ])  # fmt: skip
    start_text, start_code, begin = draw.choice([
        (f"$x_0 = {share}\\,v$", f"    solution = {share} * start\n    residual = target - matrix(solution)", lambda M, b, v: share * v),
        ("$x_0$ is the multiple of $v$ at which $\\varphi$ is smallest ($v$ is never 0)", "    image = matrix(start)\n    multiple = (target @ start) / (start @ image)\n    solution, residual = multiple * start, target - multiple * image", lambda M, b, v: v * (b @ v) / (v @ M @ v)),
        ("$x_0 = v$ if it is better than nothing, $\\varphi(v) < 0 = \\varphi(0)$, and $x_0 = 0$ otherwise", "    image = matrix(start)\n    keep = 1.0 if 0.5 * start @ image - target @ start < 0.0 else 0.0\n    solution, residual = keep * start, target - keep * image", lambda M, b, v: v if v @ M @ v / 2 - b @ v < 0 else 0 * v),
    ])  # fmt: skip
    stop_text, stop_code, rule = draw.choice([
        ("it stops, also before the first iteration, once $\\sum_i r_i^2 / w_i \\le \\tau \\sum_i b_i^2 / w_i$, with the residual $r = b - M x$", "squared <= tolerance * (target @ (target / metric))", "weighted"),
        ("it stops, also before the first iteration, once $\\max_i |r_i| \\le \\tau \\max_i |b_i|$, with the residual $r = b - M x$", "residual.abs().max() <= tolerance * target.abs().max()", "largest"),
        ("it stops after the first iteration that lowers $\\varphi$ by at most $\\tau$ times what all iterations so far, this one included, have lowered it by", "k > 0 and fallen[-1] <= tolerance * sum(fallen)", "progress"),
    ])  # fmt: skip

    fallen_code, lowered_code = (
        ("    fallen = []  # by how much each iteration lowered phi\n", "        fallen.append(0.5 * length * squared)\n") if rule == "progress" else ("", "")
    )  # fmt: skip

    def path(matrix, target, scale, start, damping, iterations):
        """M, w and what a minimizer over Krylov spaces finds after 0, 1, ... iterations."""
        M = matrix + torch.diag(damping * damped(scale))
        weight = metric(scale, damping)
        x0 = begin(M, target, start)
        r0, basis, xs = target - M @ x0, [], [x0]
        vector = r0 / weight
        for _ in range(iterations):
            size = vector.norm()
            for _ in range(2):
                for other in basis:
                    vector = vector - other * (other @ vector)
            if size < 1e-12 or vector.norm() < 1e-9 * size:
                xs.append(xs[-1])
                continue
            basis.append(vector / vector.norm())
            K = torch.stack(basis, 1)
            xs.append(x0 + K @ torch.linalg.solve(K.T @ M @ K, K.T @ r0))
            vector = (M @ basis[-1]) / weight
        return M, weight, xs

    def trace(matrix, target, scale, start, damping, tolerance, iterations):
        """The answer, k, and how far every test was from its threshold."""
        M, weight, xs = path(matrix, target, scale, start, damping, iterations)
        phi = lambda x: float(x @ M @ x / 2 - target @ x)  # noqa: E731
        away = 1.0
        for k, x in enumerate(xs):
            r = target - M @ x
            if r.norm() < 1e-12 * (1 + target.norm()):
                return x, k, away
            if rule == "weighted":
                share = float((r * r / weight).sum() / (target * target / weight).sum())
            elif rule == "largest":
                share = max(abs(e) for e in r.tolist()) / max(abs(e) for e in target.tolist())
            else:
                share = 2.0 if k == 0 else (phi(xs[k - 1]) - phi(x)) / (phi(xs[0]) - phi(x))
            away = min(away, abs(share / tolerance - 1.0))
            if share <= tolerance:
                return x, k, away
        return xs[-1], iterations, away

    def oracle(matrix, target, scale, start, damping, tolerance, iterations):
        x, _, _ = trace(matrix, target, scale, start, damping, tolerance, iterations)
        return x

    def blind(matrix, target, scale, start, damping, tolerance, iterations):
        """The tests like the right one, by name, that would give the same answer."""
        right, _, _ = trace(matrix, target, scale, start, damping, tolerance, iterations)
        M, weight, xs = path(matrix, target, scale, start, damping, iterations)
        values = [float(x @ M @ x / 2 - target @ x) for x in xs]
        fallen = [before - after for before, after in zip(values, values[1:], strict=False)]
        sizes = {
            "weighted": lambda r: float(r @ (r / weight)),
            "squares": lambda r: float(r @ r),
            "2-norm": lambda r: float(r.norm()),
            "1-norm": lambda r: float(r.abs().sum()),
            "largest": lambda r: float(r.abs().max()),
            "signed": lambda r: float(r.max()),
            "scaled": lambda r: float((r / weight.sqrt()).abs().max()),
        }
        left = {name: [size(target - M @ x) for x in xs] for name, size in sizes.items()}
        tests = {name: [x <= tolerance * size(target) for x in left[name]] for name, size in sizes.items()}
        if rule == "progress":
            tests = {"weighted": tests["weighted"]}
            tests["first"] = [k > 0 and fallen[k - 1] <= tolerance * fallen[0] for k in range(len(xs))]
            tests["before"] = [k > 1 and fallen[k - 1] <= tolerance * sum(fallen[: k - 1]) for k in range(len(xs))]
            tests["value"] = [k > 0 and fallen[k - 1] <= tolerance * abs(values[k]) for k in range(len(xs))]
        else:
            tests["first"] = [x <= tolerance * left[rule][0] for x in left[rule]]
            tests["absolute"] = [x <= tolerance for x in left[rule]]
        stops = {name: next((k for k, stop in enumerate(test) if stop), iterations) for name, test in tests.items()}
        return {name for name, k in stops.items() if name != rule and float((xs[k] - right).abs().max()) <= 1e-3}

    def drawn(generator: Generator, name: str, n: int, omega: float, tolerance: float, iterations: int) -> dict | None:
        """Inputs as the case's name wants them, and no test near its threshold; None if this draw has missed that."""
        basis, _ = torch.linalg.qr(normal(generator, n, n))
        matrix = basis @ torch.diag(1.0 + 7.0 * torch.rand(n, generator=generator, dtype=torch.float64)) @ basis.T
        matrix = (matrix + matrix.T) / 2
        scale = matrix.diagonal() * (0.3 + 1.4 * torch.rand(n, generator=generator, dtype=torch.float64))
        target, start = 2.0 * normal(generator, n), normal(generator, n)
        if n > 1 and not ((scale / scale.mean() - 1).abs().max() > 0.6 and (scale < 0.4 * scale.mean()).any()):
            return None
        M = matrix + torch.diag(omega * damped(scale))
        solution = torch.linalg.solve(M, target)
        if "wrong" in name:
            start = 0.3 * start - solution
        elif "nearly" in name:
            start = 0.1 * start + solution
        elif "enough" in name:  # what x_0 makes of it is
            start = solution * (solution @ solution) / (solution @ begin(M, target, solution)) + 0.04 * start
        elif "too far" in name:
            start = 0.8 * start + 1.2 * solution
        elif "nothing" in name:
            target = torch.zeros_like(target)
            start = start if begin(M, target, start).abs().max() == 0.0 else torch.zeros_like(start)
        value, image = float(start @ M @ start / 2 - target @ start), M @ start
        if "nothing" not in name and (abs(value) <= 0.05 or target.abs().max() <= 0.5):
            return None
        if "too far" in name:  # better than nothing, but not by its residual, nor by its slope
            longer = (target - image).norm() > 1.05 * target.norm() and start @ image > 1.05 * (target @ start)
            if value > 0.0 or not longer:
                return None
        given = {"matrix": matrix, "target": target, "scale": scale, "start": start, "damping": omega, "tolerance": tolerance, "iterations": iterations}  # fmt: skip
        x, count, away = trace(**given)
        if "enough" in name and rule != "progress":  # one more iteration would be seen
            more = path(matrix, target, scale, start, omega, 1)[2][1]
            away = away if count == 0 and float((more - x).abs().max()) > 1e-3 else 0.0
        if "tolerance" in name:
            away = away if 1 < count < 6 else 0.0
        return given if away > 0.03 else None

    def cases(generator: Generator) -> list[Case]:
        made, left = [], {"all"}  # the tests that no case tells from the right one yet
        for name, n, omega, tolerance, iterations in (
            ("one unknown", 1, 0.3, 1e-3, 1),
            ("stopped by the count", 9, 0.2, 1e-6, 3),
            ("stopped by the tolerance", 8, 0.1, 0.03, 8),
            ("stopped by a smaller tolerance", 7, 0.1, 0.01, 7),
            ("stopped by a larger tolerance", 6, 0.2, 0.3, 6),
            ("no damping", 6, 0.0, 1e-6, 4),
            ("much damping", 6, 3.0, 1e-6, 2),
            ("a start that points the wrong way", 7, 0.2, 1e-6, 3),
            ("a start that is nearly right", 7, 0.2, 1e-3, 5),
            ("a start that is right enough", 6, 0.2, 0.05, 3),
            ("a start too far in the right direction", 7, 0.2, 1e-6, 2),
            ("nothing is asked", 4, 0.2, 0.05, 3),
        ):
            best, least, tries = {}, {"all", "before"}, 1
            if "tolerance" in name:  # whether a sum has one term more, "before", is seen where the tolerance is large
                tries = 400 if rule == "progress" and "larger" in name else 10
            for tried in range(tries):
                given = None
                while given is None:
                    given = drawn(generator, name, n, omega, tolerance, iterations)
                same = blind(**given) if tries > 1 else left
                same = same if "all" in left else same & left
                if not best or ("before" in same, len(same)) < ("before" in least, len(least)):
                    best, least = given, same
                if not least or (tried >= 10 and "before" not in least):
                    break
            left = least
            made.append(Case(name, best))
        # Powers of two and small integers: exactly at a boundary in whatever order it is computed.
        size = 2.0 ** int(torch.randint(-2, 3, (1,), generator=generator))
        even = {"matrix": torch.tensor([[1.0, 0.0], [0.0, 3.0]]).double(), "target": size * torch.ones(2).double(), "scale": torch.ones(2).double()}  # fmt: skip
        start = size * torch.tensor([2.0, 0.0]).double()
        tried = even | {"start": start, "damping": 0.0, "tolerance": 1e-6, "iterations": 1}
        made.append(Case("a start exactly as good as nothing", tried))
        start = size * torch.tensor([1.0, -1.0]).double()
        start = start if begin(even["matrix"], even["target"], start).abs().max() == 0.0 else torch.zeros_like(start)
        tolerance = {"weighted": 0.25, "largest": 0.5, "progress": 1.0}[rule]
        tried = even | {"start": start, "damping": 0.0, "tolerance": tolerance, "iterations": 3}
        made.append(Case("exactly at the tolerance", tried))
        return made

    return Code(
        name="q2",
        title="Conjugate gradient that has been here before",
        points=6,
        minutes=60,
        goal="where a scale, a damping and a start enter conjugate gradient, and what each of them costs",
        text=rf"""
TRPO solves a similar system at every update. So let the solver start from the last solution $v$, and let it know the rough
size $u_i > 0$ of every diagonal entry of $F$ (both are cheap to keep). Write `warm_cg`, which solves $M x = b$ by conjugate
gradient. `product(z)` gives $F z$ for a float tensor $z$ `[n]`, **without** damping; $b$ is `target`, $u$ is `scale`, $v$ is `start`,
$\omega$ is `damping`, $\tau$ is `tolerance`. As in chapter 4b, $\varphi(x) = \tfrac12 x^\top M x - b^\top x$.

- **Damping**: {damping_text}.
- **Scale**: conjugate gradient works in the coordinates $\tilde x_i = \sqrt{{w_i}}\,x_i$ with {metric_text}. In these the
  system reads $\tilde M \tilde x = \tilde b$ with $\tilde M_{{ij}} = M_{{ij}} / \sqrt{{w_i w_j}}$ and $\tilde b_i = b_i / \sqrt{{w_i}}$. The answer is $x$ itself, in the
  old coordinates. (Written back, no square root is left in the iteration, and only a few letters change.)
- **Start**: {start_text}. The first direction is the first residual's, as in the chapter, in the new coordinates.
- **Stop**: after `iterations` iterations at the latest. Besides, {stop_text}. It also stops where the residual is
  exactly 0. (All this is said in the old coordinates: $x$, $b$ and $M$ bear no tilde.)

Products are dear: `product` can be called `iterations + 1` times, and the next call raises `StopIteration`.
""",
        function="warm_cg",
        header='''def warm_cg(product, target, scale, start, damping, tolerance, iterations):
    """x [n]. product: [n] to [n]; target, scale, start: [n]; damping and tolerance are numbers, iterations an int."""''',
        body=f"""    metric = {metric_code}

    def matrix(vector):
        return product(vector) + {damping_code} * vector

{start_code}
    scaled = residual / metric
    squared = residual @ scaled
    search = scaled
{fallen_code}    for k in range(iterations):
        if squared == 0.0 or ({stop_code}):
            break
        image = matrix(search)
        length = squared / (search @ image)
        solution = solution + length * search
        residual = residual - length * image
{lowered_code}        scaled = residual / metric
        squared_next = residual @ scaled
        search = scaled + squared_next / squared * search
        squared = squared_next
    return solution""",
        oracle=oracle,
        cases=cases,
        example=Case("example", {  # stops after one to three iterations; the chapter's rule, as a rule, elsewhere
            "matrix": torch.tensor([[4.0, 0.5, -0.5, 0.5], [0.5, 2.0, 0.0, -1.0], [-0.5, 0.0, 1.0, 0.5], [0.5, -1.0, 0.5, 2.0]]).double(),
            "target": torch.tensor([0.5, -1.0, 1.0, 4.0]).double(),
            "scale": torch.tensor([4.0, 3.0, 1.5, 1.0]).double(),
            "start": torch.tensor([-0.25, -0.75, 0.25, 0.5]).double(),
            "damping": 0.5,
            "tolerance": 0.1,
            "iterations": 4,
        }),
        call="""answer(
    lambda z, left=iter([matrix] * (iterations + 1)): next(left).to(z.dtype) @ z,
    target, scale, start, damping, tolerance, iterations,
)""",
    )  # fmt: skip


def softmax(row: list[float]) -> list[float]:
    top = max(row)
    mass = [math.exp(x - top) for x in row]
    return [m / sum(mass) for m in mass]


def penalized_surrogate(draw: Random) -> Code:
    """A surrogate less a price on the distance, with three treatments of each: 81 forms, and their constants."""
    power, cap = draw.choice([0.4, 0.5, 0.6]), draw.choice([1.3, 1.5, 1.8])
    mix, rate = draw.choice([0.2, 0.3, 0.4]), draw.choice([0.3, 0.5, 0.8])
    gain_text, gain_code, gain = draw.choice([
        (f"the ratio is flattened: $\\hat\\rho_t = (\\rho_t^{{{power}}} - 1) / {power}$", f"(ratio**{power} - 1.0) / {power}", lambda p, all: (p**power - 1) / power),
        (f"the ratio is capped: $\\hat\\rho_t = \\min(\\rho_t, {cap})$, whatever the sign of the advantage", f"ratio.clamp(max={cap})", lambda p, all: min(p, cap)),
        ("the ratio is normalized: $\\hat\\rho_t$ is $\\rho_t$ divided by the plain mean of all $\\rho_t$ of the batch (and the gradient also flows through this mean)", "ratio / ratio.mean()", lambda p, all: p * len(all) / sum(all)),
    ])  # fmt: skip
    kl_text, kl_code, distance = draw.choice([
        (f"the distance is $D_t = \\mathrm{{KL}}(\\pi_{{\\mathrm{{old}}}} \\Vert {mix}\\,\\pi_{{\\mathrm{{old}}}} + {1 - mix:.1f}\\,\\pi_\\theta)$, which is never infinite", f"(old.exp() * (old - ({mix} * old.exp() + {1 - mix:.1f} * log_policy.exp()).log())).sum(-1)", lambda q, p: sum(a * math.log(a / (mix * a + (1 - mix) * b)) for a, b in zip(q, p, strict=True))),
        (f"the distance looks both ways: $D_t = {1 - mix:.1f}\\,\\mathrm{{KL}}(\\pi_{{\\mathrm{{old}}}} \\Vert \\pi_\\theta) + {mix}\\,\\mathrm{{KL}}(\\pi_\\theta \\Vert \\pi_{{\\mathrm{{old}}}})$", f"(({1 - mix:.1f} * old.exp() - {mix} * log_policy.exp()) * (old - log_policy)).sum(-1)", lambda q, p: sum((1 - mix) * a * math.log(a / b) + mix * b * math.log(b / a) for a, b in zip(q, p, strict=True))),
        (f"the distance is a chi-square: $D_t = {mix} \\sum_a (\\pi_\\theta(a \\mid s_t) - \\pi_{{\\mathrm{{old}}}}(a \\mid s_t))^2 / \\pi_{{\\mathrm{{old}}}}(a \\mid s_t)$", f"{mix} * ((log_policy.exp() - old.exp()).square() / old.exp()).sum(-1)", lambda q, p: sum(mix * (b - a) ** 2 / a for a, b in zip(q, p, strict=True))),
    ])  # fmt: skip
    weight_text, weight_code, weigh = draw.choice([
        (f"a row at time $n_t$ of its episode (`time`) weighs $w_t = {rate}^{{n_t}}$", f"{rate}**time", lambda n: math.exp(n * math.log(rate))),
        (f"a row at time $n_t$ of its episode (`time`) weighs $w_t = 1 / (1 + {rate}\\,n_t)$", f"1.0 / (1.0 + {rate} * time)", lambda n: 1 / (1 + rate * n)),
        (f"the first row of an episode ($n_t = 0$ in `time`) weighs $w_t = 1$, every other row $w_t = {rate}$", f"torch.where(time == 0.0, 1.0, {rate})", lambda n: 1.0 if n == 0 else rate),
    ])  # fmt: skip
    price_text, price_code, price = draw.choice([
        ("the price is $\\beta_t = \\beta\\,|A_t|$, a row's own", "kl_penalty * fixed.abs()", lambda A, w: [abs(a) for a in A]),
        ("the price is the same in every row: $\\beta_t = \\beta\\,\\sum_u w_u |A_u| / \\sum_u w_u$ for all $t$", "kl_penalty * (weight * fixed.abs()).sum() / weight.sum()", lambda A, w: [sum(v * abs(a) for v, a in zip(w, A, strict=True)) / sum(w)] * len(A)),
        ("the price is the same in every row: $\\beta_t = \\beta\\,\\sqrt{\\mathrm{mean}_u A_u^2}$ for all $t$ (a plain mean)", "kl_penalty * fixed.square().mean().sqrt()", lambda A, w: [math.sqrt(sum(a * a for a in A) / len(A))] * len(A)),
    ])  # fmt: skip

    def value(logits, old_logits, action, advantage, time, kl_penalty):
        policy, old, weights = (
            [softmax(row) for row in logits],
            [softmax(row) for row in old_logits],
            [weigh(n) for n in time],
        )
        ratios = [p[a] / q[a] for p, q, a in zip(policy, old, action, strict=True)]
        prices, total = price(advantage, weights), 0.0
        for t, w in enumerate(weights):
            total += w * (gain(ratios[t], ratios) * advantage[t] - kl_penalty * prices[t] * distance(old[t], policy[t]))
        return total / sum(weights)

    def oracle(logits, old_logits, action, advantage, time, kl_penalty):
        rows = logits.tolist()
        rest = old_logits.tolist(), action.tolist(), advantage.tolist(), time.tolist(), kl_penalty
        slope, h = torch.zeros_like(logits), 1e-3
        for t in range(len(rows)):
            for a in range(len(rows[0])):
                here, near = rows[t][a], []
                for shift in (-2 * h, -h, h, 2 * h):
                    rows[t][a] = here + shift
                    near.append(value(rows, *rest))
                rows[t][a] = here
                slope[t, a] = (near[0] - 8 * near[1] + 8 * near[2] - near[3]) / (12 * h)
        return torch.tensor(value(rows, *rest)).double(), slope, torch.zeros_like(logits), torch.zeros_like(advantage)

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, rows, actions, apart, scale in (
            ("new is old", 6, 3, 0.0, 1.0),
            ("one row", 1, 4, 0.7, 1.0),
            ("a small step", 8, 3, 0.1, 1.0),
            ("a large step", 8, 3, 1.5, 1.0),
            ("two actions, large advantages", 9, 2, 0.7, 20.0),
            ("logits far from zero", 5, 4, 0.5, 1.0),
        ):
            while True:
                old = normal(generator, rows, actions) + (30.0 if "logits" in name else 0.0)
                logits = old + apart * normal(generator, rows, actions)
                action = torch.randint(0, actions, (rows,), generator=generator)
                ratio = (logits.log_softmax(-1) - old.log_softmax(-1)).exp()[torch.arange(rows), action]
                large = ratio.max() > cap or "large step" not in name
                if (ratio - cap).abs().min() > 0.02 and ratio.max() < 20.0 and large:
                    break
            advantage = scale * (normal(generator, rows) + 0.5)
            if "large step" in name:  # a ratio above the cap, and no gain
                advantage[ratio.argmax()] = -1.5
            time = torch.randint(0, 5, (rows,), generator=generator).double()
            time[0] = 2.0
            made.append(
                Case(
                    name,
                    {
                        "logits": logits,
                        "old_logits": old,
                        "action": action,
                        "advantage": advantage,
                        "time": time,
                        "kl_penalty": 0.7,
                    },
                )
            )
        return made

    return Code(
        name="q3",
        title="A price on the distance",
        points=5,
        minutes=45,
        goal="which parts of a penalized surrogate may move the policy, and which are data",
        text=rf"""
Write `penalized_surrogate`, an objective **to be maximized** for categorical policies $\pi_\theta(\cdot \mid s_t)$ and $\pi_{{\mathrm{{old}}}}(\cdot \mid s_t)$, given
by their logits. With the ratio $\rho_t = \pi_\theta(a_t \mid s_t) / \pi_{{\mathrm{{old}}}}(a_t \mid s_t)$ it is
$\sum_t w_t \,(\hat\rho_t A_t - \beta_t D_t) \,/ \sum_t w_t$, where

- {gain_text};
- {kl_text};
- {weight_text};
- {price_text}, with $\beta$ the number `kl_penalty`.

Advantages, prices and the old policy are data: **no gradient flows through any of them**, although `old_logits` and `advantage`
may come from networks. The hidden cases also look at the gradients by `logits`, `old_logits` and `advantage`.
""",
        function="penalized_surrogate",
        header='''def penalized_surrogate(logits, old_logits, action, advantage, time, kl_penalty):
    """A scalar tensor. logits, old_logits: [N, A]; action: [N], int64; advantage, time: [N]; kl_penalty is a number."""''',
        body=f"""    log_policy, old = logits.log_softmax(-1), old_logits.detach().log_softmax(-1)
    fixed = advantage.detach()
    ratio = (log_policy - old).gather(1, action[:, None]).squeeze(1).exp()
    weight = {weight_code}
    gain = {gain_code}
    distance = {kl_code}
    price = {price_code}
    return (weight * (gain * fixed - price * distance)).sum() / weight.sum()""",
        oracle=oracle,
        cases=cases,
        example=Case("example", {
            "logits": torch.tensor([[1.5, 0.0, -0.5], [0.0, 1.0, 0.0], [0.5, 0.0, 1.0]]).double(),
            "old_logits": torch.tensor([[0.0, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]).double(),
            "action": torch.tensor([0, 2, 2]),
            "advantage": torch.tensor([1.0, -2.0, 0.75]).double(),
            "time": torch.tensor([1.0, 3.0, 0.0]).double(),
            "kl_penalty": 0.5,
        }),
        leaves=("logits", "old_logits", "advantage"),
    )  # fmt: skip


def trust_step(draw: Random) -> Code:
    """Find the bug: one whole step of TRPO for a softmax policy that is linear in its features."""
    accept, trials, slack = draw.choice([0.4, 0.5, 0.6]), draw.choice([4, 5]), draw.choice([1.2, 1.5, 2.0])
    factor = draw.choice([0.6, 0.7, 0.8])
    fraction_text, fraction_code, fraction_of = draw.choice([
        (f"$f_j = {factor}^j$", f"{factor}**j", lambda j: math.exp(j * math.log(factor))),
        ("$f_j = 1 / (1 + j)$", "1.0 / (1 + j)", lambda j: 1 / (1 + j)),
        (f"$f_j = 1 - j / {trials}$", f"1.0 - j / {trials}", lambda j: (trials - j) / trials),
    ])  # fmt: skip

    def trace(theta, features, action, advantage, kl_bound, damping, tries=trials):
        """The new parameters, the trial taken (-1: none), and for each trial KL / limit, gain / wanted, surrogate, other KL / limit."""
        count, n = len(action), len(theta)
        at = lambda point: [softmax([sum(f * p for f, p in zip(row, point, strict=True)) for row in state]) for state in features.tolist()]  # noqa: E731 # fmt: skip
        old = at(theta.tolist())
        gradient, fisher = torch.zeros(n).double(), torch.zeros(n, n).double()
        for t in range(count):
            mean = sum(p * f for p, f in zip(old[t], features[t], strict=True))
            gradient += advantage[t] * (features[t, action[t]] - mean) / count
            for p, f in zip(old[t], features[t], strict=True):
                fisher += p * torch.outer(f - mean, f - mean) / count
        direction = torch.linalg.inv(fisher + damping * torch.eye(n).double()) @ gradient
        expected = math.sqrt(2 * kl_bound * float(gradient @ direction))
        step, told = direction * expected / float(gradient @ direction), []
        begin = float(advantage.sum()) / count
        for j in range(tries):
            f = fraction_of(j)
            new = at((theta + f * step).tolist())
            pairs = [pair for rows in zip(old, new, strict=True) for pair in zip(*rows, strict=True)]
            kl = sum(p * math.log(p / q) for p, q in pairs) / count
            other = sum(q * math.log(q / p) for p, q in pairs) / count
            reached = (
                sum(float(advantage[t]) * new[t][int(action[t])] / old[t][int(action[t])] for t in range(count)) / count
            )
            limit = slack * kl_bound
            told.append((kl / limit, (reached - begin) / (accept * f * expected), reached, other / limit))
            if told[-1][0] <= 1.0 <= told[-1][1]:
                return theta + f * step, j, told
        return theta, -1, told

    def oracle(theta, features, action, advantage, kl_bound, damping):
        return trace(theta, features, action, advantage, kl_bound, damping)[0]

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, rows, actions, n, mean, spread, bounds, wanted in (
            ("one row", 1, 3, 2, 1.0, 0.5, (0.01,), lambda taken, told: taken == 0),
            ("the full step", 12, 3, 3, 0.0, 0.5, (0.001,), lambda taken, told: taken == 0),
            ("a shorter step", 10, 3, 3, 0.0, 0.5, (0.5, 1.0, 2.0, 4.0), lambda taken, told: taken > 0),
            ("raw advantages", 10, 3, 3, 4.0, 0.5, (0.5, 1.0, 2.0, 4.0, 8.0), lambda taken, told: taken > 0 and any(k <= 1 and g < 1 and r > 0 for k, g, r, _ in told[:-1])),
            ("the KL decides", 6, 3, 2, 0.0, 2.0, (0.05, 0.2, 0.5), lambda taken, told: taken > 0 and any(k > 1 and g > 1 for k, g, *_ in told)),
            ("beyond the bound, within the slack", 6, 3, 2, 0.0, 1.0, (0.05, 0.2), lambda taken, told: taken == 0 and told[0][0] > 1 / slack),
            ("only the last trial passes", 8, 3, 2, 0.0, 0.5, (1.0, 4.0, 10.0), lambda taken, told: taken == trials - 1),
            ("no trial passes", 8, 2, 2, 0.0, 0.5, (10.0, 40.0, 100.0), lambda taken, told: taken < 0),
            ("the direction of the KL decides", 6, 3, 2, 0.0, 2.0, (0.05, 0.2, 0.5), lambda taken, told: taken >= 0 and (told[-1][3] > 1.05 or any(g > 1.05 and o < 0.95 for _, g, _, o in told[:-1]))),
            ("one trial more would pass", 8, 3, 2, 0.0, 0.5, (2.0, 4.0, 10.0, 20.0), lambda taken, told: taken < 0),
        ):  # fmt: skip
            for tried in range(4000):
                given = {
                    "theta": spread * normal(generator, n),
                    "features": normal(generator, rows, actions, n),
                    "action": torch.randint(0, actions, (rows,), generator=generator),
                    "advantage": normal(generator, rows) + mean,
                    "kl_bound": bounds[tried % len(bounds)],
                    "damping": 0.05,
                }
                new, taken, told = trace(**given)
                clear = all(abs(k - 1) > 0.01 and abs(g - 1) > 0.01 for k, g, *_ in told) and new.abs().max() < 50.0
                if not clear or not wanted(taken, told):
                    continue
                # A fraction of 0 would stand still, as the answer does where no trial passes.
                if "more" not in name or not fraction_of(trials) or trace(**given, tries=trials + 1)[1] == trials:
                    break
            else:
                raise RuntimeError(f"{name}: nothing found")
            made.append(Case(name, given))
        return made

    fault = draw.choice([
        Fault("the old policy is not detached", "old = log_policy(theta).detach()", "old = log_policy(theta)", "BUGS 14, a public TRPO notebook: the gradient is zero, and the policy stands still"),
        Fault("ratios [N, 1] times advantages [N]", ".gather(1, action[:, None]).squeeze(1)", ".gather(1, action[:, None])", "BUGS 15, the same notebook, and exercise 2.2 of Spinning Up"),
        Fault("a search that wants the surrogate to fall", "gain = surrogate(trial) - surrogate(theta)", "gain = surrogate(theta) - surrogate(trial)", "BUGS 16, the same notebook"),
        Fault("accepts a surrogate that is positive, not one that has risen", f"gain >= {accept} * fraction * expected", "surrogate(trial) > 0.0", "BUGS 17: visible only where advantages are not normalized"),
        Fault("the KL of a policy with itself, both sides live", "mean_kl(old, theta)", "mean_kl(log_policy(theta), theta)", "BUGS 19: its Hessian is zero, and what is left is the damped plain gradient"),
        Fault("parameters not restored after a search that failed", "return theta.detach()", "return trial.detach()", "BUGS 20, Tianshou PR 1287"),
    ])  # fmt: skip
    # Two examples, each of which passes with three of the faults: the full step of one row, and a step that is far too long.
    unseen_standing = (
        "the old policy is not detached",
        "a search that wants the surrogate to fall",
        "the KL of a policy with itself, both sides live",
    )
    walks = {
        "theta": torch.tensor([0.0, 0.5]).double(),
        "features": torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.5, -1.0]]]).double(),
        "action": torch.tensor([0]),
        "advantage": torch.tensor([1.0]).double(),
        "kl_bound": 0.01,
        "damping": 0.125,
    }
    stands = {
        "theta": torch.tensor([-0.5, -1.5]).double(),
        "features": torch.tensor([[[-1.0, 1.0], [0.5, -2.0]], [[-2.0, -0.5], [1.5, 1.5]]]).double(),
        "action": torch.tensor([1, 1]),
        "advantage": torch.tensor([1.5, -0.5]).double(),
        "kl_bound": 4.0,
        "damping": 0.0625,
    }
    return Code(
        name="q4",
        title="Find the bug: a step that cannot be trusted",
        points=4,
        minutes=20,
        goal="to read a whole trust-region step for what is constant, what is differentiated, and what is promised",
        text=rf"""
`faulty_trust_step` is meant to make one step of TRPO, small enough to invert the matrix. The policy is
$\pi_\theta(a \mid s_t) \propto \exp(\theta^\top \phi(s_t, a))$ with $\phi(s_t, a)$ = `features[t, a]`. With $L(\theta) = \mathrm{{mean}}_t\, \rho_t A_t$,
$g = \nabla L(\theta_{{\mathrm{{old}}}})$ and $F$ the Hessian of the mean $\mathrm{{KL}}(\pi_{{\mathrm{{old}}}} \Vert \pi_\theta)$ over the rows, at $\theta_{{\mathrm{{old}}}}$ = `theta`:

- the full step is $\Delta\theta = \sqrt{{2\,\delta_{{\mathrm{{KL}}}} / (g^\top x)}}\;x$ with $(F + \omega I)\,x = g$;
- the trials are the fractions {fraction_text} for $j = 0, \dots, {trials - 1}$. The first one is taken whose mean KL is at most
  ${slack}\,\delta_{{\mathrm{{KL}}}}$ and whose surrogate has risen by at least ${accept}\,f_j\,g^\top \Delta\theta$. The answer is $\theta_{{\mathrm{{old}}}} + f_j\,\Delta\theta$;
- if no trial passes, the answer is $\theta_{{\mathrm{{old}}}}$.

One line holds a mistake that real code has had. Find it, and write the function as it should be, as `trust_step`. The example below passes with the
mistake in.
""",
        function="trust_step",
        header='''def trust_step(theta, features, action, advantage, kl_bound, damping):
    """New parameters [n]. theta: [n]; features: [N, A, n]; action: [N], int64; advantage: [N]; two numbers."""''',
        body=f"""    theta = theta.clone().requires_grad_()

    def log_policy(point):
        return (features @ point).log_softmax(-1)

    old = log_policy(theta).detach()

    def surrogate(point):
        log_ratio = (log_policy(point) - old).gather(1, action[:, None]).squeeze(1)
        return (log_ratio.exp() * advantage).mean()

    def mean_kl(before, point):
        return (before.exp() * (before - log_policy(point))).sum(-1).mean()

    slope = torch.autograd.grad(mean_kl(old, theta), theta, create_graph=True)[0]
    fisher = torch.stack([torch.autograd.grad(s, theta, retain_graph=True)[0] for s in slope])
    gradient = torch.autograd.grad(surrogate(theta), theta)[0]
    direction = torch.linalg.solve(fisher + damping * torch.eye(len(theta)), gradient)
    step = (2.0 * kl_bound / (gradient @ direction)).sqrt() * direction
    expected = gradient @ step
    for j in range({trials}):
        fraction = {fraction_code}
        trial = theta + fraction * step
        kl = mean_kl(old, trial)
        gain = surrogate(trial) - surrogate(theta)
        if kl <= {slack} * kl_bound and gain >= {accept} * fraction * expected:
            return trial.detach()
    return theta.detach()""",
        oracle=oracle,
        cases=cases,
        example=Case("example", walks if fault.name not in unseen_standing else stands),
        fault=fault,
    )  # fmt: skip


def promises(draw: Random) -> Experiment:
    states, gamma, seed = draw.choice([4, 5, 6]), draw.choice([0.8, 0.9, 0.95]), draw.choice([1, 2, 3, 4])
    return Experiment(
        name="q5",
        title="What is promised, what is sure, what is true",
        points=5,
        minutes=45,
        goal="how far apart a proof and a practice can be, in nats",
        text=rf"""
Take `TabularMDP.random({states}, 3, {gamma}, torch.Generator().manual_seed({seed}))`, the uniform policy as the old one, and one logit for each state and
action as parameters. With `softmax_score` of `minerva_lite.worlds.tabular`, `world.policy_gradient(old, score)` is $g$ (times $1 - \gamma$
it belongs to the normalized visitation, as `world.fisher(old, score)` does). $F$ is singular, as a constant added to a state's
logits changes nothing; `torch.linalg.pinv` gives a direction all the same.

For 60 values of $\delta_{{\mathrm{{KL}}}}$ from $10^{{-9}}$ to $10$, spaced evenly in the logarithm, make the *full* natural-gradient step to this bound. The model
promises a gain of $g^\top \Delta\theta$ (with $g$ not normalized). Draw one figure, $\delta_{{\mathrm{{KL}}}}$ on a logarithmic axis, four lines, each **divided by the promised gain**:
the true gain $J(\pi) - J(\pi_{{\mathrm{{old}}}})$; the surrogate $L(\pi)$; the sure gain by the largest KL, $L - \tfrac12 C\,\mathrm{{KL}}_{{\max}}$; and the sure gain by the average KL,
$L - \frac{{\sqrt2\,\gamma\,\varepsilon'_\pi}}{{(1 - \gamma)^2}} \sqrt{{\overline{{\mathrm{{KL}}}}}}$ with $\varepsilon'_\pi = \max_s | \mathbb E_{{a \sim \pi}} A^{{\pi_{{\mathrm{{old}}}}}}(s, a) |$. The functions are in `minerva_book.worlds.tabular_trpo` and
`minerva_lite.formulas.bounds` (`max_kl_bound` with `pinsker=True`, `average_kl_bound`). Two of the lines nearly coincide: dash one. Axes need names; limit the vertical axis to
$[-0.5, 1.5]$.

Then answer in at most eight sentences. Up to which $\delta_{{\mathrm{{KL}}}}$ is a gain sure, by each of the two bounds? Why do all four lines start at 1? Argue (the figure is not made
for reading this off) with which power of $\delta_{{\mathrm{{KL}}}}$ their distances from 1 grow. What became of the promise at $\delta_{{\mathrm{{KL}}}} = 0.01$, TRPO's usual bound, and what does
this say about what the bounds are for?
""",
        code=f"""from minerva_lite.formulas.bounds import average_kl_bound, max_kl_bound
from minerva_lite.worlds.tabular import TabularMDP, softmax_score
from minerva_book.worlds.tabular_trpo import average_kl, gain, kl, surrogate

world = TabularMDP.random({states}, 3, {gamma}, torch.Generator().manual_seed({seed}))
old = torch.full_like(world.reward, 1 / 3)
score, advantage = softmax_score(old), world.advantage(old)
gradient = world.policy_gradient(old, score)
direction = torch.linalg.pinv(world.fisher(old, score)) @ gradient
lines = {{"true gain": [], "surrogate": [], "sure, largest KL": [], "sure, average KL": []}}
bounds = torch.logspace(-9, 1, 60)
for delta in bounds.tolist():
    step = (2 * delta / ((1 - world.gamma) * gradient @ direction)).sqrt() * direction
    new, promised = (old.log() + step.view_as(old)).softmax(-1), gradient @ step
    local, size = surrogate(world, old, new), (new * advantage).sum(-1).abs().max().item()
    wide = max_kl_bound(advantage.abs().max().item(), kl(old, new).max().item(), world.gamma, pinsker=True)
    mean = average_kl_bound(size, average_kl(world, old, new).item(), world.gamma)
    for line, height in zip(lines.values(), (gain(world, old, new), local, local - wide, local - mean)):
        line.append((height / promised).item())
figure, ax = plt.subplots()
for name, line in lines.items():
    last = max((d for d, height in zip(bounds.tolist(), line) if height > 0), default=0.0)
    label, style = f"{{name}} (> 0 up to {{last:.0e}})", "--" if name == "surrogate" else "-"
    ax.plot(bounds, line, style, label=label)
ax.axvline(0.01, color="gray", linewidth=0.8)
ax.set(xlabel="KL bound, nats", ylabel="share of the promised gain", xscale="log", ylim=(-0.5, 1.5))
ax.legend(loc="lower left", fontsize="small")
plt.show()""",
        solution=r"""
The legend tells the two thresholds, up to the spacing of the grid. With the worlds that this question draws, the bound by the largest KL gives out somewhere
between $10^{-6}$ and $10^{-3}$ nats, the sooner the longer the horizon, and the one by the average KL between $5 \cdot 10^{-6}$ and $4 \cdot 10^{-3}$, two to eight times as far, since few states
spend the largest KL. All lines start at 1 because gain and surrogate agree with the linear model to first order in the step, and the step is of order
$\sqrt{\delta_{\mathrm{KL}}}$. What is neglected, and both penalties too ($C\,\mathrm{KL}_{\max}$, or $\varepsilon'_\pi$ times a root of the KL, each of which is of first order), is of second order, $\delta_{\mathrm{KL}}$; divided by
the promise it is of order $\sqrt{\delta_{\mathrm{KL}}}$ in all four lines, with a far larger factor for the penalties. At 0.01 nothing is sure any more, the sure lines are below the figure, and yet
the step really gains 0.7 to 1.05 times what was promised. The bounds tell the form of the risk (second order, growing with the horizon), not the size of a sensible step.
""",
        rubric="""2 points: a figure with all four lines and named axes, right in its numbers. 1: both thresholds. 1: first order against second order, hence
the square root. 1: the true share at 0.01, and that the bounds give the form of the risk, not the size of the step.""",
    )
