"""One algorithm per file: a frozen config, and an agent with `act`, `update` and `state_dict`."""

from .a2c import A2CAgent, A2CConfig
from .mpo import MPOAgent, MPOConfig
from .multi_categorical import MultiCategoricalPolicy
from .networks import CategoricalPolicy, GaussianPolicy, QNet, SquashedGaussianPolicy, ValueNet
from .ppo import PPOAgent, PPOConfig
from .reinforce import REINFORCEAgent, REINFORCEConfig
from .trpo import TRPOAgent, TRPOConfig
from .vmpo import VMPOAgent, VMPOConfig

# What a name on the command line, in a preset or in a checkpoint stands for. A room beside this one enters its own.
AGENTS: dict[str, tuple[type, type]] = {
    REINFORCEAgent.name: (REINFORCEAgent, REINFORCEConfig),
    A2CAgent.name: (A2CAgent, A2CConfig),
    TRPOAgent.name: (TRPOAgent, TRPOConfig),
    PPOAgent.name: (PPOAgent, PPOConfig),
    MPOAgent.name: (MPOAgent, MPOConfig),
    VMPOAgent.name: (VMPOAgent, VMPOConfig),
}

__all__ = [
    "AGENTS",
    "A2CAgent",
    "A2CConfig",
    "CategoricalPolicy",
    "GaussianPolicy",
    "MPOAgent",
    "MPOConfig",
    "MultiCategoricalPolicy",
    "PPOAgent",
    "PPOConfig",
    "QNet",
    "REINFORCEAgent",
    "REINFORCEConfig",
    "SquashedGaussianPolicy",
    "TRPOAgent",
    "TRPOConfig",
    "VMPOAgent",
    "VMPOConfig",
    "ValueNet",
]
