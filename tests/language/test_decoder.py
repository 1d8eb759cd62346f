"""The decoder: it looks back only, samples with a cache what it would sample without, and says what it cannot read."""

from __future__ import annotations

import math
from functools import partial
from timeit import timeit

import pytest
import torch

from minerva_lite.language.decoder import Decoder
from tests.living import refusal

END = 5


def made(*, end: int | None = END, context: int = 12, dtype=torch.float32, **options) -> Decoder:
    return Decoder(6, context, torch.Generator().manual_seed(3), end=end, **options).to(dtype)


def tokens(length: int, batch: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(6, (length, batch), generator=torch.Generator().manual_seed(seed))


def without_cache(decoder: Decoder, prompt: torch.Tensor, length: int, uniform: torch.Tensor | None) -> torch.Tensor:
    """The same draws, or the likeliest tokens, the whole text read anew for each token: [length, B]."""
    text = prompt
    for t in range(length):
        law = decoder(text)[-1].softmax(-1)
        drawn = law.argmax(-1) if uniform is None else (law.cumsum(-1)[:, :-1] <= uniform[t].unsqueeze(-1)).sum(-1)
        text = torch.cat([text, drawn.unsqueeze(0)])
    return text[len(prompt) :]


def test_attention_is_that_of_the_paper_by_plain_products():
    """One block by hand, column by column: softmax(q k^T / sqrt(d)) v over what came before, then the wide layer."""
    decoder, text = made(dtype=torch.float64, layers=1, width=8, heads=2), tokens(5, 3)
    block, logits = decoder.blocks[0], decoder(text)
    for b in range(3):
        x = decoder.token(text[:, b]) + decoder.position[:5, 0]
        query, key, value = block.query_key_value(torch.nn.functional.layer_norm(x, (8,))).split(8, -1)
        heads = []
        for h in (slice(0, 4), slice(4, 8)):
            score = query[:, h] @ key[:, h].T / math.sqrt(4)
            score = score.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), -math.inf)
            heads.append(score.softmax(-1) @ value[:, h])
        x = x + block.mixed(torch.cat(heads, -1))
        wide = block.hidden(torch.nn.functional.layer_norm(x, (8,)))
        x = x + block.out(0.5 * wide * (1 + torch.erf(wide / math.sqrt(2))))
        wanted = decoder.head(torch.nn.functional.layer_norm(x, (8,)))
        assert torch.allclose(logits[:, b], wanted, atol=1e-12)


@pytest.mark.parametrize(("group", "temperature", "length"), [(1, 1.0, 8), (3, 0.7, 8), (2, 0.7, 1)])
def test_log_probabilities_of_samples_and_of_shared_prompts_are_those_of_whole_texts(group, temperature, length):
    """A prompt that is read once for its answers passes on the gradients of all of them."""
    decoder, prompt, generator = made(dtype=torch.float64), tokens(4, 50), torch.Generator().manual_seed(1)
    answer, log_prob, mask = decoder.sample(prompt, length, generator, group=group, temperature=temperature)
    assert answer.shape == log_prob.shape == mask.shape == (length, 50 * group)
    logits = decoder(torch.cat([prompt.repeat_interleave(group, 1), answer[:-1]]))[3:] / temperature
    whole = logits.log_softmax(-1).gather(-1, answer.unsqueeze(-1)).squeeze(-1)
    shared = decoder.log_prob(prompt, answer, temperature=temperature)
    assert torch.allclose(log_prob, whole * mask, atol=1e-12) and torch.allclose(shared, whole, atol=1e-12)
    assert mask[0].all() and mask.all() == (length == 1), "some answers ended"
    weight = torch.randn(length, 50 * group, generator=generator, dtype=torch.float64)
    theirs, ours = (torch.autograd.grad((each * weight).sum(), list(decoder.parameters())) for each in (whole, shared))
    assert all(torch.allclose(a, b, atol=1e-10) for a, b in zip(ours, theirs, strict=True))
    assert sum(gradient.abs().sum() for gradient in ours) > 1.0


