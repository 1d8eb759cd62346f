"""Drawings say what is computed: numbers in cells, arrows of a policy or of an advantage, weights of a backup."""

import math
import re

import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from minerva_book import figures
from minerva_book.figures import draw_backup, draw_corridor, draw_grid, draw_loop, draw_vine
from minerva_book.figures.relatives import FAMILY
from minerva_book.figures.retrace import draw_off_policy_backup, leaf_weights
from minerva_book.figures.rollout import (
    APART,
    FAULTS,
    draw_rollout,
    draw_rollout_key,
    draw_truncated_backups,
    example_flags,
)
from minerva_book.figures.style import BLUE, GREEN, RED
from minerva_lite.formulas import gae, retrace_targets
from minerva_lite.worlds import TabularMDP, tabular_trpo
from tests.equations import ROOT, markdown
from tests.figures.test_drawn import arrows, words
from tests.figures.test_drawn import draw as drawn


def steps(axes):
    """Where the red arrows of a policy lie and how far they go, as (x, y, across, up)."""
    red = [arrow for arrow in arrows(axes) if arrow.arrowprops["arrowstyle"] == "->"]
    return [(*((torch.tensor(a.xy) + torch.tensor(a.xyann)) / 2).tolist(),
             *(torch.tensor(a.xy) - torch.tensor(a.xyann)).sign().int().tolist()) for a in red]  # fmt: skip


def test_the_corridor_has_a_number_in_each_cell():
    world = TabularMDP.chain(6, 0.6)
    value = world.value(world.best_policy())
    axes = drawn(draw_corridor, 6, cells=value)
    assert [word for word in words(axes) if "." in word][:6] == [f"{v:.2f}" for v in value.tolist()]
    assert {"start", "left, here, pays 0.1", "right, here, pays 1"} <= set(words(axes))
    assert not any("pays" in word for word in words(drawn(draw_corridor, 6, rewards=False, start=None)))


@pytest.mark.parametrize(("draw", "sizes", "reward"), [
    (draw_corridor, (6,), TabularMDP.chain(6, 0.9).reward),
    (figures.draw_two_states, (), TabularMDP.two_state(0.5).reward),
    (figures.draw_ledge, (), tabular_trpo.ledge().reward),
    (figures.draw_trap, (), torch.tensor([[0.0, 1.0], [0.0, -1.0]])),
], ids=["corridor", "two states", "ledge", "trap"])  # fmt: skip
def test_a_drawn_world_pays_what_the_world_pays(draw, sizes, reward):
    said = " ".join(words(drawn(draw, *sizes))).replace("\n", " ")
    told = [float(n) for n in re.findall(r"pays ([\d.]+)", said)] + [-float(n) for n in re.findall(r"costs (\d)", said)]
    assert sorted(told) == pytest.approx(sorted(reward[reward != 0].tolist()))
    assert draw is draw_corridor or said.count(": 0") == (reward == 0).sum(), "what pays nothing says so"


def test_the_arrows_of_the_grid_lead_where_the_moves_lead():
    moves = torch.eye(4).repeat(4, 1)  # up, right, down, left in each row
    axes = drawn(draw_grid, torch.arange(16.0).view(4, 4), policy=moves)
    assert [step[2:] for step in steps(axes)] == ([(0, -1), (1, 0), (0, 1), (-1, 0)] * 4)[:15], "y counts downward"
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    assert words(axes)[:16] == [f"{s}.00" for s in range(16)]
    for x, y, across, down in steps(axes)[4:12]:  # the middle rows: a move that no wall stops
        row, column = int(y), int(x)
        if 0 < column < 3:
            move = int(moves[4 * row + column].argmax())
            to = TabularMDP.grid(4, 4, 0.9, slip=0.0).transition[4 * row + column, move].argmax()
            assert int(to) == 4 * (row + down) + column + across


def test_larger_numbers_are_darker_and_pictures_can_share_a_scale():
    def brightness(axes):
        return [sum(patch.get_facecolor()[:3]) for patch in axes.patches[:4]]

    cells = torch.tensor([[0.0, 1.0], [2.0, 3.0]])
    bright = brightness(drawn(draw_grid, cells))
    assert bright == sorted(bright, reverse=True) and bright[0] > bright[3] + 0.5
    assert brightness(drawn(draw_grid, cells / 3.0, largest=3.0))[3] == pytest.approx(bright[1], abs=0.02)


def test_the_way_back_is_drawn_if_asked_for():
    assert len(arrows(drawn(draw_grid, home=True))) == 1 and not arrows(drawn(draw_grid))


