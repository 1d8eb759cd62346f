"""One algorithm a module, each a frozen config and an agent with `act`, `update` and `state_dict` (floor 5)."""

from .a2c import A2CAgent, A2CConfig
from .ppo import PPOAgent, PPOConfig
from .reinforce import REINFORCEAgent, REINFORCEConfig
from .trpo import TRPOAgent, TRPOConfig

# What a name on the command line, in a preset or in a checkpoint stands for.
AGENTS: dict[str, tuple[type, type]] = {
    REINFORCEAgent.name: (REINFORCEAgent, REINFORCEConfig),
    A2CAgent.name: (A2CAgent, A2CConfig),
    TRPOAgent.name: (TRPOAgent, TRPOConfig),
    PPOAgent.name: (PPOAgent, PPOConfig),
}
