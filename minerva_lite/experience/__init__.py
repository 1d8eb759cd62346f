"""What an agent learns from: rollouts, branches, replay, running statistics."""

from .episodes import RunningEpisodes
from .normalizer import Normalizer, RewardScaler
from .replay import SequenceReplay
from .rollout import Batch, Rollout, collect, collect_episodes
from .vine import Vine, collect_vine

__all__ = [
    "Batch",
    "Normalizer",
    "RewardScaler",
    "Rollout",
    "RunningEpisodes",
    "SequenceReplay",
    "Vine",
    "collect",
    "collect_episodes",
    "collect_vine",
]
