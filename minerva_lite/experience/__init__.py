"""What an agent learns from: rollouts, branches, replay, running statistics."""

from .normalizer import Normalizer, RewardScaler
from .replay import SequenceReplay
from .rollout import Rollout, collect, collect_episodes, minibatches
from .vine import Vine, collect_vine

__all__ = [
    "Normalizer",
    "RewardScaler",
    "Rollout",
    "SequenceReplay",
    "Vine",
    "collect",
    "collect_episodes",
    "collect_vine",
    "minibatches",
]
