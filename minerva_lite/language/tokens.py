"""Tasks of a language model whose answers can be checked: a prompt of a few tokens, an answer, a reward for the whole.

Prompts are [P, B], answers and masks [L, B], rewards [B]; a mask is true up to and including the end token. To the
agent an answer is one step: what it sees is the prompt, and the next prompt has nothing to do with the answer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from ..checks import can_ask, require_bool, require_dtype, require_one_of, require_same_shape, require_shape
from ..worlds.envs import REGISTERED, Registered
from ..worlds.spec import EnvSpec, Step
from ..worlds.torch_native import SeededEnv


class Task:
    """A kind of prompt, and what answers it. `TASKS` has one of each; another one is entered there to be trained on.

    A subclass gives `alphabet`, lengths, `draw` and `solution`; and `judge` where the verifier pays for something else.
    """

    name: str  # tokens/…
    alphabet: str  # one character a token, by number; at most 32
    prompt_length: int  # P
    answer_length: int  # L, the end token included
    end: int | None = None  # the token that ends an answer; None: all answers have L tokens
    pretrain_steps = 50  # after which the default decoder, when it samples, is right 26 to 52 % of the time (22 seeds)

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
        """[L, B] bool: true up to and including the first end token of each answer [L, B]; all true without one."""
        if self.end is None:
            return torch.ones_like(answer, dtype=torch.bool)
        ended = answer == self.end
        return ended.cumsum(0) - ended.long() == 0

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
        columns = zip(tokens.T.tolist(), self.mask(tokens).T.tolist(), strict=True)
        return ["".join(self.alphabet[t] for t, k in zip(*column, strict=True) if k) for column in columns]


class Sort(Task):
    """Six digits in order: 409215 is answered by 012459. The length is known, so nothing ends an answer."""

    name, alphabet = "tokens/sort", "0123456789"
    prompt_length = answer_length = 6

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


class Copy(Task):
    """Six letters without the forbidden x: `axxbca` is answered by `abca` and the end token."""

    name, alphabet = "tokens/copy", "abcdx."
    prompt_length, answer_length = 6, 7
    end: int = 5

    def draw(self, count: int, generator: Generator) -> Tensor:
        return torch.randint(5, (self.prompt_length, count), generator=generator, device=generator.device)

    def solution(self, prompt: Tensor) -> Tensor:
        forbidden = prompt == 4
        order = forbidden.long().sort(stable=True, dim=0).indices  # those that stay first, in their order
        prefix = prompt.masked_fill(forbidden, self.end).gather(0, order)
        return torch.cat([prefix, torch.full_like(prefix[:1], self.end)])


TASKS: dict[str, Task] = {task.name: task for task in (Sort(), FlawedSort(), Copy())}


class TokenEnv(SeededEnv):
    """A task as a vector environment: a column is a prompt, a step answers it and brings the next one.

    It steps whole answers, so only the agent "sequence" can act in it; the other agents refuse its `spec`.
    """

    max_steps = 1  # of an episode, which is one answer
    held = ("prompt",)

    def __init__(self, task: Task, num_envs: int, **where: Any):
        super().__init__(num_envs, **where)
        self.task, self.spec = task, task.spec
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
        reward = task.reward(prompts, action, task.mask(action)).to(self.dtype)
        over = torch.ones_like(reward, dtype=torch.bool)
        answered = self.prompt.T
        return Step(answered, reward, over, ~over, self.reset())


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
