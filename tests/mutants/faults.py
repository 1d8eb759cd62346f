"""Faults that real implementations had, put into this package one at a time; the named tests must turn red.

The numbers are those of `book/errata.md`'s source list. `edits` are (old text, new text) pairs in one file, and each
old text must stand there exactly once, so that a mutant cannot quietly stop being one.
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
PPO, NORMALIZER, LEARNING = "agents/ppo.py", "normalizer.py", "learning.py"

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
        PPO,
        (("RewardScaler(config.gamma)", "RewardScaler(0.99)"),),
        (OWN_GAMMA,),
    ),
    Mutant(
        8,
        "observation statistics move between collecting and learning",
        PPO,
        (
            ("batch = self.prepare(rollout)", "self.obs_normalizer.absorb(rollout.obs)\n        batch = self.prepare(rollout)"),
            ("            self.obs_normalizer.absorb(rollout.obs)\n        return diagnostics", "            pass\n        return diagnostics"),
        ),
        (FIRST_RATIO, ONE_MOMENT),
    ),
    Mutant(
        8,
        "observation statistics move with every action",
        PPO,
        (("params = self.policy(self.normalized(obs))\n", "self.obs_normalizer.absorb(obs)\n        params = self.policy(self.normalized(obs))\n"),),
        (FIRST_RATIO, ONE_MOMENT),
    ),
    Mutant(
        9,
        "the saved state lacks the normalizer's statistics",
        PPO,
        (
            ('"modules": self.modules.state_dict(),', '"modules": {k: v for k, v in self.modules.state_dict().items() if "normalizer" not in k},'),
            ('self.modules.load_state_dict(state["modules"])', 'self.modules.load_state_dict(state["modules"], strict=False)'),
        ),
        (TO_THE_BIT,),
    ),
    Mutant(
        9,
        "loading leaves the saved statistics out",
        PPO,
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
        PPO,
        (('advantage = batch["advantage"]\n        figures', 'advantage = normalize_advantage(batch["advantage"])\n        figures'),),
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
        PPO,
        (('require_one_of(("adam", "sgd"), optimizer=self.optimizer)', "pass"),),
        (CONTRADICTIONS,),
    ),
)  # fmt: skip
FAULTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 30, 32, 39, 40)
