"""Figures that move without a kernel: every choice has its picture, and the links lead to it. With one: any value."""

import html
import inspect
import io
import re
from base64 import b64decode
from functools import cache

import ipywidgets
import numpy as np
import pytest
import torch
from PIL import Image

from minerva_book import figures
from minerva_book.figures import style, widgets
from minerva_book.figures.mstep import decoupled_kl_optimum
from minerva_book.figures.top_k import flow_example, top_k_example
from minerva_book.figures.trpo import two_parameter_world
from minerva_book.figures.widgets import FRAMES, MAX_FRAMES, as_read, frames_figure, knob
from minerva_lite.worlds import tabular_trpo
from minerva_lite.worlds.tabular import TabularMDP, drifting_critic
from tests.figures.test_drawn import arrows, draw

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def color(sign, height):
    return f"#ff000{sign * height + 4}"


def bar(ax, sign, height):
    ax.bar([0], [sign * height], color=color(sign, height))
    ax.set(xlim=(-1, 1), ylim=(-5, 5))


def describe(sign, height):
    return f"a bar <of> {sign * height:g}"


# Of each figure: the ends of its slider and where it starts, how many pictures these are, what its controls choose.
FIGURES = {
    "ppo_clip": ({"clip_eps": (0.05, 0.2, 0.6)}, 6, [1.0, 0.2]),
    "baseline": ({"baseline": (0.0, 2.4)}, 6, [0.8, 0.0]),
    "dropped_factor": ({"gamma": (0.8, 0.9, 0.99)}, 9, [0.05, 0.9]),
    "gae": ({"lam": (0.0, 0.95, 1.0), "rollout_steps": (1, 8, 32)}, 9, [8, 0.95]),
    "trust_region": ({"kl_bound": (0.01, 2.0)}, 6, [1.0, 2.0]),
    "conjugate_gradient": ({"condition": (2.0, 100.0)}, 8, [100.0, 2]),
    "top_k": ({"eta": (0.1, 0.8, 12.8)}, 9, [0.5, 0.8]),
    "decoupled_kl": ({"std_fit": (0.4, 0.7, 1.2)}, 9, ["coupled", 0.7]),
    "temperature": ({"eta": (0.1, 1.0, 2.5)}, 9, [0.5, 1.0]),
    "seeds": ({"seeds": (1, 3, 20)}, 12, [0.5, 3]),
    "trap": ({"gamma": (0.0, 0.9, 0.99)}, 3, [0.9]),
    "discount": ({"gamma": (0.1, 0.5, 0.8, 0.99)}, 4, [0.8]),
    "readings": ({"sweeps": (0, 4, 160)}, 3, [4]),
}


@cache
def made(name: str):
    """A figure with these pictures, drawn once."""
    return getattr(widgets, f"explore_{name}")(**FIGURES[name][0])


def pages(widget) -> list[str]:
    """The markup of every picture."""
    return [page for each in widget.children for page in pages(each)] if hasattr(widget, "children") else [widget.value]


def shown(widget):
    """The markup that a reader sees: through every stack to the page it selects."""
    while isinstance(widget, ipywidgets.Stack):
        widget = widget.children[widget.selected_index]
    return widget.value


@pytest.fixture(scope="module")
def figure():
    return frames_figure(bar, alt=describe, start={"height": 2}, size=(2, 2),
                         sign={"up": 1, "down": -1}, height=(1, 2, 4))  # fmt: skip


def test_a_mapping_becomes_buttons_and_a_sequence_a_slider(figure):
    buttons, slider, stack, _ = figure.children
    assert isinstance(buttons, ipywidgets.ToggleButtons) and buttons.options == (("up", 1), ("down", -1))
    assert isinstance(slider, ipywidgets.SelectionSlider) and slider.value == 2 and slider.label == "2"
    assert figure.frames == 6 == sum(len(each.children) for each in stack.children)


def test_every_choice_shows_its_own_picture(figure):
    _, _, stack, _ = figure.children
    for i, sign in enumerate((1, -1)):
        for j, height in enumerate((1, 2, 4)):
            picture = shown(stack.children[i].children[j])
            assert re.findall("fill:(#ff000.)", picture) == [color(sign, height)]
            assert f"aria-label='a bar &lt;of&gt; {sign * height}'" in picture and "role='img'" in picture


