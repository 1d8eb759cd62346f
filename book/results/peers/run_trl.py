"""What TRL computes on given log-probabilities and rewards: `python -m book.results.peers.run_trl`, in `.venv-trl`.

Its trainers are made as a user makes them, with a tiny random model. Then three things are put in their hands: answers
instead of generated ones, log-probabilities instead of a model's, and rewards. Everything in between is TRL's, from the
rewards to the advantages, and from these to the loss and its gradient. What went in and what came out is written to
`book/results/peers_trl.json`, in TRL's layout, [B, L]. Numbers are float64; TRL's advantages of GRPO are float32.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from .trl_model import gpt2, word_tokenizer

PROMPTS, GROUP, LENGTH = 3, 4, 5
VERSIONS = ("torch", "numpy", "trl", "transformers")
LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo")
ASYMMETRIC = {"epsilon": 0.2, "epsilon_high": 0.28}
GRPO = [
    *({"loss_type": name} for name in LOSS_TYPES),
    *({"loss_type": name, "beta": 0.1, "use_bias_correction_kl": False} for name in LOSS_TYPES),
    {"loss_type": "dapo", "beta": 0.1},
    {"loss_type": "dapo", "beta": 0.1, "num_iterations": 1},
    *({"loss_type": name, "gradient_accumulation_steps": 2} for name in LOSS_TYPES),
    *({"loss_type": "dapo", "scale_rewards": scale} for scale in ("none", "batch")),
    {"loss_type": "dapo"} | ASYMMETRIC,
    {"loss_type": "dr_grpo", "max_completion_length": 2 * LENGTH},
    *({"loss_type": name, "importance_sampling_level": "sequence"} for name in ("grpo", "dapo")),
    {"loss_type": "grpo", "importance_sampling_level": "sequence", "beta": 0.1, "use_bias_correction_kl": False}
    | ASYMMETRIC,
    {"loss_type": "dapo", "num_iterations": 1},
]
RLOO = [
    {"beta": 0.0},
    {"beta": 0.05},
    {"beta": 0.05} | ASYMMETRIC,
    {"beta": 0.05, "normalize_advantages": True},
]
DPO = [
    {"beta": 0.1},
    {"beta": 0.5},
    {"beta": 0.1, "loss_type": ["ipo"]},
    {"beta": 0.1, "label_smoothing": 0.2},  # with the loss type "sigmoid", which does not read it
    {"beta": 0.1, "loss_type": ["robust"], "label_smoothing": 0.2},
    {"beta": 0.1, "loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.1]},
]


def draw() -> dict[str, torch.Tensor]:
    """Answers of one to five tokens, their rewards, and three log-probabilities of each token, behind the end too."""
    generator = torch.Generator().manual_seed(0)
    count = PROMPTS * GROUP
    shape = (count, LENGTH)
    length = torch.randint(1, LENGTH + 1, (count,), generator=generator)
    length[0], length[1] = LENGTH, 1
    reward = torch.randint(0, 9, (count,), generator=generator).double() / 8  # exact in float32, which TRL takes
    reward[GROUP : 2 * GROUP] = 1.0  # a group of equal rewards
    old = -3.0 * torch.rand(shape, generator=generator, dtype=torch.float64)
    new, reference = (old + 0.3 * torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    mask = torch.arange(LENGTH) < length.unsqueeze(1)
    return {"mask": mask.long(), "reward": reward, "old": old, "new": new, "reference": reference}


def trainer_of(kind: str, options: dict[str, Any], folder: str, inputs: dict[str, torch.Tensor]) -> Any:
    """TRL's trainer with these options, and the inputs in its hands."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

    config, trainer = {"grpo": (GRPOConfig, GRPOTrainer), "rloo": (RLOOConfig, RLOOTrainer)}[kind]
    prompts = [str(row) for row in range(len(inputs["reward"]))]  # the row's number, by which it is found again
    steps = options.get("gradient_accumulation_steps", 1)
    # With two iterations TRL asks for the log-probabilities of the policy that answered, and does not assume them.
    settings = {"num_iterations": 2, "max_completion_length": LENGTH} | options
    made = trainer(
        model=folder,
        reward_funcs=lambda prompts, **_: inputs["reward"][[int(row) for row in prompts]].tolist(),
        args=config(
            output_dir=folder,
            num_generations=GROUP,
            per_device_train_batch_size=len(prompts) // steps,
            report_to="none",
            use_cpu=True,
            bf16=False,
            **settings,
        ),
        train_dataset=Dataset.from_dict({"prompt": prompts}),
        processing_class=word_tokenizer(len(prompts)),
    )
    made.model.train()
    made.current_gradient_accumulation_steps = steps
    # Any tokens, as many as the masks say.
    told = [[row % 10] * length for row, length in enumerate(inputs["mask"].sum(1).tolist())]
    made._generate_single_turn = lambda *_: (told, None) if kind == "grpo" else told

    def log_probs(model: Any, input_ids: torch.Tensor, *_: Any, compute_entropy: bool = False, **__: Any) -> Any:
        name = "new" if compute_entropy else "reference" if model is made.ref_model else "old"
        rows = inputs[name][input_ids[:, 0]]
        return rows, torch.zeros_like(rows) if compute_entropy else None, None

    made._get_per_token_logps_and_entropies = log_probs
    return made