@pytest.mark.parametrize("deterministic", [False, True])
def test_sampling_with_a_cache_is_sampling_without_it(deterministic):
    """Where the likeliest token is taken, nothing is drawn."""
    decoder, prompt, generator = made(end=None, dtype=torch.float64), tokens(4, 200), torch.Generator().manual_seed(5)
    uniform = torch.rand(8, 200, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    before = generator.get_state()
    answer, _, mask = decoder.sample(prompt, 8, generator, deterministic=deterministic)
    assert torch.equal(answer, without_cache(decoder, prompt, 8, None if deterministic else uniform)) and mask.all()
    assert torch.equal(before, generator.get_state()) == deterministic


def test_behind_the_end_there_is_nothing():
    answer, log_prob, mask = made().sample(tokens(4, 300), 8, torch.Generator().manual_seed(1))
    ended = (answer == END).cumsum(0) > 0
    assert torch.equal(mask, ~torch.cat([torch.zeros_like(ended[:1]), ended[:-1]]))
    assert (answer[~mask] == END).all() and (log_prob[mask] < 0).all()


def test_the_generator_moves_as_far_whether_answers_end_early_or_not():
    """One call for all draws: what comes next does not hang on how long the answers were."""
    early = made()
    with torch.no_grad():
        early.head.bias[END] = 50.0
    states = []
    for decoder in (early, made()):
        generator = torch.Generator().manual_seed(2)
        _, _, mask = decoder.sample(tokens(4, 20), 8, generator)
        states.append((generator.get_state(), int(mask.sum())))
    assert torch.equal(states[0][0], states[1][0]) and states[0][1] == 20 < states[1][1]


def test_a_seed_names_the_weights():
    assert torch.equal(made().head.weight, made().head.weight)
    other = Decoder(6, 12, torch.Generator().manual_seed(4))
    assert not torch.equal(other.head.weight, made().head.weight)


def test_what_it_cannot_read_is_named():
    decoder, generator = made(), torch.Generator()
    for call, message in (
        (lambda: decoder(tokens(13, 2)), "tokens: wanted 1 to 12, the context; got 13"),
        (lambda: decoder(tokens(0, 2)), "tokens: wanted 1 to 12, the context; got 0"),
        (lambda: decoder.sample(tokens(6, 2), 8, generator), "tokens: wanted 1 to 12, the context; got 13"),
        (lambda: decoder.log_prob(tokens(6, 2), tokens(8, 2)), "tokens: wanted 1 to 12, the context; got 13"),
        (lambda: decoder.log_prob(tokens(4, 2), tokens(4, 3)), "answer: wanted as many for each of 2 prompts; got 3"),
        (lambda: decoder.sample(tokens(4, 2), 0, generator), "length: wanted a whole number of at least 1; got 0"),
        (lambda: decoder.sample(tokens(4, 2), 2, generator, temperature=0.0), "temperature: wanted a finite number ab"),
        (lambda: decoder(tokens(4, 2).float()), "tokens: wanted dtype torch.int64; got torch.float32"),
        (lambda: decoder(tokens(4, 2)[0]), "tokens: wanted shape (any, any); got (2,)"),
        (lambda: made(heads=5), "heads: wanted a divisor of width = 64; got 5"),
        (lambda: made(layers=0), "layers: wanted a whole number of at least 1; got 0"),
    ):
        assert refusal(call).startswith(message)


@pytest.mark.slow
@pytest.mark.parametrize(("length", "times"), [(8, 1.0), (16, 3.0)])
def test_a_cache_makes_sampling_faster(length, times):
    """The best of several runs, taken in turns."""
    decoder, prompt, uniform = made(end=None, context=32), tokens(16, 64), torch.rand(length, 64)
    with_cache = partial(decoder.sample, prompt, length, torch.Generator().manual_seed(0))
    without = partial(without_cache, decoder, prompt, length, uniform)
    with torch.no_grad():
        seconds = [(timeit(with_cache, number=1), timeit(without, number=1)) for _ in range(15)]
    quick, slow = map(min, zip(*seconds, strict=True))
    assert slow / quick > times
