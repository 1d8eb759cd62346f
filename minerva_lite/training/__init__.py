"""Everything around an agent: the loop, evaluation, checkpoints, presets, studies, trackers, films."""

from .checkpoints import load, save
from .evaluation import History, evaluate
from .loop import train
from .presets import PRESETS, Preset, preset
from .studies import read_failures, read_study, study
from .trackers import TensorBoard, WeightsAndBiases
from .variants import ABLATIONS
from .video import film

__all__ = [
    "ABLATIONS",
    "PRESETS",
    "History",
    "Preset",
    "TensorBoard",
    "WeightsAndBiases",
    "evaluate",
    "film",
    "load",
    "preset",
    "read_failures",
    "read_study",
    "save",
    "study",
    "train",
]
