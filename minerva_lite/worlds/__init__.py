"""What an agent acts in: worlds that are solved exactly, and vector environments with one interface."""

from .envs import make_env
from .numpy_backed import EnvPoolEnv, GymEnv
from .spec import BranchingEnv, EnvSpec, OwnSpaces, Step, VectorEnv
from .tabular import Paths, TabularMDP, drifting_critic, inverse_cdf, random_policy, softmax_score
from .torch_native import TORCH_ENVS, TabularEnv, TorchCartPole, TorchEnv, TorchPendulum

__all__ = [
    "TORCH_ENVS",
    "BranchingEnv",
    "EnvPoolEnv",
    "EnvSpec",
    "GymEnv",
    "OwnSpaces",
    "Paths",
    "Step",
    "TabularEnv",
    "TabularMDP",
    "TorchCartPole",
    "TorchEnv",
    "TorchPendulum",
    "VectorEnv",
    "drifting_critic",
    "inverse_cdf",
    "make_env",
    "random_policy",
    "softmax_score",
]
