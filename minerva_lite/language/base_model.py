"""A pretrained decoder in a small file: matrices as whole numbers of a byte, with one scale for each row.

A row's largest weight is 127 of its scale. What is rounded away is at most half a scale, about a hundredth of a typical
weight, so that the loaded model answers nearly as the saved one did.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Generator, Tensor

from ..files import loaded, replacing
from .decoder import Decoder

FORMAT = 1


def save_base(decoder: Decoder, path: str | Path) -> None:
    """Write the weights of a decoder and what it takes to make one of its shape. Raises OSError: it cannot be written.

    About one byte a weight. A crash never leaves half a file.
    """
    weights = {name: _packed(tensor) for name, tensor in decoder.state_dict().items()}
    contents = {"format": FORMAT, "decoder": decoder.arguments, "weights": weights}
    with replacing(path) as part:
        torch.save(contents, part)


def load_base(path: str | Path) -> Decoder:
    """The decoder that `save_base` wrote, in float32 on the CPU. Reads tensors and plain values only.

    Raises FileNotFoundError, or ValueError: the file is none of these, or does not fit together.
    """
    path = Path(path)
    try:
        contents = loaded(path)
        if contents["format"] != FORMAT:
            raise ValueError(f"format {contents['format']}")
        decoder = Decoder(**contents["decoder"], generator=Generator())
        weights = {name: part["weight"].float() * part.get("scale", 1.0) for name, part in contents["weights"].items()}
        decoder.load_state_dict(weights)
    except FileNotFoundError:
        raise
    except Exception as error:  # a file may hold anything
        why = " ".join(str(error).split())
        raise ValueError(f"path: wanted a base model of format {FORMAT}; {path.name} is none ({why})") from error
    return decoder


def _packed(tensor: Tensor) -> dict[str, Tensor]:
    """A matrix as bytes and the scale of each row; a vector in half precision."""
    tensor = tensor.detach().float().cpu()
    if tensor.dim() == 1:
        return {"weight": tensor.half()}
    scale = tensor.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 127
    return {"weight": (tensor / scale).round().to(torch.int8), "scale": scale}
