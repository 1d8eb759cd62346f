"""What a preset is."""

from __future__ import annotations

from dataclasses import dataclass

from ..agents import MPOConfig
from ..agents.on_policy import OnPolicyConfig


@dataclass(frozen=True)
class Preset:
    """A configuration, and for how many environment steps it was meant to train."""

    config: OnPolicyConfig | MPOConfig
    total_steps: int
    family: str = ""  # whose defaults they are, where nobody has looked for any (`defaults.settings_for`)
    untrained: bool = False  # nobody has trained with them on this task: they are those of a task like it
