"""The command line is the configuration: options, files of settings, lists of a study, the table of presets."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import importlib
import json
import math
import re
import sys
import tomllib
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest

from minerva_lite import __main__, preset
from minerva_lite.agents import AGENTS
from minerva_lite.training import defaults, reached
from minerva_lite.training.checkpoints import load
from minerva_lite.training.presets import PRESETS
from tests.living import differ, learned
from tests.runs import contents

ROOT = Path(__file__).parents[2]


@pytest.fixture
def asked(minerva, monkeypatch):
    """Give the command line some words. What training and studies are asked for comes back."""
    given = {}
    monkeypatch.setattr(__main__, "train", lambda agent, env, steps, **how: given.update(how, agent=agent, steps=steps))
    monkeypatch.setattr(__main__, "study", lambda *names, **how: given.update(how, names=names))
    monkeypatch.setattr(__main__, "evaluate", lambda agent, **how: how)
    monkeypatch.setattr(__main__, "read_failures", lambda path: [])
    monkeypatch.setenv("COLUMNS", "100")  # one box below the other

    def run(words):
        given.clear()
        assert minerva(words) is None
        return dict(given)

    return run


def test_every_setting_is_an_option(asked):
    found = asked(
        "train ppo --env CartPole-v1 --config.clip-eps 0.1 --config.anneal-lr False --config.hidden 8 4 "
        "--config.target_kl=0.02 --steps 4096 --num-envs 16 --eval-every 512 --eval-episodes 7 --checkpoint-every 99"
    )
    changed = {"clip_eps": 0.1, "anneal_lr": False, "hidden": (8, 4), "target_kl": 0.02, "num_envs": 16}
    assert found["agent"].config == replace(preset("ppo", "CartPole-v1").config, **changed)
    counts = {"steps": 4096, "eval_every": 512, "eval_episodes": 7, "checkpoint_every": 99}
    assert {name: found[name] for name in counts} == counts
    found, usual = asked("train --env Pendulum-v1 trpo --env CartPole-v1"), preset("trpo", "CartPole-v1")
    assert (found["agent"].config, found["steps"], found["eval_episodes"]) == (usual.config, usual.total_steps, 50)


@pytest.mark.parametrize("algorithm", list(AGENTS))
def test_help_has_every_setting_with_its_comment_and_the_defaults_of_the_environment(algorithm, minerva, capsys):
    env_id = "tokens/sort" if algorithm == "sequence" else "LunarLander-v3"
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
    minerva(f"train {algorithm} --help")
    assert re.search(r"discount[^(]* \(default", capsys.readouterr().out), (
        "without an environment, the algorithm's own defaults"
    )


def test_without_a_preset_one_line_says_what_is_taken(asked, tmp_path, capsys):
    config = asked("train ppo --env Acrobot-v1 --steps 9999 --config.gamma 0.5 --save-config whole.json")[
        "agent"
    ].config
    assert config.normalize_obs and config.gamma == 0.5
    start, end = "no preset for ppo on Acrobot-v1: taken are the defaults of the family 'discrete'", " change them\n"
    assert capsys.readouterr().err == (
        f"{start}, num_envs 32, rollout_steps 64, gamma 0.5, learning_rate 0.001, clip_eps 0.2, normalize_obs True, over "
        f"9999 steps, evaluated every 3333 steps over 3 episodes; --config.…, --steps and --eval-…{end}"
    )
    for silent in ("train ppo --env CartPole-v1", "train --config whole.json --seed 1"):
        asked(silent)
        assert capsys.readouterr().err == ""
    asked("train ppo --env Humanoid-v5")
    assert capsys.readouterr().err.startswith("the preset for ppo on Humanoid-v5 is untrained: ")
    settings = json.loads((tmp_path / "whole.json").read_text())
    del settings["steps"], settings["config"]["gamma"]
    (tmp_path / "part.json").write_text(json.dumps(settings))
    asked("train --config part.json")
    assert capsys.readouterr().err == (
        f"{start} for what the file leaves open, gamma 0.99, over {defaults.settings_for('ppo', 'Acrobot-v1').total_steps} "
        f"steps, evaluated every 128000 steps over 50 episodes; --config.…, --steps and --eval-…{end}"
    )


def test_an_environment_of_a_module_in_this_folder_is_found(asked, minerva, tmp_path):
    text = "import gymnasium as gym\ngym.register('Own-v0', 'gymnasium.envs.classic_control.acrobot:AcrobotEnv')\n"
    (tmp_path / "own_worlds_of_a_user.py").write_text(text)
    sys.path[:] = [place for place in sys.path if place]
    found = asked("train a2c --env own_worlds_of_a_user:Own-v0")
    assert found["agent"].spec.env_id == "own_worlds_of_a_user:Own-v0"
    told = minerva("train a2c --env own_worlds_of_a_user:Owm-v0")
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
        ("ppo --episodes 0", "--episodes: wanted a whole number of at least 1; got 0"),
        ("mpo --steps 96", "--steps: wanted at least 1000, after which MPOConfig has collected enough to learn from (warmup_steps, sequence_length); got 96"),
        ("ppo --wandb mpo", None),
    ],
)  # fmt: skip
def test_a_contradiction_is_one_line_that_names_the_option_as_typed_and_no_file(
    words, message, asked, minerva, monkeypatch, tmp_path
):
    monkeypatch.setattr(__main__, "WeightsAndBiases", None)
    if message is None:
        words, message = "--wandb mpo ppo", "ALGORITHM: wanted it before the options; got 'mpo' among their values"
    assert minerva(f"train {words} --env CartPole-v1 --out run.pt --history h.csv") == message
    assert contents(tmp_path) == {}


def test_settings_are_written_and_read_and_what_is_typed_beside_them_wins(asked, tmp_path):
    asked("train mpo --env Pendulum-v1 --seed 3 --steps 2000 --config.gamma 0.5 --save-config run.json")
    told = json.loads((tmp_path / "run.json").read_text())
    config = replace(preset("mpo", "Pendulum-v1").config, gamma=0.5)
    about = {"algorithm": "mpo", "env": "Pendulum-v1", "seed": 3, "steps": 2000}
    assert told == about | {"config": json.loads(json.dumps(asdict(config)))}
    found = asked("train --config run.json --save-config again.json")
    assert (found["agent"].name, found["agent"].config, found["steps"]) == ("mpo", config, 2000)
    assert (tmp_path / "again.json").read_text() == (tmp_path / "run.json").read_text()
    found = asked("train mpo --env CartPole-v1 --config run.json --config.gamma 0.9 --steps 3000 --num-envs 4")
    assert found["agent"].spec.env_id == "CartPole-v1" and found["steps"] == 3000
    assert found["agent"].config == replace(config, gamma=0.9, num_envs=4)
    (tmp_path / "part.json").write_text('{"config": {"epochs": 3, "clip_eps": 1, "target_kl": null}}')
    found = asked("train ppo --env CartPole-v1 --config part.json")
    assert found["agent"].config == replace(preset("ppo", "CartPole-v1").config, epochs=3, clip_eps=1.0)
    assert type(found["agent"].config.clip_eps) is float


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
        (None, "bad.json: wanted a file of settings; there is none"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_told_by_file_and_key(text, message, asked, minerva, tmp_path):
    if text is not None:
        (tmp_path / "bad.json").write_text(text)
    assert minerva("train ppo --env CartPole-v1 --config bad.json") == message


def test_lists_in_a_study_make_a_product_of_named_variants(asked, minerva, tmp_path):
    words = "study ppo vmpo --env Acrobot-v1 CartPole-v1 --out s.csv"
    found = asked(f"{words} --config.gamma 0.9 0.99 --config.hidden 8 --config.hidden 8 4 --steps 5000 --num-envs 16")
    assert found["names"][:2] == (("ppo", "vmpo"), ("Acrobot-v1", "CartPole-v1"))
    assert len(found["settings"]) == 4
    for gamma in (0.9, 0.99):
        for hidden in ((8,), (8, 4)):
            way = {"gamma": gamma, "hidden": hidden, "num_envs": 16}
            assert way in found["settings"].values()
    for name, way in found["settings"].items():
        assert name == ", ".join(f"{setting}={value}" for setting, value in way.items())
    assert found["total_steps"] == 5000 and found["eval_episodes"] == 10
    assert asked(words)["settings"] == {"": {}}
    (tmp_path / "run.json").write_text('{"config": {"epochs": 3}}')
    found = asked("study ppo --env CartPole-v1 --out s.csv --config run.json --config.clip-eps 0.1")
    assert found["settings"] == {"run.json, clip_eps=0.1": {"epochs": 3, "clip_eps": 0.1}}
    for more, message in (
        ("--config.clip-eps 0.1", "--config.clip-eps: wanted a setting of all of them; vmpo has none"),
        ("--config run.json", "--config: wanted one algorithm beside a file of settings; got ppo, vmpo"),
        ("--num-envs 2 --config.num-envs 2 4", "--num-envs: wanted it without --config.num-envs; got 2"),
    ):
        assert minerva(f"{words} {more}") == message


def test_the_table_of_presets_tells_what_is_recorded(minerva, capsys, tmp_path, monkeypatch):
    minerva("presets --algorithm ppo --env CartPole-v1")
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["algorithm", "environment", "steps", "reached"]
    assert row.split()[:3] == ["ppo", "CartPole-v1", str(PRESETS["ppo", "CartPole-v1"].total_steps)]
    assert len(row.split()) > 3
    minerva("presets")
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(set(PRESETS) | set(reached.reached()))
    assert "--env: wanted one of CartPole-v1, " in minerva("presets --env Nowhere-v0")
    # Where nothing is recorded but what the defaults of a family reached, that stands below the presets.
    path = tmp_path / "reached.csv"
    path.write_text("algorithm,env_id,steps,seeds,mean,worst\nppo,Acrobot-v1,640,1,-90.4,-90.4\n")
    monkeypatch.setattr(reached, "RECORDED", path)
    told = "ppo        Acrobot-v1          -90 after 640 steps (one seed), by its family's defaults"
    assert reached.table_of_presets(env="Acrobot-v1").splitlines()[1:] == [told]
    bare = [line.split()[3:] for line in reached.table_of_presets().splitlines()[1:-1]]
    assert bare == [["untrained"] if settings.untrained else [] for settings in PRESETS.values()]


def test_the_installed_command_is_this_one():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, name = scripts["minerva"].split(":")
    assert getattr(importlib.import_module(module), name) is __main__.main


@pytest.mark.parametrize("words", ["train ALGORITHM --env Nowhere-v0", "study ALGORITHM --env Nowhere-v0 --out x.csv"])
def test_the_algorithms_of_the_command_line_are_those_of_the_table(words, minerva, monkeypatch, capsys):
    """One of them added before the command line is imported; then one that does not exist."""
    monkeypatch.setenv("COLUMNS", "400")
    with monkeypatch.context() as patch:
        patch.setitem(AGENTS, "newcomer", AGENTS["ppo"])
        importlib.reload(__main__)
        for algorithm in AGENTS:
            refusal = minerva(words.replace("ALGORITHM", algorithm))
            assert refusal.startswith("--env: wanted a registered Gymnasium id; got 'Nowhere-v0'"), algorithm
        capsys.readouterr()
        assert minerva(words.replace("ALGORITHM", "dqn")) == 2
        refusal = capsys.readouterr().err
        assert "'Nowhere-v0'" not in refusal and all(name in refusal for name in AGENTS)
    importlib.reload(__main__)


QUICK, SLOW = ("LunarLander-v3", "HalfCheetah-v5"), ("Pendulum-v1", "dm_control/cheetah/run")
TRIED = [
    pytest.param(*key, marks=[] if key[1] in QUICK else pytest.mark.slow)
    for key in PRESETS
    if key[1] in QUICK + SLOW or "umanoid" in key[1]
]


@pytest.mark.parametrize(("algorithm", "env_id"), TRIED)
def test_a_preset_trains_from_the_command_line(algorithm, env_id, minerva, tmp_path, capsys):
    steps = 2 * preset(algorithm, env_id).config.batch_size
    words = f"train {algorithm} --env {env_id} --steps {steps} --eval-every {steps} --episodes 1 --device cpu"
    if algorithm == "mpo":  # it would wait for more steps
        words += " --config.warmup-steps 0"
    assert minerva(f"{words} --eval-episodes 1 --out agent.pt") is None
    assert math.isfinite(json.loads(capsys.readouterr().out.splitlines()[-1])["eval/mean"])
    agent = load(tmp_path / "agent.pt", device="cpu")
    assert agent.name == algorithm and agent.spec.env_id == env_id
    fresh = AGENTS[algorithm][0](agent.config, agent.spec, seed=0, device="cpu")
    assert differ(learned(agent.policy), learned(fresh.policy)), "it learned"
