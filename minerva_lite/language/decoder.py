"""A small transformer that writes answers: a causal decoder in plain torch (Vaswani et al. 2017, arXiv:1706.03762).

Positions are learned, and each block normalizes what it reads, not what it writes (pre-norm). Tokens are time-major,
[L, B], as everything here; inside attention a tensor is [B, heads, L, width of a head].
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from ..checks import can_ask, require_count, require_dtype, require_positive, require_shape
from ..formulas.distributions import categorical_log_prob
from ..worlds.tabular import inverse_cdf

Past = list[tuple[Tensor, Tensor]]  # for each block keys and values of what was read, both [B, heads, L, width / heads]


class Block(nn.Module):
    """Attention, then a layer of four times the width; each is added to what came in. x: [L, B, W] throughout."""

    def __init__(self, width: int, heads: int, generator: Generator):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_hidden = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = _linear(width, 3 * width, generator)
        self.mixed = _linear(width, width, generator)
        self.hidden = _linear(width, 4 * width, generator)
        self.out = _linear(4 * width, width, generator)

    def split(self, x: Tensor) -> Tensor:
        """Queries, keys and values of each head: [3, B, heads, L, W / heads]."""
        length, batch, width = x.shape
        together = self.query_key_value(self.before_attention(x))
        return together.view(length, batch, 3, self.heads, width // self.heads).permute(2, 1, 3, 0, 4)

    def forward(self, x: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """What the block makes of x once it is known what each head asks and finds.

        mask: [L, keys] bool, which keys a position may look at; None: all of them.
        """
        found = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = x + self.mixed(found.permute(2, 0, 1, 3).reshape(x.shape))
        return x + self.out(F.gelu(self.hidden(self.before_hidden(x))))


class Decoder(nn.Module):
    """A policy over tokens: each one's distribution given those before it.

    vocabulary: how many tokens there are. context: the most it can read. generator: of the first weights. end: the
    token after which an answer is over; None: answers are as long as they may be.
    Raises ValueError: a size below 1, or heads that do not divide the width.
    """

    def __init__(
        self,
        vocabulary: int,
        context: int,
        generator: Generator,
        *,
        end: int | None = None,
        width: int = 64,
        layers: int = 2,
        heads: int = 4,
    ):
        super().__init__()
        require_count(vocabulary=vocabulary, context=context, width=width, layers=layers, heads=heads)
        if width % heads:
            raise ValueError(f"heads: wanted a divisor of width = {width}; got {heads}")
        self.context, self.end = context, end
        # By name what another one of this shape is made from, but for a generator.
        self.arguments = {"vocabulary": vocabulary, "context": context, "end": end, "width": width}
        self.arguments |= {"layers": layers, "heads": heads}
        self.token = nn.Embedding(vocabulary, width, _weight=_normal(vocabulary, width, generator=generator))
        self.position: Tensor = nn.Parameter(_normal(context, 1, width, generator=generator))
        self.blocks: Any = nn.ModuleList(Block(width, heads, generator) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = _linear(width, vocabulary, generator)

    @property
    def form(self) -> str:
        """Everything that its weights must fit, in words."""
        words = "{layers} layers, width {width}, {heads} heads, {vocabulary} tokens, context {context}, end {end}"
        return words.format(**self.arguments)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of what comes after each of tokens [L, B]: [L, B, V]. Raises ValueError: longer than the context."""
        return self.head(self.features(tokens)[0])

    def features(self, tokens: Tensor, past: Past | None = None) -> tuple[Tensor, Past]:
        """What is known at each of tokens [L, B], [L, B, W]; and keys and values of all that was read so far.

        past: of what was read before these tokens. Raises ValueError: no tokens, or more than the context in all.
        """
        require_shape((None, None), tokens=tokens)
        require_dtype(torch.int64, tokens=tokens)
        read = past[0][0].shape[2] if past else 0
        self.require_room(read + len(tokens))
        x = self.token(tokens) + self.position[read : read + len(tokens)]
        visible = torch.ones(len(tokens), read + len(tokens), dtype=torch.bool, device=x.device).tril(read)
        present: Past = []
        for i, block in enumerate(self.blocks):
            query, key, value = block.split(x)
            if past:
                key, value = (torch.cat(pair, 2) for pair in zip(past[i], (key, value), strict=True))
            present.append((key, value))
            x = block(x, query, key, value, visible)
        return self.norm(x), present

    def answer_features(self, prompt: Tensor, answer: Tensor) -> Tensor:
        """What is known before each token of the answers: [L, B, W].

        prompt: [P, B / G], of which each is read once for its G answers. answer: [L, B], group by group.
        Raises ValueError: not as many answers for each prompt.
        """
        require_shape((None, None), prompt=prompt, answer=answer)
        group, rest = divmod(answer.shape[1], max(1, prompt.shape[1]))
        if rest or not group:
            raise ValueError(f"answer: wanted as many for each of {prompt.shape[1]} prompts; got {answer.shape[1]}")
        known, past = self.features(prompt)
        first = known[-1:].repeat_interleave(group, 1)
        if len(answer) == 1:
            return first
        later, _ = self.features(answer[:-1], [(_spread(k, group), _spread(v, group)) for k, v in past])
        return torch.cat([first, later])

    def log_prob(self, prompt: Tensor, answer: Tensor, *, temperature: float = 1.0) -> Tensor:
        """Log-probability of each token of answers [L, B] to prompts [P, B / G]: [L, B], nats, differentiable."""
        return categorical_log_prob(answer, self.logits(self.answer_features(prompt, answer), temperature))

    def logits(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Logits of the next token from what is known, [..., W] to [..., V]."""
        return self.head(features) / temperature

    @torch.no_grad()
    def sample(
        self,
        prompt: Tensor,
        length: int,
        generator: Generator,
        *,
        group: int = 1,
        temperature: float = 1.0,
        deterministic: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`group` answers to each prompt, token by token: answers, log-probabilities in nats and masks, all [L, B].

        prompt: [P, B / group] int64. length: L, of the longest answer. temperature: what logits are divided by.
        deterministic: take the likeliest token each time; nothing is drawn. Behind the end token there are only end
        tokens, of log-probability 0. Keys and values of what was read are kept, so that each token is read once.
        Raises ValueError: a prompt and an answer longer than the context, or a temperature not above 0.
        """
        require_count(length=length, group=group)
        require_positive(temperature=temperature)
        self.require_room(len(prompt) + length - 1)
        known, past = self.features(prompt)
        room = (0, 0, 0, length - 1)  # behind what was read, for the tokens to come
        cache = [(F.pad(_spread(k, group), room), F.pad(_spread(v, group), room)) for k, v in past]
        x = _spread(known[-1], group)
        answer = prompt.new_full((length, len(x)), self.end or 0)
        log_prob = x.new_zeros(length, len(x))
        # One call for all draws, so that a shorter answer leaves the generator where a longer one would.
        uniform = None if deterministic else torch.empty_like(log_prob).uniform_(generator=generator)
        alive = torch.ones_like(answer[0], dtype=torch.bool)
        mask = torch.zeros_like(answer, dtype=torch.bool)
        for t in range(length):
            token_log_prob = self.logits(x, temperature).log_softmax(-1)
            token = token_log_prob.argmax(-1) if uniform is None else inverse_cdf(token_log_prob.exp(), uniform[t])
            mask[t] = alive
            if self.end is not None:
                token = torch.where(alive, token, self.end)
            answer[t] = token
            log_prob[t] = token_log_prob.gather(-1, token.unsqueeze(-1)).squeeze(-1) * alive
            if self.end is not None:
                alive = alive & (token != self.end)
                if can_ask(alive) and not bool(alive.any()):
                    break
            if t + 1 < length:
                x = self.read_one(token, len(prompt) + t, cache)
        return answer, log_prob, mask

    def read_one(self, token: Tensor, place: int, cache: Past) -> Tensor:
        """What is known after one more token [B] at position `place`: [B, W]. Its keys and values enter the cache."""
        x = (self.token(token) + self.position[place]).unsqueeze(0)
        for block, (keys, values) in zip(self.blocks, cache, strict=True):
            query, key, value = block.split(x)
            keys[:, :, place : place + 1], values[:, :, place : place + 1] = key, value
            x = block(x, query, keys[:, :, : place + 1], values[:, :, : place + 1])
        return self.norm(x[0])

    def require_room(self, length: int) -> None:
        """Raise ValueError unless so many tokens can be read."""
        if not 1 <= length <= self.context:
            raise ValueError(f"tokens: wanted 1 to {self.context}, the context; got {length}")


def _normal(*shape: int, generator: Generator, std: float = 0.02) -> Tensor:
    return std * torch.randn(*shape, generator=generator)


def _linear(fan_in: int, fan_out: int, generator: Generator) -> nn.Linear:
    """A layer whose outputs vary as much as its inputs, at first."""
    layer = nn.utils.skip_init(nn.Linear, fan_in, fan_out)
    with torch.no_grad():
        layer.weight.copy_(_normal(fan_out, fan_in, generator=generator, std=fan_in**-0.5))
        layer.bias.zero_()
    return layer


def _spread(tensor: Tensor, group: int) -> Tensor:
    """What was read of prompts [n, ...], for each of their answers: [n * group, ...]."""
    return tensor.repeat_interleave(group, 0) if group > 1 else tensor
