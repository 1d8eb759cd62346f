"""Studies read to be compared: whole curves, and a refusal that names the file for all that is not comparable."""

from __future__ import annotations

import pytest

from minerva_lite.training.comparison import read_curves
from minerva_lite.training.studies import COLUMNS

HEAD = ["# command: python -m minerva_lite study …", "# versions: …", ",".join(COLUMNS)]
MARK = "aaaaaaaa-1.5"


def row(seed, steps, mean, *, episodes=10, mark=MARK, variant="preset"):
    return f"ppo,CartPole-v1,{variant},{seed},{steps},{0.1 * steps},{episodes},{mean},1.0,0.0,2.0,{mark}"


def run(seed, means, late=0, longer=0, **kept):
    watched = [row(seed, 10 * (i + 1) + late, mean, **kept) for i, mean in enumerate(means)]
    return [*watched, row(seed, 10 * len(means) + late + longer, means[-1] + 0.5, episodes=100, **kept)]


MIXED = [run(0, [1]), run(1, [1]), run(2, [1], mark="bbbbbbbb-1.5")]


def written(path, *runs, head=HEAD):
    path.write_text("\n".join([*head, *(line for lines in runs for line in lines)]) + "\n")
    return path


def test_curves_have_every_seed_in_a_row(tmp_path):
    path = written(tmp_path / "a.csv", run(0, [1, 2, 3]), run(4, [5, 6, 7], mark="aaaaaaaa-1.50001"))
    (key, curve), *others = read_curves(path, seeds=2).items()
    assert key == ("ppo", "CartPole-v1", "preset") and not others
    assert curve.steps.tolist() == [10, 20, 30] and curve.steps_of_seeds.tolist() == [[10, 20, 30]] * 2
    assert curve.returns.tolist() == [[1, 2, 3], [5, 6, 7]]
    assert curve.final.tolist() == [3.5, 7.5] and curve.final_steps == 30


def test_seeds_that_end_their_episodes_first_are_evaluated_a_little_later_each(tmp_path):
    path = written(tmp_path / "a.csv", run(0, [1, 2], late=1), run(1, [3, 4]), run(2, [5, 6], late=9))
    (curve,) = read_curves(path, seeds=3).values()
    assert curve.steps_of_seeds.tolist() == [[11, 21], [10, 20], [19, 29]]
    assert curve.steps.tolist() == [11, 21] and curve.final_steps == 21


@pytest.mark.parametrize(
    ("told", "runs"),
    [
        ("3 seeds; got 2", (run(0, [1, 2]), run(1, [1, 2]), run(2, [1, 2])[:-1])),  # one has not ended
        ("3 seeds; got 4", [run(seed, [1, 2]) for seed in range(4)]),
        ("each seed once; got seed 1 2 times", [run(seed, [1, 2]) for seed in (0, 1, 1, 2)]),
        ("runs of one fingerprint; got aaaaaaaa-1.5 and bbbbbbbb-1.5", MIXED),
        ("at the same steps for every seed", (run(0, [1, 2]), run(1, [1, 2]), run(2, [1, 2, 3]))),
        ("at the same steps for every seed", (run(0, [1, 2]), run(1, [1, 2]), run(2, [1, 2], late=10))),
        ("at the same steps for every seed", (run(0, [1, 2]), run(1, [1, 2]), run(2, [1, 2], longer=10))),
        ("at the same steps for every seed", (run(0, [1]), run(1, [1]), run(2, [1], late=1))),
    ],
)
def test_what_is_not_comparable_is_refused_with_the_files_name(told, runs, tmp_path):
    with pytest.raises(ValueError, match=f"^a.csv: ppo CartPole-v1 preset: wanted .*{told}"):
        read_curves(written(tmp_path / "a.csv", *runs), seeds=3)


def test_a_missing_column_is_refused_with_the_files_name(tmp_path):
    older = [*HEAD[:2], ",".join(COLUMNS[:-1])]
    with pytest.raises(ValueError, match="^a.csv: wanted the columns of a study; fingerprint missing"):
        read_curves(written(tmp_path / "a.csv", head=older), seeds=1)
