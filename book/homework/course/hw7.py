"""Homework 7: a project of one's own, and an honest report of it (all chapters)."""

from __future__ import annotations

import math
from random import Random
from statistics import NormalDist

import torch
from torch import Generator, Tensor

from minerva_book.exercises import check_runs

from .question import Assignment, Case, Code, Experiment, Fault, Written

# The reference project's runs: CartPole-v1, PPO with ten passes over each rollout and with two, seeds 0 to 4; the mean
# return of 10 episodes at every evaluation, and of 50 others of the final policy. `MADE_BY` is what made them.
CURVES = [
    [
        [118.3, 438.9, 480.6, 442.5, 157.3, 204.8],
        [394.6, 458.7, 459.3, 500.0, 500.0, 500.0],
        [421.7, 215.6, 263.2, 434.0, 472.5, 500.0],
        [123.2, 174.8, 500.0, 500.0, 500.0, 500.0],
        [237.5, 257.6, 463.8, 500.0, 500.0, 500.0],
    ],
    [
        [55.2, 75.8, 162.1, 204.1, 143.7, 180.0],
        [69.8, 143.3, 392.0, 421.4, 395.0, 355.5],
        [72.8, 170.3, 324.4, 396.4, 406.8, 402.3],
        [38.3, 205.8, 500.0, 500.0, 483.3, 309.0],
        [341.3, 99.0, 273.4, 447.0, 445.0, 411.9],
    ],
]
FINAL = [[187.1, 500.0, 492.9, 500.0, 500.0], [185.8, 345.46, 364.96, 273.6, 358.64]]
MADE_BY = """    # The rows that this script printed, as `python project.py` in less than a minute (torch 2.13, one thread of a CPU).
    # The learning rates are the best of four a setting (0.0005, 0.001, 0.002, 0.004), by the mean over seeds 100 to 102.
    #
    # import dataclasses, torch
    # from minerva_lite import PPOAgent, evaluate, make_env, preset, train
    # torch.set_num_threads(1)
    # kept = preset("ppo", "CartPole-v1").config
    # for setting, (epochs, rate) in enumerate([(10, 4e-3), (2, 2e-3)]):
    #     small = dict(num_envs=8, rollout_steps=32, minibatch_size=64)
    #     config = dataclasses.replace(kept, **small, epochs=epochs, learning_rate=rate)
    #     for seed in range(5):
    #         env = make_env("CartPole-v1", 8, seed=seed)
    #         agent = PPOAgent(config, env.spec, seed=seed, device="cpu")
    #         history = train(agent, env, 6_144, eval_every=1_024, eval_episodes=10, progress=False)
    #         final = evaluate(agent, episodes=50, seed=20_000)["eval/mean"]
    #         print([setting, seed, round(final, 2)], history.column("eval/mean").round(1).tolist())"""


def make(draw: Random) -> Assignment:
    return Assignment(
        name="hw7_project",
        title="Homework 7: a project of your own",
        chapters='all chapters, and the page "Training at full strength"',
        intro=(
            "Pick an environment, tune an agent of the book on it, and report what you found: so that somebody who wants "
            "the opposite to be true would believe you. An honest *we cannot tell* earns every point that a clear win earns. "
            "Read all six questions before you start; the plan comes before the runs."
        ),
        questions=[
            plan(draw),
            run_report(draw),
            final_scores(draw),
            my_results(draw),
            learning_curves(draw),
            review(draw),
        ],
        imports="import math\nfrom math import nan\n\nimport matplotlib.pyplot as plt\nimport torch",
    )


