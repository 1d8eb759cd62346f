"""Slips: small wrong turns in the solution of whatever variant a term draws, where the variant has room for them.

A slip is a list of edits of the solution's text, literal ones or patterns. It belongs to the terms whose solution has each
place just once; `slipped` gives None for the others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

P = re.compile
Edit = tuple["str | re.Pattern[str]", str]


def slipped(solution: str, edits: Sequence[Edit]) -> str | None:
    """The solution with a slip in it; None where it has no place for the slip, or more than one."""
    text = solution
    for old, new in edits:
        pattern = old if isinstance(old, re.Pattern) else P(re.escape(old))
        if len(pattern.findall(text)) != 1:
            return None
        text = pattern.sub(new if isinstance(old, re.Pattern) else new.replace("\\", r"\\"), text)
    return text if text != solution else None


HW1: dict[str, dict[str, list[Edit]]] = {
    "q2": {
        "ground at height 0 is low ground": [("height < 0.0", "height <= 0.0")],
        "the danger lies where one goes": [("gamma).unsqueeze(1).expand", "gamma).unsqueeze(0).expand")],
        "a step from the last state ends it": [("index_fill_(1,", "index_fill_(0,")],
        "the first state ends it": [("torch.tensor([states - 1])", "torch.tensor([0])")],
        "the action before this one": [("roll(-1, dims=1)", "roll(1, dims=1)")],
        "the two chances are exchanged": [(P(r"move = (0\.\d) \* transition \+ (0\.\d) \*"), r"move = \2 * transition + \1 *")],
        "the pay of the old world": [('sax,sx->sa", move, pay', 'sax,sx->sa", transition, pay')],
        "every action is as likely": [("(policy * earned).sum(-1)", "earned.mean(-1)")],
        "the best action's pay": [("(policy * earned).sum(-1)", "earned.amax(-1)")],
    },
    "q3": {
        "one reward too many": [(P(r"k < (\d) else"), r"k <= \1 else")],
        "only the hyperbola discounts": [("gamma**k / (1.0 + ", "1.0 / (1.0 + ")],
        "a hyperbola without its rate": [(P(r"\(1\.0 \+ 0\.\d \* k\)"), "(1.0 + k)")],
        "the others' mean divides by all": [("/ max(envs - 1, 1)", "/ envs")],
        "0 divided by no others": [("/ max(envs - 1, 1)", "/ (envs - 1)")],
        "the others' returns, not their surprises": [("others(credit - guess)", "others(credit)")],
        "one's own square counts": [("others(guess.square())", "guess.square().sum(1, keepdim=True)")],
        "the scale in place of the baseline": [("guess * others(guess * credit)", "others(guess * credit)")],
        "the critic is trained": [("value.detach()", "value")],
        "the age goes on over an end": [("torch.where(ended[t - 1], 1.0, gamma * weight[t - 1])", "gamma * weight[t - 1]")],
        "the length so far": [(P(r"(?s)    for t in reversed\(range\(steps - 1\)\):  # all of its rows\n.*?\n(?=    weight)"), "")],
        "a mean over rows of whole episodes": [("finished / ended.sum()", "finished / finished.sum()")],
        "divided by all episodes, whole or not": [("finished / ended.sum()", "finished / (envs + ended[:-1].sum())")],
        "everything counts as finished": [("finished = ended.clone()", "finished = torch.ones_like(ended)")],
    },
    "q4": {
        "limited above alone": [(P(r"\.clamp\(-(\d\.\d), (\d\.\d)\)"), r".clamp(max=\2)")],
        "a small spread becomes 1": [(P(r"spread\.clamp\(min=(0\.\d+)\)"), r"torch.where(spread < \1, 1.0, spread)")],
        "the floor lies under the variance": [(P(r"(?s)\.square\(\)\)\.sqrt\(\)(.*)spread\.clamp\(min=(0\.\d+)\)"), r".square()).clamp(min=\2).sqrt()\1spread")],
        "standardized, then not limited where it is small": [(P(r"spread\.clamp\(min=0\.\d+\)"), "(spread + 1e-8)")],
    },
}  # fmt: skip

HW2: dict[str, dict[str, list[Edit]]] = {
    "q2": {
        "a TD error of 0 is negative": [("ahead >= 0.0", "ahead > 0.0")],
        "the advantage ahead decides": [("ahead = td_error[t + 1]", "ahead = advantage[t + 1]")],
        "the trace without the discount": [("decay = gamma * ", "decay = ")],
        "a time limit ends it": [("masked_fill(terminated, 0.0)", "masked_fill(terminated | truncated, 0.0)")],
        "no trace over a truncation, but over a death": [("ended = terminated | truncated", "ended = truncated")],
    },
    "q3": {
        "what terminated does not count either": [("(~truncated).double()", "(~(truncated | terminated)).double()")],
        "every end counts more": [(P(r"\* terminated\n"), "* (terminated | truncated)\n")],
        "the expectile's other side": [("error >= 0.0", "error < 0.0")],
        "the width is not squared": [(P(r"(\d\.\d)\*\*2 \* torch"), r"\1 * torch")],
        "not halved": [("0.5 * error.square()", "error.square()")],
        "divided by the number of rows": [("weight.sum()", "weight.numel()")],
        "a mean over environments of means over rows": [("(weight * loss).sum() / weight.sum()", "((weight * loss).sum(0) / weight.sum(0)).mean()")],
    },
    "q4": {
        "a floor under the return as well": [(P(r"(?s)clamp\(min=(-\d\.\d)\)(.*)share \* ahead"), r"clamp(min=\1)\2share * ahead.clamp(min=\1)")],
        "the floor under the whole bracket": [(P(r"(?s)next_value\.clamp\(min=(-\d\.\d)\)(.*)bracket = (.*?)\n"), r"next_value\2bracket = (\3).clamp(min=\1)\n")],
        "no floor at the last row": [(P(r"bracket = (.*)\n"), r"bracket = \1\n        bracket = bracket if t + 1 < len(reward) else next_value[t]\n")],
        "no floor at a truncated row": [(P(r"bracket = (.*)\n"), r"bracket = \1\n        bracket = torch.where(truncated[t], next_value[t], bracket)\n")],
    },
}  # fmt: skip

TESTED = P(r"or \(((?:squared|residual).*)\):")
HW3: dict[str, dict[str, list[Edit]]] = {
    "q2": {
        "squares without the scale": [("squared <= tolerance * (target @ (target / metric))", "residual @ residual <= tolerance * (target @ target)")],
        "the 2-norm for the largest entry": [("residual.abs().max() <= tolerance * target.abs().max()", "residual.norm() <= tolerance * target.norm()")],
        "the square of the 2-norm for the largest entry": [("residual.abs().max() <= tolerance * target.abs().max()", "residual @ residual <= tolerance * (target @ target)")],
        "the largest entry in the new coordinates": [("residual.abs().max() <= tolerance * target.abs().max()", "(residual / metric.sqrt()).abs().max() <= tolerance * (target / metric.sqrt()).abs().max()")],
        "no test before the first iteration": [(TESTED, r"or (k > 0 and \1):")],
        "progress measured by the first iteration": [("sum(fallen)", "fallen[0]")],
        "progress measured by the value": [("tolerance * sum(fallen)", "tolerance * abs(0.5 * solution @ (target - residual) - target @ solution)")],
        "0 divided by 0 where nothing is left": [("fallen = []", "fallen = []"), ("squared == 0.0 or ", "")],
        "exactly at the tolerance goes on": [(P(r"((?:squared|residual\.abs\(\)\.max\(\)|fallen\[-1\])) <= tolerance"), r"\1 < tolerance")],
        "as good as nothing is better": [("target @ start < 0.0", "target @ start <= 0.0")],
        "the start where its residual is smaller": [("0.5 * start @ image - target @ start < 0.0", "(target - image).norm() < target.norm()")],
        "a floor of the median": [(P(r"clamp\(min=(0\.\d) \* scale\.mean\(\)"), r"clamp(min=\1 * scale.median()")],
        "one iteration too few": [("range(iterations)", "range(iterations - 1)")],
    },
    "q3": {
        "capped where it pays alone": [(P(r"ratio\.clamp\(max=(\d\.\d)\)"), r"torch.where(fixed > 0.0, ratio.clamp(max=\1), ratio)")],
        "capped below, too": [(P(r"ratio\.clamp\(max=(\d\.\d)\)"), r"ratio.clamp(1 / \1, \1)")],
        "a weighted mean ratio": [("ratio / ratio.mean()", "ratio / ((weight * ratio).sum() / weight.sum())")],
        "the shares of the directions are exchanged": [(P(r"\(\((0\.\d) \* old\.exp\(\) - (0\.\d) \* log"), r"((\2 * old.exp() - \1 * log")],
        "a KL of logits": [("logits.log_softmax(-1), old", "logits, old")],
        "the weight of the next row": [(P(r"\(1\.0 \+ (0\.\d) \* time\)"), r"(1.0 + \1 * (time + 1.0))")],
        "the first two rows weigh 1": [("time == 0.0,", "time <= 1.0,")],
        "a price with the advantage's sign": [("fixed.abs()", "fixed")],
        "the mean price of a plain mean": [("(weight * fixed.abs()).sum() / weight.sum()\n", "fixed.abs().mean()\n")],
        "the spread of the advantages": [("fixed.square().mean().sqrt()", "fixed.std(correction=0)")],
        "a weighted mean of squares": [("fixed.square().mean().sqrt()", "((weight * fixed.square()).sum() / weight.sum()).sqrt()")],
        "no root": [("fixed.square().mean().sqrt()", "fixed.square().mean()")],
        "the price outside of the weighted mean": [("(weight * (gain * fixed - price * distance)).sum() / weight.sum()", "(weight * gain * fixed).sum() / weight.sum() - (price * distance).mean()")],
    },
    "q4": {
        "the other KL decides": [("(before.exp() * (before - log_policy(point)))", "(log_policy(point).exp() * (log_policy(point) - before))")],
        "fractions from the second": [("for j in range(", "for j in range(1, 1 + ")],
        "one trial too few": [(P(r"range\((\d)\)"), r"range(\1 - 1)")],
        "one trial too many": [(P(r"fraction = (0\.\d\*\*j|1\.0 / \(1 \+ j\))"), r"fraction = \1"), (P(r"range\((\d)\)"), r"range(\1 + 1)")],
        "a gain is enough": [(P(r"gain >= 0\.\d \* fraction \* expected"), "gain > 0.0")],
        "the whole gain is wanted": [(P(r"gain >= 0\.\d \* fraction"), "gain >= fraction")],
        "no slack": [(P(r"kl <= \d\.\d \* kl_bound"), "kl <= kl_bound")],
        "every KL will do": [(P(r"kl <= \d\.\d \* kl_bound and "), "")],
    },
}  # fmt: skip

SILENT = "silent = ((ratio > 1.0 + clip_eps) & (a > 0.0)) | ((ratio < 1.0 - clip_eps) & (a < 0.0))"
OUTSIDE = "outside = (ratio > 1.0 + clip_eps) | (ratio < 1.0 - clip_eps)"
HW4: dict[str, dict[str, list[Edit]]] = {
    "q2": {
        "the factor at both ends": [(P(r"(\d\.\d) \* clip_eps, 1\.0 - clip_eps"), r"\1 * clip_eps, 1.0 - \1 * clip_eps")],
        "the lower end is not a reciprocal": [("1.0 / (1.0 + clip_eps)", "1.0 - clip_eps")],
        "the power is a factor": [(P(r"\(1\.0 \+ clip_eps\) \*\* (\d\.\d)"), r"(1.0 + \1 * clip_eps)")],
        "what is at stake has a sign": [("advantage.abs())", "advantage)")],
        "clipped whatever the sign": [("past = torch.where(good, ratio > end, ratio < end)", "past = torch.where(good, ratio > end, ratio < end) | (ratio > 1.0 + clip_eps)")],
        "the slope is that of the whole ratio": [(P(r"end ([+-]) (0\.\d) \* \(ratio - end\)"), r"end \1 \2 * ratio")],
        "weights from the first step on": [(P(r"\* (0\.\d) \*\* torch\.arange\(len\(term\)\)\[:, None\]"), r"* \1 ** (eligible.cumsum(0) - 1.0)")],
        "environments without a step count": [("[count > 0] / count[count > 0]", " / count.clamp(min=1)")],
        "every step counts alike": [("return column.mean()", "return (eligible * term).sum() / count.sum()")],
        "every row counts alike": [("count = eligible.sum(0)", "count = eligible.sum(1)"), ("(eligible * term).sum(0)", "(eligible * term).sum(1)")],
        "divided by the eligible steps": [("weight.sum()", "eligible.sum()")],
    },
    "q3": {
        "an advantage of 0 is silenced below": [("(ratio < 1.0 - clip_eps) & (a < 0.0)", "(ratio < 1.0 - clip_eps) & (a <= 0.0)"), ("silent.sum()", "silent.sum()")],
        "a clip of log-ratios": [(SILENT, "silent = ((u > clip_eps) & (a > 0.0)) | ((u < -clip_eps) & (a < 0.0))")],
        "an interval of log-ratios": [(OUTSIDE, "outside = u.abs() > clip_eps"), (SILENT, "silent = ((u > clip_eps) & (a > 0.0)) | ((u < -clip_eps) & (a < 0.0))")],
        "an interval of log-ratios, silence of ratios": [(OUTSIDE, "outside = u.abs() > clip_eps")],
        "the lower end is a reciprocal": [(P(r"fraction = (\(?silent)"), r"fraction = \1"), (SILENT, "silent = ((ratio > 1.0 + clip_eps) & (a > 0.0)) | ((ratio < 1.0 / (1.0 + clip_eps)) & (a < 0.0))")],
        "NaN where nothing is taught": [(" if (a != 0.0).any() else 0.0", "")],
        "the size of a sum": [("(silent * a.abs()).sum() / a.abs().sum()", "(silent * a).sum().abs() / a.abs().sum()")],
        "no advantage is no entry": [("max(int(outside.sum()), 1)", "max(int((outside & (a != 0.0)).sum()), 1)")],
        "NaN where nothing is outside": [("max(int(outside.sum()), 1)", "outside.sum()")],
        "NaN where nothing varies": [("-common / spread if spread > 0.0 else 0.0", "-common / spread")],
    },
    "q4": {
        "a symmetric clip": [(P(r"1\.0 \+ (\d\.\d) \* clip_eps\)"), "1.0 + clip_eps)")],
        "the constant under the root": [("(variance.sqrt() + 1e-8)", "(variance + 1e-8).sqrt()")],
        "k2": [("average(torch.expm1(log_ratio) - log_ratio)", "average(0.5 * log_ratio.square())")],
        "k3 of the other direction": [("average(torch.expm1(log_ratio) - log_ratio)", "average(torch.expm1(-log_ratio) + log_ratio)")],
        "the slack divides": [(P(r"drift > (\d\.\d) \* target_kl"), r"drift > target_kl / \1")],
        "the later ones come back": [(".cumsum(0) > 0", " > 0")],
        "the stop looks at the mean so far": [("ended = (drift", "ended = (drift.cumsum(0) / torch.arange(1, 1 + len(drift))")],
    },
}  # fmt: skip

HW5: dict[str, dict[str, list[Edit]]] = {
    "q2": {
        "the difference with its sign": [("(q_value - second).abs()", "(q_value - second)")],
        "the prior as it came": [(P(r"base = .*\n"), "base = prior\n")],
        "no maximum taken out": [("best + own * (eps_eta + log_normalizer)", "own * (eps_eta + (base * (value / own).exp()).sum(0).log())")],
        "a maximum over everybody, exp before log": [("value.max(0).values", "value.max()"), ("(base.log() + (value - best) / own).logsumexp(0)", "(base * ((value - best) / own).exp()).sum(0).log()")],
        "a maximum also over those never taken, exp before log": [(P(r"(base = prior\*\*0)"), r"\1"), ("(base.log() + (value - best) / own).logsumexp(0)", "(base * ((value - best) / own).exp()).sum(0).log()")],
        "the minimum taken out, exp before log": [("value.max(0).values", "value.min(0).values"), ("(base.log() + (value - best) / own).logsumexp(0)", "(base * ((value - best) / own).exp()).sum(0).log()")],
        "1e-8 under the logarithm": [("(base.log() + (value - best) / own).logsumexp(0)", "((base * ((value - best) / own).exp()).sum(0) + 1e-8).log()"), ("value.max(0).values", "value.mean(0)")],
        "divided by the number of states": [("/ state_weight.sum()", "/ len(state_weight)")],
        "a mean over the states of weight 1": [("each[state_weight > 0.0].mean()", "each[state_weight >= 1.0].mean()")],
    },
    "q3": {
        "the power also of what overflows": [(P(r"\((0\.\d) \* log_ratio\)\.clamp\(max=0\.0\)\.exp\(\)"), r"(log_ratio.exp() * (log_ratio < 0.0) + (log_ratio >= 0.0)) ** \1")],
        "the larger at a time limit": [("torch.minimum(next_value, q_value)", "torch.maximum(next_value, q_value)")],
        "one row too far": [(P(r"n <= (\d)"), r"n <= \1 + 1")],
        "the trace of the own row": [("trace[1:].masked_fill", "trace[:-1].masked_fill")],
        "the row of an end is left out": [("trace[1:].masked_fill(ended[:-1], 0.0)", "trace[1:].masked_fill(ended[:-1] | ended[1:], 0.0)")],
        "the trace goes on over a truncation": [("ended = terminated | truncated", "ended = terminated")],
        "the mask multiplies what is not a number": [("torch.ones_like(td_error)", "1.0 + 0.0 * trace")],
    },
    "q4": {
        "chosen by both parts together": [("parts.sum(-1).amax(-1)", "parts.sum(-1)[:, parts.sum((0, -1)).argmax()]")],
        "a dimension chosen by both parts together": [("parts.mean(1).amax(-1)", "parts.mean(1)[:, parts.sum((0, 1)).argmax()]")],
        "a mean over dimensions, too": [("parts.sum(-1).mean(-1)", "parts.mean((1, 2))")],
        "the largest of all entries": [(P(r"parts\.(?:mean\(1\)|sum\(-1\))\.amax\(-1\)"), "parts.amax((1, 2))")],
        "the largest, then the mean": [("parts.mean(1).amax(-1)", "parts.amax(-1).mean(-1)")],
        "weights are normalized": [("weights.detach(), mean_old", "(weights / weights.sum(0)).detach(), mean_old")],
        "a sum over the states": [("shares, cost).mean()", "shares, cost).sum()")],
        "the mean's part with the std": [("torch.stack([(mean - mean_old).square() / var_old", "torch.stack([(mean - mean_old).square() / var")],
    },
}  # fmt: skip

HW6: dict[str, dict[str, list[Edit]]] = {
    "q2": {
        "the exception below 0 alone": [("flat[members[0]] > 0.0", "flat[members[0]] >= 0.0")],
        "poor is who has a mean below 0": [("flat[members[0]] > 0.0", "flat[members].mean() > 0.0")],
        "at the margin one is kept": [(P(r"flat\[best\] > -"), "flat[best] >= -")],
        "those who equal the best are kept": [("(best == members[0])", "(flat[best] == flat[members[0]])")],
        "small is one less": [(P(r"n >= (\d)"), r"n >= \1 - 1")],
        "small is one more": [(P(r"n >= (\d)"), r"n >= \1 + 1")],
        "small counts those who are not eligible": [(P(r"k if n >= (\d)"), r"k if int((group == each).sum()) >= \1")],
        "places by columns": [(P(r"group = (old|\(2)"), r"group = \1"), (P(r"members = index\[\(group == each\) & able\](\.flip\(0\))?\n"), r"columns = index.view(eligible.shape).T.flatten()\n        members = columns[((group == each) & able)[columns]]\1\n")],
        "ties to the later place": [(P(r"\[\(group == each\) & able\]\n"), "[(group == each) & able].flip(0)\n")],
        "ties to the earlier place": [("[(group == each) & able].flip(0)", "[(group == each) & able]")],
        "ties to the place, whatever the age": [(P(r"group = (index|\(2)"), r"group = \1"), (P(r"        members = members\[old\[members\].*\n"), "")],
        "ceiling": [(P(r"k = .*floor.*"), "k = math.ceil(kappa * n)")],
        "rounded to even": [(P(r"k = .*0\.5.*"), "k = max(1, round(kappa * n))")],
        "a floor that may be 0": [("max(1, math.floor(kappa * n))", "math.floor(kappa * n)")],
        "a rounding that may be 0": [("max(1, math.floor(kappa * n + 0.5))", "math.floor(kappa * n + 0.5)")],
        "a count of all, eligible or not": [(P(r"kappa \* n"), "kappa * int((group == each).sum())")],
        "halves of the flat batch": [("(2 * (index // advantage.shape[1]) < len(advantage))", "(2 * index < len(index))")],
    },
    "q3": {
        "no maximum taken out, exp before log": [("top = advantage[counts].max()", "top = torch.zeros(())"), ("logits.detach().softmax(0)", "logits.detach().exp() / logits.detach().exp().sum()"), ("logits.logsumexp(0)", "logits.exp().sum().log()")],
        "the largest size taken out": [("top = advantage[counts].max()", "top = advantage[counts].abs().max()"), ("logits.detach().softmax(0)", "logits.detach().exp() / logits.detach().exp().sum()"), ("logits.logsumexp(0)", "logits.exp().sum().log()")],
        "the mean taken out, exp before log": [("top = advantage[counts].max()", "top = advantage[counts].mean()"), ("logits.detach().softmax(0)", "logits.detach().exp() / logits.detach().exp().sum()"), ("logits.logsumexp(0)", "logits.exp().sum().log()")],
        "the maximum over everybody": [("masked_fill(~kept", "masked_fill(~kept"), ("advantage[counts].max()", "advantage.max()"), ("logits.detach().softmax(0)", "logits.detach().exp() / logits.detach().exp().sum()"), ("logits.logsumexp(0)", "logits.exp().sum().log()")],
        "1e-10 under the logarithm": [("masked_fill(~kept", "masked_fill(~kept"), ("top = advantage[counts].max()", "top = advantage.max()"), ("logits.logsumexp(0)", "(logits.exp().sum() + 1e-10).log()")],
        "an advantage of 0 counts as negative": [("advantage < 0.0", "advantage <= 0.0")],
        "clipped, not capped": [(P(r"log_ratio\.clamp\(max=math\.log\(([\d.]+)\)\)"), r"log_ratio.clamp(-math.log(\1), math.log(\1))")],
        "a cap of log-ratios": [(P(r"clamp\(max=math\.log\(([\d.]+)\)\)"), r"clamp(max=\1)")],
        "the weights feel eta": [("logits.detach().softmax(0)", "logits.softmax(0)")],
    },
    "q4": {
        "the mean taken out": [("advantage[kept].max()", "advantage[kept].mean()")],
        "the smallest taken out": [("advantage[kept].max()", "advantage[kept].min()")],
        "the largest size taken out": [("advantage[kept].max()", "advantage[kept].abs().max()")],
        "ceiling": [(P(r"k = m.*floor.*"), "k = math.ceil(kappa * n)")],
        "rounded": [(P(r"k = m.*"), "k = max(1, round(kappa * n))")],
        "ties to the other index": [(P(r"nonzero\(\)\.flatten\(\)\n"), "nonzero().flatten().flip(0)\n")],
        "ties to the lower index": [("nonzero().flatten().flip(0)", "nonzero().flatten()")],
    },
}  # fmt: skip

HW7: dict[str, dict[str, list[Edit]]] = {
    "q2": {
        "a difference of the margin counts": [(P(r"\(gap > (\d+\.\d+)\)"), r"(gap >= \1)"), ("gap.abs() <=", "gap.abs() <")],
        "the number of runs that are cut is a whole one": [(P(r"n - (0\.\d+) \* n\) - place\.clamp\(min=(0\.\d+) \* n\)"), r"n - int(\1 * n)) - place.clamp(min=int(\2 * n))")],
        "rounded": [(P(r"int\((0\.\d+) \* n\)"), r"round(\1 * n)")],
        "trimmed, not pulled in": [("runs.clamp(runs[k], runs[n - 1 - k]).mean()", "runs[k : n - k].mean()")],
        "the lowest are left out": [(P(r"runs\[: n - int\((0\.\d+) \* n\)\]"), r"runs[int(\1 * n) :]")],
        "the mean ignores the failures": [("table = torch", "table = torch"), ("runs = row[~row.isnan()].sort().values", "runs = returns[len(summary)][~returns[len(summary)].isnan()].sort().values")],
        "the pairs ignore the failures": [("table = torch", "table = torch"), ("gap = (table[:, None, :, None] - table[None, :, None, :])", "gap = (returns[:, None, :, None] - returns[None, :, None, :])")],
        "the pairs of one seed ignore the failures": [("table = torch", "table = torch"), ("gap = table[:, None] - table[None, :]", "gap = returns[:, None] - returns[None, :]")],
        "0 for a failure": [(P(r"table = torch\.where\(returns\.isnan\(\), .*, returns\)"), "table = returns.nan_to_num(0.0)")],
        "failed pairs count nothing, but count": [("table = returns\n", "table = returns\n"), ("/ counted.sum(2)", "/ counted.shape[2]")],
        "half the slope": [(P(r"0\.5 \+ gap / (\d+\.\d+)"), r"0.5 + gap / (2 * \1)")],
    },
    "q3": {
        "the standard deviation divides by n": [("correction=1", "correction=0")],
        "the window is one too long": [("-window:", "-window - 1 :")],
        "the lowest of the run": [("score = final.amin(2)", "score = evaluations.amin(2)")],
        "the mean": [(P(r"score = .*amin.*\n"), "score = final.mean(2)\n")],
        "the last one": [(P(r"score = .*\n"), "score = final[:, :, -1]\n")],
        "an interval that begins at 0": [("middle - width,", "(middle - width).clamp(min=0.0),")],
    },
}  # fmt: skip

HW8: dict[str, dict[str, list[Edit]]] = {
    "q2": {
        "paid back without a limit": [(P(r"away\.clamp\(min=-0\.\d\)"), "away")],
        "a limit above": [(P(r"away\.clamp\(min=-(0\.\d)\)"), r"away.clamp(max=\1)")],
        "a square without its half": [("0.5 * away.square()", "away.square()")],
        "k3 the other way round": [("torch.expm1(-away) + away", "torch.expm1(away) - away")],
        "the fee is taken of every token": [(P(r"last \* \(reward - (0\.\d) \* length\)"), r"last * reward - \1 * length")],
        "cut off is who has no reward": [("torch.where(mask[-1],", "torch.where(reward <= 0.5,")],
        "cut off is one row earlier": [("torch.where(mask[-1],", "torch.where(mask[max(len(mask) - 2, 0)],")],
        "the price carries a gradient": [("(log_prob - reference_log_prob).detach()", "(log_prob - reference_log_prob)")],
        "what stands behind an end is priced": [(".detach().masked_fill(~mask, 0.0)", ".detach()"), (".masked_fill(~mask, 0.0)\n    returns", "\n    returns")],
        "a mean of means": [("term.sum() / mask.sum()", "(term.sum(0) / length).mean()")],
        "a mean of all tokens": [("(term.sum(0) / length).mean()", "term.sum() / mask.sum()")],
    },
    "q3": {
        "the median": [("(others.mean(2))", "(others.median(2).values)")],
        "the middle of all": [("(others.amax(2) + others.amin(2)) / 2.0", "(rows.amax(1, keepdim=True) + rows.amin(1, keepdim=True)) / 2.0")],
        "the best of the others": [("(others.amax(2) + others.amin(2)) / 2.0", "others.amax(2)")],
        "the shares are exchanged": [(P(r"(0\.\d) \* others\.mean\(2\) \+ (0\.\d) \*"), r"\2 * others.mean(2) + \1 *")],
        "divided by one less": [("others.std(2, correction=0)", "others.var(2, correction=0).mul(others.shape[2] / max(others.shape[2] - 1, 1)).sqrt()")],
        "the mean size": [("difference.square().mean(1, keepdim=True).sqrt()", "difference.abs().mean(1, keepdim=True)")],
        "the spread of the differences": [("difference.square().mean(1, keepdim=True).sqrt()", "difference.std(1, keepdim=True, correction=0) * 0.99")],
        "no number below it": [(P(r" \+ 0\.\d+\)\n    return"), ")\n    return")],
        "heard over all": [("difference * len(rows) / told.sum()", "difference * told.sum() / len(rows)")],
        "answers over prompts": [("len(rows) / told.sum()", "len(rows) * group / told.sum()")],
        "a prompt without a right answer is silent": [("rows.amax(1, keepdim=True) > rows.amin(1, keepdim=True)", "rows.amax(1, keepdim=True) > rows.mean()")],
    },
    "q4": {
        "softplus by hand": [("softplus = torch.nn.functional.softplus", "softplus = lambda x: (1.0 + x.exp()).log()"), ("softplus(-beta", "softplus(-beta")],
        "beyond the target is fine": [("(beta * margin - 0.5).square()", "(beta * margin - 0.5).clamp(max=0.0).square()")],
        "all pairs alike": [("each[weight > 0.0].mean()", "each.mean()")],
        "the weights count": [("each[weight > 0.0].mean()", "(weight * each).sum() / weight.sum()")],
        "divided by the pairs": [("/ weight.sum()", "/ len(weight)")],
        "divided by the pairs that count": [("/ weight.sum()", "/ (weight > 0).sum()")],
        "the reference learns": [("rejected - reference_rejected.detach()", "rejected - reference_rejected")],
        "the policy does not": [("up = chosen -", "up = chosen.detach() -")],
    },
    "q5": {
        "the longer is better": [("length > length[:, None]", "length < length[:, None]")],
        "the length comes first": [("equal = reward == reward[:, None]", "equal = length == length[:, None]"), ("lower = (reward < reward[:, None]) | equal & (length > length[:, None])", "lower = (length > length[:, None]) | equal & (reward < reward[:, None])"), ("equal & (length == length[:, None])", "equal & (reward == reward[:, None])")],
        "equal lengths do not matter": [("    equal = equal & (length == length[:, None])\n", "")],
        "ties to the other index": [(P(r"equal & \(index > index"), "equal & (index < index")],
        "ties to the lower index": [(P(r"equal & \(index < index"), "equal & (index > index")],
        "each of those that tie has it all": [("equal = index == index[:, None]\n", "equal = equal\n"), ("lower = lower | equal & (index", "lower = lower | equal & (0 * index")],
        "ties by count, not by chance": [(P(r"(?<!index == index\[:, None\])\n    level = "), "\n    level = "), ("probability / level.clamp(min=1e-30) *", "(probability > 0) / (equal * (probability > 0)).sum(1).clamp(min=1) *")],
        "the best of one less": [("return mass**n\n", "return mass ** (n - 1)\n")],
        "the best for the second best": [("mass**n + n * mass ** (n - 1) * (1.0 - mass)", "mass**n")],
        "any of the others": [(P(r"return (0\.\d) \* mass \+ (0\.\d) \* mass\*\*n"), r"return \1 * mass ** (n - 1) + \2 * mass**n")],
        "the other divergence": [("(q[some] * (q[some] / probability[some]).log()).sum()", "(probability[some] * (probability[some] / q[some]).log()).sum()")],
        "the divergence from equal shares": [("(q[some] / probability[some]).log()", "(q[some] * len(q)).log()")],
    },
    "q6": {
        "the last end token": [("ends.cumsum(0) - ends.long() == 0", "(ends.flip(0).cumsum(0).flip(0) > 0) | ~ends.any(0)")],
        "other prompts": [(".repeat_interleave(group)", ".repeat(group)")],
        "the mean of the batch": [(".mean(1).repeat_interleave(group)", ".mean()")],
        "an even clip": [(P(r"ratio\.clamp\((0\.\d+), 1\.\d+\)"), r"ratio.clamp(\1, 2.0 - \1)")],
        "a clip above alone": [(P(r"ratio\.clamp\(0\.\d+, (1\.\d+)\)"), r"ratio.clamp(max=\1)")],
    },
}  # fmt: skip

SLIPS = {"hw1": HW1, "hw2": HW2, "hw3": HW3, "hw4": HW4, "hw5": HW5, "hw6": HW6, "hw7": HW7, "hw8": HW8}
