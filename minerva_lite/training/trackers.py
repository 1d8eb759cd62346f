"""The figures of a training, sent to TensorBoard or Weights & Biases while it runs.

A tracker is a callback for `train`, and a context that closes what it opened: `with TensorBoard("runs/1") as tracker:
train(…, callback=tracker)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class TensorBoard:
    """Every figure over environment steps, in a folder for `tensorboard --logdir`; one run a folder.

    A resumed run goes on in its folder: what it held from the first step that it is told now on is replaced.
    Raises ImportError: TensorBoard is missing.
    """

    def __init__(self, folder: str | Path):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(f"TensorBoard needs `pip install minerva_lite[tracking]` ({error})") from error
        self.folder, self._new, self._writer = str(folder), SummaryWriter, None

    def __call__(self, row: Mapping[str, float]) -> None:
        step = int(row["steps"])
        if self._writer is None:
            # A killed run may have told more than its checkpoint knows; that is told again.
            self._writer = self._new(self.folder, purge_step=step)
        for name, value in row.items():
            if name != "steps":
                self._writer.add_scalar(name, value, step)
        self._writer.flush()  # a kill loses nothing that the checkpoint counts as done

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class WeightsAndBiases:
    """Every figure over environment steps, in a run of `project`; `settings` go to `wandb.init`.

    `mode="offline"` and `dir=…` keep it on this machine. `id="…", resume="allow"` goes on with a run: W&B keeps what
    it was told first of a step, and leaves out what a resumed training tells again.
    Raises ImportError: W&B is missing.
    """

    def __init__(self, project: str, **settings: Any):
        try:
            from wandb import init  # by name: a folder `wandb` that it left here would pass for the package
        except ImportError as error:
            raise ImportError(f"WeightsAndBiases needs `pip install minerva_lite[tracking]` ({error})") from error
        self.run = init(project=project, **settings)

    def __call__(self, row: Mapping[str, float]) -> None:
        self.run.log({name: value for name, value in row.items() if name != "steps"}, step=int(row["steps"]))

    def close(self, *, failed: bool = False) -> None:
        self.run.finish(exit_code=int(failed))

    def __enter__(self) -> WeightsAndBiases:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        self.close(failed=kind is not None)
