"""Language models: tasks of tokens, the decoder that answers prompts, and the agent that learns from whole answers."""

import sys

from ..agents import AGENTS
from . import answer_tree
from .answer_tree import AnswerTree
from .decoder import Decoder
from .sequence import SequenceAgent, SequenceConfig
from .tokens import TASKS

# Assignments that were handed out before version 0.3 name it so.
sys.modules["minerva_lite.worlds.answer_tree"] = answer_tree
AGENTS[SequenceAgent.name] = (SequenceAgent, SequenceConfig)

__all__ = ["TASKS", "AnswerTree", "Decoder", "SequenceAgent", "SequenceConfig"]
