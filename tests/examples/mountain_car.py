"""A worked example of adding an environment: Gymnasium's MountainCarContinuous-v0 in torch.

In the package the class would stand in `minerva_lite/worlds/torch_native.py`, the entry in `tests/laws.py`: two files.
`tests/house/test_contributing.py` registers both and runs the tests of environments on them.
"""

from __future__ import annotations

import torch

from minerva_lite.worlds import EnvSpec, OwnSpaces, TorchEnv
from tests.laws import Laws


class TorchMountainCar(TorchEnv):
    """State (position, m; velocity, m a step), push [-1, 1]; the goal is on the right hill, at 0.45 m."""

    own = OwnSpaces((2,), (1,), "float32", (-1.0,), (1.0,))
    spec = EnvSpec("MountainCarContinuous-v0", obs_dim=2, action_dim=1, own=own)
    max_steps, state_dim = 999, 2

    def initial(self):
        state = self.uniform(0.1, 0.0)
        state[:, 0] -= 0.5
        return state

    def observe(self, state):
        return state

    def advance(self, state, action):
        position, velocity = state.unbind(-1)
        push = action[..., 0].clamp(-1.0, 1.0)
        velocity = (velocity + 0.0015 * push - 0.0025 * (3.0 * position).cos()).clamp(-0.07, 0.07)
        position = (position + velocity).clamp(-1.2, 0.6)
        velocity = velocity.masked_fill((position <= -1.2) & (velocity < 0.0), 0.0)  # the wall on the left stops it
        terminated = (position >= 0.45) & (velocity >= 0.0)
        reward = 100.0 * terminated.to(state.dtype) - 0.1 * push.square()
        return torch.stack([position, velocity], -1), reward, terminated


LAWS = Laws(
    start=((-0.6, 0.0), (-0.4, 0.0)),
    tried=((-1.25, -0.08), (0.65, 0.08)),
    time_limit=999,
    ends=lambda rng, state: 1.0 if state[1] >= 0.0 else -1.0,  # pushed the way it moves, it climbs
    margin=lambda state: torch.maximum(0.45 - state[:, 0], -state[:, 1]),
    rounding=1e-7,  # Gymnasium keeps this state in float32
)
