"""Faults that real implementations had, put into this package one at a time; the named tests must turn red.

The numbers are those of `book/errata.md`; 0 is a fault that real code could have and nobody reported. `edits` are
(old text, new text) pairs in one file, and each old text must stand there exactly once, so that a mutant cannot
quietly stop being one.
"""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    fault: int
    story: str
    file: str
    edits: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]


RETURNS, OBJECTIVES, ENVS = "returns.py", "objectives.py", "envs.py"
PPO, NORMALIZER, LEARNING, ON_POLICY = "agents/ppo.py", "normalizer.py", "learning.py", "on_policy.py"
TRPO, REINFORCE, TRUST_REGION = "agents/trpo.py", "agents/reinforce.py", "trust_region.py"
ROLLOUT, BOUNDS = "rollout.py", "bounds.py"

GAE_SUM = "test_returns.py::test_gae_is_the_double_sum"
RETURNS_SUM = "test_returns.py::test_returns_are_the_sum"
MIDDLE_TERMINATES = "test_returns.py::test_gae_worked_by_hand_where_the_middle_step_terminates"
MIDDLE_TRUNCATED = "test_returns.py::test_gae_worked_by_hand_where_the_middle_step_is_truncated"
ENDS_TERMINAL = "test_returns.py::test_gae_worked_by_hand_where_the_rollout_ends_on_a_terminal_step"
TO_THE_END = "test_returns.py::test_gae_worked_by_hand_to_the_end_of_the_rollout"
RETURNS_BY_HAND = "test_returns.py::test_returns_worked_by_hand"
WHOLE_EPISODES = "test_envs.py::test_whole_episodes_equal_gymnasiums"
SAME_STEP = "test_envs.py::test_autoreset_in_the_same_step"
NO_PHANTOMS = "test_envs.py::test_gymnasium_back_end_has_no_phantom_transitions"
TRUE_SUCCESSOR = "test_rollout.py::test_next_obs_is_the_true_successor_where_episodes_end"
SCALER_FOLLOWS = (
    "test_normalizer.py::test_reward_scaler_follows_discounted_returns_episode_by_episode_and_over_rollouts"
)
OWN_GAMMA = "test_ppo.py::test_rewards_are_scaled_with_the_agents_own_gamma"
FIRST_RATIO = "test_ppo.py::test_the_first_ratio_of_every_update_is_one"
ONE_MOMENT = "test_ppo.py::test_statistics_move_at_one_moment_only"
TO_THE_BIT = "test_ppo.py::test_a_restored_agent_continues_to_the_bit"
CARRIES_STATISTICS = "test_checkpoints.py::test_a_checkpoint_carries_the_observation_statistics"
K3_NOT_K1 = "test_ppo.py::test_target_kl_reads_k3_not_k1"
STOPS_BEFORE = "test_ppo.py::test_target_kl_stops_before_the_step"
POPULATION_STD = "test_objectives.py::test_normalize_advantage_uses_the_population_std"
ONE_ROW = "test_objectives.py::test_normalize_advantage_refuses_one_row"
CONTRADICTIONS = "test_ppo.py::test_contradictions_are_refused_by_name"
CLIP_BY_HAND = "test_objectives.py::test_clip_by_hand_in_value_and_gradient"
CLIP_GRADIENT = "test_objectives.py::test_clip_gradient_is_zero_exactly_past_the_favored_edge"
PREPARED = "test_ppo.py::test_prepare_gives_gae_targets_of_the_estimator"
FIGURES = "test_ppo.py::test_figures_over_the_rollout"
OPTIMIZER_NAMES = "test_learning.py::test_optimizer_refuses_by_name"

