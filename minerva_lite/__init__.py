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
from .language import SequenceAgent, SequenceConfig
from .training.checkpoints import load
from .training.evaluation import History, evaluate
from .training.loop import train
from .training.presets import preset
from .worlds.envs import make_env

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
    "SequenceAgent",
    "SequenceConfig",
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
__version__ = "0.3.0"