def plan(draw: Random) -> Written:
    sigma, gap, runs = draw.choice([60, 80, 100]), draw.choice([60, 90, 120]), draw.choice([50, 60, 80])
    normal = NormalDist()
    quantiles = normal.inv_cdf(0.975) + normal.inv_cdf(0.8)
    wanted = math.ceil(2 * (quantiles * sigma / gap) ** 2)
    return Written(
        name="q1",
        title="The plan, before the first run counts",
        points=7,
        minutes=100,
        goal="to decide what an answer is before you have seen one",
        text=rf"""
**The plan**, at most one page:

1. *The environment*, and why this one. It must be one that `make_env` knows, and on which one run takes at most a few minutes
   on your machine (try it: seconds for 2 000 steps).
2. *The question*, in one sentence. It compares two settings (or more) of agents of the book that differ in **one** thing: a
   coefficient, an estimator, a constraint, an algorithm.
3. *The measure*: which return, of which policy, over how many episodes with which seeds, when; and the one number that sums up
   the seeds of a setting.
4. *What counts as an answer*: for which results you will say yes, for which no, and for which "we cannot tell". What becomes
   of a run that fails?
5. *The budget*: at most {runs} trainings, tuning included, at least five seeds for each setting at the end. Which settings do
   you tune, by which seeds, and how do you make sure that both sides get the same?

**How many seeds?** Returns of two settings differ by $\Delta$ in truth; the return of a run has standard deviation $\sigma$ from seed to
seed, in both. $\hat\Delta$ is the difference of the two means over $n$ independent runs each. Take means for normal and $\sigma$ for known.

6. Derive the variance of $\hat\Delta$, and the 95 % interval. Say where independence enters.
7. Derive the $n$ with which the interval excludes 0 on the right side with probability 0.8. What is it for
   $\sigma = {sigma}$, $\Delta = {gap}$? Which $\Delta$ can five seeds find with that probability, as a multiple of $\sigma$? And how often does the
   interval exclude 0 if $\Delta$ is exactly half its length?
8. You use the *same* $n$ seeds for both settings, and the two returns of a seed have correlation $c$. What is the variance of $\hat\Delta$
   now? What may make $c$ positive here, and can you count on it?
""",
        solution=rf"""
One plan of many (its runs stand in question 4):

1. `CartPole-v1`: 6 144 steps take one or two seconds, so seeds are cheap. It is easy; nothing here carries over to hard tasks.
2. Is PPO with ten passes over each rollout better than with two, after equally many environment steps?
3. The mean return of the final policy (by its mode) over 50 episodes with seeds from 20 000, which no evaluation during training
   used. A setting's number and the level of its interval are the ones of question 5.
4. *Yes* or *no* if the interval of the difference, over resampled seeds, lies above or below 0; else *we cannot tell*. A
   run that raises or ends in NaN counts as a return of 9, what a policy that always pushes one way gets.
5. Ten passes may need another learning rate than two: four rates each (0.0005 to 0.004), three tuning seeds each (100, 101, 102),
   which makes 24 trainings; the best rate by the mean. Then five other seeds each (0 to 4): 34 trainings, about a minute. What is left of
   the {runs} is for mistakes, and will be reported.

How many seeds:

6. Runs of a setting are independent, so the variance of their mean is $\sigma^2 / n$ (no covariances). The two means are independent too,
   and variances add: $\operatorname{{Var}}\hat\Delta = 2\sigma^2/n$. The interval is $\hat\Delta \pm 1.96\,\sigma\sqrt{{2/n}}$.
7. Write $e = \sigma\sqrt{{2/n}}$. The interval lies above 0 if $\hat\Delta > 1.96\,e$. As $\hat\Delta \sim \mathcal N(\Delta, e^2)$, that has probability
   $1 - \Phi(1.96 - \Delta/e)$. It is 0.8 at $\Delta / e = 1.96 + 0.84 = 2.80$, hence $n = 2 \cdot 2.80^2\,\sigma^2/\Delta^2 \approx 15.7\,\sigma^2/\Delta^2$: here
   {2 * (quantiles * sigma / gap) ** 2:.1f}, so {wanted} seeds for each setting. Five seeds find $\Delta = 2.80\,\sqrt{{2/5}}\,\sigma = 1.77\,\sigma$. With $\Delta = 1.96\,e$ the probability is
   $1 - \Phi(0) = 1/2$: a study made just large enough for the effect that it expects is a coin toss. (An interval on the wrong side
   adds $\Phi(-3.92) < 10^{{-4}}$.) With $\sigma$ estimated from five runs it is somewhat worse.
8. $\hat\Delta$ is the mean of $n$ independent differences, each of variance $\sigma^2 + \sigma^2 - 2c\sigma^2$: $\operatorname{{Var}}\hat\Delta = 2\sigma^2(1 - c)/n$. A seed fixes
   the first weights and the first states, and a bad start may hurt both settings. After a few updates the two runs meet different
   states, and nothing promises $c > 0$. It cannot be read from five pairs: in the runs of question 4 it is $0.87$, and $-0.46$
   without seed 0.
""",
        rubric="""Plan, 4 points. 1: one question, two settings, one difference. 1: a measure that leaves nothing to choose afterwards (policy,
episodes, time, statistic). 1: what counts as yes, no and undecided, failed runs included. 1: tuning seeds apart from the final
ones, both sides tuned alike, within the budget. Derivation, 3 points. 1: the variance, with both uses of independence. 1: the
power calculation with its three numbers. 1: the paired variance, and that the correlation is not known. Take off nothing for
an easy environment.""",
    )


