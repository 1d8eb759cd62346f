"""Policy-optimization agents, small and exact: the package that the book *Policy Optimization, Line by Line* runs."""

from .agents.ppo import PPOAgent, PPOConfig
from .envs import make_env
from .presets import preset
from .training import History, evaluate, train

__all__ = ["History", "PPOAgent", "PPOConfig", "evaluate", "make_env", "preset", "train"]
__version__ = "0.1.0"