def test_each_control_is_linked_to_the_stacks_it_chooses_in(figure):
    buttons, slider, stack, _ = figure.children
    links = {(link.source, link.target) for link in ipywidgets.Widget.widgets.values()
             if isinstance(link, ipywidgets.widgets.widget_link.Link)}  # fmt: skip
    assert ((buttons, "index"), (stack, "selected_index")) in links
    for inner in stack.children:
        assert ((slider, "index"), (inner, "selected_index")) in links
        assert inner.selected_index == slider.index == 1


def test_readers_without_widgets_get_the_still_and_its_description(figure):
    bundle = figure._repr_mimebundle_()
    assert bundle["text/plain"] == "a bar <of> 2"
    assert Image.open(io.BytesIO(b64decode(bundle["image/png"]))).size == (200, 200)
    assert bundle[WIDGET_VIEW]["model_id"] == figure.model_id and "text/html" not in bundle


def test_a_picture_that_a_kernel_drew_says_what_its_controls_wait_for(monkeypatch):
    """Where a front end shows it in place of them."""
    monkeypatch.delenv(FRAMES)
    drawn, said = frames_figure(bar, alt=describe, size=(2, 2), sign=(1,), height=(1, 2)), []
    monkeypatch.setattr("IPython.display.display", lambda data, **more: said.append(data))
    monkeypatch.delenv("BOOK_RELOAD", raising=False)
    drawn._ipython_display_()
    monkeypatch.setenv("BOOK_RELOAD", "1")
    drawn._ipython_display_()
    monkeypatch.setattr(ipywidgets.Widget, "_control_comm", object())  # the page has been loaded again
    drawn._ipython_display_()
    figures, stills = said[::2], said[1::2]
    assert all("<img src='data:image/png;base64," in each["text/html"] for each in stills)
    told = [re.search("<em>(.*)</em>", each["text/html"])[1] for each in stills]
    assert told == [each["text/plain"] for each in stills] == [widgets.RUN, widgets.RELOAD, widgets.RUN]
    assert [WIDGET_VIEW in each for each in figures] == [True, False, True]
    assert ["display: none" in each["text/html"] for each in stills] == [True, False, True]


@pytest.mark.parametrize(("grids", "message"), [
    ({}, f"grids: wanted 1 to {MAX_FRAMES} pictures in all, got 0"),
    ({"sign": {}, "height": (1,)}, f"grids: wanted 1 to {MAX_FRAMES} pictures in all, got 0"),
    ({"sign": range(5), "height": range(5)}, f"grids: wanted 1 to {MAX_FRAMES} pictures in all, got 25"),
    ({"sign": (1, -1), "height": (1, 3)}, "start: wanted 'height' to be one of [1, 3], got 2"),
])  # fmt: skip
def test_bad_grids_are_refused_before_anything_is_drawn(grids, message):
    def never(*_, **__):
        raise AssertionError("drew a picture")

    with pytest.raises(ValueError, match=re.escape(message)):
        frames_figure(never, alt=describe, start={"height": 2}, **grids)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_that_moves_starts_where_it_says_and_fits_its_page(name):
    figure, (_, frames, start) = made(name), FIGURES[name]
    *controls, stack, common = figure.children
    assert figure.frames == frames and [control.value for control in controls] == start
    pictures = pages(stack)
    assert len(set(pictures)) == len({re.search("aria-label='([^']*)'", each)[1] for each in pictures}) == frames
    assert all(len(picture) < 10_000 for picture in pictures) and len(common.value) < 60_000


def test_every_figure_that_moves_is_asked():
    assert {f"explore_{name}" for name in FIGURES} == {name for name in vars(widgets) if name.startswith("explore_")}