def policy_gradient(kind: str, options: dict[str, Any], folder: str, inputs: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Advantages, loss and gradient of one trainer; with accumulated batches, of their sum."""
    from trl.trainer.utils import split_tensor_dict

    new = inputs["new"].clone().requires_grad_()
    trainer = trainer_of(kind, options, folder, inputs | {"new": new})
    batch = trainer._generate_and_score_completions([{"prompt": str(row)} for row in range(len(new))])
    advantage = batch["advantages"]
    batch["advantages"] = advantage.double()
    parts = split_tensor_dict(batch, options.get("gradient_accumulation_steps", 1))
    loss = torch.stack([trainer._compute_loss(trainer.model, part) for part in parts]).sum()
    loss.backward()
    return {"kind": kind, "options": options, "advantage": advantage, "loss": loss.detach(), "gradient": new.grad}


def preference(options: dict[str, Any], folder: str, inputs: dict[str, torch.Tensor]) -> dict[str, Any]:
    """DPO's loss and gradient; the first half of the answers is preferred to the second."""
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    pairs = {"prompt": ["0"], "chosen": ["1"], "rejected": ["2"]}
    trainer = DPOTrainer(
        model=folder,
        args=DPOConfig(output_dir=folder, report_to="none", use_cpu=True, bf16=False, **options),
        train_dataset=Dataset.from_dict(pairs),
        processing_class=word_tokenizer(len(inputs["reward"])),
    )
    new = inputs["new"].clone().requires_grad_()
    mask = inputs["mask"]

    def answering(log_prob: torch.Tensor) -> Any:
        nothing = torch.zeros_like(log_prob)
        # TRL's model gives 0 to whatever is no answer.
        told = SimpleNamespace(
            log_probs=log_prob * mask, entropy=nothing, mean_logits=nothing, is_top1=nothing.bool(), aux_loss=None
        )
        return lambda **_: told

    trainer.ref_model = answering(inputs["reference"])
    prompt = torch.zeros_like(mask[:, :1])
    tokens = torch.cat([prompt, mask], 1)
    batch = {"input_ids": tokens, "attention_mask": torch.cat([prompt + 1, mask], 1), "completion_mask": tokens}
    loss = trainer._compute_loss(answering(new), batch, False)
    loss.backward()
    return {"kind": "dpo", "options": options, "loss": loss.detach(), "gradient": new.grad}


def record() -> dict[str, Any]:
    """Everything that is written to the file."""
    inputs = draw()
    with tempfile.TemporaryDirectory() as folder:
        # From here TRL makes the policy and the reference.
        gpt2(len(inputs["reward"]) + 2, 16, width=8, layers=1, heads=1).save_pretrained(folder)
        cases = [policy_gradient("grpo", options, folder, inputs) for options in GRPO]
        cases += [policy_gradient("rloo", options, folder, inputs) for options in RLOO]
        cases += [preference(options, folder, inputs) for options in DPO]
    return {
        "command": "python -m book.results.peers.language --losses",
        "versions": {"python": platform.python_version()} | {name: version(name) for name in VERSIONS},
        "group": GROUP,
        "inputs": inputs,
        "cases": cases,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("book/results/peers_trl.json"))
    args = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    told, tensors = record(), torch.Tensor.tolist  # JSON writes every digit of a float64
    # One line for each entry, and for each case.
    cases = ",\n  ".join(json.dumps(case, default=tensors) for case in told.pop("cases"))
    lines = [f"{json.dumps(name)}: {json.dumps(entry, default=tensors)}" for name, entry in told.items()]
    args.out.write_text("{\n" + ",\n".join(lines) + f',\n"cases": [\n  {cases}\n]\n}}\n', encoding="utf8")


if __name__ == "__main__":
    main()