@pytest.mark.parametrize(("kind", "states", "actions"), [
    ("V", 5, 2), ("Q", 2, 1), ("V*", 5, 2), ("TD", 2, 1), ("MC", 3, 2),
])  # fmt: skip
def test_a_backup_has_its_circles_and_dots(kind, states, actions):
    axes = drawn(draw_backup, kind)
    size = [line.get_markersize() for line in axes.lines if line.get_marker() in ("o", "s")]
    assert (sum(each > 10 for each in size), sum(each < 10 for each in size)) == (states, actions)
    assert ("max" in words(axes)) == (kind == "V*")


def test_the_loop_names_what_passes():
    assert sum(any(name in word for name in ("a_t", "r_t")) for word in words(drawn(draw_loop))) == 4


@pytest.mark.parametrize(("states", "actions", "steps"), [(3, 2, 3), (2, 3, 4), (1, 1, 2)])
def test_a_vine_has_a_branch_for_each_action_of_each_chosen_state(states, actions, steps):
    path, vine = Figure().subplots(1, 2)
    draw_vine([path, vine], states=states, actions=actions, branch_steps=steps)
    trunk = path.lines[0].get_xydata()
    assert [line.get_marker() for line in path.lines] == ["None", "o"] and (path.lines[1].get_xydata() == trunk).all()
    assert (vine.lines[0].get_xydata() == trunk).all(), "both on the same path"
    chosen = [line.get_xydata()[0] for line in vine.lines if line.get_markersize() == 10]
    branches = [line.get_xydata() for line in vine.lines[1:] if line.get_marker() == "None"]
    ends = [line.get_xydata()[0] for line in vine.lines if line.get_marker() == "s"]
    assert (len(chosen), len(branches), len(ends)) == (states, states * actions, states * actions)
    for n, start in enumerate(chosen):
        assert start.tolist() in trunk.tolist()
        of_state = branches[n * actions : (n + 1) * actions]
        assert all(len(branch) == steps + 1 and branch[0].tolist() == start.tolist() for branch in of_state)
        first = sorted(float(branch[1][1]) for branch in of_state)
        assert all(low + 0.5 < high for low, high in zip(first, first[1:], strict=False)), "the first actions differ"
        after = [(branch[1:] - branch[1]).round(9).tolist() for branch in of_state]
        assert all(each == after[0] for each in after), "what comes after them does not: the same random numbers"
    assert [branch[-1].tolist() for branch in branches] == [end.tolist() for end in ends]
    assert {f"$s_{n + 1}$" for n in range(states)} <= set(words(vine)) and "every step is a sample" in words(path)


def test_the_tree_has_a_leaf_for_each_method_with_its_three_choices():
    axes = drawn(figures.plot_relatives)
    for way, methods in FAMILY.items():
        assert words(axes).count(way) == 1
        for method, *choices in methods:
            assert words(axes).count(method) == 1 and set(choices) <= set(words(axes))
    names = {method for methods in FAMILY.values() for method, *_ in methods}
    heights = [text.get_position()[1] for text in axes.texts if text.get_text() in names]
    assert len(heights) == len(set(heights)) == sum(map(len, FAMILY.values()))


def test_the_tree_and_the_table_of_the_chapter_have_the_same_methods():
    table = markdown(ROOT / "book" / "07c_relatives.ipynb").partition("## One table")[2]
    for methods in FAMILY.values():
        for method, *_ in methods:
            plain = method.replace(" in a table", "").replace(" with a KL penalty", "").partition(" (")[0]
            assert all(name in table for name in plain.split(", ")), method


# A rollout, and what its recursion carries upward


def arrows_of(axes, color):
    """(tail, head) of every arrow of this color."""
    return [(each.xyann, each.xy) for each in arrows(axes) if to_hex(each.arrow_patch.get_edgecolor()).upper() == color]


