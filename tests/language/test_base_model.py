"""The base model: the shipped file is small, loads safely and is worth what the chapter says; what is none is named."""

from __future__ import annotations

import pytest
import torch

from book.results.studies.base_model import PATH
from minerva_lite import evaluate
from minerva_lite.language.base_model import load_base, save_base
from minerva_lite.language.decoder import Decoder
from tests.living import make_agent


def test_the_shipped_base_model_is_small_and_right_about_half_of_the_time():
    assert PATH.stat().st_size <= 200_000
    assert torch.load(PATH, weights_only=True)["decoder"]["width"] == 64
    agent, *_ = make_agent("sequence", "tokens/sort")
    agent.start_from(load_base(PATH))
    told = evaluate(agent, episodes=2000)
    assert 0.3 < told["eval/right_sampled"] < 0.6 and abs(told["eval/kl_to_reference"]) < 1e-6
    assert told["eval/right"] > told["eval/right_sampled"]


def test_what_is_saved_is_loaded_to_half_a_step_of_each_row(tmp_path):
    decoder = Decoder(7, 5, torch.Generator().manual_seed(1), end=6, width=8, layers=3, heads=2)
    with torch.no_grad():
        decoder.head.weight[2] = 0.0
    save_base(decoder, tmp_path / "base.pt")
    loaded = load_base(tmp_path / "base.pt")
    assert loaded.form == decoder.form and loaded.end == 6
    for (name, ours), theirs in zip(loaded.state_dict().items(), decoder.state_dict().values(), strict=True):
        assert ours.dtype == torch.float32
        step = theirs.abs().amax(-1, keepdim=True) / 127 if theirs.dim() > 1 else theirs.abs() / 1000
        assert ((ours - theirs).abs() <= 0.5001 * step + 1e-12).all(), name
    assert (loaded.head.weight[2] == 0).all()
    save_base(loaded, tmp_path / "again.pt")
    again = load_base(tmp_path / "again.pt").state_dict().values()
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(again, loaded.state_dict().values(), strict=True))


def test_a_file_that_is_none_is_named(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_base(tmp_path / "none.pt")
    (tmp_path / "text.pt").write_text("nothing")
    torch.save({"format": 2}, tmp_path / "newer.pt")
    decoder = Decoder(7, 5, torch.Generator(), width=8, heads=2)
    save_base(decoder, tmp_path / "lost.pt")
    told = torch.load(tmp_path / "lost.pt", weights_only=True)
    del told["weights"]["norm.bias"]
    torch.save(told, tmp_path / "lost.pt")
    for name, why in (("text.pt", ""), ("newer.pt", "format 2"), ("lost.pt", ".*norm.bias")):
        with pytest.raises(ValueError, match=rf"^path: wanted a base model of format 1; {name} is none \({why}"):
            load_base(tmp_path / name)
