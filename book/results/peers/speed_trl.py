"""TRL's side of the race on language models: one training from the base model.

Whatever costs TRL time and is not the training is off: logging, saving, evaluation, half precision, and the option to
compute activations twice. Fused Adam is on.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .language_task import ADAM_EPS, GROUP, LEARNING_RATE, LENGTH, MAX_GRAD_NORM, PROMPTS, Watch, report, task
from .trl_model import gpt2, word_tokenizer


def model_from(base: dict[str, np.ndarray]) -> Any:
    """A GPT-2 with the weights of this package's decoder, which gives every answer the same probability.

    A GPT-2 has no bias on its head. The bias b of the last normalization takes it over: W b' = W b + c has a solution,
    because the head's W has more columns than rows. The position of the last token is read by TRL and used by nobody.
    """
    weights = {name: torch.from_numpy(array) for name, array in base.items()}
    positions = torch.cat([weights["position"].squeeze(1), torch.zeros_like(weights["position"][0])])
    model = gpt2(len(weights["token.weight"]), len(positions))
    head = weights["head.weight"]
    taken = {"transformer.wte.weight": weights["token.weight"], "transformer.wpe.weight": positions}
    taken |= {"lm_head.weight": head, "transformer.ln_f.weight": weights["norm.weight"]}
    taken["transformer.ln_f.bias"] = weights["norm.bias"] + torch.linalg.pinv(head) @ weights["head.bias"]
    names = {"before_attention": "ln_1", "before_hidden": "ln_2", "query_key_value": "attn.c_attn"}
    names |= {"mixed": "attn.c_proj", "hidden": "mlp.c_fc", "out": "mlp.c_proj"}
    for block in range(len(model.transformer.h)):
        for ours, theirs in names.items():
            for kind in ("weight", "bias"):
                weight = weights[f"blocks.{block}.{ours}.{kind}"]
                # GPT-2 keeps matrices the other way around.
                taken[f"transformer.h.{block}.{theirs}.{kind}"] = weight.T if weight.dim() == 2 else weight
    model.load_state_dict(taken)
    with torch.no_grad():
        prompt, answer = torch.from_numpy(base["prompt"]), torch.from_numpy(base["answer"])
        logits = model(torch.cat([prompt, answer], 1)).logits[:, len(prompt[0]) - 1 : -1]
    log_prob = logits.log_softmax(-1).gather(-1, answer.unsqueeze(-1)).squeeze(-1)
    gap = float((log_prob - torch.from_numpy(base["log_prob"])).abs().max())
    if gap > 1e-4:
        raise ValueError(f"base: wanted a model with the same log-probabilities; they differ by up to {gap:.2g} nats")
    return model


def trainer_of(algorithm: str, seed: int, updates: int, base: dict[str, np.ndarray], folder: str, watch: Watch) -> Any:
    """TRL's trainer with the numbers of `language_task`."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

    right = []

    def reward(prompts: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        digits = np.array([prompt.split() for prompt in prompts], dtype=np.int64)
        paid = (np.sort(digits, 1) == np.array(completion_ids)).all(1)
        right.append(float(paid.mean()))
        return paid.astype(float).tolist()

    class Watching(TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            watch.start()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            watch.update_is_over(right[-1])

    drawn = np.random.default_rng(seed).integers(10, size=(updates * PROMPTS, LENGTH))
    options: dict[str, Any] = {
        "output_dir": folder,
        "seed": seed,
        "max_steps": updates,
        "per_device_train_batch_size": PROMPTS * GROUP,
        "num_generations": GROUP,
        "max_completion_length": LENGTH,
        "learning_rate": LEARNING_RATE,
        "lr_scheduler_type": "linear",
        "optim": "adamw_torch_fused",
        "weight_decay": 0.0,
        "adam_epsilon": ADAM_EPS,
        "max_grad_norm": MAX_GRAD_NORM,
        "beta": 0.0,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "logging_strategy": "no",
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }
    if algorithm == "grpo":
        config, trainer = GRPOConfig(**options, loss_type="dapo", scale_rewards="group"), GRPOTrainer
    else:
        config, trainer = RLOOConfig(**options), RLOOTrainer
    return trainer(
        model=model_from(base),
        reward_funcs=reward,
        args=config,
        train_dataset=Dataset.from_dict({"prompt": [" ".join(map(str, row)) for row in drawn]}),
        processing_class=word_tokenizer(10),
        callbacks=[Watching()],
    )


def run(algorithm: str, seed: int, updates: int, base: Path) -> Watch:
    """So many updates from the base model; building is off the clock."""
    watch = Watch()
    with np.load(base) as arrays, tempfile.TemporaryDirectory() as folder:
        trainer_of(algorithm, seed, updates, dict(arrays), folder, watch).train()
    return watch


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    args = task()
    report(run(args.algorithm, args.seed, args.updates, args.base), "trl", "transformers")
