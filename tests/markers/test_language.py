r"""Each construct of the language against the torch expression that it means, and what the language refuses."""

from __future__ import annotations

import math

import pytest
import torch

from .evaluate import Scope
from .latex import FormulaError, tokens_of
from .parse import parse
from .table import Symbol, Table, path_root

TABLE = Table(
    {
        "x_t": "x [t b]",
        "y_t": "y [t b]",
        "p_i": "p [t b i]",
        "v": "v [t b i]",
        "w": "w [t b i]",
        "q_{ib}": "q [i b]",
        r"\log \rho_t": "log_ratio [t b]",
        r"V(s_t)": "value [t b]",
        r"V(s_{t+1})": "next_value [t b]",
        r"\hat{A}'_t": "advantage [t b]",
        "d_t": "d [t b]",
        "z_t": "z [t b]",
        "c": "c",
        r"\varepsilon_{\mathrm{clip}}": "clip_eps",
        "k": "k",
        "T": "#[t]",
        "N": "#[t b]",
        r"\theta": "theta [i]",
    },
    index={r"a\sim\pi": "i", "t": "t"},
)
G = torch.Generator().manual_seed(0)
X, Y, V, V1, A, LR = (torch.randn(4, 3, generator=G, dtype=torch.float64) for _ in range(6))
P, VV, W = (torch.randn(4, 3, 2, generator=G, dtype=torch.float64) for _ in range(3))
Q, THETA = torch.randn(2, 3, generator=G, dtype=torch.float64), torch.randn(2, generator=G, dtype=torch.float64)
D = torch.tensor([[True, False, True], [False, False, True], [True, True, False], [False, True, False]])
Z = torch.tensor([[False, False, True], [True, False, False], [True, False, True], [False, False, False]])
VALUES = {
    "x_t": X, "y_t": Y, "p_i": P, "v": VV, "w": W, "q_{ib}": Q, r"\log \rho_t": LR, r"V(s_t)": V,
    r"V(s_{t+1})": V1, r"\hat{A}'_t": A, "d_t": D, "z_t": Z, "c": 0.7, r"\varepsilon_{\mathrm{clip}}": 0.2, "k": 2,
    r"\theta": THETA,
}  # fmt: skip


def later(x, steps=1):
    """x_{t+steps}, zero beyond the edge."""
    out = torch.zeros_like(x)
    if steps > 0:
        out[:-steps] = x[steps:]
    else:
        out[-steps:] = x[:steps]
    return out


MEANING = [
    (r"x_t y_t - \frac12 c", X * Y - 0.35),
    (r"-x_t + y_t / 2", -X + Y / 2),
    (r"x_t (1 - d_t) y_t", X * (1 - D.double()) * Y),
    (r"2 x_t^2 \cdot c", 2 * X**2 * 0.7),
    (r"e^{-x_t} + 10^{-3}", (-X).exp() + 1e-3),
    (r"\exp\left(\log \rho_t\right) - \rho_t", torch.zeros_like(X)),
    (r"\log 2\pi", torch.tensor(math.log(2 * math.pi), dtype=torch.float64)),
    (r"\sqrt{x_t^2 + 1}", (X**2 + 1).sqrt()),
    (r"\tanh^2(x_t) + \tanh x_t", X.tanh() ** 2 + X.tanh()),
    (r"\mathrm{softplus}(-2 x_t)", torch.nn.functional.softplus(-2 * X)),
    (r"\mathrm{sigmoid}(x_t) - \mathrm{sg}(y_t)", X.sigmoid() - Y),
    (r"|x_t| + \lvert y_t \rvert", X.abs() + Y.abs()),
    (r"\lfloor 3 x_t \rfloor", (3 * X).floor()),
    (r"\min(x_t, y_t, c)", torch.minimum(X, Y).clamp(max=0.7)),
    (r"\max\{0, x_t\}", X.relu()),
    (
        r"\mathrm{clip}(\rho_t, 1 - \varepsilon_{\mathrm{clip}}, 1 + \varepsilon_{\text{clip}})",
        LR.exp().clamp(0.8, 1.2),
    ),
    (r"\max_t x_t", X.amax(0)),
    (r"\min_i p_i", P.amin(-1)),
    (r"\sum_i p_i^2", (P**2).sum(-1)),
    (r"\prod_i p_i", P.prod(-1)),
    (r"2 \sum_i p_i \cdot p_i + 1", 2 * (P * P).sum(-1) + 1),
    (r"\mathrm{mean}_{t,b} x_t", X.mean()),
    (r"\mathrm{mean}_t (x_t - c)^2", ((X - 0.7) ** 2).mean(0)),
    (r"\mathbb{E}_{t}[x_t] c", X.mean(0) * 0.7),
    (r"\hat{\mathbb{E}}_t\left[x_t y_t\right]", (X * Y).mean(0)),
    (r"\mathbb{E}_{a \sim \pi}[p_i]", P.mean(-1)),
    (r"\frac{1}{N} \sum_{t,b} x_t", X.mean()),
    (r"\mathrm{Var}_t[x_t]", X.var(0, correction=0)),
    (r"\mathrm{std}_t x_t", X.std(0, correction=0)),
    (r"\mathrm{logsumexp}_i p_i", P.logsumexp(-1)),
    (r"\mathrm{logmeanexp}_i(2 p_i)", (2 * P).logsumexp(-1) - math.log(2)),
    (r"\mathrm{softmax}_i(p_i)", P.softmax(-1)),
    (r"\frac{e^{p_i}}{\sum_j e^{p_j}}", P.softmax(-1)),
    (r"\mathrm{argmax}_i p_i", P.argmax(-1).double()),
    (r"\langle v, w \rangle", (VV * W).sum(-1)),
    (r"v^\top w", (VV * W).sum(-1)),
    (r"\lVert v \rVert^2 - \|v\|^2", torch.zeros(4, 3, dtype=torch.float64)),
    (r"\lVert v \rVert", VV.norm(dim=-1)),
    (r"\mathbb{1}[x_t > c \wedge \neg d_t]", ((X > 0.7) & ~D).double()),
    (r"\mathbf{1}\{0 \le x_t < 1\}", ((X >= 0) & (X < 1)).double()),
    (r"d_t \vee z_t", (D | Z).double()),
    (r"1 - e_t", (~(D | Z)).double()),
    (r"\mathbb{1}[i = 1]", torch.tensor([0.0, 1.0], dtype=torch.float64)),
    (r"\mathbb{1}[t \in \mathrm{top}_k(x_t)]", torch.zeros_like(X).scatter(0, X.topk(2, 0).indices, 1.0)),
    (r"x_{t+1}", later(X)),
    (r"x_{t-1}", later(X, -1)),
    (r"V(s_{t+1}) - V(s_t)", V1 - V),
    (r"V(s_{t+2})", later(V, 2)),
    (r"\hat A_t'", A),
    (r"\sum_j q_{jb} - \sum_i q_{ib}", torch.zeros(3, dtype=torch.float64)),
    (r"\sum_{l=t}^{T-1} c^{l-t} x_l", sum(0.7**k * later(X, k) if k else X for k in range(4))),
    (r"\sum_{l=t}^{t+1} x_l", X + later(X)),
    (r"\sum_{l=0}^{2} x_{t+l}", X + later(X) + later(X, 2)),
    (r"\begin{cases} x_t & \text{if } x_t > 0 \\ -c & \text{otherwise} \end{cases}", torch.where(X > 0, X, -0.7)),
    (r"\nabla_\theta \left( \sum_i \theta^2 \right)", 2 * THETA),
    (r"\log\mathcal{N}(v \mid w, c^2)", torch.distributions.Normal(W, 0.7).log_prob(VV).sum(-1)),
]