def test_the_noise_of_a_baseline_is_that_of_samples_and_its_two_values_average_to_the_gradient():
    """Arms worth 2 and 1: what the picture draws, against draws of the arm."""
    axes = draw(figures.plot_baseline, baseline=0.5, chance=0.8)
    left, right = axes.child_axes
    noise = float(left.lines[-1].get_ydata()[0])
    pulled = torch.rand(400_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64) < 0.8
    sample = torch.where(pulled, 0.2 * (2.0 - 0.5), -0.8 * (1.0 - 0.5))
    assert noise == pytest.approx((sample.std() / 0.16).item(), rel=0.01)
    bars = [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in right.patches]
    assert len(bars) == 2 and sum(at * height for at, height in bars) == pytest.approx(0.16)
    assert left.lines[0].get_ydata().min() < 0.01


@pytest.mark.parametrize(("gamma", "later"), [(0.9, 0.05), (0.96, 0.05), (0.8, 0.2), (0.85, 0.2)])
def test_the_climbs_without_the_factor_part_where_the_world_says(gamma, later):
    """What the picture draws, against the world itself: its returns, and the sign of its gradient."""
    transition = torch.zeros(2, 2, 2)
    transition[:, :, 1] = 1.0
    world = TabularMDP(transition, torch.tensor([[1.0, 0.0], [0.0, later]]), torch.tensor([1.0, 0.0]), gamma=gamma)
    half = torch.full((2, 2), 0.5)
    difference = world.q_value(half)[:, 0] - world.q_value(half)[:, 1]
    pulls = (1.0 - gamma) * world.visitation(half) * difference
    ends = [float(world.expected_return(torch.tensor([[p, 1.0 - p]] * 2))) for p in (0.0, 1.0)]
    axes = draw(figures.plot_dropped_factor, gamma=gamma, later=later)
    left, right = axes.child_axes
    assert [bar.get_width() for bar in left.patches] == pytest.approx([*pulls.tolist(), 0.0, -later], abs=1e-6)
    climbs = [line.get_ydata() for line in right.lines]
    assert climbs[0][-1] == pytest.approx(1.0, abs=0.005) and (climbs[0][-1] > climbs[0][0])
    assert climbs[1][-1] == pytest.approx(ends[0] / max(ends), abs=0.02)
    assert (climbs[1][-1] > climbs[1][0]) == (pulls.sum() < 0.0) == (gamma > 1.0 / (1.0 + later))


@pytest.mark.parametrize(("name", "told"), [
    ("discount", ["right in the 3", "right in the 4", "right in the 6", "right in the 6"]),
    ("trap", ["nowhere negative", "negative at a mixture of 0.111", "negative at a mixture of 0.010"]),
])  # fmt: skip
def test_the_words_of_a_figure_say_what_its_slider_changes(name, told):
    assert all(words in page for words, page in zip(told, pages(made(name).children[1]), strict=True))


def test_values_flow_backward_visits_forward_and_both_read_the_same_number_after_every_sweep():
    for sweeps in (0, 7, 8, 1000):
        axes = draw(figures.plot_readings, sweeps=sweeps)
        values, visits = ([bar.get_height() for bar in panel.patches] for panel in axes.child_axes)
        assert values[0] == pytest.approx(visits[7]) and (values[0] > 0.0) == (sweeps >= 8)
        assert [value > 0 for value in values] == [visit > 0 for visit in reversed(visits)]
    world = TabularMDP.chain(8, 0.95)
    right = torch.eye(2, dtype=torch.float64)[1].expand(8, 2)
    assert values == pytest.approx(world.value(right).tolist()) and visits == pytest.approx(
        world.visitation(right).tolist()
    )


def test_the_curves_of_gae_are_the_exact_ones_and_the_dots_stand_on_them():
    axes = draw(figures.plot_gae, error=0.5, lam=0.6, rollout_steps=3)
    left, right = axes.child_axes
    assert [bar.get_height() for bar in left.patches] == pytest.approx([0.38, 0.38 * 0.57, 0.95 * 0.57**2])
    world, policy, critic = drifting_critic(0.5)
    bias, variance = (float(x) for x in world.gae_error(policy, critic, 0.6, rows=3))
    dots = [line.get_ydata()[0] for line in right.lines if len(line.get_xdata()) == 1]
    assert dots == pytest.approx([bias, variance, bias + variance])
    assert [line.get_ydata()[24] for line in right.lines if len(line.get_xdata()) == 41] == pytest.approx(
        dots, abs=1e-3
    )