PROMISE, BAD = "test_trpo_promise.py::", "test_bad_input_trpo.py::"
KEEPS = PROMISE + "test_a_few_updates_keep_the_promise"
REJECTED = PROMISE + "test_a_rejected_step_leaves_every_bit_of_the_policy"
FISHER = PROMISE + "test_the_product_is_that_of_the_fisher_matrix"
CG = "test_trust_region.py::test_cg_by_hand"
FULL_STEP = "test_trust_region.py::test_full_step_by_hand"
LINE_SEARCH = "test_trust_region.py::test_line_search_by_hand"
WEIGHED = PROMISE + "test_the_weight_of_a_state_stands_in_the_loss"
OLD_TO_NEW = PROMISE + "test_the_kl_of_the_line_search_is_old_to_new"
EVERY_PARAMETER = PROMISE + "test_a_step_moves_every_parameter_of_the_policy"
CRITIC_AFTER = PROMISE + "test_the_policy_never_sees_the_critic_that_its_data_are_fitted_to"
PATH_SURROGATE = "test_objectives.py::test_importance_surrogate_by_hand"
VINE_SURROGATE = "test_objectives.py::test_vine_surrogate_by_hand"
CG_SOLVES = "test_trust_region.py::test_cg_solves_in_as_many_iterations_as_unknowns"
BEST_POINT = "test_trust_region.py::test_the_full_step_is_the_best_point_of_the_ellipsoid"
PRODUCT = "test_trust_region.py::test_fisher_product_is_the_hessian"
SAME_NUMBERS = PROMISE + "test_branches_of_a_state_differ_by_their_first_action_alone"
BRANCH_ENDS = PROMISE + "test_a_branch_bootstraps_where_it_was_cut_and_only_there"
FIRST_EPISODES = PROMISE + "test_whole_episodes_keep_first_episodes_alone"
GAMMA_T = PROMISE + "test_gamma_to_the_t_weighs_a_state_where_asked_and_nowhere_else"
OTHERS = "test_returns.py::test_leave_one_out_baseline_by_hand"
UNDONE = PROMISE + "test_a_fit_that_does_not_help_is_undone_to_the_bit"
EQUAL = BAD + "test_equal_advantages_are_left_out_by_name"
ROUNDING = BAD + "test_a_gradient_at_rounding_level_is_left_out_and_never_scaled_up"
NO_CURVATURE = BAD + "test_an_update_without_positive_curvature_is_left_out_by_name"
CG_CURVATURE = BAD + "test_conjugate_gradient_names_a_direction_without_curvature"
NO_GRADIENT = BAD + "test_a_policy_beyond_doubt_has_no_gradient"
REFUSED = BAD + "test_a_setting_is_refused_by_name"
PURE_REFUSED = BAD + "test_the_pure_functions_refuse_the_same"
CRITIC_LEARNS = BAD + "test_the_critic_learns_from_a_batch_that_leaves_the_policy_alone"
SMALL_DIFFERENCE = BAD + "test_a_small_but_real_difference_is_no_equality"
UNIT = BAD + "test_the_unit_of_the_reward_does_not_make_a_gradient_small"
NO_DAMPING = BAD + "test_without_damping_a_singular_fisher_matrix_is_stepped_on_safely_or_left_out"
NOISE_NO_DAMPING = BAD + "test_without_damping_such_a_gradient_is_left_out_too"
WITHOUT_SEARCH = PROMISE + "test_without_the_line_search_the_promise_is_broken"
NOT_FINITE = BAD + "test_a_vine_with_a_number_that_is_not_finite_moves_nothing"
TEXTS = "test_text_errors.py::"
TV_SUM = TEXTS + "test_total_variation_is_half_a_sum_over_actions_not_a_maximum"
NO_DISTANCE = TEXTS + "test_the_penalty_constant_holds_no_distance"
ARG_MIN = TEXTS + "test_a_value_function_minimizes_its_squared_error"

