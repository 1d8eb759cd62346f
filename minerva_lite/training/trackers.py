"""The figures of a training, sent to TensorBoard or Weights & Biases while it runs.

A tracker is a callback for `train`, and a context that closes what it opened: `with TensorBoard("runs/1") as tracker:
train(…, callback=tracker)`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any


class TensorBoard(AbstractContextManager):
    """Every figure over environment steps, in a folder for `tensorboard --logdir`; one folder per run.

    A resumed run goes on in its folder. Its first row replaces what the folder held from that step on.
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
            # A killed run may have written rows after its last checkpoint; the resumed run writes them again.
            self._writer = self._new(self.folder, purge_step=step)
        for name, value in row.items():
            if name != "steps":
                self._writer.add_scalar(name, value, step)
        self._writer.flush()  # so that a kill loses no row that the checkpoint counts as done

    def __exit__(self, *error: Any) -> None:
        if self._writer is not None:
            self._writer.close()


class WeightsAndBiases(AbstractContextManager):
    """Every figure over environment steps, in a run of `project`; `settings` go to `wandb.init`.

    `mode="offline"` and `dir=…` keep it on this machine. checkpoint: that of the training, whose run a resumed training
    goes on with (`same_run`): of each step W&B keeps the row that it received first, and drops the one that is sent
    again. The run begins at the first row, so a training that is refused leaves none.
    Raises ImportError: W&B is missing.
    """

    def __init__(self, project: str, *, checkpoint: str | Path | None = None, resume: Any = None, **settings: Any):
        try:
            from wandb import init  # by name, because a folder `wandb` that it left here would be imported as a package
        except ImportError as error:
            raise ImportError(f"WeightsAndBiases needs `pip install minerva_lite[tracking]` ({error})") from error
        self._begin, self.settings, self.run = init, settings | {"project": project, "resume": resume}, None
        self.checkpoint = checkpoint

    def __call__(self, row: Mapping[str, float]) -> None:
        if self.run is None:
            self.run = self._begin(**self.settings | same_run(self.checkpoint, bool(self.settings["resume"])))
        self.run.log({name: value for name, value in row.items() if name != "steps"}, step=int(row["steps"]))

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        if self.run is not None:
            self.run.finish(exit_code=int(kind is not None))


def same_run(checkpoint: str | Path | None, resume: bool) -> dict[str, str]:
    """Settings by which `WeightsAndBiases` keeps to one run while a training is stopped and resumed.

    The run's id lies beside the checkpoint, as `run.pt.wandb` beside `run.pt`; move the two together. Without a
    checkpoint, or where one stands that is not to be resumed, there is nothing to keep to.
    Raises OSError: the id cannot be written.
    """
    if checkpoint is None or (Path(checkpoint).exists() and not resume):
        return {}
    file = Path(f"{checkpoint}.wandb")
    known = file.read_text(encoding="utf-8").strip() if resume and file.exists() else ""
    file.write_text(known or secrets.token_hex(4), encoding="utf-8")
    return {"id": file.read_text(encoding="utf-8"), "resume": "allow"}
