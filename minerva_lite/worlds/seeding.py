"""Independent streams of random numbers from one seed, by NumPy's `SeedSequence`: nothing that a run draws is drawn
twice, neither by two parts of the run nor by runs of different seeds.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.random import MT19937, SeedSequence
from torch import Generator

from ..checks import require_seed

SEEDING = "streams"  # what checkpoints and studies are marked with; the former one, of shared streams, has no mark
WEIGHTS, ACTING, UPDATES, WORLDS = range(4)  # what has streams of its own


def stream(seed: int, *place: int) -> SeedSequence:
    """The stream of one part of a run: `place` is one of the four above, and numbers that lead further.

    Raises ValueError: a seed that is no whole number from 0 to 2**63 - 1.
    """
    return SeedSequence(require_seed(seed=seed), spawn_key=place)


def generator(source: SeedSequence, device: torch.device | str = "cpu") -> Generator:
    """A generator of torch that draws the numbers of a stream."""
    made = Generator(device=device)
    if made.device.type != "cpu":
        return made.manual_seed(int(source.generate_state(1, np.uint64)[0]))
    # On a CPU torch has a Mersenne Twister, of whose seed it uses 32 bits. All of its 624 words are set here, as NumPy
    # sets them. They stand behind the 24 bytes of a header.
    words = MT19937(source).state["state"]["key"].astype(np.int64)
    state = made.get_state()
    state[24 : 24 + 8 * len(words)] = torch.from_numpy(words).view(torch.uint8)
    made.set_state(state)
    return made


def seeds_of_worlds(seed: int, count: int, steps: int = 0) -> list[int]:
    """Seeds for `count` environments outside torch, whose first episodes begin after so many steps of training.

    They have 128 bits, of which the lowest 32 follow one another from a number that is drawn: an environment that takes
    no more than those has a seed of its own within the run, and one of another run by chance.
    """
    low = int(stream(seed, WORLDS, steps).generate_state(1)[0])
    high = (stream(seed, WORLDS, steps, i).generate_state(3).tobytes() for i in range(count))
    return [int.from_bytes(words, "little") << 32 | (low + i) % 2**32 for i, words in enumerate(high)]
