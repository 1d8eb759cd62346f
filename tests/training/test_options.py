"""The command line is the configuration: options, files of settings, lists of a study, the table of presets."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import importlib
import json
import re
import sys
import tomllib
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Literal

import pytest

from minerva_lite import PPOConfig, __main__, preset
from minerva_lite.agents import AGENTS
from minerva_lite.training import defaults, reached, settings_file
from minerva_lite.training.options import as_typed, combinations, listed, said, unchecked
from minerva_lite.training.presets import PRESETS, Preset

ROOT = Path(__file__).parents[2]


@pytest.fixture
def minerva(monkeypatch, tmp_path):
    """Give the command line some words, in a folder of its own. What training and studies are asked for comes back."""
    asked = {}
    monkeypatch.setattr(__main__, "train", lambda agent, env, steps, **how: asked.update(how, agent=agent, steps=steps))
    monkeypatch.setattr(__main__, "study", lambda *names, **how: asked.update(how, names=names))
    monkeypatch.setattr(__main__, "evaluate", lambda agent, **how: how)
    monkeypatch.setattr(__main__, "read_failures", lambda path: [])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")  # one box below the other

    def run(words):
        asked.clear()
        monkeypatch.setattr(sys, "argv", ["minerva_lite", *words.split()])
        __main__.main()
        return dict(asked)

    return run


def refused(minerva, words):
    """The one line that the command line ends with."""
    with pytest.raises(SystemExit) as told:
        minerva(words)
    assert isinstance(told.value.code, str) and "\n" not in told.value.code
    return told.value.code


def test_every_setting_is_an_option(minerva):
    asked = minerva(
        "train ppo --env CartPole-v1 --config.clip-eps 0.1 --config.anneal-lr False --config.hidden 8 4 "
        "--config.target_kl=0.02 --steps 4096 --num-envs 16 --eval-every 512 --eval-episodes 7 --checkpoint-every 99"
    )
    changed = {"clip_eps": 0.1, "anneal_lr": False, "hidden": (8, 4), "target_kl": 0.02, "num_envs": 16}
    assert asked["agent"].config == replace(preset("ppo", "CartPole-v1").config, **changed)
    assert (asked["steps"], asked["eval_every"], asked["eval_episodes"], asked["checkpoint_every"]) == (
        4096,
        512,
        7,
        99,
    )
    asked = minerva("train --env CartPole-v1 trpo")
    assert asked["agent"].config == preset("trpo", "CartPole-v1").config and asked["eval_episodes"] == 50
    assert asked["steps"] == preset("trpo", "CartPole-v1").total_steps


@pytest.mark.parametrize("algorithm", list(AGENTS))
def test_help_has_every_setting_with_its_comment_and_the_defaults_of_the_environment(algorithm, minerva, capsys):
    env_id = "tokens/sort" if algorithm == "sequence" else "LunarLander-v3"
    with pytest.raises(SystemExit):
        minerva(f"train {algorithm} --env {env_id} --help")
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    kept = defaults.settings_for(algorithm, env_id)
    options = shown.partition("config options")[2]
    for field in fields(kept.config):
        value = getattr(kept.config, field.name)
        value = " ".join(map(str, value)) if isinstance(value, tuple) else value
        typed = field.name.replace("_", "-")
        line = re.search(rf"--config\.{typed} (?P<words>((?!--config).)*?) ?\(default: (?P<value>[^)]*)\)", options)
        assert line and line["value"] == str(value), field.name
        assert re.search("[a-z]", line["words"]) or field.name.endswith("learning_rate"), "a sentence of help"
    assert f"default: {kept.total_steps}" in shown and re.search(r"discount[^(]* \(default: ", shown)
    with pytest.raises(SystemExit):
        minerva(f"train {algorithm} --help")
    assert re.search(r"discount[^(]* \(default", capsys.readouterr().out), (
        "without an environment, the algorithm's own defaults"
    )


def test_without_a_preset_one_line_says_what_is_taken(minerva, capsys):
    asked = minerva("train ppo --env Acrobot-v1 --steps 9999 --config.gamma 0.5")
    assert asked["agent"].config.normalize_obs and asked["agent"].config.gamma == 0.5
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and told.startswith("no preset for ppo on Acrobot-v1: taken are the defaults of")
    assert "'discrete'" in told and "gamma 0.5" in told and "over 9999 steps" in told
    minerva("train ppo --env CartPole-v1")
    assert capsys.readouterr().err == ""
    minerva("train ppo --env Humanoid-v5")
    assert capsys.readouterr().err.startswith("the preset for ppo on Humanoid-v5 is untrained: ")


def test_a_file_that_gives_every_setting_leaves_nothing_to_announce(minerva, tmp_path, capsys):
    minerva("train ppo --env Acrobot-v1 --steps 9999 --save-config whole.json")
    assert "no preset" in capsys.readouterr().err
    minerva("train --config whole.json --seed 1")
    assert capsys.readouterr().err == ""
    told = json.loads((tmp_path / "whole.json").read_text())
    del told["steps"], told["config"]["gamma"]
    (tmp_path / "part.json").write_text(json.dumps(told))
    minerva("train --config part.json")
    assert capsys.readouterr().err == (
        "no preset for ppo on Acrobot-v1: taken are the defaults of the family 'discrete' for what the file leaves "
        f"open, gamma 0.99, over {defaults.settings_for('ppo', 'Acrobot-v1').total_steps} steps, evaluated every 128000 "
        "steps over 50 episodes; --config.…, --steps and --eval-… change them\n"
    )


def test_an_environment_of_a_module_in_this_folder_is_found(minerva, tmp_path):
    text = "import gymnasium as gym\ngym.register('Own-v0', 'gymnasium.envs.classic_control.acrobot:AcrobotEnv')\n"
    (tmp_path / "own_worlds_of_a_user.py").write_text(text)
    sys.path[:] = [place for place in sys.path if place]
    asked = minerva("train a2c --env own_worlds_of_a_user:Own-v0")
    assert asked["agent"].spec.env_id == "own_worlds_of_a_user:Own-v0"
    told = refused(minerva, "train a2c --env own_worlds_of_a_user:Owm-v0")
    assert told.endswith("got 'own_worlds_of_a_user:Owm-v0'; did you mean own_worlds_of_a_user:Own-v0?")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("ppo --config.minibatch-size 9999", "--config.minibatch-size: wanted at most rollout_steps * num_envs = 2048; got 9999"),
        ("ppo --config.clip-eps 0", "--config.clip-eps: wanted a finite number above 0; got 0.0"),
        ("ppo --config.objective clap", "--config.objective: wanted one of clip, kl_penalty; got 'clap'"),
        ("ppo --config.hidden 8 0", r"--config.hidden[1]: wanted a whole number of at least 1; got 0"),
        ("ppo --num-envs 4 --config.num-envs 5", "--num-envs: wanted 5, as in --config.num-envs; got 4"),
        ("ppo --config.num-envs 0", "--config.num-envs: wanted a whole number of at least 1; got 0"),
        ("ppo --num-envs 0", "--num-envs: wanted a whole number of at least 1; got 0"),
        ("mpo --config.critic-target retrace", "--config.sequence-length: wanted at least 2 for Retrace; got 1"),
        ("ppo --save-config none/x.json", "--save-config: wanted a file in a folder that exists and may be written to; got none/x.json"),
        ("ppo --wandb mpo", None),
    ],
)  # fmt: skip
def test_a_contradiction_is_one_line_that_names_the_option_as_typed(words, message, minerva, monkeypatch):
    monkeypatch.setattr(__main__, "WeightsAndBiases", None)
    if message is None:
        words, message = "--wandb mpo ppo", "ALGORITHM: wanted it before the options; got 'mpo' among their values"
    assert refused(minerva, f"train {words} --env CartPole-v1") == message


def test_settings_are_written_and_read_and_what_is_typed_beside_them_wins(minerva, tmp_path):
    minerva("train mpo --env Pendulum-v1 --seed 3 --steps 2000 --config.gamma 0.5 --save-config run.json")
    told = json.loads((tmp_path / "run.json").read_text())
    config = replace(preset("mpo", "Pendulum-v1").config, gamma=0.5)
    about = {"algorithm": "mpo", "env": "Pendulum-v1", "seed": 3, "steps": 2000}
    assert told == about | {"config": json.loads(json.dumps(asdict(config)))}
    asked = minerva("train --config run.json --save-config again.json")
    assert (asked["agent"].name, asked["agent"].config, asked["steps"]) == ("mpo", config, 2000)
    assert (tmp_path / "again.json").read_text() == (tmp_path / "run.json").read_text()
    asked = minerva("train mpo --env CartPole-v1 --config run.json --config.gamma 0.9 --steps 3000 --num-envs 4")
    assert asked["agent"].spec.env_id == "CartPole-v1" and asked["steps"] == 3000
    assert asked["agent"].config == replace(config, gamma=0.9, num_envs=4)
    (tmp_path / "part.json").write_text('{"config": {"epochs": 3, "clip_eps": 1, "target_kl": null}}')
    asked = minerva("train ppo --env CartPole-v1 --config part.json")
    assert asked["agent"].config == replace(preset("ppo", "CartPole-v1").config, epochs=3, clip_eps=1.0)
    assert type(asked["agent"].config.clip_eps) is float


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"config": {"clip_epz": 1}}', "bad.json: config.clip_epz: wanted a known key; did you mean clip_eps?"),
        ('{"sede": 1}', "bad.json: sede: wanted a known key; did you mean seed?"),
        ('{"zz": 1}', "bad.json: zz: wanted a known key; known are algorithm, env, seed, steps, config"),
        ('{"config": {"epochs": "3"}}', "bad.json: config.epochs: wanted a whole number; got '3'"),
        ('{"config": {"epochs": true}}', "bad.json: config.epochs: wanted a whole number; got True"),
        ('{"config": {"gamma": "x"}}', "bad.json: config.gamma: wanted a number; got 'x'"),
        ('{"config": {"hidden": [8, "x"]}}', "bad.json: config.hidden: wanted a list, each of it a whole number; got [8, 'x']"),
        ('{"config": {"target_kl": []}}', "bad.json: config.target_kl: wanted a number or null; got []"),
        ('{"config": {"squash": 1}}', "bad.json: config.squash: wanted true or false; got 1"),
        ('{"steps": 1.5}', "bad.json: steps: wanted a whole number; got 1.5"),
        ('{"config": 1}', "bad.json: config: wanted an object; got 1"),
        ("[]", "bad.json: wanted an object with the keys algorithm, env, seed, steps, config; got []"),
        ("{", "bad.json: wanted settings as --save-config writes them; got no JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1))"),
        ('{"algorithm": "mpo", "config": {"gamma": 1}}', "bad.json: algorithm: wanted ppo, as typed; got 'mpo'"),
        ('{"config": {"clip_eps": -1}}', "--config.clip-eps: wanted a finite number above 0; got -1.0"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_told_by_file_and_key(text, message, minerva, tmp_path):
    (tmp_path / "bad.json").write_text(text)
    assert refused(minerva, "train ppo --env CartPole-v1 --config bad.json") == message
    assert (
        refused(minerva, "train ppo --env CartPole-v1 --config none.json")
        == "none.json: wanted a file of settings; there is none"
    )


def test_a_word_among_named_ones_may_stand_in_a_file():
    @dataclass(frozen=True)
    class Kind:
        kind: Literal["a", "b"] = "a"

    assert settings_file._checked({"kind": "b"}, {"kind": Literal["a", "b"]}, "f", "") == {"kind": "b"}
    with pytest.raises(ValueError, match="f: kind: wanted one of 'a', 'b'; got 'c'"):
        settings_file._checked({"kind": "c"}, {"kind": Literal["a", "b"]}, "f", "")


def test_lists_in_a_study_make_a_product_of_named_variants(minerva, tmp_path):
    words = "study ppo vmpo --env Acrobot-v1 CartPole-v1 --out s.csv"
    asked = minerva(f"{words} --config.gamma 0.9 0.99 --config.hidden 8 --config.hidden 8 4 --steps 5000 --num-envs 16")
    assert asked["names"][:2] == (("ppo", "vmpo"), ("Acrobot-v1", "CartPole-v1"))
    assert len(asked["settings"]) == 4
    for gamma in (0.9, 0.99):
        for hidden in ((8,), (8, 4)):
            way = {"gamma": gamma, "hidden": hidden, "num_envs": 16}
            assert way in asked["settings"].values()
    for name, way in asked["settings"].items():
        assert name == ", ".join(f"{setting}={value}" for setting, value in way.items())
    assert asked["total_steps"] == 5000 and asked["eval_episodes"] == 10
    assert minerva(words)["settings"] == {"": {}}
    (tmp_path / "run.json").write_text('{"config": {"epochs": 3}}')
    asked = minerva("study ppo --env CartPole-v1 --out s.csv --config run.json --config.clip-eps 0.1")
    assert asked["settings"] == {"run.json, clip_eps=0.1": {"epochs": 3, "clip_eps": 0.1}}
    for more, message in (
        ("--config.clip-eps 0.1", "--config.clip-eps: wanted a setting of all of them; vmpo has none"),
        ("--config run.json", "--config: wanted one algorithm beside a file of settings; got ppo, vmpo"),
        ("--num-envs 2 --config.num-envs 2 4", "--num-envs: wanted it without --config.num-envs; got 2"),
    ):
        assert refused(minerva, f"{words} {more}") == message


def test_a_study_takes_what_is_changed_beside_its_variants(monkeypatch, tmp_path):
    from minerva_lite.training import studies

    tasks = []
    monkeypatch.setattr(studies, "outcomes", lambda run, left, pool: tasks.extend(left.values()) or ())
    path = tmp_path / "study.csv"
    settings = {"": {}, "gamma=0.9": {"gamma": 0.9}}

    def asked(**how):
        tasks.clear()
        studies.study("ppo", ["Acrobot-v1"], [0], ["preset", "raw advantages"], path, progress=False, **how)
        return {task.variant: task for task in tasks}

    found = asked(settings=settings, total_steps=5000, eval_every=7, eval_episodes=3, backend="gymnasium")
    kept = defaults.settings_for("ppo", "Acrobot-v1").config
    assert {name: task.config for name, task in found.items()} == {
        "preset": kept,
        "gamma=0.9": replace(kept, gamma=0.9),
        "raw advantages": replace(kept, normalize_advantage=False),
        "raw advantages, gamma=0.9": replace(kept, normalize_advantage=False, gamma=0.9),
    }
    how = {(t.total_steps, t.eval_every, t.eval_episodes, t.backend) for t in found.values()}
    assert how == {(5000, 7, 3, "gymnasium")}
    path.unlink()
    assert {task.total_steps for task in asked().values()} == {512_000}
    for wrong, message in (
        ({"total_steps": 9}, "total_steps: wanted at least one rollout, 2048 steps; got 9"),
        ({"eval_episodes": 100}, "eval_episodes: wanted another number than that of a final evaluation, 100; got 100"),
        (
            {"settings": {"x": {"normalize_advantage": True}}},
            "normalize_advantage: wanted a setting that the variant 'raw advantages' leaves alone; got True",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            asked(**wrong)


def test_a_study_does_not_mix_runs_of_other_steps(tmp_path, monkeypatch):
    from minerva_lite.training import studies

    small = Preset(PPOConfig(num_envs=4, rollout_steps=16, minibatch_size=32, epochs=1, hidden=(8,)), total_steps=640)
    monkeypatch.setattr(studies, "settings_for", lambda algorithm, env_id, **how: small)
    monkeypatch.setattr(studies, "evaluate", lambda agent, **how: dict.fromkeys(FIGURES, 1.0))
    how = {"eval_every": None, "eval_episodes": 1, "backend": "auto"}
    task = studies._tasks("ppo", ["CartPole-v1"], [0], ["preset"], {"": {}}, 100, how)[0]
    rows = studies.run(task)
    assert [row["episodes"] for row in rows][-2:] == [1, 100] and rows[-1]["steps"] == 128
    table = studies._Table(tmp_path / "study.csv", [task.name], "a command")
    table.write()
    table.add(task.name, rows, None)
    table.require_steps({task.name: task})
    for steps in (64, 129):
        with pytest.raises(ValueError, match=rf"total_steps: wanted those of the runs in study.csv, 128; got {steps}"):
            table.require_steps({task.name: replace(task, total_steps=steps)})


FIGURES = [f"eval/{name}" for name in ("mean", "std", "min", "max")]


def test_the_table_of_presets_tells_what_is_recorded(minerva, capsys, tmp_path, monkeypatch):
    minerva("presets --algorithm ppo --env CartPole-v1")
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["algorithm", "environment", "steps", "reached"]
    assert row.split()[:3] == ["ppo", "CartPole-v1", str(PRESETS["ppo", "CartPole-v1"].total_steps)]
    assert len(row.split()) > 3
    minerva("presets")
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(set(PRESETS) | set(reached.reached()))
    assert "--env: wanted one of CartPole-v1, " in refused(minerva, "presets --env Nowhere-v0")
    (tmp_path / "none.csv").touch()
    monkeypatch.setattr(reached, "RECORDED", tmp_path / "none.csv")
    bare = reached.table_of_presets().splitlines()
    untrained = [settings.untrained for settings in PRESETS.values()]
    assert [line.split()[3:] for line in bare[1:]] == [["untrained"] if each else [] for each in untrained]


def test_what_the_defaults_of_a_family_reached_stands_below_the_presets(tmp_path, monkeypatch):
    path = tmp_path / "reached.csv"
    path.write_text("algorithm,env_id,steps,seeds,mean,worst\nppo,Acrobot-v1,640,1,-90.4,-90.4\n")
    monkeypatch.setattr(reached, "RECORDED", path)
    told = "ppo        Acrobot-v1          -90 after 640 steps (one seed), by its family's defaults"
    assert reached.table_of_presets(env="Acrobot-v1").splitlines()[1:] == [told]
    assert len(reached.table_of_presets().splitlines()) == 2 + len(PRESETS)


def test_the_installed_command_is_this_one():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, name = scripts["minerva"].split(":")
    assert getattr(importlib.import_module(module), name) is __main__.main


def test_the_parts_of_a_command_line():
    words = ["ppo", "--env=A", "--env", "B", "--num_envs", "3", "--config.x", "1", "--last"]
    assert [said(words, name) for name in ("env", "num-envs", "config", "last")] == ["B", "3", None, None]
    assert combinations({}) == {"": {}}
    assert as_typed("x[1]: wanted y", {"x": "--x"}) == "--x[1]: wanted y"
    assert as_typed("no: x: wanted y", {"x": "--x"}) == "no: x: wanted y"
    loose = replace(unchecked(PPOConfig()), minibatch_size=10**9)
    assert loose.minibatch_size == 10**9 and type(loose).__name__ == "PPOConfig"
    kinds = [kind for _, kind in AGENTS.values()]
    every = {field.name for kind in kinds for field in fields(kind)}
    assert {field.name for field in fields(listed([*kinds, kinds[0]]))} == every
    assert all(getattr(listed(kinds)(), name) == () for name in every)
