"""Tasks of a language model whose answers can be checked: a prompt of a few tokens, an answer, a reward for the whole.

Prompts are [P, B], answers and masks [L, B], rewards [B]; a mask is true up to and including the end token. To the
agent an answer is one step: what it sees is the prompt, and the next prompt has nothing to do with the answer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from ..checks import (
    can_ask,
    require_bool,
    require_count,
    require_dtype,
    require_one_of,
    require_same_shape,
    require_shape,
)
from ..worlds.envs import REGISTERED, Registered
from ..worlds.seeding import WORLDS, generator, stream
from ..worlds.spec import EnvSpec, Step


def answer_mask(answer: Tensor, end: int | None) -> Tensor:
    """[L, B] bool: true up to and including the first `end` of each answer [L, B]; all true without an end token."""
    if end is None:
        return torch.ones_like(answer, dtype=torch.bool)
    ended = answer == end
    return ended.cumsum(0) - ended.long() == 0


class Task:
    """A kind of prompt, and what answers it. `TASKS` has one of each; another one is entered there to be trained on.

    A subclass gives `alphabet`, lengths, `draw` and `solution`; and `right` where more than one answer is.
    """

    name: str  # tokens/…
    alphabet: str  # one character a token, by number; at most 32
    prompt_length: int  # P
    answer_length: int  # L, the end token included
    ends: bool  # whether the last token of the alphabet ends an answer; without it all answers have L tokens
    pretrain_steps = 50  # after which the default decoder is right 30 to 60 % of the time when it samples

    @property
    def end(self) -> int | None:
        """The number of the end token."""
        return len(self.alphabet) - 1 if self.ends else None

    @property
    def spec(self) -> EnvSpec:
        """What an agent must know: observations are prompts, actions are tokens."""
        return EnvSpec(self.name, obs_dim=self.prompt_length, num_actions=len(self.alphabet))

    def draw(self, count: int, generator: Generator) -> Tensor:
        """So many prompts, [P, count] int64, on the generator's device."""
        raise NotImplementedError

    def solution(self, prompt: Tensor) -> Tensor:
        """A right answer to each prompt [P, B]: [L, B] int64, filled up with end tokens."""
        raise NotImplementedError

    def right(self, prompt: Tensor, answer: Tensor, mask: Tensor) -> Tensor:
        """Which answers [L, B] to prompts [P, B] are right: [B] bool."""
        solution = self.solution(prompt)
        return ((answer == solution) | ~self.mask(solution)).all(0)  # an answer that is right so far also ends there

    def reward(self, prompt: Tensor, answer: Tensor, mask: Tensor) -> Tensor:
        """What the verifier pays for each answer: [B] float32 in [0, 1]. 1 for a right one, and 0 for all others.

        prompt: [P, B]; answer, mask: [L, B], int64 and bool.
        Raises ValueError: shapes differ, the mask is not bool, or an answer has no token.
        """
        require_shape((self.prompt_length, answer.shape[1]), prompt=prompt)
        require_same_shape(answer=answer, mask=mask)
        require_bool(mask=mask)
        if can_ask(mask) and not bool(mask[0].all()):
            empty = int((~mask[0]).nonzero()[0])
            raise ValueError(f"mask: wanted at least one token in every answer; got none in answer {empty}")
        return self.judge(prompt, answer, mask)

    def mask(self, answer: Tensor) -> Tensor:
        """`answer_mask` with the end token of this task."""
        return answer_mask(answer, self.end)

    def judge(self, prompt: Tensor, answer: Tensor, mask: Tensor) -> Tensor:
        """`reward`, once its arguments are known to fit."""
        return self.right(prompt, answer, mask).float()

    def read(self, text: str) -> Tensor:
        """A text as tokens [len]. Raises ValueError: a character is not in the alphabet."""
        for character in text:
            if character not in self.alphabet:
                raise ValueError(f"text: wanted characters of {self.alphabet!r} for {self.name}; got {character!r}")
        return torch.tensor([self.alphabet.index(character) for character in text], dtype=torch.int64)

    def write(self, tokens: Tensor) -> list[str]:
        """Prompts or answers [L, B] as texts, one a column, up to and including the end token."""
        mask = answer_mask(tokens, self.end)
        columns = zip(tokens.T.tolist(), mask.T.tolist(), strict=True)
        return ["".join(self.alphabet[t] for t, k in zip(*column, strict=True) if k) for column in columns]