def test_blue_arrows_stand_where_the_recursion_carries_an_advantage_upward():
    terminated, truncated = example_flags()
    axes = drawn(draw_rollout, terminated, truncated)
    steps, envs = terminated.shape
    blue = {(round(-head[1] - 0.68), int(head[0] // APART)) for _, head in arrows_of(axes, BLUE)}
    # A reward of 1 in one row alone: with gamma = lambda = 1 it reaches the row above unless a seam lies between.
    zero = torch.zeros(steps, envs)
    for t in range(steps - 1):
        reward = zero.clone()
        reward[t + 1] = 1.0
        reaches = gae(reward, zero, zero, terminated, truncated, gamma=1.0, lam=1.0)[t] > 0
        assert {b for row, b in blue if row == t} == set(reaches.nonzero().flatten().tolist())


def test_green_arrows_stand_where_the_true_successor_is_valued_outside_the_rollout():
    terminated, truncated = example_flags()
    axes = drawn(draw_rollout, terminated, truncated)
    outside = truncated.clone()
    outside[-1] |= ~terminated[-1]
    assert len(arrows_of(axes, GREEN)) == int(outside.sum())
    circles = [patch for patch in axes.patches if isinstance(patch, Circle)]
    assert len(circles) == int(outside.sum() + terminated.sum())
    assert arrows_of(axes, RED) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_one_red_arrow_at_the_time_limit(fault):
    terminated, truncated = torch.zeros(2, 4, 1, dtype=torch.bool)
    truncated[1] = True
    axes = drawn(draw_rollout, terminated, truncated, fault=fault, names=False)
    ((tail, head),) = arrows_of(axes, RED)
    assert -2.0 < head[1] < -1.0, "it ends in the row that the limit cut"
    crosses = tail[1] < -2.0
    assert crosses == (fault != "limit taken for an end"), "the other three bring something across the seam"
    assert len(arrows_of(axes, BLUE)) == (1 if fault == "flag one row off" else 2)


def test_a_fault_that_is_none_is_refused_and_the_key_has_both_arrows():
    with pytest.raises(ValueError, match="^fault: "):
        drawn(draw_rollout, *example_flags(), fault="typo")
    axes = drawn(draw_rollout_key)
    assert len(arrows_of(axes, BLUE)) == len(arrows_of(axes, GREEN)) == 1


def test_the_backups_have_the_weights_of_gae_and_only_the_longest_reaches_the_end():
    axes = drawn(draw_truncated_backups, 4)
    weights = [text.get_text() for text in axes.texts if "lambda" in text.get_text()]
    assert weights == [r"$(1-\lambda)$", r"$(1-\lambda)\lambda$", r"$(1-\lambda)\lambda^{2}$", r"$\lambda^{3}$"]
    deepest = [-min(line.get_ydata()) for line in axes.lines if len(line.get_xdata()) == 2]
    assert sorted(deepest) == [1, 2, 3, 4, 4], "four paths, and the line where the rollout ends"


# Targets of other policies

POLICY = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64).repeat(3, 1)
ACTION = torch.tensor([0, 1, 0])
GAMMA = 0.9


def target_of(q: torch.Tensor, trace_lam: float) -> torch.Tensor:
    """Retrace's target of a path of three rows whose later pairs have the values `q` [3, A]; uniform behavior."""
    value = (POLICY * q).sum(-1)
    taken = q[torch.arange(3), ACTION]
    q_value = torch.cat([torch.zeros(1, dtype=q.dtype), taken[:2]])
    log_ratio = torch.cat([torch.full((1,), math.nan, dtype=q.dtype), (3 * POLICY[torch.arange(3), ACTION])[:2].log()])
    no = torch.zeros(3, 1, dtype=torch.bool)
    rows = (torch.zeros(3, dtype=q.dtype), q_value, value, log_ratio)
    return retrace_targets(*(row[:, None] for row in rows), no, no, gamma=GAMMA, lam=trace_lam)[0, 0]


def test_the_leaves_are_the_slopes_of_the_target():
    trace = 0.9 * (3 * POLICY[torch.arange(3), ACTION]).clamp(max=1.0)
    leaves = leaf_weights(POLICY, ACTION, trace, GAMMA)
    for k in range(3):
        for a in range(3):
            q = torch.zeros(3, 3, dtype=torch.float64)
            q[k, a] = 1.0
            assert target_of(q, 0.9) == pytest.approx(float(leaves[k, a]), abs=1e-12)


def test_an_uncorrected_return_has_one_fan():
    raw = leaf_weights(POLICY, ACTION, torch.ones(3, dtype=torch.float64), GAMMA, 1.0)
    assert torch.allclose(raw[:2], torch.zeros(2, 3, dtype=torch.float64))
    assert torch.allclose(raw[2], GAMMA**3 * POLICY[2])


def test_a_backup_draws_a_dot_for_every_leaf_with_a_weight():
    axes = Figure().subplots(1, 2)
    one, all_of_it = torch.zeros(3, dtype=torch.float64), torch.full((3,), 0.3, dtype=torch.float64)
    for ax, trace in zip(axes, (one, all_of_it), strict=True):
        spine = torch.cat([torch.ones(1, dtype=torch.float64), trace[:-1]]).cumprod(0)
        draw_off_policy_backup(ax, "", leaf_weights(POLICY, ACTION, trace, GAMMA), ACTION, spine)
    assert len(axes[0].collections) == 3  # one step: one fan
    weights = leaf_weights(POLICY, ACTION, all_of_it, GAMMA)
    assert len(axes[1].collections) == int((weights.abs() > 1e-9).sum()) >= 7  # no dot where there is no weight
    assert len(axes[1].patches) == 3
