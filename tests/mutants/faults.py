"""Faults that real implementations had, put into this package one at a time; the named tests must turn red.

The numbers are those of `book/errata.md`; 0 is a fault that real code could have and nobody reported. `edits` are
(old text, new text) pairs in one file, and each old text must stand there exactly once, so that a mutant cannot
quietly stop being one.
"""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

from .runner import Mutant

RETURNS, OBJECTIVES = "formulas/returns.py", "formulas/objectives.py"
GPU, DUALS = "training/gpu.py", "formulas/duals.py"
TORCH_NATIVE, NUMPY_BACKED = "worlds/torch_native.py", "worlds/numpy_backed.py"
PPO, NORMALIZER, ON_POLICY = "agents/ppo.py", "experience/normalizer.py", "agents/on_policy.py"
OPTIMIZERS, CRITIC_FIT = "agents/optimizers.py", "agents/critic_fit.py"
TRPO, REINFORCE, TRUST_REGION = "agents/trpo.py", "agents/reinforce.py", "formulas/trust_region.py"
ROLLOUT, VINE, BOUNDS = "experience/rollout.py", "experience/vine.py", "formulas/bounds.py"
AGENT, STEPWISE, REPLAY = "agents/base.py", "agents/stepwise.py", "experience/replay.py"
MPO, VMPO, NETWORKS = "agents/mpo.py", "agents/vmpo.py", "agents/networks.py"
CHECKPOINTS, LOOP = "training/checkpoints.py", "training/loop.py"

GAE_SUM = "test_returns.py::test_gae_is_the_double_sum"
RETURNS_SUM = "test_returns.py::test_returns_are_the_sum"
MIDDLE_TERMINATES = "test_returns.py::test_gae_worked_by_hand_where_the_middle_step_terminates"
MIDDLE_TRUNCATED = "test_returns.py::test_gae_worked_by_hand_where_the_middle_step_is_truncated"
TO_THE_END = "test_returns.py::test_gae_worked_by_hand_to_the_end_of_the_rollout"
SAME_STEP = "test_envs.py::test_autoreset_in_the_same_step"
NO_PHANTOMS = "test_next_step.py::test_the_rows_by_hand"
PHANTOM_ROWS = "test_next_step.py::test_phantom_rows_are_those_after_ends_and_the_others_are_the_same_steps_own"
AFTER_ENDS = "test_rollout.py::test_weights_are_zero_exactly_after_ends_wherever_a_rollout_is_cut"
ONLY_FINITE = "test_divergence.py::test_no_number_that_training_changes_is_saved_unless_it_is_finite"
BEST_IS_FINITE = "test_divergence.py::test_an_evaluation_that_is_not_finite_is_never_the_best"
TRUE_SUCCESSOR = "test_rollout.py::test_next_obs_is_the_true_successor_where_episodes_end"
FIRST_RATIO = "test_ppo.py::test_the_first_ratio_of_every_update_is_one"
STOPS_BEFORE = "test_ppo.py::test_target_kl_stops_before_the_step"
DEVICE = "test_gpu.py::test_"
TAKEN_BACK = DEVICE + "a_refused_rollout_is_taken_back_whole"
MASKED_COUNT = DEVICE + "the_masked_guard_counts_as_the_other_does"
RECORDED_BITS = DEVICE + "masked_and_recorded_updates_are_the_plain_ones_to_the_bit"
OPTIMIZER_NAMES = "test_optimizers.py::test_optimizer_refuses_by_name"

PROMISE = "test_trpo_promise.py::"
KEEPS = PROMISE + "test_a_few_updates_keep_the_promise"
REJECTED = PROMISE + "test_a_rejected_step_leaves_every_bit_of_the_policy"
FISHER = PROMISE + "test_the_product_is_that_of_the_fisher_matrix"
CG = "test_trust_region.py::test_cg_by_hand"
FULL_STEP = "test_trust_region.py::test_full_step_by_hand"
EVERY_PARAMETER = PROMISE + "test_a_step_moves_every_parameter_of_the_policy"
CG_SOLVES = "test_trust_region.py::test_cg_solves_in_as_many_iterations_as_unknowns"
BEST_POINT = "test_trust_region.py::test_the_full_step_is_the_best_point_of_the_ellipsoid"
BRANCH_ENDS = PROMISE + "test_a_branch_bootstraps_where_it_was_cut_and_only_there"
OTHERS = "test_returns.py::test_leave_one_out_baseline_by_hand"
REFUSED = "test_ranges.py::test_a_setting_is_refused_by_name"
TEXTS = "test_text_errors.py::"

FMPO, BY_HAND = "test_faults_mpo.py::", "test_duals.py::"
TARGET_ENDS = FMPO + "test_a_target_ends_where_the_episode_does_and_bootstraps_where_it_was_cut"
NEXT_RATIO = FMPO + "test_the_trace_of_a_step_is_the_ratio_of_the_next_action"
EVERY_STEP = FMPO + "test_without_restart_weights_every_row_is_learned_from"
PRICE = FMPO + "test_a_broken_bound_raises_its_price_at_the_multipliers_own_rate"
TEMPERATURE = FMPO + "test_the_temperature_steps_at_the_multipliers_rate"
COMES_BACK = FMPO + "test_a_multiplier_that_fell_to_its_floor_comes_back"
HELD = FMPO + "test_multipliers_stay_where_they_have_a_slope"
ASKED = FMPO + "test_the_e_step_and_the_targets_ask_the_target_networks_alone"
MPO_PERIOD = FMPO + "test_mpos_targets_move_every_period_of_learner_steps"
VMPO_PERIOD = FMPO + "test_vmpos_target_moves_every_period_of_updates_and_psi_once_an_update"
STARTS = FMPO + "test_a_multiplier_starts_at_its_value"
OPTION = "test_{}.py::test_every_option_matters"
MPO_OPTION, VMPO_OPTION = OPTION.format("mpo"), OPTION.format("vmpo")
RETRACE = "test_returns.py::test_retrace_by_hand"
RETRACE_SUM = "test_returns.py::test_retrace_is_the_double_sum"
TOP_K = BY_HAND + "test_top_k_mask_by_hand"
VMPO_LOSS = "test_vmpo.py::test_loss_by_hand"
MSTEP, OVERSHOOT = "test_mpo.py::test_mstep_by_hand", "test_mpo.py::test_overshoot_by_hand"