def test_the_text_of_explore_gae_says_what_its_picture_shows():
    axes = draw(figures.plot_gae, error=0.5, lam=0.6, rollout_steps=3)
    weight, title = axes.child_axes[0].patches[-1].get_height(), axes.child_axes[1].get_title()
    bias, variance, total = re.findall(r"\d\.\d{3}", title)
    page = shown(widgets.explore_gae(lam=(0.6,), rollout_steps=(3,)).children[-2])
    assert f"rollout ends, is {weight:.2f}." in page and f"lambda 0.6: {bias}, {variance} and {total}." in page


def test_the_two_parameter_world_is_exact():
    """Slope and curvature that the picture uses, against autograd through its surrogate and its KL."""
    world, zero = two_parameter_world(), torch.zeros(2, dtype=torch.float64)
    slope = torch.autograd.functional.jacobian(world["surrogate"], zero)
    curvature = torch.autograd.functional.hessian(world["kl"], zero)
    assert torch.allclose(slope, world["gradient"], atol=1e-12)
    assert torch.allclose(curvature, world["fisher"], atol=1e-12)


def heads(axes) -> list[torch.Tensor]:
    return [torch.tensor(arrow.xy, dtype=torch.float64) for arrow in arrows(axes)]


def test_a_stretched_parametrization_turns_the_plain_gradient_step_and_not_the_natural_one():
    world = two_parameter_world()
    axes = draw(figures.plot_trust_region, kl_bound=0.5)
    (plain, natural), (turned, same) = heads(axes), heads(draw(figures.plot_trust_region, kl_bound=0.5, stretch=3.0))
    for step in (plain, natural, turned):
        assert float(0.5 * step @ world["fisher"] @ step) == pytest.approx(0.5)
    assert torch.allclose(natural, same) and not torch.allclose(plain, turned, atol=0.1)
    assert world["gradient"] @ natural > max(world["gradient"] @ plain, world["gradient"] @ turned)
    taken = torch.tensor([float(x[0]) for x in axes.lines[-1].get_data()], dtype=torch.float64)
    assert world["kl"](taken) <= 0.5 < world["kl"](natural), "the full step is refused, the one taken keeps the bound"


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 0.99])
def test_the_curves_of_the_trap_are_those_of_the_exact_world(gamma):
    drawn = {line.get_label(): torch.tensor(line.get_xydata()) for line in draw(figures.plot_trap, gamma=gamma).lines}
    world = tabular_trpo.trap(torch.tensor([[0.0, 1.0], [0.0, -1.0]], dtype=torch.float64), gamma)
    stay = torch.tensor([[1.0, 0.0]] * 2, dtype=torch.float64)
    for row in (0, 10, 55, 100):
        mixture = float(drawn["surrogate"][row, 0])
        mixed = tabular_trpo.same_everywhere(torch.tensor(mixture, dtype=torch.float64))
        gain, promise = tabular_trpo.gain(world, stay, mixed), tabular_trpo.surrogate(world, stay, mixed)
        for name, value in (("surrogate", promise), ("true gain", gain), ("surrogate less sharp bound", gain)):
            assert drawn[name][row, 1].item() == pytest.approx((1.0 - gamma) * value.item(), abs=1e-9)
    plain = drawn["surrogate less plain bound"][:, 1]
    assert (plain <= drawn["true gain"][: len(plain), 1] + 1e-9).all()


@pytest.mark.parametrize("condition", [2.0, 100.0])
def test_conjugate_gradient_is_there_after_two_steps_and_steepest_descent_is_not(condition):
    axes = draw(figures.plot_conjugate_gradient, condition=condition, steps=2)
    descent, conjugate, solution = (np.stack(line.get_data(), -1) for line in axes.lines)
    assert len(descent) == len(conjugate) == 3
    assert np.allclose(conjugate[-1], solution[0]) and not np.allclose(descent[-1], solution[0], atol=0.01)


