"""A language so small that every answer to a prompt can be written down: the exact world of language models."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from minerva_lite.checks import require_count, require_finite, require_positive, require_same_shape, require_shape
from minerva_lite.formulas.duals import estep_weights
from minerva_lite.formulas.sequences import sequence_log_prob
from minerva_lite.worlds.tabular import inverse_cdf

END = 0  # the token that ends an answer, where one does
LETTERS = ".ab"  # the tokens of the example; the point ends an answer
LARGEST = 100_000  # answers, or groups of answers, that may be enumerated


@dataclass(frozen=True)
class AnswerTree:
    """All N answers to one prompt and their rewards; a policy is a table of logits [S, V], one row for each prefix.

    Rows of the first three tensors are tokens, columns answers. `build` and `random` make one. Policies, laws [N] and
    rewards are float64 if the reward is, and everything is differentiable in the logits unless it says otherwise.
    """

    token: Tensor  # [L, N] int64, END behind the end
    mask: Tensor  # [L, N] bool, true up to and including the last token
    prefix: Tensor  # [L, N] int64, the row of the policy from which the token is drawn, 0 behind the end
    reward: Tensor  # [N] reward of each answer, reward units
    shape: tuple[int, int]  # S prefixes, V tokens

    @classmethod
    def build(
        cls, vocabulary: int, length: int, reward: Callable[[Tensor, Tensor], Tensor], *, end: bool = True
    ) -> AnswerTree:
        """All answers of at most `length` tokens; with `end` token 0 ends one, without it all are equally long.

        reward: from `token` [L, N] and `mask` [L, N] to the rewards [N] of all answers.
        Raises ValueError: fewer than two tokens, no length, too many answers, or a reward that is not finite.
        """
        require_count(vocabulary=vocabulary, length=length)
        if vocabulary < 2 or vocabulary**length > LARGEST:
            raise ValueError(
                f"vocabulary: wanted at least 2 tokens and at most {LARGEST} answers;"
                f" got {vocabulary} tokens and {vocabulary**length} answers"
            )
        full = itertools.product(range(vocabulary), repeat=length)
        answers = list(dict.fromkeys(a[: a.index(END) + 1] if end and END in a else a for a in full))
        shape = (length, len(answers))
        token, prefix = torch.full(shape, END), torch.zeros(shape, dtype=torch.int64)
        rows: dict[tuple[int, ...], int] = {}  # a prefix that is new gets the next row
        for n, answer in enumerate(answers):
            token[: len(answer), n] = torch.tensor(answer)
            row_of = [rows.setdefault(answer[:t], len(rows)) for t in range(len(answer))]
            prefix[: len(answer), n] = torch.tensor(row_of)
        mask = torch.arange(length).unsqueeze(1) < torch.tensor([len(answer) for answer in answers])
        rewards = reward(token, mask)
        require_shape((len(answers),), reward=rewards)
        require_finite(reward=rewards)
        return cls(token, mask, prefix, rewards, (len(rows), vocabulary))

    @classmethod
    def random(cls, vocabulary: int, length: int, generator: Generator, *, end: bool = True) -> AnswerTree:
        """A tree whose rewards are uniform on [0, 1), float64."""
        draw = partial(torch.rand, generator=generator, dtype=torch.float64)
        return cls.build(vocabulary, length, lambda token, mask: draw(token.shape[1]), end=end)

    def random_logits(self, generator: Generator) -> Tensor:
        """A policy [S, V] with standard normal logits, float64."""
        return torch.randn(self.shape, generator=generator, dtype=torch.float64)

    # What a policy does.

    def token_log_prob(self, logits: Tensor) -> Tensor:
        """Log-probability of each token given those before it: [L, N], nats, 0 behind the end."""
        require_shape(self.shape, logits=logits)
        return logits.log_softmax(-1)[self.prefix, self.token].masked_fill(~self.mask, 0.0)

    def log_prob(self, logits: Tensor) -> Tensor:
        """Log-probability of each answer: [N], nats."""
        return sequence_log_prob(self.token_log_prob(logits), self.mask)

    def expected_reward(self, logits: Tensor) -> Tensor:
        """J(pi), scalar, reward units."""
        return self.log_prob(logits).exp() @ self.reward

    def kl(self, first: Tensor, second: Tensor) -> Tensor:
        """KL(first || second) of the laws of the answers under two policies [S, V]: scalar, nats."""
        log_first = self.log_prob(first)
        return log_first.exp() @ (log_first - self.log_prob(second))

    def regularized(self, logits: Tensor, reference: Tensor, beta: float) -> Tensor:
        """J(pi) - beta KL(pi || pi_ref), scalar, reward units: what `optimum` maximizes."""
        return self.expected_reward(logits) - beta * self.kl(logits, reference)

    def optimum(self, reference: Tensor, beta: float) -> Tensor:
        """pi_ref exp(r / beta) / Z, the law [N] of the best policy at a price of the KL, detached: MPO's E-step."""
        require_positive(beta=beta)
        price = torch.tensor(beta, dtype=self.reward.dtype)
        return estep_weights(self.reward.unsqueeze(1), self.log_prob(reference).unsqueeze(1), price).squeeze(1)

    def logits_of(self, law: Tensor) -> Tensor:
        """The policy [S, V] whose answers have this law [N], which gives each of them a probability above 0."""
        require_same_shape(reward=self.reward, law=law)
        if not bool((law > 0).all()):
            raise ValueError(f"law: wanted probabilities above 0; got {law.min().item():g}")
        # A token's probability is proportional to the mass of the answers that go on with it.
        mass = torch.zeros(self.shape, dtype=law.dtype)
        mass.index_put_((self.prefix, self.token), law * self.mask, accumulate=True)
        return mass.log()

    def score(self, logits: Tensor) -> Tensor:
        """Gradient of each token's log-probability in the logits: [L, N, S, V], 0 behind the end, detached."""
        logits = logits.detach()
        chosen = F.one_hot(self.token, self.shape[1]) - logits.softmax(-1)[self.prefix]  # [L, N, V]
        here = F.one_hot(self.prefix, self.shape[0]) * self.mask.unsqueeze(-1)  # [L, N, S]
        return here.unsqueeze(-1) * chosen.unsqueeze(2)

    def gradient(self, quantity: Callable[[Tensor], Tensor], logits: Tensor) -> Tensor:
        """Gradient [S, V] of a scalar function of the logits, such as `expected_reward`, exact."""
        leaf = logits.detach().clone().requires_grad_()
        return torch.autograd.grad(quantity(leaf), leaf)[0]

    def sample(self, logits: Tensor, count: int, generator: Generator) -> Tensor:
        """`count` independent answers, their columns: [count] int64."""
        require_count(count=count)
        probability = self.log_prob(logits.detach()).exp()
        uniform = torch.rand(count, generator=generator, dtype=probability.dtype)
        return inverse_cdf(probability.expand(count, -1), uniform)

    # What an estimator does.

    def moments(
        self, logits: Tensor, estimator: Callable[[Tensor], Tensor], *, group: int = 1
    ) -> tuple[Tensor, Tensor]:
        """Mean and variance, entry by entry, of an estimate from `group` independent answers: exact, detached.

        estimator: from the columns of the answers, [group] int64, to a tensor of one shape [...]. It is called for
        every group of answers there is.
        Raises ValueError: there are too many groups.
        """
        require_count(group=group)
        count = len(self.reward)
        if count**group > LARGEST:
            raise ValueError(f"group: wanted at most {LARGEST} groups; got {count}**{group}")
        groups = torch.cartesian_prod(*[torch.arange(count)] * group).reshape(-1, group)
        probability = self.log_prob(logits.detach())[groups].sum(1).exp()
        estimates = torch.stack([estimator(answers) for answers in groups])
        weight = probability.reshape(-1, *[1] * (estimates.dim() - 1))
        mean = (weight * estimates).sum(0)
        return mean, (weight * (estimates - mean).square()).sum(0)

    def gradient_moments(
        self,
        logits: Tensor,
        loss: Callable[[Tensor, Tensor], Tensor],
        *,
        group: int = 1,
        behavior: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Mean and variance [S, V] of the gradient of a loss that sees `group` answers: exact, detached.

        loss: from the columns of the answers [group] and the log-probabilities of their tokens under the policy
        [L, group] to a scalar. behavior: the policy [S, V] that draws the answers, if it is another one.
        """
        log_prob, score = self.token_log_prob(logits).detach(), self.score(logits)

        def estimate(answers: Tensor) -> Tensor:
            leaf = log_prob[:, answers].requires_grad_()
            slope = torch.autograd.grad(loss(answers, leaf), leaf)[0]
            return torch.einsum("lg,lgsv->sv", slope, score[:, answers])

        return self.moments(logits if behavior is None else behavior, estimate, group=group)


def count_a(token: Tensor, mask: Tensor) -> Tensor:
    """Number of a's in each answer [N], float64, of tokens and masks [L, N]."""
    return ((token == LETTERS.index("a")) & mask).sum(0).double()


def example_tree() -> tuple[AnswerTree, Tensor]:
    """The small language of chapter 9, in which an answer with exactly one a is right, and a reference policy [S, V].

    The reference's logits are standard normal, float64.
    """
    tree = AnswerTree.build(len(LETTERS), 3, lambda token, mask: count_a(token, mask).eq(1).double())
    return tree, tree.random_logits(torch.Generator().manual_seed(8))


def paid_by_the_a() -> tuple[AnswerTree, Tensor]:
    """`example_tree` with another reward, a third for each a."""
    tree, reference = example_tree()
    return replace(tree, reward=count_a(tree.token, tree.mask) / len(tree.token)), reference


def rare_a() -> tuple[AnswerTree, Tensor]:
    """`example_tree` with another reference [S, V], which writes the point, a and b with chances 0.3, 0.1 and 0.6.

    Its tokens are independent, so the number of a's has the chances 0.804, 0.174, 0.021 and 0.001; float64.
    """
    tree, _ = example_tree()
    law = torch.tensor([0.3, 0.1, 0.6], dtype=torch.float64)  # in the order of LETTERS
    return tree, law.log().expand(tree.shape).clone()


def spell(tree: AnswerTree) -> list[str]:
    """Every answer of the example as letters, with the point that ends it."""
    columns = zip(tree.token.T.tolist(), tree.mask.T.tolist(), strict=True)
    return ["".join(LETTERS[t] for t, inside in zip(*column, strict=True) if inside) for column in columns]
