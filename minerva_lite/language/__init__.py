"""Language models: tasks of tokens, the decoder that answers prompts, and the agent that learns from whole answers."""

from ..agents import AGENTS
from .decoder import Decoder
from .sequence import SequenceAgent, SequenceConfig
from .tokens import TASKS

AGENTS[SequenceAgent.name] = (SequenceAgent, SequenceConfig)

__all__ = ["TASKS", "Decoder", "SequenceAgent", "SequenceConfig"]