@pytest.mark.parametrize(("eta", "eps_eta"), [(0.35, 0.5), (2.5, 0.1), (0.1, 4.0)])
def test_the_red_line_is_the_tangent_of_the_dual_and_the_bars_are_two_distributions(eta, eps_eta):
    axes = draw(figures.plot_temperature, eta=eta, eps_eta=eps_eta)
    left, right = axes.child_axes
    heights = np.array([bar.get_height() for bar in left.patches])
    assert heights[:7].sum() == pytest.approx(1.0) and heights[7:].sum() == pytest.approx(1.0)
    dual, tangent, dot = (np.stack(line.get_data(), -1) for line in right.lines[:3])
    near = np.interp([eta - 0.016, eta + 0.016], *dual.T)
    slope = np.diff(tangent[:, 1]) / np.diff(tangent[:, 0])
    assert slope == pytest.approx(np.diff(near) / 0.032, abs=0.15)
    assert dot[0] == pytest.approx([eta, np.interp(eta, *dual.T)], abs=0.01)
    below = np.interp(dual[:, 0], *tangent.T)[(dual[:, 0] > tangent[0, 0]) & (dual[:, 0] < tangent[1, 0])]
    assert (below <= dual[(dual[:, 0] > tangent[0, 0]) & (dual[:, 0] < tangent[1, 0]), 1] + 1e-9).all(), "convex"
    assert len(right.lines) == (3 if eps_eta == 4.0 else 4), "a bound above log 1 / pi(best) has no minimum to mark"


def test_the_decoupled_optimum_is_the_closed_form_one_and_the_new_std_lets_the_mean_go_farther():
    (mean, std), _ = decoupled_kl_optimum("decoupled", 0.6, 0.9, 0.05, 0.005)
    assert mean == pytest.approx((2 * 0.05) ** 0.5, abs=0.004) and 1.06 < std < 1.08
    (farther, inflated), _ = decoupled_kl_optimum("new std", 0.6, 0.9, 0.05, 0.005)
    assert farther == pytest.approx(inflated * (2 * 0.05) ** 0.5, abs=0.004) and farther > mean + 0.01
    (shorter, narrow), grid = decoupled_kl_optimum("coupled", 0.6, 0.4, 0.05, 0.005)
    assert shorter < mean - 0.05 and narrow < 0.9
    # Brute force: no allowed point of the grid fits better.
    assert float(grid["loss"][grid["allowed"]].min()) == pytest.approx(
        np.log(narrow) + 0.5 * (0.4**2 + (0.6 - shorter) ** 2) / narrow**2
    )


@pytest.mark.parametrize("top_k_frac", [1.0, 0.5, 0.25])
def test_the_weights_of_kept_samples_lie_on_a_line_and_the_title_adds_up(top_k_frac):
    axes = draw(figures.plot_top_k, top_k_frac=top_k_frac, eta=0.8)
    advantage, share = axes.lines[-1].get_data()
    example = top_k_example(top_k_frac, 0.8)
    assert len(share) == 32 * top_k_frac and np.allclose(np.diff(np.log(share)) / np.diff(advantage), 1 / 0.8)
    assert share.sum() == pytest.approx(32.0)
    kept, cut, batch = (float(x) for x in re.findall(r"\d+\.\d\d", axes.get_title())[:3])
    assert kept + cut == pytest.approx(batch, abs=0.011) and cut == pytest.approx(-np.log(top_k_frac), abs=0.006)
    assert float(example["kl_batch"]) == pytest.approx(batch, abs=0.006)


def test_the_flow_of_an_update_keeps_half_and_holds_the_policy_to_its_bound():
    example = flow_example()
    kept, psi = example["mask"], example["psi"]
    assert int(kept.sum()) == 8 and float(psi.sum()) == pytest.approx(1.0) and not psi[~kept].any()
    assert float((psi[kept] * (8.0 * psi[kept]).log()).sum()) == pytest.approx(0.3)
    free, bounded = (0.5 * float(example[name].square().mean()) for name in ("free", "bounded"))
    assert bounded == pytest.approx(0.05) and free > 0.1
    axes = draw(figures.draw_vmpo_flow, panels=3)
    heights = [bar.get_height() for bar in axes[0].patches]
    assert heights == sorted(heights, reverse=True) and [len(ax.patches) for ax in axes] == [16, 16, 0]