MUTANTS = (
    Mutant(1, "GAE takes a time limit for a terminal state and drops the successor's value", RETURNS, (("gamma * next_value.masked_fill(terminated, 0.0) - value", "gamma * next_value.masked_fill(terminated | truncated, 0.0) - value"),), (MIDDLE_TRUNCATED, GAE_SUM)),
    Mutant(1, "the bootstrapped return does the same", RETURNS, (("bootstrap = next_value.masked_fill(terminated, 0.0)", "bootstrap = next_value.masked_fill(ended, 0.0)"),), (RETURNS_SUM,)),
    Mutant(1, "the torch-native environment reports its time limit as a termination", TORCH_NATIVE, (("reward, terminated, truncated, self.observe(state))", "reward, ended, ended & False, self.observe(state))"),), ("test_envs.py::test_autoreset_in_the_same_step",)),
    Mutant(1, "the Gymnasium back end does", NUMPY_BACKED, (("torch.as_tensor(terminated, device=self.device)", "torch.as_tensor(terminated | truncated, device=self.device)"), ("torch.as_tensor(truncated & ~terminated, device=self.device)", "torch.as_tensor(truncated & False, device=self.device)")), (NO_PHANTOMS,)),
    Mutant(2, "GAE bootstraps in the last row of the rollout even if the episode terminated there", RETURNS, (("gamma * next_value.masked_fill(terminated, 0.0) - value", "gamma * torch.cat([next_value[:-1].masked_fill(terminated[:-1], 0.0), next_value[-1:]]) - value"),), ("test_returns.py::test_gae_worked_by_hand_where_the_rollout_ends_on_a_terminal_step", GAE_SUM)),
    Mutant(2, "the return does", RETURNS, (("bootstrap = next_value.masked_fill(terminated, 0.0)", "bootstrap = torch.cat([next_value[:-1].masked_fill(terminated[:-1], 0.0), next_value[-1:]])"),), (RETURNS_SUM,)),
    Mutant(3, "no terminal mask in the target at all", RETURNS, (("gamma * next_value.masked_fill(terminated, 0.0) - value", "gamma * next_value - value"),), (MIDDLE_TERMINATES, GAE_SUM)),
    Mutant(4, "the trace is cut by the flag of step t + 1 where that of step t belongs", RETURNS, (("td_error[t] + weight[t] * running\n            advantage", "td_error[t] + weight[min(t + 1, len(weight) - 1)] * running\n            advantage"),), (MIDDLE_TERMINATES, GAE_SUM)),
    Mutant(4, "the trace is cut by the flag of step t - 1", RETURNS, (("td_error[t] + weight[t] * running\n            advantage", "td_error[t] + weight[max(t - 1, 0)] * running\n            advantage"),), (MIDDLE_TERMINATES, GAE_SUM)),
    Mutant(4, "the bootstrap is masked by the flag of step t + 1", RETURNS, (("gamma * next_value.masked_fill(terminated, 0.0) - value", "gamma * next_value.masked_fill(terminated.roll(-1, 0), 0.0) - value"),), (MIDDLE_TERMINATES, GAE_SUM)),
    Mutant(4, "the bootstrap is masked by the flag of step t - 1", RETURNS, (("gamma * next_value.masked_fill(terminated, 0.0) - value", "gamma * next_value.masked_fill(terminated.roll(1, 0), 0.0) - value"),), (MIDDLE_TERMINATES, GAE_SUM)),
    Mutant(4, "step t receives the advantage of step t + 1", RETURNS, (("running = td_error[t] + weight[t] * running\n            advantage[t] = running", "advantage[t] = running\n            running = td_error[t] + weight[t] * running"),), (TO_THE_END, GAE_SUM)),
    Mutant(5, "the trace runs on over a truncation into the next episode's advantage", RETURNS, (("(~(terminated | truncated)).to(reward.dtype)", "(~terminated).to(reward.dtype)"),), (MIDDLE_TRUNCATED, GAE_SUM)),
    Mutant(5, "the return of the next episode is added after a truncation", RETURNS, (("ended = terminated | truncated\n        # LaTeX: b_t", "ended = terminated\n        # LaTeX: b_t"),), (RETURNS_SUM,)),
    Mutant(5, "the successor of a truncated step is the first observation of the next episode (torch-native)", TORCH_NATIVE, (("Step(self.observe(successor), reward,", "Step(self.observe(state), reward,"),), (SAME_STEP,)),
    Mutant(5, "the same in the Gymnasium back end: the final observation is thrown away", NUMPY_BACKED, (('if "final_obs" in info:', 'if "no such key" in info:'),), (NO_PHANTOMS, TRUE_SUCCESSOR, SAME_STEP)),
    Mutant(6, "Gymnasium's next-step autoreset stores a transition that nobody lived", NUMPY_BACKED, (("AutoresetMode.SAME_STEP", "AutoresetMode.NEXT_STEP"),), (NO_PHANTOMS, TRUE_SUCCESSOR)),
    Mutant(7, "the reward scaler's running return goes on from one episode into the next", NORMALIZER, (("running = running.masked_fill(ended[t], 0.0)", "running = running"),), ("test_normalizer.py::test_reward_scaler_follows_discounted_returns_episode_by_episode_and_over_rollouts",)),
    Mutant(7, "the running return uses a discount of its own", ON_POLICY, (("RewardScaler(self.config.gamma)", "RewardScaler(0.99)"),), ("test_on_policy.py::test_the_reward_scaler_starts_anew_with_each_rollout_of_whole_episodes",)),
    Mutant(8, "observation statistics move between collecting and learning", AGENT, (("        figures = self.improve(rollout, progress)\n        if self.config.normalize_obs:\n            self.absorb_obs(rollout)\n", "        if self.config.normalize_obs:\n            self.absorb_obs(rollout)\n        figures = self.improve(rollout, progress)\n"),), (FIRST_RATIO, "test_on_policy.py::test_statistics_move_once_an_update_and_after_their_last_use")),
    Mutant(8, "observation statistics move with every action", STEPWISE, (("        params = (self.policy if", "        self.obs_normalizer.absorb(obs)\n        params = (self.policy if"),), (FIRST_RATIO, "test_on_policy.py::test_statistics_move_once_an_update_and_after_their_last_use")),
    Mutant(9, "the saved state lacks the normalizer's statistics", AGENT, (('"modules": self.modules.state_dict(),', '"modules": {k: v for k, v in self.modules.state_dict().items() if "normalizer" not in k},'), ('self.modules.load_state_dict(state["modules"])', 'self.modules.load_state_dict(state["modules"], strict=False)')), ("test_every_agent.py::test_a_restored_agent_goes_on_to_the_bit",)),
    Mutant(9, "loading leaves the saved statistics out", AGENT, (('self.modules.load_state_dict(state["modules"])', 'self.modules.load_state_dict({k: v for k, v in state["modules"].items() if "normalizer" not in k}, strict=False)'),), ("test_every_agent.py::test_a_restored_agent_goes_on_to_the_bit", "test_checkpoints.py::test_a_loaded_agent_is_the_saved_one_with_its_statistics")),
    Mutant(10, "the stop reads k1, which is negative while every ratio is above one", PPO, (('(parts["log_ratio"])[2].mean() > c.target_kl', '(parts["log_ratio"])[0].mean() > c.target_kl'),), ("test_ppo.py::test_target_kl_reads_k3_not_k1", STOPS_BEFORE)),
    Mutant(11, "advantages are scaled by the sample standard deviation, NaN for one row", OBJECTIVES, (("centered / (centered.square().mean().sqrt() + eps)", "centered / (advantage.std() + eps)"),), ("test_objectives.py::test_normalize_advantage_uses_the_population_std",)),
    Mutant(11, "one advantage is normalized without a word", OBJECTIVES, (("if advantage.numel() < 2:", "if advantage.numel() < 1:"),), ("test_objectives.py::test_normalize_advantage_refuses_one_row",)),
    Mutant(11, "a configuration that leaves a last minibatch of one row is accepted", PPO, (("if self.normalize_advantage and 1 in (self.minibatch_size, self.batch_size % self.minibatch_size):", "if self.normalize_advantage and self.minibatch_size == 1:"),), ("test_door.py::test_contradictions_are_refused_by_name",)),
    Mutant(12, "the stop is tested once an epoch, on its last minibatch", PPO, (('if stopped and c.stop_test == "minibatch":', 'if False:'),), (STOPS_BEFORE,)),
    Mutant(13, "the clip range is laid around the log-ratio", OBJECTIVES, (("ratio.clamp(1.0 - clip_eps, 1.0 + clip_eps)", "log_ratio.clamp(-clip_eps, clip_eps).exp()"),), ("test_objectives.py::test_clip_by_hand_in_value_and_gradient", "test_objectives.py::test_clip_gradient_is_zero_exactly_past_the_favored_edge")),
    Mutant(30, "the last TD error carries the exponent T - t + 1 of the PPO paper instead of T - t - 1", RETURNS, (("        # No trace enters from beyond the last row:", "        td_error[-1] *= (gamma * lam) ** 2\n        # No trace enters from beyond the last row:"),), (TO_THE_END, GAE_SUM)),
    Mutant(30, "the exponent of (gamma lambda) is off by one over the whole sum", RETURNS, (("advantage[t] = running\n        return advantage", "advantage[t] = gamma * lam * running\n        return advantage"),), (TO_THE_END, GAE_SUM)),
    Mutant(32, "the TD error drops gamma before V(s_{t+1})", RETURNS, (("reward + gamma * next_value.masked_fill(terminated, 0.0) - value", "reward + next_value.masked_fill(terminated, 0.0) - value"),), (TO_THE_END, GAE_SUM)),
    Mutant(39, "the raw advantage figures are read after normalization", ON_POLICY, (('        figures = {\n            "kl/exact"', '        batch = replace(batch, advantage=(batch.advantage - batch.advantage.mean()) / batch.advantage.std(correction=0))\n        figures = {\n            "kl/exact"'),), ("test_ppo.py::test_figures_over_the_rollout",)),
    Mutant(40, "an unknown optimizer falls through to Adam", OPTIMIZERS, (('require_one_of(("adam", "sgd"), optimizer=name)', "pass"),), (OPTIMIZER_NAMES,)),
    Mutant(40, "an unknown optimizer falls through to None", OPTIMIZERS, (('require_one_of(("adam", "sgd"), optimizer=name)', 'if name not in ("adam", "sgd"):\n        return None'),), (OPTIMIZER_NAMES,)),
    Mutant(40, "the configuration lets an unknown optimizer pass", "agents/settings.py", (('optimizer: str = one_of("adam", "sgd")', 'optimizer: str = "adam"'),), (REFUSED,)),
    Mutant(14, "the old log-probabilities are computed anew with the gradient attached: the ratio is 1 whatever the parameters", TRPO, (('log_ratio = log_prob - batch.behavior_log_prob', 'log_ratio = log_prob - log_prob'),), (KEEPS, EVERY_PARAMETER)),
    Mutant(15, "[N, 1] ratios times [N] advantages: every ratio meets every advantage, and the surrogate is a product of means", OBJECTIVES, (("(log_ratio.exp() * advantage.detach()).mean()", "(log_ratio.exp().unsqueeze(-1) * advantage.detach()).mean()"),), ("test_objectives.py::test_importance_surrogate_by_hand", KEEPS)),
    Mutant(16, "a step along F^-1 of the LOSS gradient, downhill", TRPO, (("gradient = flatten(torch.autograd.grad(surrogate,", "gradient = flatten(torch.autograd.grad(-surrogate,"),), (KEEPS, EVERY_PARAMETER)),
    Mutant(16, "the line search demands that the surrogate falls", TRUST_REGION, (("gain >= wanted else", "-gain >= wanted else"),), (KEEPS,)),
    Mutant(16, "both at once: every accepted step goes downhill", TRPO, (("gradient = flatten(torch.autograd.grad(surrogate,", "gradient = flatten(torch.autograd.grad(-surrogate,"), ("return self.surrogate(batch) - start, self.mean_kl(batch)", "return start - self.surrogate(batch), self.mean_kl(batch)")), (KEEPS,)),
    Mutant(17, "a step is accepted for a surrogate above 0, not above where it started: advantages of one sign accept everything", TRPO, (("return self.surrogate(batch) - start, self.mean_kl(batch)", "return self.surrogate(batch), self.mean_kl(batch)"),), (REJECTED, KEEPS)),
    Mutant(18, "the Fisher product is that of the Hessian of k1 on the stored actions, which is indefinite", TRPO, (("torch.autograd.grad(self.mean_kl(batch), parameters, create_graph", 'torch.autograd.grad((batch.behavior_log_prob - self.policy.log_prob(self.policy(batch.obs), batch.action)).mean(), parameters, create_graph'),), (FISHER, KEEPS)),
    Mutant(18, "the same with actions drawn anew at every call: not even one fixed matrix", TRPO, (("lambda vector: fisher_vector_product(gradient, parameters,", "lambda vector: fisher_vector_product(flatten(torch.autograd.grad(-self.policy.log_prob(params := self.policy(batch.obs), self.policy.sample(params, self.generator)).mean(), parameters, create_graph=True, materialize_grads=True)), parameters,"),), (FISHER,)),
    Mutant(19, "the KL of the policy with itself, both sides attached: its Hessian is 0 and the step is the plain gradient's", TRPO, (("torch.autograd.grad(self.mean_kl(batch), parameters, create_graph", 'torch.autograd.grad(self.policy.kl(self.policy(batch.obs), self.policy(batch.obs)).mean(), parameters, create_graph'),), (FISHER,)),
    Mutant(20, "a failed line search leaves the parameters of its last trial", TRPO, (("                parameter.copy_(old)\n        return found", "                pass\n        return found"),), (REJECTED,)),
    Mutant(21, "the log-std is left out of the parameter vector and never moves", TRPO, (("c, parameters = self.config, list(self.policy.parameters())", 'c, parameters = self.config, [p for n, p in self.policy.named_parameters() if n != "log_std"]'),), (EVERY_PARAMETER,)),
    Mutant(31, "total variation is the largest difference in the probability of one action", BOUNDS, (("0.5 * (policy_old - policy).abs().sum(-1)", "(policy_old - policy).abs().max(-1).values"),), (TEXTS + "test_total_variation_is_half_a_sum_over_actions_not_a_maximum",)),
    Mutant(31, "the penalty constant holds a squared distance, and the bound falls with the fourth power", BOUNDS, (("penalty_constant(max_advantage, gamma) * max_tv**2", "penalty_constant(max_advantage, gamma) * max_tv**2 * max_tv**2"),), (TEXTS + "test_the_penalty_constant_holds_no_distance",)),
    Mutant(31, "the value function maximizes its squared error", CRITIC_FIT, (("value = loss()\n        value.backward()", "value = -loss()\n        value.backward()"),), ("test_text_errors.py::test_a_value_function_minimizes_its_squared_error", "test_trpo.py::test_an_update_without_positive_curvature_is_left_out_by_name")),
    Mutant(0, "the damping is taken off instead of added", TRUST_REGION, ((" + damping * vector", " - damping * vector"),), ("test_trust_region.py::test_fisher_product_is_the_hessian", FISHER)),
    Mutant(0, "the step's multiplier lacks its root", TRUST_REGION, (("(slope / (2.0 * kl_bound)).sqrt()", "(slope / (2.0 * kl_bound))"),), (FULL_STEP, BEST_POINT)),
    Mutant(0, "the step's multiplier lacks the factor 2", TRUST_REGION, (("(slope / (2.0 * kl_bound)).sqrt()", "(slope / kl_bound).sqrt()"),), (FULL_STEP, BEST_POINT)),
    Mutant(0, "conjugate gradient weighs the old search direction by the inverse quotient", TRUST_REGION, (("squared_next / squared * search", "squared / squared_next * search"),), (CG, CG_SOLVES)),
    Mutant(0, "conjugate gradient adds to the residual", TRUST_REGION, (("residual - length * image", "residual + length * image"),), (CG, CG_SOLVES)),
    Mutant(0, "a direction of negative curvature is taken for one of positive", TRUST_REGION, (("curvature = search @ image", "curvature = (search @ image).abs()"),), ("test_trust_region.py::test_cg_refuses_a_matrix_that_is_not_positive_definite", "test_trpo.py::test_an_update_without_positive_curvature_is_left_out_by_name")),
    Mutant(0, "the line search measures KL(new || old)", TRPO, (('self.policy.kl(batch.behavior_params, self.policy(batch.obs))', 'self.policy.kl(self.policy(batch.obs), batch.behavior_params)'),), ("test_trpo.py::test_figures_of_a_step",)),
    Mutant(0, "the line search forgets the KL", TRUST_REGION, (('"accepted" if kl <= kl_bound and gain >= wanted', '"accepted" if gain >= wanted'),), (REJECTED,)),
    Mutant(0, "the line search forgets the surrogate", TRUST_REGION, (('"accepted" if kl <= kl_bound and gain >= wanted', '"accepted" if kl <= kl_bound'),), (REJECTED,)),
    Mutant(0, "every trial is judged by the gain of the full step", TRUST_REGION, (("wanted = accept_ratio * fraction * expected_gain", "wanted = accept_ratio * expected_gain"),), ("test_trust_region.py::test_line_search_by_hand",)),
    Mutant(0, "a branch's weight is its bare ratio over K, not its share", OBJECTIVES, (("weights = log_ratio.softmax(1)", "weights = log_ratio.exp() / log_ratio.shape[-1]"),), ("test_objectives.py::test_vine_surrogate_by_hand",)),
    Mutant(0, "each branch draws its own actions", VINE, (("        agent.generator.set_state(common)\n", ""),), ("test_rollout.py::test_branches_with_the_same_first_action_are_the_same_branch",)),
    Mutant(0, "each branch lives in a world of its own random numbers", VINE, (("elapsed[chosen], seed)", "elapsed[chosen], seed + k)"),), ("test_rollout.py::test_branches_with_the_same_first_action_are_the_same_branch",)),
    Mutant(0, "a branch that was cut is worth only what it was paid", VINE, (("next_value = agent.critic(agent.normalized(next_obs))", "next_value = 0.0 * reward"),), (BRANCH_ENDS,)),
    Mutant(0, "a branch bootstraps after its episode terminated", VINE, (("discounted_returns(reward, next_value, terminated, truncated,", "discounted_returns(reward, next_value, terminated & False, truncated | terminated,"),), (BRANCH_ENDS,)),
    Mutant(0, "a branch does not bootstrap where the time limit cut it", VINE, (("discounted_returns(reward, next_value, terminated, truncated,", "discounted_returns(reward, next_value, terminated | truncated, truncated,"),), (BRANCH_ENDS,)),
    Mutant(0, "a branch goes on counting in the next episode", VINE, (("discounted_returns(reward, next_value, terminated, truncated,", "discounted_returns(reward, next_value, terminated & False, truncated & False,"),), (BRANCH_ENDS,)),
    Mutant(0, "the critic is fitted first, and the advantages are taken from the fitted one", TRPO, (('        batch = self.prepare_vine(rollout) if isinstance(rollout, Vine) else trunk\n', '        self.fit_value(trunk)\n        batch = self.prepare_vine(rollout) if isinstance(rollout, Vine) else self.prepare(rollout)\n'),), (PROMISE + "test_the_policy_never_sees_the_critic_that_its_data_are_fitted_to",)),
    Mutant(0, "a batch without a policy step leaves the critic out too", TRPO, (("fitted = self.fit_value(trunk)", 'fitted = self.fit_value(trunk) if figures["train/step_fraction"] else {"loss/value": torch.zeros(()), "value/fit_failed": torch.zeros(())}'),), ("test_trpo.py::test_an_update_without_positive_curvature_is_left_out_by_name", "test_trpo.py::test_a_policy_beyond_doubt_has_no_gradient")),
    Mutant(0, "equal advantages are normalized all the same: what rounding left becomes a full step", TRPO, (('if not self.informative(batch.advantage):', 'if False:'),), ("test_trpo.py::test_equal_advantages_are_left_out_by_name",)),
    Mutant(0, "equal advantages are recognized only where their spread is 0 to the bit", TRPO, (("not bool(rounding_alone(spread, advantage.abs().max(), torch.finfo(spread.dtype).eps))", "bool(spread > 0)"),), ("test_trpo.py::test_equal_advantages_are_left_out_by_name",)),
    Mutant(0, "a gradient at rounding level is scaled up to a full step", TRPO, (('if at_rounding_level(predicted_gain(gradient, scaled), batch.advantage, kl_bound):', 'if False:'),), ("test_trpo.py::test_a_gradient_at_rounding_level_is_left_out_and_never_scaled_up",)),
    Mutant(0, "advantages count as equal below a bare number, whatever the unit of the reward", TRPO, (("not bool(rounding_alone(spread, advantage.abs().max(), torch.finfo(spread.dtype).eps))", "bool(spread > 64.0)"),), ("test_trpo.py::test_small_but_real_differences_of_advantages_are_stepped_on",)),
    Mutant(0, "a gain counts as rounding below a bare number, whatever the unit of the reward", TRUST_REGION, (("return not gain > ROUNDING * torch.finfo(gain.dtype).eps * most", "return not gain > 1e-8"),), ("test_trpo.py::test_small_but_real_differences_of_advantages_are_stepped_on",)),
    Mutant(0, "the natural gradient without line search runs one all the same", TRPO, (('if c.step_rule != "trpo":', "if False:"),), (PROMISE + "test_without_the_line_search_the_promise_is_broken",)),
    Mutant(0, "the conjugate gradient is told of no gradient", TRPO, (("if not norm > 0:", "if False:"),), ("test_trpo.py::test_a_policy_beyond_doubt_has_no_gradient",)),
    Mutant(0, "negative damping passes", TRPO, (('damping: float = non_negative(0.1)', 'damping: float = 0.1'),), (REFUSED,)),
    Mutant(0, "negative damping passes the product", TRUST_REGION, (("    require_non_negative(damping=damping)\n", ""),), ("test_contract.py::test_a_number_out_of_its_range_is_refused",)),
    Mutant(0, "a bound of 0 passes", TRPO, (('kl_bound: float = positive(0.01)', 'kl_bound: float = 0.01'),), (REFUSED,)),
    Mutant(0, "no iteration of conjugate gradient passes", TRPO, (('cg_iterations: int = count(10)', 'cg_iterations: int = 10'),), (REFUSED,)),
    Mutant(0, "a vine with a NaN is learned from", VINE, (("named = {name: getattr(self, name) for name in (", "named = {name: torch.zeros(()) for name in ("),), ("test_trpo.py::test_a_vine_that_does_not_fit_is_named_before_anything_moves",)),
    Mutant(0, "second episodes are learned from as well", ON_POLICY, (('return rollout.real & rollout.first_episode', 'return rollout.real'),), ("test_reinforce.py::test_credit_is_the_return_to_go_or_the_whole_less_the_mean_of_the_others",)),
    Mutant(0, "the mask of first episodes holds the second ones too", ROLLOUT, (("self.ended.cumsum(0) - self.ended.long() == 0", "self.ended.cumsum(0) - self.ended.long() <= 1"),), ("test_reinforce.py::test_credit_is_the_return_to_go_or_the_whole_less_the_mean_of_the_others",)),
    Mutant(0, "an episode's last step is masked out", ROLLOUT, (("self.ended.cumsum(0) - self.ended.long() == 0", "self.ended.cumsum(0) == 0"),), ("test_reinforce.py::test_credit_is_the_return_to_go_or_the_whole_less_the_mean_of_the_others",)),
    Mutant(0, "gamma^t weighs the states though nobody asked", REINFORCE, (('if not self.config.discount_states:', 'if False:'),), ("test_reinforce.py::test_the_gradient_is_that_of_the_return_where_it_should_be",)),
    Mutant(0, "gamma^t is left out though asked for", REINFORCE, (('policy_gradient_loss(log_prob, batch.weight * advantage)', 'policy_gradient_loss(log_prob, advantage)'),), ("test_a2c.py::test_one_step_down_the_whole_loss_for_each_rollout",)),
    Mutant(0, "the leave-one-out baseline holds one's own return", RETURNS, ((".sum(1, keepdim=True) - returns.masked_fill(~mask, 0.0)", ".sum(1, keepdim=True) + 0.0 * returns"),), (OTHERS,)),
    Mutant(0, "the leave-one-out baseline divides by all", RETURNS, (("count = mask.sum(1, keepdim=True) - mask.long()", "count = mask.sum(1, keepdim=True).expand_as(mask)"),), (OTHERS,)),
    Mutant(0, "a fit that made the critic worse is kept", CRITIC_FIT, (("if not better:", "if False:"),), ("test_optimizers.py::test_a_fit_that_makes_it_worse_is_undone_to_the_bit",)),
    Mutant(0, "a fit that ended in NaN is kept", CRITIC_FIT, (("better = bool(loss() <= before) and all(bool(torch.isfinite(w).all()) for w in weights)", "better = not bool(loss() > before)"),), ("test_optimizers.py::test_a_fit_that_makes_it_worse_is_undone_to_the_bit",)),
    Mutant(1, "MPO's one-step target takes a time limit for a terminal state", MPO, (("batch.reward + c.gamma * next_value.masked_fill(batch.terminated, 0.0)", "batch.reward + c.gamma * next_value.masked_fill(batch.terminated | batch.truncated, 0.0)"),), (TARGET_ENDS,)),
    Mutant(1, "Retrace does", RETURNS, (("gamma * next_value.masked_fill(terminated, 0.0) - q_value", "gamma * next_value.masked_fill(terminated | truncated, 0.0) - q_value"),), (TARGET_ENDS, RETRACE, RETRACE_SUM,)),
    Mutant(1, "the replay stores one flag for both ends", REPLAY, (("column[index] = rows[name]", 'column[index] = rollout.ended if name == "terminated" else rows[name]'),), (TARGET_ENDS, "test_replay.py::test_a_sequence_is_one_environments_steps_in_the_order_lived")),
    Mutant(2, "Retrace bootstraps in the last row of a sequence even if the episode terminated there", RETURNS, (("gamma * next_value.masked_fill(terminated, 0.0) - q_value", "gamma * torch.cat([next_value[:-1].masked_fill(terminated[:-1], 0.0), next_value[-1:]]) - q_value"),), (TARGET_ENDS, RETRACE_SUM,)),
    Mutant(3, "no terminal mask in MPO's one-step target", MPO, (("batch.reward + c.gamma * next_value.masked_fill(batch.terminated, 0.0)", "batch.reward + c.gamma * next_value"),), (TARGET_ENDS,)),
    Mutant(3, "none in Retrace", RETURNS, (("gamma * next_value.masked_fill(terminated, 0.0) - q_value", "gamma * next_value - q_value"),), (TARGET_ENDS, RETRACE, RETRACE_SUM,)),
    Mutant(4, "Retrace is cut by the flag of step t + 1", RETURNS, (("next_trace.masked_fill(terminated | truncated, 0.0)", "next_trace.masked_fill((terminated | truncated).roll(-1, 0), 0.0)"),), (TARGET_ENDS, RETRACE_SUM,)),
    Mutant(4, "MPO's one-step target is masked by the flag of step t - 1", MPO, (("batch.reward + c.gamma * next_value.masked_fill(batch.terminated, 0.0)", "batch.reward + c.gamma * next_value.masked_fill(batch.terminated.roll(1, 0), 0.0)"),), (TARGET_ENDS,)),
    Mutant(5, "Retrace runs on over a truncation into the next episode", RETURNS, (("next_trace.masked_fill(terminated | truncated, 0.0)", "next_trace.masked_fill(terminated, 0.0)"),), (TARGET_ENDS, RETRACE_SUM,)),
    Mutant(5, "the replay takes the next row's observation for the successor, across the end of an episode too", REPLAY, (("        return Rollout(**drawn, behavior_params=())", '        drawn["next_obs"] = self.columns["obs"][(row + 1) % self.capacity, draw % envs]\n        return Rollout(**drawn, behavior_params=())'),), ("test_replay.py::test_a_sequence_is_one_environments_steps_in_the_order_lived",)),
    Mutant(22, "Retrace weighs the correction of step t + 1 by the ratio of step t", RETURNS, (("next_trace = torch.cat([trace[1:], torch.zeros_like(trace[:1])])", "next_trace = trace"),), (NEXT_RATIO, RETRACE, RETRACE_SUM, "test_returns.py::test_the_first_ratio_of_a_sequence_is_never_used",)),
    Mutant(22, "by that of step t + 2", RETURNS, (("next_trace = torch.cat([trace[1:], torch.zeros_like(trace[:1])])", "next_trace = torch.cat([trace[2:], torch.zeros_like(trace[:2])])"),), (NEXT_RATIO, RETRACE_SUM,)),
    Mutant(23, "Retrace is computed, and the critic learns from the one-step target", MPO, (("        return retrace_targets(batch.reward, q_value, next_value, log_ratio, *ends, gamma=c.gamma, lam=c.lam)", "        retrace_targets(batch.reward, q_value, next_value, log_ratio, *ends, gamma=c.gamma, lam=c.lam)\n        return batch.reward + c.gamma * next_value.masked_fill(batch.terminated, 0.0)"),), (NEXT_RATIO, TARGET_ENDS,)),
    Mutant(23, "nobody asks which target was wanted", MPO, (('if c.critic_target == "one_step":', "if c.critic_target:"),), (NEXT_RATIO, TARGET_ENDS, MPO_OPTION,)),
    Mutant(24, "the new variance in the mean part of the KL: inflating the std relaxes the bound on the mean", "formulas/distributions.py", (("shift = (mean - mean_old) / std_old", "shift = (mean - mean_old) / std"),), ("test_mpo.py::test_mstep_by_hand", "test_distributions.py::test_kl_parts_by_hand")),
    Mutant(24, "V-MPO splits the KL exactly, with the new variance in the mean part", VMPO, (('self.policy.kl_parts(batch.old, params), strict=False', 'split, strict=False'), ("        # A discrete policy's KL has one part", "        split = self.policy.kl_parts(batch.old, params)\n        if len(split) == 2:\n            split = (self.policy.kl(batch.old, params).unsqueeze(-1) - split[1].sum(-1, keepdim=True), split[1])\n        # A discrete policy's KL has one part")), (VMPO_LOSS, PRICE)),
    Mutant(25, "the weights are masked by top-k, the temperature's loss is not", VMPO, (('            batch.kept,\n            batch.log_importance,', '            torch.ones_like(batch.kept),\n            batch.log_importance,'),), (VMPO_LOSS,)),
    Mutant(26, "the maximum is taken over all samples, and the weights over their sum plus 1e-20", DUALS, (("best = advantage.masked_fill(~mask, -torch.inf).max()", "best = advantage.max()"), ("return logits.softmax(0)", "return logits.exp() / (logits.exp().sum() + 1e-20)"),), ("test_duals.py::test_an_unkept_sample_far_above_costs_the_kept_no_digit_in_float32",)),
    Mutant(26, "the maximum is taken over all samples, and the weights are 0 over 0", DUALS, (("best = advantage.masked_fill(~mask, -torch.inf).max()", "best = advantage.max()"), ("return logits.softmax(0)", "return logits.exp() / logits.exp().sum()"),), ("test_duals.py::test_an_unkept_sample_far_above_costs_the_kept_no_digit_in_float32",)),
    Mutant(26, "the maximum is taken over all samples, and the temperature's loss is log 0", DUALS, (("best = advantage.masked_fill(~mask, -torch.inf).max()", "best = advantage.max()"), ("logits.logsumexp(0) - total", "logits.exp().sum().log() - total"),), ("test_duals.py::test_an_unkept_sample_far_above_costs_the_kept_no_digit_in_float32",)),
    Mutant(27, "whoever ties with the k-th is kept as well", DUALS, (("return torch.empty_like(eligible).scatter(0, order, rank < k)", "return eligible & (advantage >= advantage[order[int(k) - 1]])"),), (TOP_K, BY_HAND + "test_top_k_keeps_exactly_k_and_the_best_of_them")),
    Mutant(28, "a multiplier's gradient has the wrong sign: what breaks its bound grows cheap", DUALS, (("(alpha * (bound - kl.detach())).sum()", "(alpha * (kl.detach() - bound)).sum()"),), (PRICE, BY_HAND + "test_multiplier_loss_by_hand",)),
    Mutant(28, "the temperature's: it rises the more, the further the weights are from their prior", DUALS, (("eta * (eps_eta + log_normalizer.mean())", "eta * (log_normalizer.mean() - eps_eta)"),), (TEMPERATURE, "test_duals.py::test_the_slope_of_the_estep_dual_is_the_bound_less_the_realized_kl")),
    Mutant(28, "MPO climbs the multipliers' loss", MPO, (("slack_loss = sum(", "slack_loss = -sum("),), ("test_mpo.py::test_mstep_by_hand",)),
    Mutant(28, "V-MPO's multipliers feel their own price and fall to nothing", DUALS, (("(alpha.detach() * kl).sum()", "(alpha * kl).sum()"),), (PRICE, VMPO_LOSS,)),
    Mutant(29, "MPO's optimizer of the multipliers is made and never stepped", MPO, (('        optimizer.step()\n        if name == "duals":', '        if name != "duals":\n            optimizer.step()\n        else:'),), ("test_faults_mpo.py::test_the_temperature_steps_at_the_multipliers_rate", "test_mpo.py::test_mstep_by_hand")),
    Mutant(29, "V-MPO's optimizer never hears of the multipliers", VMPO, (('            {"params": list(self.duals.parameters()), "lr": c.dual_learning_rate},\n', ""),), ("test_faults_mpo.py::test_a_broken_bound_raises_its_price_at_the_multipliers_own_rate",)),
    Mutant(33, "the action penalty is the squared distance", MPO, (("(action - action.clamp(-1.0, 1.0)).norm(dim=-1)", "(action - action.clamp(-1.0, 1.0)).square().sum(-1)"),), (TEXTS + "test_the_action_penalty_is_a_distance_not_its_square", OVERSHOOT)),
    Mutant(34, "the policy's learning rate is divided by the root of the number of inner steps", MPO, (('("policy", c.policy_learning_rate))', '("policy", c.policy_learning_rate / math.sqrt(c.policy_steps)))'), ('"policy": c.policy_learning_rate, "duals"', '"policy": c.policy_learning_rate / math.sqrt(c.policy_steps), "duals"'),), (TEXTS + "test_inner_steps_divide_no_learning_rate",)),
    Mutant(35, "the KL of a Gaussian policy is the sum of its decoupled parts", NETWORKS, (("return gaussian_kl(*old, *new).sum(-1)", "return sum(gaussian_kl_mean_std(*old, *new)).sum(-1)"),), (TEXTS + "test_the_decoupled_parts_sum_to_the_kl_only_for_an_unchanged_std",)),
    Mutant(36, "the first row of every episode is taken for a phantom and left out", ROLLOUT, (("restart_weight=(~torch.stack(phantoms)).to(reward.dtype) if phantoms else None,", "restart_weight=torch.cat([torch.ones_like(reward[:1]), (~(terminated | truncated))[:-1].to(reward.dtype)]),"),), (EVERY_STEP,)),
    Mutant(0, "a phantom row is collected as a step like the others", ROLLOUT, (("(~torch.stack(phantoms)).to(reward.dtype)", "torch.ones_like(reward)"),), (AFTER_ENDS,)),
    Mutant(0, "the row that ends an episode is taken for the phantom", NUMPY_BACKED, (("step = step._replace(phantom=self._over)\n            self._over = step.terminated | step.truncated  # whose", "self._over = step.terminated | step.truncated\n            step = step._replace(phantom=self._over)  # whose"),), (PHANTOM_ROWS, NO_PHANTOMS, AFTER_ENDS)),
    Mutant(0, "only a truncation is followed by a phantom", NUMPY_BACKED, (("self._over = step.terminated | step.truncated  # whose", "self._over = step.truncated  # whose"),), (PHANTOM_ROWS, NO_PHANTOMS, AFTER_ENDS)),
    Mutant(0, "a reset leaves a phantom to come", NUMPY_BACKED, (("        self._over = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)\n", "        self._over = getattr(self, '_over', torch.zeros(self.num_envs, dtype=torch.bool, device=self.device))\n"),), ("test_next_step.py::test_a_saved_state_knows_who_is_about_to_be_reset_and_a_reset_forgets_it",)),
    Mutant(0, "a saved state forgets which environments are about to be reset", NUMPY_BACKED, (("            self.env._autoreset_envs = self._over.cpu().numpy().copy()", "            pass"),), ("test_next_step.py::test_a_saved_state_knows_who_is_about_to_be_reset_and_a_reset_forgets_it",)),
    Mutant(0, "a checkpoint takes numbers that are not finite", CHECKPOINTS, (("    if bad:\n        raise FloatingPointError", "    if False:\n        raise FloatingPointError"),), (ONLY_FINITE, "test_divergence.py::test_a_diverged_run_leaves_its_last_good_checkpoint")),
    Mutant(0, "only tensors are looked at before a checkpoint is written", CHECKPOINTS, (("bad = int(isinstance(state, float) and not math.isfinite(state))", "bad = 0"),), (ONLY_FINITE,)),
    Mutant(0, "a first evaluation that is NaN is the best for good", LOOP, (("if math.isfinite(row[\"eval/mean\"]) and row", "if math.isinf(self.best_mean) or row"),), (BEST_IS_FINITE,)),
    Mutant(0, "after an evaluation of NaN none is the best", LOOP, (("        if math.isfinite(row[\"eval/mean\"]) and row", "        self.best_mean += 0.0 * row[\"eval/mean\"]\n        if math.isfinite(row[\"eval/mean\"]) and row"),), (BEST_IS_FINITE,)),
    Mutant(36, "the row at which an episode ends is taken for the phantom", ON_POLICY, (('return batch if eligible is None else batch[eligible.flatten()]', 'return batch[(~rollout.ended).flatten()]'),), (EVERY_STEP,)),
    Mutant(37, "NaN and infinity in a Gaussian policy's outputs become 0", NETWORKS, (("output = self.mean(obs)", "output = self.mean(obs).nan_to_num(0.0, 0.0, 0.0)"),), ("test_door.py::test_a_diverged_policy_does_not_train_on",)),
    Mutant(37, "in a categorical policy's", NETWORKS, (("return (self.logits(obs),)", "return (self.logits(obs).nan_to_num(0.0, 0.0, 0.0),)"),), ("test_door.py::test_a_diverged_policy_does_not_train_on",)),
    Mutant(38, "the action penalty's bound is accepted, and that of the E-step used", MPO, (('duals.value("eta_penalty"), c.eps_penalty)', 'duals.value("eta_penalty"), c.eps_eta)'),), (OVERSHOOT, MPO_OPTION)),
    Mutant(38, "the action penalty is accepted and never computed", MPO, (("            loss = by_value + by_penalty", "            loss = by_value"), ("both = weights + pull", "both = weights"),), (OVERSHOOT, MPO_OPTION)),
    Mutant(38, "MPO's eta_init is accepted, and 1 used", MPO, (('{"eta": c.eta_init,', '{"eta": 1.0,'),), (STARTS, MPO_OPTION,)),
    Mutant(38, "MPO's alpha_mean_init is accepted, and 1 used", MPO, (('"alpha_mean": c.alpha_mean_init}', '"alpha_mean": 1.0}'),), (STARTS, MPO_OPTION,)),
    Mutant(38, "MPO's alpha_std_init is accepted, and 1 used", MPO, (('starts["alpha_std"] = c.alpha_std_init', 'starts["alpha_std"] = 1.0'),), (STARTS, MPO_OPTION,)),
    Mutant(38, "MPO's eta_penalty_init is accepted, and 1 used", MPO, (('starts["eta_penalty"] = c.eta_penalty_init', 'starts["eta_penalty"] = 1.0'),), (STARTS, MPO_OPTION,)),
    Mutant(38, "MPO's eta_init is taken for the raw parameter", "agents/multipliers.py", (('raw_of(v))', 'v)'),), (STARTS,)),
    Mutant(38, "V-MPO's first multipliers are accepted, and 1 used", VMPO, (('{"eta": c.eta_init, "alpha_mean": c.alpha_mean_init}', '{"eta": 1.0, "alpha_mean": 1.0}'), ('starts["alpha_std"] = c.alpha_std_init', 'starts["alpha_std"] = 1.0'),), (STARTS, VMPO_OPTION,)),
    Mutant(38, "MPO's rate of the multipliers is accepted, and the policy's used", MPO, (('"duals": c.dual_learning_rate', '"duals": c.policy_learning_rate'),), ("test_faults_mpo.py::test_the_temperature_steps_at_the_multipliers_rate", "test_mpo.py::test_mstep_by_hand")),
    Mutant(38, "V-MPO's is", VMPO, (('"lr": c.dual_learning_rate', '"lr": c.policy_learning_rate'),), ("test_faults_mpo.py::test_a_broken_bound_raises_its_price_at_the_multipliers_own_rate",)),
    Mutant(38, "Retrace's lambda is accepted, and 1 used", MPO, ((", lam=c.lam)", ", lam=1.0)"),), (MPO_OPTION,)),
    Mutant(38, "the inner steps of the M-step are accepted, and one is taken", MPO, (('for _ in range(self.config.policy_steps):', 'for _ in range(1):'),), (MPO_OPTION,)),
    Mutant(38, "the states of the KL are accepted, and all used", VMPO, (('if c.kl_over == "kept":', "if False:"),), (VMPO_OPTION,)),
    Mutant(38, "the dual's normalizer is accepted, and the weights' used", VMPO, (('            c.log_normalizer,\n', ''),), (VMPO_OPTION,)),
    Mutant(38, "the clip of the importance weights is accepted and not used", VMPO, (("log_ratio.clamp(max=math.log(c.importance_clip))", "log_ratio"),), ("test_vmpo.py::test_every_option_matters", "test_vmpo.py::test_estep_by_hand")),
    Mutant(38, "who acts is accepted, and the online policy does", VMPO, (('return self.target_policy if self.config.act_by == "target" else self.policy', "return self.policy"),), (VMPO_OPTION,)),
    Mutant(38, "the warm-up is accepted and not waited for", MPO, (("self.replay.num_steps >= c.warmup_steps and ", ""),), (FMPO + "test_mpo_waits_until_it_has_something_to_learn_from",)),
    Mutant(38, "learning from the first step is accepted, and all are learned from", MPO, (('slice(1) if c.learn_from == "first" else slice(None)', "slice(None)"),), (FMPO + "test_mpo_learns_from_the_first_step_or_from_all",)),
    Mutant(0, "the floor of a multiplier stands inside the graph, and below it there is no slope", DUALS, (("return F.softplus(raw) + FLOOR", "return F.softplus(raw.clamp(min=RAW_MIN)) + FLOOR"),), (COMES_BACK,)),
    Mutant(0, "nothing holds a raw parameter", DUALS, (("    raw.copy_(projected)", "    pass"),), ("test_faults_mpo.py::test_multipliers_stay_where_they_have_a_slope", "test_duals.py::test_a_projected_multiplier_comes_back")),
    Mutant(0, "MPO forgets to project its multipliers", MPO, (('            self.duals.project()\n', '            pass\n'),), (HELD,)),
    Mutant(0, "V-MPO does", VMPO, (("(self.duals,) if self.policy.discrete else (self.policy, self.duals)", "() if self.policy.discrete else (self.policy,)"),), (HELD,)),
    Mutant(0, "the weights are normalized over the states", DUALS, (("return (log_prior + (q_value - best) / eta).softmax(0)", "return (log_prior + (q_value - best) / eta).softmax(1)"),), (BY_HAND + "test_estep_weights_by_hand", OVERSHOOT)),
    Mutant(0, "the temperature's loss divides before it subtracts: at Q = 1e4 float32 has lost the slope", DUALS, (("log_normalizer = (log_prior + (q_value - best) / eta).logsumexp(0)", "log_normalizer = (log_prior + q_value / eta).logsumexp(0)"), ("return best.mean() + eta * (eps_eta", "return eta * (eps_eta"),), ("test_duals.py::test_the_slope_of_the_estep_dual_is_the_bound_less_the_realized_kl",)),
    Mutant(0, "the critic is moved by the temperature's loss", DUALS, (("q_value, log_prior = q_value.detach(), log_prior.detach()", "pass"),), ("test_by_hand.py::test_a_formula_by_hand",)),
    Mutant(0, "a multiplier's loss moves the policy", DUALS, (("(alpha * (bound - kl.detach())).sum()", "(alpha * (bound - kl)).sum()"),), (VMPO_LOSS,)),
    Mutant(0, "a finite action set is weighed from equal odds", MPO, (("log_prior = old[0].log_softmax(-1).T", "log_prior = torch.zeros_like(old[0]).log_softmax(-1).T"),), ("test_faults_mpo.py::test_the_temperature_steps_at_the_multipliers_rate",)),
    Mutant(0, "whoever is not eligible is kept all the same", DUALS, (("advantage.masked_fill(~eligible, -torch.inf).sort(", "advantage.sort("),), ("test_duals.py::test_an_unkept_sample_far_above_costs_the_kept_no_digit_in_float32", TOP_K)),
    Mutant(0, "k is a share of all samples, not of the eligible ones", DUALS, (("count = eligible.sum()", "count = torch.tensor(len(eligible))"),), ("test_duals.py::test_an_unkept_sample_far_above_costs_the_kept_no_digit_in_float32", TOP_K)),
    Mutant(0, "the E-step asks the online critic", MPO, (("        q_value = self.target_critic(states.expand(", "        q_value = self.critic(states.expand("),), (ASKED,)),
    Mutant(0, "the E-step of a finite set does", MPO, (("self.target_critic(states).T", "self.critic(states).T"),), (ASKED,)),
    Mutant(0, "the critic's target averages over the online policy", MPO, (("params = self.target_policy(obs)\n        if self", "params = self.policy(obs)\n        if self"),), (ASKED,)),
    Mutant(0, "Retrace corrects the online critic", MPO, (("q_value = self.target_critic(obs, batch.action)", "q_value = self.critic(obs, batch.action)"),), (ASKED,)),
    Mutant(0, "Retrace's ratios are those of the online policy", MPO, (("self.policy.log_prob(self.target_policy(obs), batch.action)", "self.policy.log_prob(self.policy(obs), batch.action)"),), (ASKED,)),
    Mutant(0, "Retrace's ratio is upside down", RETURNS, (("trace = lam * log_ratio.clamp(max=0.0).exp()", "trace = lam * (-log_ratio).clamp(max=0.0).exp()"),), (NEXT_RATIO, RETRACE_SUM,)),
    Mutant(0, "Retrace's traces exceed 1", RETURNS, (("trace = lam * log_ratio.clamp(max=0.0).exp()", "trace = lam * log_ratio.exp()"),), (RETRACE, RETRACE_SUM,)),
    Mutant(0, "the M-step's bounds are centered on the policy itself", MPO, (("old = self.target_policy(states)", "old = self.policy(states)"),), ("test_faults_mpo.py::test_the_first_kl_after_a_copy_is_zero_and_the_next_is_not",)),
    Mutant(0, "V-MPO's are", VMPO, (('old = self.target_policy(batch.obs)', 'old = self.policy(batch.obs)'),), (PRICE,)),
    Mutant(0, "the parts of the KL are those of new || old", NETWORKS, (("return gaussian_kl_mean_std(*old, *new)", "return gaussian_kl_mean_std(*new, *old)"),), ("test_mpo.py::test_mstep_by_hand", "test_vmpo.py::test_loss_by_hand")),
    Mutant(0, "MPO's targets move at every learner step", MPO, (("if self.learned % c.target_period == 0:", "if True:"),), (MPO_PERIOD,)),
    Mutant(0, "MPO's target critic never moves", MPO, (("for target, source in ((self.target_policy, self.policy), (self.target_critic, self.critic)):", "for target, source in ((self.target_policy, self.policy),):"),), (MPO_PERIOD,)),
    Mutant(0, "V-MPO's target moves at every inner step", VMPO, (('figures = parts | {"train/grad_norm": self.gradient_step(loss)}', 'figures = parts | {"train/grad_norm": self.gradient_step(loss)}\n            self.target_policy.load_state_dict(self.policy.state_dict())'),), (VMPO_PERIOD,)),
    Mutant(0, "V-MPO's target moves at every update", VMPO, (("if self.updates % self.config.target_period == 0:", "if True:"),), (VMPO_PERIOD,)),
    Mutant(0, "V-MPO weighs its samples anew at every inner step", VMPO, (("inner_steps):\n            loss, parts = self.loss(batch)", "inner_steps):\n            loss, parts = self.loss(self.estep(Batch(**{n: getattr(batch, n) for n in Batch.__dataclass_fields__})))"),), (VMPO_PERIOD,)),
    Mutant(0, "the importance weights are left out of the temperature's loss", VMPO, (('            batch.log_importance,\n            self', '            0.0 * batch.log_importance,\n            self'),), ("test_vmpo.py::test_loss_by_hand",)),
    Mutant(0, "the importance weights are left out of psi", VMPO, (("psi = vmpo_weights(advantage, kept, log_importance,", "psi = vmpo_weights(advantage, kept, 0.0 * log_importance,"),), ("test_vmpo.py::test_estep_by_hand",)),
    Mutant(0, "the mean is fitted with the new std", MPO, (("gaussian_log_prob(action, mean, std_old)", "gaussian_log_prob(action, mean, std)"),), (MSTEP,)),
    Mutant(0, "the std is fitted with the new mean", MPO, (("gaussian_log_prob(action, mean_old, std)", "gaussian_log_prob(action, mean, std)"),), (MSTEP,)),
    Mutant(0, "the action penalty pulls outside", MPO, (('overshoot = -(action - action.clamp(', 'overshoot = (action - action.clamp('),), (OVERSHOOT,)),
    Mutant(0, "the penalty's weights take the place of the values'", MPO, (("both = weights + pull", "both = pull"),), (OVERSHOOT,)),
    Mutant(0, "the two sets of weights are averaged: each pulls with half its strength", MPO, (("both = weights + pull", "both = 0.5 * (weights + pull)"),), (OVERSHOOT,)),
    Mutant(0, "a critic is asked for actions that the environment never gets", NETWORKS, (("action.clamp(-1.0, 1.0)], -1)", "action], -1)"),), ("test_networks.py::test_qnet_of_continuous_actions_sees_them_clipped",)),
    Mutant(0, "the values do not reach a shared encoder", NETWORKS, (("return self.head(self.shared[0](obs)).squeeze(-1)", "return self.head(self.shared[0](obs).detach()).squeeze(-1)"),), ("test_networks.py::test_a_value_head_stands_on_the_policys_encoder_and_lists_only_its_own",)),
    Mutant(0, "the std knows nothing of the state", NETWORKS, (("clamp(self.log_std + shift, ", "clamp(self.log_std + 0.0 * shift, "),), ("test_networks.py::test_gaussian_policy_parameters",)),
    Mutant(0, "a sequence crosses the place where new steps overwrite old ones", REPLAY, (("starts, envs = self.size - length + 1,", "starts, envs = self.size,"),), ("test_replay.py::test_a_sequence_is_one_environments_steps_in_the_order_lived",)),
    Mutant(0, "sequences are counted from the start of the ring, not from the oldest step", REPLAY, (("oldest = self.position - self.size\n", "oldest = 0\n"),), ("test_replay.py::test_a_sequence_is_one_environments_steps_in_the_order_lived", "test_replay.py::test_a_restored_replay_goes_on_to_the_bit")),
    Mutant(0, "the newest sequence is never drawn", REPLAY, (("starts, envs = self.size - length + 1,", "starts, envs = max(1, self.size - length),"),), ("test_replay.py::test_draws_are_uniform_over_all_runs",)),
    Mutant(0, "a sequence runs through several environments", REPLAY, (("column[row, draw % envs]", "column[row, (draw + steps) % envs]"),), ("test_replay.py::test_a_sequence_is_one_environments_steps_in_the_order_lived",)),
    Mutant(0, "the ring forgets that it is full", REPLAY, (("self.size = min(self.size + steps, self.capacity)", "self.size = self.size + steps"),), ("test_replay.py::test_a_sequence_is_one_environments_steps_in_the_order_lived",)),
    Mutant(0, "phantom rows are stored", REPLAY, (("if rollout.restart_weight is not None:", "if False:"),), ("test_replay.py::test_errors_name_what_was_wrong_and_leave_every_column_as_it_was",)),
    Mutant(0, "phantom rows are learned from", ON_POLICY, (('return None if rollout.restart_weight is None else rollout.real', 'return None'),), ("test_on_policy.py::test_rows_of_restart_weight_zero_are_as_if_they_were_not_there",)),
    Mutant(0, "phantom rows move the observation statistics", STEPWISE, (("absorb(rollout.visited)", "absorb(rollout.obs)"),), ("test_on_policy.py::test_rows_of_restart_weight_zero_are_as_if_they_were_not_there",)),
    Mutant(0, "phantom rows move the reward scaler", ON_POLICY, (('absorb(rollout.reward, rollout.ended, real)', 'absorb(rollout.reward, rollout.ended)'),), ("test_on_policy.py::test_rows_of_restart_weight_zero_are_as_if_they_were_not_there",)),
    Mutant(0, "a replay is saved as it lies in the ring and read as if in order", REPLAY, (("row = (self.position - self.size + torch.arange(self.size)) % self.capacity", "row = torch.arange(self.size)"),), ("test_replay.py::test_a_restored_replay_goes_on_to_the_bit",)),
    Mutant(0, "MPO forgets how many steps it has learned", MPO, (('"learned": self.learned,\n        }', '"learned": 0,\n        }'),), ("test_every_agent.py::test_a_restored_agent_goes_on_to_the_bit",)),
    Mutant(0, "MPO is restored without its replay", MPO, (('self.replay.load_state_dict(state["replay"], self.device)', "pass"),), ("test_every_agent.py::test_a_restored_agent_goes_on_to_the_bit",)),
    Mutant(0, "MPO is restored without its optimizers' moments", MPO, (('optimizer.load_state_dict(copy.deepcopy(state["optimizers"][name]))', 'pass'),), ("test_every_agent.py::test_a_restored_agent_goes_on_to_the_bit",)),
    Mutant(0, "MPO shares its moments with the agent that it was restored from", MPO, (('copy.deepcopy(state["optimizers"][name])', 'state["optimizers"][name]'),), ("test_every_agent.py::test_a_restored_agent_goes_on_to_the_bit",)),
    Mutant(0, "a recording's first calls see inputs that are one tensor", GPU, (("aside(self.function, copied(inputs))", "aside(self.function, inputs)"),), (DEVICE + "nothing_is_compiled_while_a_graph_is_recorded",)),
    Mutant(0, "a refused batch moves what it moved on a GPU", GPU, (("torch.where(finite, tensor, old)", "tensor"),), (TAKEN_BACK,)),
    Mutant(0, "what the first, refused update made stays", GPU, (("old = torch.zeros_like(tensor)", "old = tensor"),), (TAKEN_BACK,)),
    Mutant(0, "good batches are undone", GPU, (("torch.where(finite, tensor, old)", "torch.where(finite, old, tensor)"),), (RECORDED_BITS,)),
    Mutant(0, "what Python counted in a refused update stays", GPU, (("if not was_finite:", "if False:"),), (TAKEN_BACK,)),
    Mutant(0, "what was counted is settled after the next update began", GPU, (("        self.settle()\n        self.kind", "        self.kind"),), (TAKEN_BACK,)),
    Mutant(0, "a refused update's numbers are saved", GPU, (('    def state_dict(self) -> dict[str, Any]:\n        self.settle()\n', '    def state_dict(self) -> dict[str, Any]:\n'),), (TAKEN_BACK,)),
    Mutant(0, "moments of a refused rollout stay", GPU, (('for key, tensor in state.items() if tensor is not None}', 'for key, tensor in state.items() if tensor is None}'),), (TAKEN_BACK,)),
    Mutant(0, "refusals in a row are not forgotten", GPU, (("(self.run + 1) * bad.any()", "self.run + bad.any()"),), (MASKED_COUNT,)),
    Mutant(0, "a refusal is counted for every tensor that is not finite", GPU, (("bad & (bad.cumsum(0) == 1)", "bad"),), (MASKED_COUNT,)),
    Mutant(0, "nobody reads the count of refusals", LOOP, (("            run.notice_refusals(row, rollout)\n", ""),), ("test_divergence.py::test_three_refused_updates_end_a_run_with_its_last_good_checkpoint",)),
    Mutant(0, "a recorded walk starts where the recording did", GPU, (('self.env.state, self.env.elapsed = start["state"], start["elapsed"]', "pass"),), (RECORDED_BITS,)),
    Mutant(0, "a recorded update keeps the learning rate it was recorded at", GPU, (('        agent.set_learning_rate(self.progress)\n', ''),), (RECORDED_BITS,)),
    Mutant(0, "the running return is replaced, not changed in place", NORMALIZER, (("self.running.copy_(running)", "self.running = running"),), (RECORDED_BITS,)),
    Mutant(0, "compiled steps draw their noise once more", GPU, (('noise = agent.policy.noise(len(obs), agent.generator)', 'noise = agent.policy.noise(len(obs), agent.generator)\n        noise = agent.policy.noise(len(obs), agent.generator)'),), (DEVICE + "compiled_and_eager_agree_within_float32",)),
    Mutant(0, "all clocks start at zero", TORCH_NATIVE, (("self.elapsed.random_(self.max_steps, generator=self.generator)", "pass"),), ("test_envs.py::test_staggered_clocks_spread_the_ends_of_episodes",)),
    Mutant(0, "an agent acts by the random numbers of its environments", AGENT, (("stream(seed, ACTING)", "stream(seed, 3, 0)"),), ("test_independence.py::test_the_parts_of_a_run_and_of_its_neighbors_share_no_number",)),
    Mutant(0, "environments are seeded by the seeds that follow the run's", NUMPY_BACKED, (("= seeds_of_worlds(self.seed, self.num_envs, steps)", "= [self.seed + steps + i for i in range(self.num_envs)]"),), ("test_independence.py::test_neighboring_runs_start_nowhere_alike",)),
    Mutant(0, "V-MPO forgets how many updates it has made", VMPO, (('state_dict() | {"updates": self.updates}', 'state_dict() | {"updates": 0}'),), ("test_every_agent.py::test_a_restored_agent_goes_on_to_the_bit",)),
)  # fmt: skip
