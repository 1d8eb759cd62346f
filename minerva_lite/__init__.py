"""Policy-optimization agents, small and exact: the package that the book *Policy Optimization, Line by Line* runs."""

from .agents import (
    A2CAgent,
    A2CConfig,
    MPOAgent,
    MPOConfig,
    PPOAgent,
    PPOConfig,
    REINFORCEAgent,
    REINFORCEConfig,
    TRPOAgent,
    TRPOConfig,
    VMPOAgent,
    VMPOConfig,
)
from .checkpoints import load
from .envs import make_env
from .presets import preset
from .training import History, evaluate, train

__all__ = [
    "A2CAgent",
    "A2CConfig",
    "History",
    "MPOAgent",
    "MPOConfig",
    "PPOAgent",
    "PPOConfig",
    "REINFORCEAgent",
    "REINFORCEConfig",
    "TRPOAgent",
    "TRPOConfig",
    "VMPOAgent",
    "VMPOConfig",
    "evaluate",
    "load",
    "make_env",
    "preset",
    "train",
]
__version__ = "0.1.0"
