"""`python -m book.results.studies.base_model`: the base model of chapter 9, which sorts six digits half of the time.

It is pretrained as the sequence agent is by default. The file is small enough to be kept beside the book, and is read
by `load_base`; `tests/language/test_base_model.py` evaluates it.
"""

from __future__ import annotations

from pathlib import Path

from minerva_lite import evaluate, make_env
from minerva_lite.language import SequenceAgent, SequenceConfig
from minerva_lite.language.base_model import load_base, save_base

PATH = Path(__file__).parents[1] / "checkpoints" / "sort_base.pt"


if __name__ == "__main__":
    agent = SequenceAgent(SequenceConfig(), make_env("tokens/sort").spec, seed=0, device="cpu")
    agent.pretrain()
    before = evaluate(agent, episodes=2000)["eval/right_sampled"]
    PATH.parent.mkdir(exist_ok=True)
    save_base(agent.policy, PATH)
    agent.start_from(load_base(PATH))
    after = evaluate(agent, episodes=2000)["eval/right_sampled"]
    print(f"{PATH.name}: {PATH.stat().st_size} bytes, right when sampled {before:.3f}, {after:.3f} from the file")