def test_fewer_colors_keep_the_books_own_colors_exact():
    """Fewer colors make the still small; the trust region's red arrow once came out in its orange."""
    figure = made("trust_region")
    still = Image.open(io.BytesIO(figure.still)).convert("RGB")
    colors = {color for _, color in still.getcolors(1 << 20)}
    wanted = {name: tuple(bytes.fromhex(getattr(style, name)[1:])) for name in ("RED", "GREEN", "ORANGE", "GRAY")}
    wanted["white"] = (255, 255, 255)
    assert {name: color in colors for name, color in wanted.items()} == dict.fromkeys(wanted, True)


@pytest.mark.filterwarnings("error", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", FIGURES)
def test_a_kernel_draws_any_value_of_a_range(name, monkeypatch):
    """Nothing is cut off, and axes stay in place while a slider moves."""
    places = []

    class Watched(widgets.FigureCanvasAgg):
        def draw(self):
            super().draw()
            box, (width, height) = self.figure.get_tightbbox(self.get_renderer()), self.figure.get_size_inches()
            assert box.x0 >= 0.0 and box.y0 >= 0.0 and box.x1 <= width and box.y1 <= height
            places.append([ax.get_position(original=True).bounds for ax in self.figure.axes])

    monkeypatch.delenv(FRAMES)
    monkeypatch.setattr(widgets, "FigureCanvasAgg", Watched)
    figure, random = getattr(widgets, f"explore_{name}")(**FIGURES[name][0]), np.random.default_rng(0)
    *knobs, picture = figure.children
    assert [knob.value for knob in knobs] == FIGURES[name][2] and figure.frames == 0
    assert picture.value.count(f"alt='{html.escape(figure.alt)}'") == 1
    for control in sorted(knobs, key=lambda each: isinstance(each, ipywidgets.ToggleButtons)):
        seen, buttons = {picture.value}, isinstance(control, ipywidgets.ToggleButtons)
        if buttons:
            values = [value for _, value in control.options]
        else:
            shares = (0.0, *random.uniform(size=2), 1.0)
            values = [control.min + share * (control.max - control.min) for share in shares]
            values = [10**each if isinstance(control, ipywidgets.FloatLogSlider) else each for each in values]
            values = [type(control.value)(each) for each in values]
        for control.value in values:
            seen.add(picture.value)
            assert buttons or places[-1] == places[0]
        assert len(seen) >= len(set(values))
        drawn = Image.open(io.BytesIO(b64decode(re.search("base64,([^']+)", picture.value)[1])))
        assert drawn.width > 900


def test_a_slider_reaches_the_values_of_its_grid_and_what_is_drawn_is_what_is_read():
    for name in FIGURES:
        for each in inspect.signature(getattr(widgets, f"explore_{name}")).parameters.values():
            slider = knob(each.default, each.default[0], "") if isinstance(each.default, tuple) else None
            if isinstance(slider, ipywidgets.FloatSlider):
                steps = (np.array(each.default) - slider.min) / slider.step
                assert np.allclose(steps, steps.round()) and 100 < steps.max() < 400
    slider = knob((0.01, 1.0), 0.01, "")
    slider.value = 0.0832553
    assert as_read(slider) == 0.0833


def test_a_slider_goes_by_what_its_range_is(monkeypatch):
    monkeypatch.delenv(FRAMES)
    grids = {"whole": (1, 4), "near": (0.5, 1.0), "far": (0.01, 1.0), "one": (3,), "named": {"a": 1.0}}
    figure = frames_figure(lambda ax, **values: ax.plot([0, 1]), alt=lambda **values: "", size=(2, 2), **grids)
    kinds = ["IntSlider", "FloatSlider", "FloatLogSlider", "ToggleButtons", "ToggleButtons", "HTML"]
    assert [type(child).__name__ for child in figure.children] == kinds