def value_of(latex: str):
    return Scope(TABLE, dict(VALUES)).value(parse(tokens_of(latex), TABLE))


@pytest.mark.parametrize(("latex", "meaning"), MEANING, ids=[latex for latex, _ in MEANING])
def test_a_construct_means_what_it_says(latex, meaning):
    result = value_of(latex)
    order = tuple(a for a in "tbi" if a in result.axes)
    assert torch.allclose(result.to(order, result.sizes()), meaning.double(), rtol=0, atol=1e-12)


REFUSED = {
    r"\log x_t y_t": "two readings",
    r"\sum_{k=0}^{2} x_{t+k}": "an index here and a symbol too",
    r"x_t / c y_t": "two readings",
    r"\exp(x_t)^2": "outside the language",
    r"\mathbb{E}_t[x_t]^2": "outside the language",
    r"x_t + u_t": "undeclared symbol u",
    r"x": "undeclared symbol x",
    r"V(s_k)_t": "undeclared",
    r"x_t'": "undeclared",
    r"\mathrm{clip}(x_t, 0)": "three arguments",
    r"\mathbb{1}[x_t]": "condition",
    r"x_t \wedge d_t": "0 and 1",
    r"\mathrm{mean}_s x_t": "index s",
    r"q_{ib} - q_{jb}": "no size|neither|outside|undeclared",
    r"(x_t + c": "outside the language",
    r"x_t^2^2": "two ^",
    r"\langle x_t, y_t \rangle": "inner product",
}


@pytest.mark.parametrize("latex", REFUSED)
def test_what_is_ambiguous_or_unknown_is_refused(latex):
    with pytest.raises(FormulaError, match=REFUSED[latex].replace("^", r"\^")):
        value_of(latex)


def test_two_spellings_are_one_symbol():
    assert tokens_of(r"g_t'") == tokens_of(r"g'_{t}")
    assert tokens_of(r"\ell^{\mathrm{old}}_j") == tokens_of(r"\ell_j^{\operatorname{old}}")
    assert tokens_of(r"\tfrac12 \left( x \right)") == tokens_of(r"\dfrac{1}{2}(x)")


def test_a_symbol_is_not_found_inside_another_one():
    symbol = Symbol.declare("V", "value [t]")
    assert symbol.match(tokens_of("V"), 0)
    assert not symbol.match(tokens_of("V_t"), 0)
    assert not symbol.match(tokens_of("V'"), 0)


@pytest.mark.parametrize("path", ["reward.sum()", "a + b", "x[y]", "f(x)", "x[len(y)]"])
def test_only_paths_may_stand_behind_a_symbol(path):
    with pytest.raises(FormulaError, match="not a path"):
        path_root(path)
    assert path_root("self.config.clip_eps") == "self"
    assert path_root("next_value[-1]") == "next_value"