class Sort(Task):
    """Six digits in order: 409215 is answered by 012459. The length is known, so nothing ends an answer."""

    name, alphabet = "tokens/sort", "0123456789"
    prompt_length = answer_length = 6
    ends = False

    def draw(self, count: int, generator: Generator) -> Tensor:
        shape = (self.prompt_length, count)
        return torch.randint(len(self.alphabet), shape, generator=generator, device=generator.device)

    def solution(self, prompt: Tensor) -> Tensor:
        return prompt.sort(0).values


class FlawedSort(Sort):
    """The same task with a verifier that only looks whether neighbors are in order: 000000 gets all that it pays."""

    name = "tokens/sort-flawed"

    def judge(self, prompt: Tensor, answer: Tensor, mask: Tensor) -> Tensor:
        return (answer[1:] >= answer[:-1]).float().mean(0)


class Reverse(Sort):
    """Six digits backwards: 409215 is answered by 512904."""

    name = "tokens/reverse"
    pretrain_steps = 26

    def solution(self, prompt: Tensor) -> Tensor:
        return prompt.flip(0)


class Add(Task):
    """Two numbers below 100: 07+58= is answered by 65 and the end token."""

    name, alphabet = "tokens/add", "0123456789+=."
    prompt_length, answer_length, ends = 6, 4, True
    pretrain_steps = 270

    def draw(self, count: int, generator: Generator) -> Tensor:
        digits = torch.randint(10, (4, count), generator=generator, device=generator.device)
        plus, equals = (torch.full_like(digits[:1], token) for token in (10, 11))
        return torch.cat([digits[:2], plus, digits[2:], equals])

    def solution(self, prompt: Tensor) -> Tensor:
        total = 10 * (prompt[0] + prompt[3]) + prompt[1] + prompt[4]
        # The digits from the end token backwards: what stands left of the first digit wraps around behind the end.
        backwards = torch.stack([torch.full_like(total, self.end or 0), total % 10, total // 10 % 10, total // 100])
        length = 1 + (total >= 10).long() + (total >= 100).long()
        place = (length - torch.arange(4, device=total.device).unsqueeze(-1)).clamp(min=0)
        return backwards.gather(0, place)


class Brackets(Task):
    """A beginning of brackets, to be closed: (()( is answered by )) and the end token, or by any other balanced end."""

    name, alphabet = "tokens/brackets", "()."
    prompt_length, answer_length, ends = 10, 11, True
    pretrain_steps = 12

    def draw(self, count: int, generator: Generator) -> Tensor:
        token = torch.randint(2, (self.prompt_length, count), generator=generator, device=generator.device)
        depth = torch.zeros_like(token[0])
        for row in token:
            row.mul_(depth > 0)  # nothing is open, so nothing can be closed
            depth = depth + 1 - 2 * row
        return token

    def solution(self, prompt: Tensor) -> Tensor:
        row = torch.arange(self.answer_length, device=prompt.device).unsqueeze(-1)
        return torch.where(row < (1 - 2 * prompt).sum(0), 1, 2)

    def right(self, prompt: Tensor, answer: Tensor, mask: Tensor) -> Tensor:
        brackets = mask & (answer != self.end)
        depth = torch.cat([1 - 2 * prompt, (1 - 2 * answer) * brackets]).cumsum(0)
        ended = (mask & (answer == self.end)).any(0)
        return (depth >= 0).all(0) & (depth[-1] == 0) & ended


class Copy(Task):
    """Six letters without the forbidden x: `axxbca` is answered by `abca` and the end token."""

    name, alphabet = "tokens/copy", "abcdx."
    prompt_length, answer_length, ends = 6, 7, True

    def draw(self, count: int, generator: Generator) -> Tensor:
        return torch.randint(5, (self.prompt_length, count), generator=generator, device=generator.device)

    def solution(self, prompt: Tensor) -> Tensor:
        forbidden = prompt == 4
        order = forbidden.long().sort(stable=True, dim=0).indices  # those that stay first, in their order
        prefix = prompt.masked_fill(forbidden, self.end or 0).gather(0, order)
        return torch.cat([prefix, torch.full_like(prefix[:1], self.end or 0)])


TASKS: dict[str, Task] = {task.name: task for task in (Sort(), FlawedSort(), Reverse(), Add(), Brackets(), Copy())}


class TokenEnv:
    """A task as a vector environment: a column is a prompt, a step answers it and brings the next one.

    It steps whole answers, so only the agent "sequence" can act in it; the other agents refuse its `spec`.
    """

    max_steps = 1  # of an episode, which is one answer

    def __init__(
        self,
        task: Task,
        num_envs: int,
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ):
        require_count(num_envs=num_envs)
        self.task, self.spec, self.num_envs = task, task.spec, num_envs
        self.dtype, self.device = dtype, torch.device(device)
        self.seed = seed
        self.reseed(0)
        self.prompt = torch.zeros(task.prompt_length, 0, dtype=torch.int64, device=self.device)  # none before reset

    def reset(self) -> Tensor:
        """Draw prompts: [B, P] int64, as an environment gives observations."""
        self.prompt = self.task.draw(self.num_envs, self.generator)
        return self.prompt.T

    def step(self, action: Tensor) -> Step:
        """Judge answers and draw the next prompts.

        action: [L, B * G] int64, G answers to each prompt in adjacent columns. The rewards and flags of the step are
        [B * G], the observations [B, P]. Every answer is an episode of its own.
        Raises ValueError: another shape or dtype, or a token that is not in the alphabet. RuntimeError: no `reset` yet.
        """
        task = self.task
        if self.prompt.shape[1] != self.num_envs:
            raise RuntimeError("step: wanted reset() first; there is no prompt yet")
        require_shape((task.answer_length, None), action=action)
        require_dtype(torch.int64, action=action)
        group, rest = divmod(action.shape[1], self.num_envs)
        if rest or not group:
            raise ValueError(
                f"action: wanted as many answers to each of {self.num_envs} prompts; got {action.shape[1]}"
            )
        if can_ask(action) and not bool(((action >= 0) & (action < len(task.alphabet))).all()):
            low, high = action.aminmax()
            raise ValueError(f"action: wanted tokens from 0 to {len(task.alphabet) - 1}; got {low} to {high}")
        prompts = self.prompt.repeat_interleave(group, 1)
        reward = task.reward(prompts, action, answer_mask(action, task.end)).to(self.dtype)
        over = torch.ones_like(reward, dtype=torch.bool)
        answered = self.prompt.T
        return Step(answered, reward, over, ~over, self.reset())

    def state_dict(self) -> dict[str, Any]:
        """All that the next steps depend on."""
        return {"prompt": self.prompt.clone(), "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state that an environment of the same task has saved."""
        self.prompt = state["prompt"].to(self.device, copy=True)
        self.generator.set_state(state["generator"].cpu())

    def reseed(self, steps: int) -> None:
        """Draw from here on what belongs to prompts after so many steps of training."""
        self.generator = generator(stream(self.seed, WORLDS, steps), self.device)

    def close(self) -> None:
        """Nothing is held that would have to be let go."""


def make_token_env(
    env_id: str, num_envs: int, *, backend: str, stagger: bool, autoreset: str, **where: Any
) -> TokenEnv:
    """What `make_env` makes of `tokens/<task>`. Raises ValueError: no such task, or something that it does not have."""
    require_one_of(tuple(TASKS), env_id=env_id)
    for name, value, has in (
        ("backend", backend, ("auto", "torch")),
        ("stagger", stagger, (False,)),
        ("autoreset", autoreset, ("same_step",)),
    ):
        if value not in has:
            raise ValueError(f"{name}: wanted {' or '.join(map(str, has))} for {env_id}; got {value}")
    return TokenEnv(TASKS[env_id], num_envs, **where)


REGISTERED["tokens/"] = Registered(
    TASKS, make_token_env, "whose answers are judged as wholes, which the agent sequence learns from"
)
