"""Policy-optimization agents, small and exact: the package that the book *Policy Optimization, Line by Line* runs."""

from .agents import (
    A2CAgent,
    A2CConfig,
    PPOAgent,
    PPOConfig,
    REINFORCEAgent,
    REINFORCEConfig,
    TRPOAgent,
    TRPOConfig,
)
from .envs import make_env
from .presets import preset
from .training import History, evaluate, train

__all__ = [
    "A2CAgent",
    "A2CConfig",
    "History",
    "PPOAgent",
    "PPOConfig",
    "REINFORCEAgent",
    "REINFORCEConfig",
    "TRPOAgent",
    "TRPOConfig",
    "evaluate",
    "make_env",
    "preset",
    "train",
]
__version__ = "0.1.0"