def run_report(draw: Random) -> Code:
    """A trimmed mean and a probability of improvement: 4 · 3 · 3 · 2 · 3 forms, and their constants."""
    share, margin = draw.choice([0.125, 0.25, 0.375]), draw.choice([5.25, 10.25, 20.25])
    scale, floor = draw.choice([8.0, 16.0, 32.0]), draw.choice([9.0, 12.0, 22.0])
    failed_text, failed_code, stand_in = draw.choice([
        (f"a failed run counts as a return of ${floor}$, what this task gives without any learning", f"table = torch.where(returns.isnan(), {floor}, returns)", lambda own, everybody: floor),
        ("a failed run counts as the lowest return that its own setting reached", "ended = returns.masked_fill(returns.isnan(), math.inf)\n    table = torch.where(returns.isnan(), ended.amin(1, keepdim=True), returns)", lambda own, everybody: min(own)),
        ("a failed run counts as the lowest return in the whole table, whichever setting reached it", "ended = returns.masked_fill(returns.isnan(), math.inf)\n    table = torch.where(returns.isnan(), ended.amin(), returns)", lambda own, everybody: min(everybody)),
        ("a failed run is left out: its setting has fewer runs, and no pair contains it (a report must say so)", "table = returns", None),
    ])  # fmt: skip
    mean_text, mean_code, robust = draw.choice([
        (f"of the sorted runs $c = {share}\\,n$ are cut off at each end, fractions included: a run that a cut goes through counts with the fraction of it that is left (with $c = 1.25$ the outermost run is gone and the next counts $0.75$ times). The weighted mean divides by the sum of the weights, $n - 2c$", f"""place = torch.arange(n, dtype=runs.dtype)
        weight = ((place + 1.0).clamp(max=n - {share} * n) - place.clamp(min={share} * n)).clamp(min=0.0)
        summary.append((weight * runs).sum() / weight.sum())""", lambda runs: mean_of(sorted(8 * runs)[round(8 * share) * len(runs) : (8 - round(8 * share)) * len(runs)])),
        (f"nothing is cut off, but with $k = \\lfloor {share}\\,n \\rfloor$ the $k$ lowest runs are raised to the lowest of the others, and the $k$ highest lowered to the highest of the others. The mean is over all $n$", f"""k = int({share} * n)
        summary.append(runs.clamp(runs[k], runs[n - 1 - k]).mean())""", lambda runs: pulled_in(runs, math.floor(share * len(runs)))),
        (f"luck is cut off, and bad luck is not: the $\\lfloor {share}\\,n \\rfloor$ **highest** runs are left out, and the mean is over all others, the lowest included", f"""summary.append(runs[: n - int({share} * n)].mean())""", lambda runs: mean_of(sorted(runs, reverse=True)[math.floor(share * len(runs)) :])),
    ])  # fmt: skip
    pairs_text, pairs_code, same_seed = draw.choice([
        ("all pairs of a run of $i$ and a run of $j$ are compared, whatever their seeds", "(table[:, None, :, None] - table[None, :, None, :]).flatten(2)", False),
        ("only runs of the same seed (the same column) are compared", "table[:, None] - table[None, :]", True),
    ])  # fmt: skip
    worth_text, worth_code, worth = draw.choice([
        (f"a pair counts 1 where $i$'s return is higher by more than ${margin}$, 0 where it is lower by more than ${margin}$, and $1/2$ otherwise", f"(gap > {margin}).to(gap.dtype) + 0.5 * (gap.abs() <= {margin})", lambda x, y: 1.0 if x > y + margin else 0.0 if y > x + margin else 0.5),
        (f"a pair with returns $x$ of $i$ and $y$ of $j$ counts $1 / (1 + e^{{-(x - y) / {scale:g}}})$, since a return is itself an estimate", f"torch.sigmoid(gap / {scale})", lambda x, y: (1.0 + math.tanh((x - y) / (2.0 * scale))) / 2.0),
        (f"a pair with returns $x$ of $i$ and $y$ of $j$ counts $1/2 + (x - y) / {2 * margin}$, but at least 0 and at most 1", f"(0.5 + gap / {2 * margin}).clamp(0.0, 1.0)", lambda x, y: min(1.0, max(0.0, (x - y + margin) / (2 * margin)))),
    ])  # fmt: skip

    def oracle(returns):
        table = [[None if math.isnan(x) else x for x in row] for row in returns.tolist()]
        everybody = [x for row in table for x in row if x is not None]
        if stand_in:
            table = [
                [stand_in([y for y in row if y is not None], everybody) if x is None else x for x in row]
                for row in table
            ]
        wanted = []
        for row in table:
            wanted.append([robust([x for x in row if x is not None])])
            for other in table:
                pairs = zip(row, other, strict=True) if same_seed else ((x, y) for x in row for y in other)
                wanted[-1].append(mean_of([worth(x, y) for x, y in pairs if x is not None and y is not None]))
        return torch.tensor(wanted, dtype=torch.float64)

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, settings, seeds, failing, lowest, highest in (
            ("five seeds", 3, 5, 0.0, 20, 120),
            ("one seed", 2, 1, 0.0, 20, 60),
            ("failed runs", 4, 9, 0.35, 30, 130),
            ("many seeds", 2, 27, 0.1, 100, 200),
            ("runs at the ceiling", 3, 12, 0.2, 440, 560),
            ("large negative returns", 3, 10, 0.25, -3000, -1000),
            ("differences as large as the margin", 3, 6, 0.0, 0, 2),
        ):
            # Halves: no difference is within 1e-4 of a margin, unless it is one, and equal runs are equal in float32 too.
            returns = torch.randint(2 * lowest, 2 * highest, (settings, seeds), generator=generator).double() / 2
            if "margin" in name:
                returns = 60.0 + margin * (2.0 * returns)
            returns = returns.clamp(max=500.0)
            failed = torch.rand(settings, seeds, generator=generator) < failing
            failed[0, : seeds // 2 if name == "failed runs" else 0] = True  # more than any mean cuts off
            failed[:, int(torch.randint(seeds, (), generator=generator))] = False  # one seed ended everywhere
            made.append(Case(name, {"returns": returns.masked_fill(failed, math.nan)}))
        return made

    return Code(
        name="q2",
        title="A summary that a lucky seed cannot write",
        points=7,
        minutes=80,
        goal="what a robust mean and a probability of improvement do with few seeds, and with failed ones",
        text=rf"""
`returns` holds the final return of every run, `[settings, seeds]`, and NaN where a run failed: it crashed, diverged, or was
killed. Any two settings have at least one seed with which both ended. Write `run_report`, which gives `[settings, 1 + settings]`.

- **Failed runs**, everywhere below: {failed_text}.
- **Column 0** is a robust mean over the $n$ runs of a setting: {mean_text}.
- **Column $1 + j$ of row $i$** says how probable it is that setting $i$ is better than setting $j$ ($i$ and $j$ from 0 on):
  {pairs_text}; {worth_text}. The entry is the mean over these pairs. ($i = j$ is nothing special.)

Such a probability shows at a glance what two means with error bars hide: how often the winner loses.
""",
        function="run_report",
        header='''def run_report(returns):
    """Robust means and probabilities of improvement [settings, 1 + settings] of returns [settings, seeds], NaN: failed."""''',
        body=f"""    {failed_code}
    summary = []
    for row in table:
        runs = row[~row.isnan()].sort().values
        n = len(runs)
        {mean_code}
    gap = {pairs_code}
    counted = ~gap.isnan()
    worth = {worth_code}
    better = worth.masked_fill(~counted, 0.0).sum(2) / counted.sum(2)
    return torch.cat([torch.stack(summary)[:, None], better], 1)""",
        oracle=oracle,
        cases=cases,
        example=Case("example", {"returns": torch.tensor([[100.0, 103.5, 62.0, 98.0, math.nan, 121.0], [95.0, 120.0, 97.5, 54.0, 91.0, 94.0]]).double()}),
    )  # fmt: skip


def mean_of(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def pulled_in(runs: list[float], k: int) -> float:
    """The mean after the k lowest and the k highest have taken the place of their neighbors."""
    inner = sorted(runs)[k : len(runs) - k]
    return mean_of([inner[0]] * k + inner + [inner[-1]] * k)


def final_scores(draw: Random) -> Code:
    """Find the bug: a mean and an interval over seeds, from the last evaluations of every run."""
    times = draw.choice([1.0, 1.645, 1.96, 2.576])
    score_text, score_code, score = draw.choice([
        ("the mean of its last `window` evaluations", "final.mean(2)", mean_of),
        ("the lowest of its last `window` evaluations (a policy that forgets must not look good)", "final.amin(2)", min),
        ("the middle between the lowest and the highest of its last `window` evaluations", "(final.amin(2) + final.amax(2)) / 2.0", lambda runs: (min(runs) + max(runs)) / 2.0),
    ])  # fmt: skip

    def oracle(evaluations, window):
        wanted = []
        for setting in evaluations.tolist():
            scores = [score(run[len(run) - window :]) for run in setting]
            n, middle = len(scores), mean_of(scores)
            # Half the mean squared distance of all pairs of different runs is the variance with n - 1.
            variance = sum((x - y) ** 2 for x in scores for y in scores) / (2 * n * (n - 1))
            width = times * math.sqrt(variance / n)
            wanted.append([middle - width, middle, middle + width])
        return torch.tensor(wanted, dtype=torch.float64)

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, settings, seeds, evaluations, window in (
            ("five seeds", 2, 5, 12, 3),
            ("two seeds", 3, 2, 6, 2),
            ("a long run", 2, 6, 20, 2),
            ("the whole run", 1, 4, 5, 5),
            ("as many seeds as evaluations", 2, 6, 6, 4),
        ):
            level = 100.0 * torch.rand(settings, seeds, 1, generator=generator, dtype=torch.float64)
            rise = torch.linspace(0.0, 80.0, evaluations, dtype=torch.float64)
            noise = 15.0 * torch.randn(settings, seeds, evaluations, generator=generator, dtype=torch.float64)
            if name == "two seeds":
                level = level - 200.0
            made.append(Case(name, {"evaluations": level + rise + noise, "window": window}))
        return made

    fault = draw.choice([
        Fault("the best evaluation of each run, chosen after the fact", f"score = {score_code}", "score = evaluations.amax(2)", "an old habit of Atari papers: the best score during learning; Machado et al. (2018) argue against it"),
        Fault("the best seed in place of the mean over seeds", "middle = score.mean(1)", "middle = score.amax(1)", "the best models of many trainings were shown, in a figure of the paper on asynchronous actor-critics (2016) the 5 best of 50; Henderson et al. (2018) show what that does"),
        Fault("evaluations of one run counted as independent runs", "math.sqrt(seeds)", "math.sqrt(seeds * window)", "pseudo-replication: n is the number of seeds, not of evaluations or episodes"),
        Fault("seeds averaged at every time, and the spread taken over time", f"score = {score_code}", f"score = {score_code.replace('(2)', '(1)')}", "the wrong axis: the mean hardly changes and the interval is that of something else"),
        Fault("the window ends one evaluation too early", "evaluations[:, :, -window:]", "evaluations[:, :, -window - 1 : -1]", "off by one: the final policy is the one evaluation that is never looked at"),
        Fault("the standard deviation divides by n", "correction=1", "correction=0", "NumPy's default: with five seeds the interval is a tenth too short"),
    ])  # fmt: skip
    return Code(
        name="q3",
        title="Find the bug: an evaluation that flatters",
        points=5,
        minutes=40,
        goal="to ask of every error bar: over what, and with which n",
        text=rf"""
`faulty_final_scores` is meant to sum up a study. `evaluations[i, k, t]` is the return of setting $i$ with seed $k$ at its evaluation
$t$, in order of time. A run's score is {score_text}, the very last one included. A setting's figure is the
mean $m$ of the scores of its $n$ seeds, with the interval $m \pm {times}\,s/\sqrt n$, where $s$ is the standard deviation of the scores from seed to
seed (the sum of squared deviations divided by $n - 1$). One row a setting: lower end, mean, upper end. There are at least two seeds.

One line holds a mistake that real evaluations have had. Find it, and write the function as it should be, as `final_scores`.
(One more thing to think about: does the mistake make a result look better, or surer, or both?)
""",
        function="final_scores",
        header='''def final_scores(evaluations, window):
    """Lower end, mean, upper end [settings, 3]; evaluations are [settings, seeds, times], window is a whole number."""''',
        body=f"""    final = evaluations[:, :, -window:]
    score = {score_code}
    seeds = score.shape[1]
    middle = score.mean(1)
    width = {times} * score.std(1, correction=1) / math.sqrt(seeds)
    return torch.stack([middle - width, middle, middle + width], 1)""",
        oracle=oracle,
        cases=cases,
        example=Case("example", {"evaluations": torch.tensor([[[10.0, 20.0, 60.0, 50.0], [0.0, 30.0, 30.0, 40.0]]]).double(), "window": 2}),
        fault=fault,
    )  # fmt: skip


def judged(inputs: dict, arrays: list[Tensor]) -> str:
    """What a table of runs lacks, "" if nothing: the same check that students have."""
    if len(arrays) > 1 and all(array.shape == (3,) for array in arrays):
        arrays = [torch.stack(arrays)]  # a list of rows that are tensors
    if len(arrays) != 1:
        return f"wanted one table; got {len(arrays)} arrays"
    try:
        check_runs(arrays[0])
    except AssertionError as error:
        return str(error)
    return ""


def my_results(draw: Random) -> Code:
    rows = "\n".join(
        f"    {name} = {list(finals)}" for name, finals in zip(("ten_epochs", "two_epochs"), FINAL, strict=True)
    )
    return Code(
        name="q4",
        title="Your runs",
        points=4,
        minutes=210,
        goal="to carry out a plan, and to write down every run of it",
        text="""
Do what you planned: tune both sides alike, then run every setting with at least five seeds that had no part in the tuning. Write a script
that prints one line a run, keep it, and keep its output. `study` of `minerva_lite.training.studies`, with `variants`, takes failures and
restarts off your hands where the presets' number of steps suits you.

Then write `my_results`, which takes no arguments and returns your table `[rows, 3]`, a row a run: the setting's number, the
seed, the final return by your plan's measure. The function only holds the numbers; it does not train, and cannot read a file.
The check wants

- finite numbers, and whole ones for setting and seed; a failed run has the return that your plan gives it;
- at least two settings, each with at least five different seeds, and no pair of setting and seed twice;
- the same seeds for every setting, and returns that are not all equal (if yours are, the task is too easy: change it).

It cannot see whether the runs are real or good. The next questions can, and a low return costs nothing.
""",
        function="my_results",
        header='''def my_results():
    """A row a run [rows, 3]: number of the setting, seed, final return. No arguments."""''',
        body=f"""{MADE_BY}
{rows}
    settings = [ten_epochs, two_epochs]
    return torch.tensor([[i, seed, settings[i][seed]] for i in range(2) for seed in range(5)])""",
        oracle=None,
        cases=lambda generator: [Case("your table", {})],
        example=None,
        judge=judged,
        visible='from minerva_book.exercises import check_runs\n\ncheck_runs(my_results())\nprint("This table can carry a comparison.")',
    )


# How five returns (the last axis) become one number: in words, as a student's code, here.
STATISTICS = [
    ("the mean", "runs.mean(-1)", lambda runs: runs.mean(-1)),
    ("the median", "runs.median(-1).values", lambda runs: runs.median(-1).values),
    ("the mean without the best and the worst run", "runs.sort(-1).values[..., 1:-1].mean(-1)", lambda runs: runs.sort(-1).values[..., 1:-1].mean(-1)),
]  # fmt: skip
# What would flatter: in words, and what the settings' numbers would be. Takes the curves, the final returns, the statistic.
TEMPTATIONS = [
    ("taken the best evaluation of each run instead of its final policy", lambda curves, final, statistic: statistic(curves.amax(-1))),
    ("shown each setting's best seed", lambda curves, final, statistic: final.amax(-1)),
    ("left out each setting's worst seed, and taken the mean of the others", lambda curves, final, statistic: final.sort(-1).values[:, 1:].mean(-1)),
]  # fmt: skip


def learning_curves(draw: Random) -> Experiment:
    statistic_text, statistic_code, statistic = draw.choice(STATISTICS)
    temptation_text, temptation = draw.choice(TEMPTATIONS)
    level = draw.choice([80, 90, 95])
    final, curves = torch.tensor(FINAL).double(), torch.tensor(CURVES).double()
    flattered = temptation(curves, final, statistic)
    pick = torch.randint(5, (20_000, 2, 5), generator=torch.Generator().manual_seed(0))
    values = statistic(final)
    gap = float(values[0] - values[1])
    drawn = statistic(torch.stack([final[i][pick[:, i]] for i in range(2)]))
    low, high = (drawn[0] - drawn[1]).quantile(torch.tensor([50 - level / 2, 50 + level / 2]).double() / 100).tolist()
    clear = low > 0.0
    verdict = (
        "lies above 0: by our plan ten passes are better here" if clear else "contains 0: by our plan we cannot tell"
    )
    article = "an" if level == 80 else "a"
    # At 95 % all three summaries' intervals contain 0.
    remark = ", and at 95 % it would contain 0" if clear else ": all the more reason not to claim a win"
    return Experiment(
        name="q5",
        title="The report",
        points=11,
        minutes=190,
        goal="to show all runs, and to claim no more than they carry",
        text=rf"""
**One figure, two panels.** On the left the learning curves: evaluation return against environment steps, **one thin line a seed**,
all seeds of all settings, and on top of each setting's lines their summary at every evaluation, which is {statistic_text}. On the
right the final returns of question 4: a dot a run, each setting's summary, and its {level} % interval. Name the axes, with the
number of episodes behind a point. As these cells run without files at hand, copy the numbers into the cell.

For the interval use the bootstrap over seeds: draw $n$ of a setting's $n$ final returns with replacement, compute the
same summary, do so 20 000 times, and take the middle {level} %. Do the same for the *difference* of two settings (draw the
seeds of each separately). Evaluations and episodes of one run are not resampled: they are not new runs.

**One report, at most 300 words** (tables and the command do not count). It says, in any order: the question; what was held equal (environment
steps, tuning, evaluation) and what was not; seeds, also those for tuning; the difference with its {level} % interval, and what follows by
your plan; every failed run, and what became of it; what did not work, or was tried and dropped; by how much
your numbers would have been better had you {temptation_text}; the command that makes every number again, with versions.
""",
        code=f"""curves = torch.tensor({CURVES})  # [settings, seeds, evaluations], 10 episodes each
final = torch.tensor({FINAL})  # 50 episodes each
steps, names = 1_024 * torch.arange(1, 7), ["ten passes", "two passes"]


def summary(runs):  # {statistic_text}
    return {statistic_code}


def interval(draws):
    return draws.quantile(torch.tensor([{(50 - level / 2) / 100:g}, {(50 + level / 2) / 100:g}]))


pick = torch.randint(5, (20_000, 2, 5), generator=torch.Generator().manual_seed(0))
draws = [summary(final[i][pick[:, i]]) for i in range(2)]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True, layout="constrained")
for i, name in enumerate(names):
    left.plot(steps, curves[i].T, color=f"C{{i}}", linewidth=0.7, alpha=0.6)
    left.plot(steps, summary(curves[i].T), color=f"C{{i}}", linewidth=2.5, label=name)
    low, high = interval(draws[i]).tolist()
    right.plot(i + torch.linspace(-0.1, 0.1, 5), final[i], "o", color=f"C{{i}}", alpha=0.6)
    right.plot([i + 0.25, i + 0.25], [low, high], color=f"C{{i}}")
    right.plot(i + 0.25, summary(final[i]), "D", color=f"C{{i}}")
left.set(xlabel="environment steps", ylabel="evaluation return", title="10 episodes a point, a thin line a seed")
right.set(xlabel="setting", xticks=[0, 1], xticklabels=names, xlim=(-0.5, 1.6), title="final policy, 50 episodes a dot")
left.legend()
print("difference:", summary(final[0]) - summary(final[1]), "interval:", interval(draws[0] - draws[1]))
plt.show()""",
        solution=rf"""
**Do ten passes over each rollout beat two? PPO on CartPole-v1.** Both settings had 6 144 environment steps, the same networks,
rollouts (8 × 32) and minibatches (64), and the same tuning: four learning rates, three seeds each (100 to 102), the best by its mean (0.004
for ten passes, 0.002 for two). Not equal: ten passes take five times the gradient steps and about two and a half times the
training seconds.

Measure: the final policy's mean over 50 episodes; seeds 0 to 4. Ten passes: {values[0]:.0f}; two passes: {values[1]:.0f} ({statistic_text}).
The difference is {gap:.0f}, with {article} {level} % bootstrap interval from {low:.0f} to {high:.0f}. It {verdict}.
With five seeds such an interval is rather too short{remark}.

No run failed; all in all there were 47 trainings. One run of ten passes (seed 0) fell from 481 to 187 and stands in all numbers. Seed 3 of two passes reached 500
twice and ended at 274.

What did not work. First we compared both at the learning rate 0.001, on these same seeds: 414 against 147. That says more about the
learning rate than about passes, so we tuned both, and dropped it. The tuned rate of ten passes is the largest of the four: tried
afterwards on the tuning seeds, 0.008 had 441 in place of 430, so this side is not tuned to its end. The winners' means on the
tuning seeds (430 and 369) are the best of four and no estimates.

Had we {temptation_text}, we would show {flattered[0]:.0f} and {flattered[1]:.0f}.

`python project.py` (its text stands in the answer to question 4), torch 2.13, one thread; twice, in processes of their own, it printed the same
digits.
""",
        rubric=f"""Figure, 4 points. 1: every seed of every setting is drawn, none missing against question 4. 1: environment steps on the axis, names and
numbers of episodes. 1: the summary is the one asked for. 1: {article} {level} % interval over seeds, not over episodes or evaluations.
Report, 7 points. 1: the question, answered by the plan's rule (an honest "cannot tell" counts in full; a claim beyond the interval,
or a rule other than question 1's without saying so, does not). 1: what was equal: steps and tuning, and one thing that was not.
1: final and tuning seeds, apart. 1: the difference with its interval, right for the numbers of question 4. 1: failed runs, also
"none", and what did not work: at least one thing tried. 1: what the flattering choice would have given, right for the
student's runs. 1: a command with versions that somebody else could type. Over 300 words: take off 1. Nothing depends on the
size or sign of the effect. Ask for the script where numbers look invented: returns that are too round, curves that never fall.""",
    )


def review(draw: Random) -> Written:
    report, task, numbers, questions, answer = draw.choice([
        (
            "**NewClip beats PPO on Hopper.** NewClip and PPO were trained for a million steps with seeds 0 to 9. NewClip's four new coefficients were chosen among 40 combinations on these seeds; PPO has its library's defaults. Two of NewClip's runs diverged and were excluded. The remaining eight reach 2410 on average, PPO's ten reach 2190. A run's return is its best evaluation of 50 episodes. Error bars are ± 35, the standard error over NewClip's 8 × 50 evaluation episodes, so the difference of 220 is more than six standard errors.",
            "What is NewClip's mean if a diverged run counts as a return of 20? From seed to seed the eight returns have a standard deviation of 420: what is the standard error of their mean, and which standard deviation does ± 35 belong to?",
            "$(8 \\cdot 2410 + 2 \\cdot 20)/10 = 1932$, which is below PPO's 2190. Over seeds the standard error is $420/\\sqrt 8 = 148$, four times what was printed, and 220 is not large beside it (PPO's own error not counted). $35 \\cdot \\sqrt{400} = 700$ is the standard deviation of single episodes: it says how well the eight policies were measured, and nothing about a ninth seed.",
            "two of ten runs were excluded because they were bad (compare with them in); the coefficients were chosen on the seeds of the report (ask for new seeds); 40 combinations against none (tune PPO by as many runs); the best evaluation of each run (ask for the final policy's); the error over episodes in place of seeds (ask for all returns)",
            "the excluded runs",
        ),
        (
            "**A bonus that makes A2C land.** On LunarLander we add an exploration bonus to A2C. Of twelve trainings with the bonus we show the three best, since the others did not explore well; of plain A2C we show all three. Means: 251 with the bonus, 148 without. Each agent was trained until its curve was flat, about two million steps with the bonus and about one million without. Curves are means over the three runs, smoothed over the last hundred evaluations. The return with the bonus includes the bonus, as the agent maximizes it.",
            "Suppose that the bonus does nothing: all returns come from one distribution, uniform between 0 and 300. What is the expected mean of the three best of twelve, and of three runs? (The $k$-th smallest of $n$ uniform numbers on $[0, 1]$ has mean $k/(n+1)$.)",
            "The three best of twelve have ranks 10, 11 and 12: $300 \\cdot \\frac{10 + 11 + 12}{3 \\cdot 13} = 300 \\cdot \\frac{11}{13} = 254$; three runs have mean 150. The choice alone makes a gap of 104, as large as all that was found (251 against 148).",
            "the three best of twelve against all of three (ask for all twelve); twice the environment steps (compare at equal steps); \"until flat\" is a stopping rule that looks at the result (fix it beforehand); the bonus is counted in the return (evaluate by the task's own reward); three smoothed curves without their spread (ask for all seeds, not smoothed)",
            "the choice of three in twelve",
        ),
        (
            "**V-MPO is significantly better than PPO.** We trained both on 20 tasks of the Control Suite with five seeds each, V-MPO for two million steps, PPO for one, as V-MPO's steps are cheaper. On cheetah run V-MPO reaches 310 ± 30 and PPO 262 ± 28 (mean ± standard error over seeds). The intervals do not overlap by much, and a test that treats all 5 × 100 evaluation episodes as a sample gives p < 0.001. The other tasks show the same trend and are left out for space. V-MPO was tuned on cheetah run; PPO has the settings of another paper.",
            "What are the standard error and the 95 % interval (normal) of the difference on cheetah run? If no algorithm were better on any of 20 independent tasks, with which probability would at least one of 20 tests at the 5 % level be significant?",
            "$\\sqrt{30^2 + 28^2} = 41.0$, and $48 \\pm 1.96 \\cdot 41.0$ is $[-32, 128]$: it contains 0. $1 - 0.95^{20} = 0.64$: one striking task in twenty is what chance would give.",
            "one task of twenty is shown (ask for all, with the same figure); twice the steps for one side (compare at equal steps, and show seconds beside them); episodes of one policy counted as independent runs in the test (the sample is five seeds); tuned on the very task, and against settings of another paper (tune both alike, elsewhere or with other seeds); overlap of intervals is no test of a difference (ask for the interval of the difference)",
            "the nineteen tasks that are not shown",
        ),
    ])  # fmt: skip
    return Written(
        name="q6",
        title="Reproduce and review",
        points=6,
        minutes=100,
        goal="to read results, your own first, as a reviewer does",
        text=rf"""
1. **Reproduce.** Start a fresh process and make one row of your table again, by the command of your report. Then run each setting with a
   seed that is in no table of yours. Give the numbers, old and new. Is the row the same to the last digit? If not, find out why. Where
   do the new runs lie among your five, and do they change what you claim?
2. **Review.** Here is a report. Ask the five questions that matter most, the most serious first; for each say what in the text makes you
   ask, and which run or number would settle it.

   > {report}

3. **Calculate.** {task}
4. **Turn it around.** Which of your five questions hits your own report hardest? Write the sentence that you add to it or change in it.
""",
        solution=rf"""
1. Ten passes with seed 3 came out at 500.0 again, and so did all six evaluations of that run; the whole table did. (Same
   machine, one thread. Another number of threads or another version of torch may add up in another order; a training makes a different last
   bit into a different run.) New seed 5: ten passes 450.24, two passes 187.16. Both lie between the lowest and the highest of their five
   (187.1 to 500, 185.8 to 364.96). They point the same way as the report, and one more pair does not change what it claims. To decide
   after seeing them whether they belong into the table would be a choice by the result, so they stay out.
2. Most serious first, or nearly so: {questions}.
3. {numbers}
4. For the report of question 5, as an example: both settings were *seen* on seeds 0 to 4 before they were tuned, in the comparison that was dropped.
   Sentence to add: "The seeds of this report are not fresh: a first comparison at other learning rates used them too. A
   repetition on seeds 10 to 29 is planned, and its result will be reported whatever it is."
""",
        rubric=f"""1: a row made again in a fresh process, with numbers, and any difference explained. 1: new seeds with their place among the old ones, and
nothing claimed that they do not carry. 2: five questions, each tied to the text and with what would settle it (four good ones: 1.5; three: 1;
a list of general advice: 0.5). {answer.capitalize()} must be among the first two. 1: the calculation. 1: a real weakness of the own
report, and a sentence that says it.""",
    )