MUTANTS = (
    Mutant(
        1,
        "GAE takes a time limit for a terminal state and drops the successor's value",
        RETURNS,
        (("gamma * next_value.masked_fill(terminated, 0.0)", "gamma * next_value.masked_fill(terminated | truncated, 0.0)"),),
        (MIDDLE_TRUNCATED, GAE_SUM),
    ),
    Mutant(
        1,
        "the bootstrapped return does the same",
        RETURNS,
        (("bootstrap = next_value.masked_fill(terminated, 0.0)", "bootstrap = next_value.masked_fill(ended, 0.0)"),),
        (RETURNS_BY_HAND, RETURNS_SUM),
    ),
    Mutant(
        1,
        "the torch-native environment reports its time limit as a termination",
        ENVS,
        (("return Step(next_obs, reward, terminated, truncated, self.", "return Step(next_obs, reward, ended, ended & False, self."),),
        (WHOLE_EPISODES,),
    ),
    Mutant(
        1,
        "the Gymnasium back end does",
        ENVS,
        (
            ("torch.as_tensor(terminated, device=self.device)", "torch.as_tensor(terminated | truncated, device=self.device)"),
            ("torch.as_tensor(truncated & ~terminated, device=self.device)", "torch.as_tensor(truncated & False, device=self.device)"),
        ),
        (NO_PHANTOMS,),
    ),
    Mutant(
        2,
        "GAE bootstraps in the last row of the rollout even if the episode terminated there",
        RETURNS,
        (
            (
                "gamma * next_value.masked_fill(terminated, 0.0)",
                "gamma * torch.cat([next_value[:-1].masked_fill(terminated[:-1], 0.0), next_value[-1:]])",
            ),
        ),
        (ENDS_TERMINAL, GAE_SUM),
    ),
    Mutant(
        2,
        "the return does",
        RETURNS,
        (
            (
                "bootstrap = next_value.masked_fill(terminated, 0.0)",
                "bootstrap = torch.cat([next_value[:-1].masked_fill(terminated[:-1], 0.0), next_value[-1:]])",
            ),
        ),
        ("test_returns.py::test_one_single_step", RETURNS_SUM),
    ),
    Mutant(
        3,
        "no terminal mask in the target at all",
        RETURNS,
        (("gamma * next_value.masked_fill(terminated, 0.0)", "gamma * next_value"),),
        (MIDDLE_TERMINATES, GAE_SUM),
    ),
    Mutant(
        4,
        "the trace is cut by the flag of step t + 1 where that of step t belongs",
        RETURNS,
        (("td_error[t] + weight[t] * running", "td_error[t] + weight[min(t + 1, len(weight) - 1)] * running"),),
        (MIDDLE_TERMINATES, GAE_SUM),
    ),
    Mutant(
        4,
        "the trace is cut by the flag of step t - 1",
        RETURNS,
        (("td_error[t] + weight[t] * running", "td_error[t] + weight[max(t - 1, 0)] * running"),),
        (MIDDLE_TERMINATES, GAE_SUM),
    ),
    Mutant(
        4,
        "the bootstrap is masked by the flag of step t + 1",
        RETURNS,
        (("gamma * next_value.masked_fill(terminated, 0.0)", "gamma * next_value.masked_fill(terminated.roll(-1, 0), 0.0)"),),
        (MIDDLE_TERMINATES, GAE_SUM),
    ),
    Mutant(
        4,
        "the bootstrap is masked by the flag of step t - 1",
        RETURNS,
        (("gamma * next_value.masked_fill(terminated, 0.0)", "gamma * next_value.masked_fill(terminated.roll(1, 0), 0.0)"),),
        (MIDDLE_TERMINATES, GAE_SUM),
    ),
    Mutant(
        4,
        "step t receives the advantage of step t + 1",
        RETURNS,
        (
            ("running = td_error[t] + weight[t] * running\n            advantage[t] = running", "advantage[t] = running\n            running = td_error[t] + weight[t] * running"),
        ),
        (TO_THE_END, GAE_SUM),
    ),
    Mutant(
        5,
        "the trace runs on over a truncation into the next episode's advantage",
        RETURNS,
        (("(~(terminated | truncated)).to(reward.dtype)", "(~terminated).to(reward.dtype)"),),
        (MIDDLE_TRUNCATED, GAE_SUM),
    ),
    Mutant(
        5,
        "the return of the next episode is added after a truncation",
        RETURNS,
        (("ended = terminated | truncated\n        # LaTeX: b_t", "ended = terminated\n        # LaTeX: b_t"),),
        (RETURNS_BY_HAND, RETURNS_SUM),
    ),
    Mutant(
        5,
        "the successor of a truncated step is the first observation of the next episode (torch-native)",
        ENVS,
        (("return Step(next_obs, reward,", "return Step(self.observe(self.state), reward,"),),
        (SAME_STEP,),
    ),
    Mutant(
        5,
        "the same in the Gymnasium back end: the final observation is thrown away",
        ENVS,
        (('if "final_obs" in info:', 'if "no such key" in info:'),),
        (NO_PHANTOMS, TRUE_SUCCESSOR, SAME_STEP),
    ),
    Mutant(
        6,
        "Gymnasium's next-step autoreset stores a transition that nobody lived",
        ENVS,
        (("AutoresetMode.SAME_STEP", "AutoresetMode.NEXT_STEP"),),
        (NO_PHANTOMS, TRUE_SUCCESSOR),
    ),
    Mutant(
        7,
        "the reward scaler's running return goes on from one episode into the next",
        NORMALIZER,
        (("running = running.masked_fill(ended[t], 0.0)", "running = running"),),
        (SCALER_FOLLOWS, "test_normalizer.py::test_reward_scaler_by_hand", OWN_GAMMA),
    ),
    Mutant(
        7,
        "the running return uses a discount of its own",
        ON_POLICY,
        (("RewardScaler(config.gamma)", "RewardScaler(0.99)"),),
        (OWN_GAMMA,),
    ),
    Mutant(
        8,
        "observation statistics move between collecting and learning",
        ON_POLICY,
        (
            ("figures = self.improve(rollout, progress)", "self.obs_normalizer.absorb(rollout.obs)\n        figures = self.improve(rollout, progress)"),
            ("            self.obs_normalizer.absorb(rollout.obs)\n        return figures", "            pass\n        return figures"),
        ),
        (FIRST_RATIO, ONE_MOMENT),
    ),
    Mutant(
        8,
        "observation statistics move with every action",
        ON_POLICY,
        (("params = self.policy(self.normalized(obs))\n", "self.obs_normalizer.absorb(obs)\n        params = self.policy(self.normalized(obs))\n"),),
        (FIRST_RATIO, ONE_MOMENT),
    ),
    Mutant(
        9,
        "the saved state lacks the normalizer's statistics",
        ON_POLICY,
        (
            ('"modules": self.modules.state_dict(),', '"modules": {k: v for k, v in self.modules.state_dict().items() if "normalizer" not in k},'),
            ('self.modules.load_state_dict(state["modules"])', 'self.modules.load_state_dict(state["modules"], strict=False)'),
        ),
        (TO_THE_BIT,),
    ),
    Mutant(
        9,
        "loading leaves the saved statistics out",
        ON_POLICY,
        (
            (
                'self.modules.load_state_dict(state["modules"])',
                'self.modules.load_state_dict({k: v for k, v in state["modules"].items() if "normalizer" not in k}, strict=False)',
            ),
        ),
        (TO_THE_BIT, CARRIES_STATISTICS),
    ),
    Mutant(
        10,
        "the stop reads k1, which is negative while every ratio is above one",
        PPO,
        (("kl_estimates(log_ratio)[2].mean() > target", "kl_estimates(log_ratio)[0].mean() > target"),),
        (K3_NOT_K1, STOPS_BEFORE),
    ),
    Mutant(
        11,
        "advantages are scaled by the sample standard deviation, NaN for one row",
        OBJECTIVES,
        (("centered / (centered.square().mean().sqrt() + eps)", "centered / (advantage.std() + eps)"),),
        (POPULATION_STD,),
    ),
    Mutant(
        11,
        "one advantage is normalized without a word",
        OBJECTIVES,
        (("if advantage.numel() < 2:", "if advantage.numel() < 1:"),),
        (ONE_ROW,),
    ),
    Mutant(
        11,
        "a configuration that leaves a last minibatch of one row is accepted",
        PPO,
        (("if self.normalize_advantage and 1 in (self.minibatch_size, self.batch_size % self.minibatch_size):", "if self.normalize_advantage and self.minibatch_size == 1:"),),
        (CONTRADICTIONS,),
    ),
    Mutant(
        12,
        "the stop is tested once an epoch, on its last minibatch",
        PPO,
        (
            ('c.stop_test == "minibatch" and self.drifted(log_ratio)', "False"),
            ('c.stop_test == "epoch" and self.drifted(log_ratio)', "self.drifted(log_ratio)"),
        ),
        (STOPS_BEFORE,),
    ),
    Mutant(
        13,
        "the clip range is laid around the log-ratio",
        OBJECTIVES,
        (("ratio.clamp(1.0 - clip_eps, 1.0 + clip_eps)", "log_ratio.clamp(-clip_eps, clip_eps).exp()"),),
        (CLIP_BY_HAND, CLIP_GRADIENT),
    ),
    Mutant(
        30,
        "the last TD error carries the exponent T - t + 1 of the PPO paper instead of T - t - 1",
        RETURNS,
        (("        # No trace enters from beyond", "        td_error[-1] *= (gamma * lam) ** 2\n        # No trace enters from beyond"),),
        (TO_THE_END, GAE_SUM),
    ),
    Mutant(
        30,
        "the exponent of (gamma lambda) is off by one over the whole sum",
        RETURNS,
        (("advantage[t] = running\n        return advantage", "advantage[t] = gamma * lam * running\n        return advantage"),),
        (TO_THE_END, GAE_SUM),
    ),
    Mutant(
        32,
        "the TD error drops gamma before V(s_{t+1})",
        RETURNS,
        (("reward + gamma * next_value.masked_fill(terminated, 0.0) - value", "reward + next_value.masked_fill(terminated, 0.0) - value"),),
        (TO_THE_END, GAE_SUM, PREPARED),
    ),
    Mutant(
        39,
        "the raw advantage figures are read after normalization",
        ON_POLICY,
        (
            (
                'advantage, value_target = batch["advantage"], batch["value_target"]\n',
                'advantage, value_target = batch["advantage"], batch["value_target"]\n        advantage = (advantage - advantage.mean()) / advantage.std(correction=0)\n',
            ),
        ),
        (FIGURES,),
    ),
    Mutant(
        40,
        "an unknown optimizer falls through to Adam",
        LEARNING,
        (('require_one_of(("adam", "sgd"), optimizer=name)', "pass"),),
        (OPTIMIZER_NAMES,),
    ),
    Mutant(
        40,
        "an unknown optimizer falls through to None",
        LEARNING,
        (('require_one_of(("adam", "sgd"), optimizer=name)', 'if name not in ("adam", "sgd"):\n        return None'),),
        (OPTIMIZER_NAMES,),
    ),
    Mutant(
        40,
        "the configuration lets an unknown optimizer pass",
        ON_POLICY,
        (('require_one_of(("adam", "sgd"), optimizer=self.optimizer)', "pass"),),
        (CONTRADICTIONS,),
    ),
    Mutant(
        14,
        "the old log-probabilities are computed anew with the gradient attached: the ratio is 1 whatever the parameters",
        TRPO,
        (('self.policy.log_prob(params, action), batch["behavior_log_prob"], advantage', "self.policy.log_prob(params, action), self.policy.log_prob(params, action), advantage"),),
        (KEEPS, EVERY_PARAMETER),
    ),
    Mutant(
        15,
        "[N, 1] ratios times [N] advantages: every ratio meets every advantage, and the surrogate is a product of means",
        OBJECTIVES,
        (("(log_ratio.exp() * advantage.detach()).mean()", "(log_ratio.exp().unsqueeze(-1) * advantage.detach()).mean()"),),
        (PATH_SURROGATE, KEEPS),
    ),
    Mutant(
        16,
        "a step along F^-1 of the LOSS gradient, downhill",
        TRPO,
        (("gradient = flatten(torch.autograd.grad(surrogate,", "gradient = flatten(torch.autograd.grad(-surrogate,"),),
        (KEEPS, EVERY_PARAMETER),
    ),
    Mutant(
        16,
        "the line search demands that the surrogate falls",
        TRUST_REGION,
        (("gain >= wanted else", "-gain >= wanted else"),),
        (KEEPS,),
    ),
    Mutant(
        16,
        "both at once: every accepted step goes downhill",
        TRPO,
        (
            ("gradient = flatten(torch.autograd.grad(surrogate,", "gradient = flatten(torch.autograd.grad(-surrogate,"),
            ("return self.surrogate(batch) - start, self.mean_kl(batch)", "return start - self.surrogate(batch), self.mean_kl(batch)"),
        ),
        (KEEPS,),
    ),
    Mutant(
        17,
        "a step is accepted for a surrogate above 0, not above where it started: advantages of one sign accept everything",
        TRPO,
        (("return self.surrogate(batch) - start, self.mean_kl(batch)", "return self.surrogate(batch), self.mean_kl(batch)"),),
        (REJECTED, KEEPS),
    ),
    Mutant(
        18,
        "the Fisher product is that of the Hessian of k1 on the stored actions, which is indefinite",
        TRPO,
        (
            (
                "torch.autograd.grad(self.mean_kl(batch), parameters, create_graph",
                'torch.autograd.grad((batch["behavior_log_prob"] - self.policy.log_prob(self.policy(batch["obs"]), batch["action"])).mean(), parameters, create_graph',
            ),
        ),
        (FISHER, KEEPS),
    ),
    Mutant(
        18,
        "the same with actions drawn anew at every call: not even one fixed matrix",
        TRPO,
        (
            (
                "        return lambda vector: fisher_vector_product(gradient, parameters, vector, damping=self.config.damping)",
                """        def product(vector):
            params = self.policy(batch["obs"])
            drawn = self.policy.sample(params, self.generator)
            k1 = -self.policy.log_prob(params, drawn).mean()
            again = flatten(torch.autograd.grad(k1, parameters, create_graph=True, materialize_grads=True))
            return fisher_vector_product(again, parameters, vector, damping=self.config.damping)

        return product""",
            ),
        ),
        (FISHER,),
    ),
    Mutant(
        19,
        "the KL of the policy with itself, both sides attached: its Hessian is 0 and the step is the plain gradient's",
        TRPO,
        (
            (
                "torch.autograd.grad(self.mean_kl(batch), parameters, create_graph",
                'torch.autograd.grad(self.policy.kl(self.policy(batch["obs"]), self.policy(batch["obs"])).mean(), parameters, create_graph',
            ),
        ),
        (FISHER,),
    ),
    Mutant(
        20,
        "a failed line search leaves the parameters of its last trial",
        TRPO,
        (("                parameter.copy_(old)\n        return found", "                pass\n        return found"),),
        (REJECTED, NOISE_NO_DAMPING),
    ),
    Mutant(
        21,
        "the log-std is left out of the parameter vector and never moves",
        TRPO,
        (("c, parameters = self.config, list(self.policy.parameters())", 'c, parameters = self.config, [p for n, p in self.policy.named_parameters() if n != "log_std"]'),),
        (EVERY_PARAMETER,),
    ),
    Mutant(
        31,
        "total variation is the largest difference in the probability of one action",
        BOUNDS,
        (("0.5 * (policy_old - policy).abs().sum(-1)", "(policy_old - policy).abs().max(-1).values"),),
        (TV_SUM,),
    ),
    Mutant(
        31,
        "the penalty constant holds a squared distance, and the bound falls with the fourth power",
        BOUNDS,
        (("penalty_constant(max_advantage, gamma) * max_tv**2", "penalty_constant(max_advantage, gamma) * max_tv**2 * max_tv**2"),),
        (NO_DISTANCE,),
    ),
    Mutant(
        31,
        "the value function maximizes its squared error",
        LEARNING,
        (("value = loss()\n        value.backward()", "value = -loss()\n        value.backward()"),),
        (ARG_MIN, CRITIC_LEARNS),
    ),
    Mutant(0, "the damping is taken off instead of added", TRUST_REGION, ((" + damping * vector", " - damping * vector"),), (PRODUCT, FISHER)),
    Mutant(0, "the step's multiplier lacks its root", TRUST_REGION, (("(slope / (2.0 * kl_bound)).sqrt()", "(slope / (2.0 * kl_bound))"),), (FULL_STEP, BEST_POINT)),
    Mutant(0, "the step's multiplier lacks the factor 2", TRUST_REGION, (("(slope / (2.0 * kl_bound)).sqrt()", "(slope / kl_bound).sqrt()"),), (FULL_STEP, BEST_POINT)),
    Mutant(0, "conjugate gradient weighs the old search direction by the inverse quotient", TRUST_REGION, (("squared_next / squared * search", "squared / squared_next * search"),), (CG, CG_SOLVES)),
    Mutant(0, "conjugate gradient adds to the residual", TRUST_REGION, (("residual - length * image", "residual + length * image"),), (CG, CG_SOLVES)),
    Mutant(0, "a direction of negative curvature is taken for one of positive", TRUST_REGION, (("curvature = search @ image", "curvature = (search @ image).abs()"),), (CG_CURVATURE, NO_CURVATURE, NO_DAMPING)),
    Mutant(
        0,
        "the line search measures KL(new || old)",
        TRPO,
        (('self.policy.kl(batch["behavior_params"], self.policy(batch["obs"]))', 'self.policy.kl(self.policy(batch["obs"]), batch["behavior_params"])'),),
        (OLD_TO_NEW,),
    ),
    Mutant(0, "the line search forgets the KL", TRUST_REGION, (('"accepted" if kl <= kl_bound and gain >= wanted', '"accepted" if gain >= wanted'),), (REJECTED,)),
    Mutant(0, "the line search forgets the surrogate", TRUST_REGION, (('"accepted" if kl <= kl_bound and gain >= wanted', '"accepted" if kl <= kl_bound'),), (REJECTED,)),
    Mutant(0, "every trial is judged by the gain of the full step", TRUST_REGION, (("wanted = accept_ratio * fraction * expected_gain", "wanted = accept_ratio * expected_gain"),), (LINE_SEARCH,)),
    Mutant(0, "a branch's weight is its bare ratio over K, not its share", OBJECTIVES, (("weights = log_ratio.softmax(1)", "weights = log_ratio.exp() / log_ratio.shape[-1]"),), (VINE_SURROGATE,)),
    Mutant(0, "each branch draws its own actions", ROLLOUT, (("        agent.generator.set_state(common)\n", ""),), (SAME_NUMBERS,)),
    Mutant(0, "each branch lives in a world of its own random numbers", ROLLOUT, (("elapsed[chosen], seed)", "elapsed[chosen], seed + k)"),), (SAME_NUMBERS,)),
    Mutant(0, "a branch that was cut is worth only what it was paid", ROLLOUT, (("next_value = agent.critic(agent.normalized(next_obs))", "next_value = 0.0 * reward"),), (BRANCH_ENDS,)),
    Mutant(0, "a branch bootstraps after its episode terminated", ROLLOUT, (("discounted_returns(reward, next_value, terminated, truncated,", "discounted_returns(reward, next_value, terminated & False, truncated | terminated,"),), (BRANCH_ENDS,)),
    Mutant(0, "a branch does not bootstrap where the time limit cut it", ROLLOUT, (("discounted_returns(reward, next_value, terminated, truncated,", "discounted_returns(reward, next_value, terminated | truncated, truncated,"),), (BRANCH_ENDS,)),
    Mutant(0, "a branch goes on counting in the next episode", ROLLOUT, (("discounted_returns(reward, next_value, terminated, truncated,", "discounted_returns(reward, next_value, terminated & False, truncated & False,"),), (BRANCH_ENDS,)),
    Mutant(
        0,
        "the critic is fitted first, and the advantages are taken from the fitted one",
        TRPO,
        (("        batch = self.prepare_vine(rollout) if vine else trunk\n", "        self.fit_value(trunk)\n        batch = self.prepare_vine(rollout) if vine else self.prepare(rollout)\n"),),
        (CRITIC_AFTER,),
    ),
    Mutant(0, "a batch without a policy step leaves the critic out too", TRPO, (("fitted = self.fit_value(trunk)", 'fitted = self.fit_value(trunk) if figures["train/step_fraction"] else {"loss/value": torch.zeros(()), "value/fit_failed": torch.zeros(())}'),), (CRITIC_LEARNS, NO_GRADIENT)),
    Mutant(0, "equal advantages are normalized all the same: what rounding left becomes a full step", TRPO, (('if not self.informative(batch["advantage"]):', "if False:"),), (EQUAL,)),
    Mutant(0, "equal advantages are recognized only where their spread is 0 to the bit", TRPO, (("spread > 64.0 * torch.finfo(advantage.dtype).eps * advantage.abs().max()", "spread > 0"),), (EQUAL,)),
    Mutant(0, "a gradient at rounding level is scaled up to a full step", TRPO, (('if at_rounding_level(predicted_gain(gradient, scaled), batch["advantage"], kl_bound):', "if False:"),), (ROUNDING,)),
    Mutant(0, "advantages count as equal below a bare number, whatever the unit of the reward", TRPO, (("spread > 64.0 * torch.finfo(advantage.dtype).eps * advantage.abs().max()", "spread > 64.0"),), (SMALL_DIFFERENCE,)),
    Mutant(0, "a gain counts as rounding below a bare number, whatever the unit of the reward", TRUST_REGION, (("return not gain > ROUNDING * torch.finfo(gain.dtype).eps * most", "return not gain > 1e-8"),), (UNIT,)),
    Mutant(0, "the natural gradient without line search runs one all the same", TRPO, (('if c.step_rule != "trpo":', "if False:"),), (WITHOUT_SEARCH,)),
    Mutant(0, "the conjugate gradient is told of no gradient", TRPO, (("if not norm > 0:", "if False:"),), (NO_GRADIENT,)),
    Mutant(0, "negative damping passes", TRPO, (("require_non_negative(damping=self.damping, cg_tol", "require_non_negative(cg_tol"),), (REFUSED,)),
    Mutant(0, "negative damping passes the product", TRUST_REGION, (("    require_non_negative(damping=damping)\n", ""),), (PURE_REFUSED,)),
    Mutant(0, "a bound of 0 passes", TRPO, (("require_positive(kl_bound=self.kl_bound, natural", "require_positive(natural"),), (REFUSED,)),
    Mutant(0, "no iteration of conjugate gradient passes", TRPO, (("            cg_iterations=self.cg_iterations,\n", ""),), (REFUSED,)),
    Mutant(0, "a vine with a NaN is learned from", ROLLOUT, (("named = {name: getattr(self, name) for name in (", "named = {name: torch.zeros(()) for name in ("),), (NOT_FINITE,)),
    Mutant(0, "second episodes are learned from as well", ON_POLICY, ((" if c.whole_episodes else batch", " if False else batch"),), (FIRST_EPISODES,)),
    Mutant(0, "the mask of first episodes holds the second ones too", ROLLOUT, (("self.ended.cumsum(0) - self.ended.long() == 0", "self.ended.cumsum(0) - self.ended.long() <= 1"),), (FIRST_EPISODES,)),
    Mutant(0, "an episode's last step is masked out", ROLLOUT, (("self.ended.cumsum(0) - self.ended.long() == 0", "self.ended.cumsum(0) == 0"),), (FIRST_EPISODES,)),
    Mutant(0, "gamma^t weighs the states though nobody asked", REINFORCE, (("if self.config.discount_states else torch", "if True else torch"),), (GAMMA_T,)),
    Mutant(0, "gamma^t is left out though asked for", REINFORCE, (("return policy_gradient_loss(log_prob, weight * advantage)", "return policy_gradient_loss(log_prob, advantage)"),), (WEIGHED,)),
    Mutant(0, "the leave-one-out baseline holds one's own return", RETURNS, ((".sum(1, keepdim=True) - returns.masked_fill(~mask, 0.0)", ".sum(1, keepdim=True) + 0.0 * returns"),), (OTHERS,)),
    Mutant(0, "the leave-one-out baseline divides by all", RETURNS, (("count = mask.sum(1, keepdim=True) - mask.long()", "count = mask.sum(1, keepdim=True).expand_as(mask)"),), (OTHERS,)),
    Mutant(0, "a fit that made the critic worse is kept", LEARNING, (("if not better:", "if False:"),), (UNDONE,)),
    Mutant(0, "a fit that ended in NaN is kept", LEARNING, (("better = bool(loss() <= before)", "better = not bool(loss() > before)"),), (UNDONE,)),
)  # fmt: skip
FAULTS = (0, *range(1, 22), 30, 31, 32, 39, 40)
