"""What a copy of a chapter has below each *Implement* exercise: a stub to fill in, and a cell that tries its check."""

from __future__ import annotations

import re
from collections.abc import Callable
from traceback import extract_tb
from typing import Any

from .answers import NOT_YET

# By exercise: its check, the function or class that is to be written, and what that returns.
EXERCISES = {
    "ex-mdp-evaluate": ("policy_evaluation", "my_value(world, policy)", "V [S]"),
    "ex-mdp-visits": ("visitation", "my_visitation(world, policy)", "the visitation [S], not normalized"),
    "ex-mdp-turn": ("turning_point", "turning_point(state, slip)", "a discount, 0 if nothing turns"),
    "ex-pg-enumerate": ("path_gradient", "my_gradient(world, policy, T)", "the gradient [S, A]"),
    "ex-pg-optimal": ("best_baseline", "my_baseline(score, returns)", "a baseline for each sample [N]"),
    "ex-ac-lambda": ("lambda_return",
        "lambda_return(reward, value, next_value, terminated, truncated, *, gamma, lam)", "lambda-returns [T, B]"),
    "ex-trpo-couple": ("coupling", "couple(p, q)", "the joint distribution [A, A]"),
    "ex-step-cg": ("conjugate_gradient", "my_cg(product, target, iterations)", "x, shaped as target"),
    "ex-step-fvp": ("fisher_product", "my_product(score, vector, damping)", "F v + damping * v, [n]"),
    "ex-ac-compatible": ("compatible", "compatible_weights(q_value, policy, visits, score)", "w [n]"),
    "ex-ppo-dual": ("dual_clip", "dual_clip_objective(log_ratio, advantage, clip_eps, c)", "shaped as log_ratio"),
    "ex-ppo-back": ("walks_back",
        "class WalksBack(PPOAgent):\n    bound = 0.01\n\n    def gradient_step(self, loss)", "what PPOAgent's returns"),
    "ex-since-sizes": ("dials", "several(logits, sizes, action)", "log-probability [N], entropy [N]"),
    "ex-mpo-estep": ("estep", "my_estep(q_value, log_prior, eta)", "weights [N, B]"),
    "ex-mpo-temperature": ("binding_temperature", "my_temperature(q_value, log_prior, eps_eta)", "eta, scalar"),
    "ex-mstep-mean": ("bounded_fit",
        "closed_fit(action, weights, mean_old, std_old, eps_mean, eps_std)", "mean [D], std [D]"),
    "ex-retrace-code": ("retrace",
        "my_retrace(reward, q_value, next_value, log_ratio, terminated, truncated, *, gamma, lam)", "targets [T, B]"),
    "ex-retrace-vtrace": ("vtrace",
        "my_vtrace(reward, value, next_value, log_ratio, terminated, truncated, *, gamma, ratio_cap, trace_cap)",
        "targets [T, B]"),
    "ex-vmpo-top-k": ("top_k", "my_top_k(advantage, eligible, kappa)", "a bool mask [N]"),
    "ex-vmpo-refuse": ("refusing_temperature", "temperature(A, mask, eps_eta)", "eta, or None"),
    "ex-vrun-worth": ("risk_worth", "my_worth(outcome, chance, eta)", "the worth, scalar"),
    "ex-vrun-loss": ("batch_loss",
        "my_loss(log_old, log_new, action, advantage, eta, alpha, kappa, eps_eta, eps)", "the loss, scalar"),
    "ex-relatives-step": ("mirror_step", "my_step(policy, x, eta)", "the new policy [S, A]"),
    "ex-seeds-ranks": ("ranks", "by_ranks(x, y)", "a probability"),
    "ex-seeds-student": ("student_interval", "student_interval(x, again, p)", "the lower end, the upper end"),
    "ex-hill-remember": ("remembered", "remembered(tau, cars, generator)", "the share that reaches the flag"),
    "ex-hill-pole": ("held_pole", "upright(hold)", "the mean number of steps"),
    "ex-tasks-closing": ("closing", "by_closing(p)", "corrected p-values [m]"),
    "ex-lm-token-rewards": ("token_rewards",
        "my_rewards(log_prob, reference_log_prob, mask, reward, beta)", "rewards [L, B]"),
    "ex-pref-smooth": ("smoothed_labels", "my_loss(margin, beta, epsilon)", "the loss, scalar"),
    "ex-pre-lse": ("logsumexp", "my_logsumexp(x)", "shaped as x without its last dimension"),
}  # fmt: skip


def stub_and_check(label: str) -> tuple[str, str]:
    """The two cells of an exercise. Raises KeyError: it is not in the table."""
    check, head, returned = EXERCISES[label]
    head = head if head.startswith("class") else f"def {head}"
    name = re.findall(r"\w+", head)[1]
    body = "        " if "\n" in head else "    "
    stub = f"{head}:\n{body}# Returns {returned}.\n{body}raise NotImplementedError"
    return stub, f"from minerva_book.exercises import attempt, check_{check}\n\nattempt(check_{check}, {name})"


def attempt(check: Callable[[Any], None], answer: Any) -> None:
    """Print in one line what a check says of an answer. Whatever the answer raises ends here."""
    try:
        check(answer)
    except Exception as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        if isinstance(error, NotImplementedError) and not error.args:
            print(NOT_YET)  # as the stub has it
        elif isinstance(error, AssertionError):
            print(f"not right yet: {said}")
        else:
            lines = [each.line for each in extract_tb(error.__traceback__) if "ipykernel" in each.filename]
            where = f"  in the line  {lines[-1]}" if lines[1:] else ""  # the first one is that of the check's cell
            print(f"raises {type(error).__name__}: {said}{where}")
    else:
        print("right")
