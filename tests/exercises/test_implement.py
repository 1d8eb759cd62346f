"""*Implement* exercises: the printed solution passes in the stub, a mistake is told, and nothing stops a notebook."""

import ast
import json
import re

import pytest
import torch

from minerva_book.exercises.implement import EXERCISES, NOT_YET, attempt, stub_and_check
from tests.equations import CHAPTERS, markdown

# By exercise: a change of the printed solution, as somebody might have written it, and what is said of it.
MISTAKES = {
    "ex-mdp-evaluate": ("1e-11 * (1 - world.gamma)", "1e-2", "entries are wrong"),
    "ex-mdp-visits": ("return slope", "return (1 - world.gamma) * slope", "entries are wrong"),
    "ex-mdp-turn": ("return 0.0", "return low", r"square 3, slip = 0\.0.*should be 0$"),
    "ex-pg-enumerate": ("world.gamma**t * ", "", "T = 4.*entries are wrong"),
    "ex-pg-optimal": ("score.square()", "score.abs()", "N = 5, n = 3.*entries are wrong"),
    "ex-ac-lambda": ("terminated | truncated", "terminated", "entries are wrong"),
    "ex-trpo-couple": (".clamp(min=1e-300)", "", "p = q.*entries are wrong"),
    "ex-step-cg": ("r_new + (r_new @ r_new) / (r @ r) * p, r_new", "r_new, r_new", "n = 6.*entries are wrong"),
    "ex-step-fvp": (" / len(score)", "", "N = 50.*entries are wrong"),
    "ex-ac-compatible": (").sqrt()", ")", "entries are wrong"),
    "ex-ppo-dual": ("torch.where(advantage < 0, ", "(lambda *each: each[0])(", r"A = 2\.0.*entries are wrong"),
    "ex-ppo-back": ("copy.deepcopy(self.policy.state_dict())", "self.policy.state_dict()", "policy.*are wrong"),
    "ex-since-sizes": ("in parts)\n", "in parts) / len(parts)\n", "the entropy.*entries are wrong"),
    "ex-mpo-estep": ("log_prior + (q_value", "(q_value", "small numbers.*entries are wrong"),
    "ex-mpo-temperature": ("range(200)", "range(10)", "the mean KL.*entries are wrong"),
    "ex-mstep-mean": ("(1 + eps_std, -1 - eps_std)", "(3.0, -3.0)", r"eps_std = 3\.0.*entries are wrong"),
    "ex-retrace-code": (".clamp(max=0.0)", "", "entries are wrong"),
    "ex-retrace-vtrace": ("~(terminated[t] | truncated[t])", "~terminated[t]", "entries are wrong"),
    "ex-vmpo-top-k": (" + 1e-9", "", "wanted 29 kept; got 28"),
    "ex-vmpo-refuse": ("<= eps_eta", "< 0", r"eps_eta = 3\.5: wanted None"),
    "ex-vrun-worth": (".clamp(max=0.0)", "", "chance 0.*entries are wrong"),
    "ex-vrun-loss": ("eta.detach()", "eta", "the slope in eta.*entries are wrong"),
    "ex-relatives-step": (" + policy.log()", "", "plain.*entries are wrong"),
    "ex-seeds-ranks": ("below + not_above", "2 * below", "7 and 11 scores.*entries are wrong"),
    "ex-seeds-student": ("[1 - p, p]", "[p, 1 - p]", "the lower end.*entries are wrong"),
    "ex-hill-remember": ("math.sqrt(1 - keep**2)", "(1 - keep)", r"tau = 2\.0.*entries are wrong"),
    "ex-hill-pole": ("steps % hold", "steps % (hold + 1)", "hold = 3.*entries are wrong"),
    "ex-tasks-closing": ("len(p) + 1", "len(p)", "entries are wrong"),
    "ex-lm-token-rewards": (" * mask", "", "entries are wrong"),
    "ex-pref-smooth": (").mean()", ")", "wanted a tensor of shape"),
    "ex-pre-lse": ("m = torch.where(m.isinf()", "_ = torch.where(m.isinf()", "-inf everywhere"),
}


def code_of(path):
    """The first cell of a chapter with imports."""
    cells = json.loads(path.read_text("utf8"))["cells"]
    sources = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return next(source for source in sources if "import torch" in source)


def kept(source, *kinds):
    """The statements of a source that are of these kinds."""
    return "\n".join(ast.get_source_segment(source, each) for each in ast.parse(source).body if isinstance(each, kinds))


IMPLEMENT = re.compile(r"```\{exercise\} Implement: .*\n:label: ([\w-]+)\n((?:.|\n)*?)\n```")
SOLUTION = r"```\{{solution\}} {}\n.*?~~~python\n(.*?)~~~"
FOUND = {label: (path, text) for path in CHAPTERS for label, text in IMPLEMENT.findall(markdown(path))}
by_exercise = pytest.mark.parametrize("label", FOUND)


@pytest.fixture
def tried(label, capsys):
    """What the cells of a copy say of a definition that is put into the stub's place."""
    path, _ = FOUND[label]
    setup, (stub, check) = code_of(path), stub_and_check(label)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if "set_default_dtype" in setup else torch.float32)

    def run(answer=stub):
        names = {}
        for source in (kept(setup, ast.Import, ast.ImportFrom), stub, answer, check):
            exec(source, names)
        (line,) = capsys.readouterr().out.splitlines()
        return line

    yield run
    torch.set_default_dtype(before)


def solution_of(label):
    source = re.search(SOLUTION.format(label), markdown(FOUND[label][0]), re.S)[1]
    return kept(source, ast.Import, ast.FunctionDef, ast.ClassDef) + "\n"


def test_every_implement_exercise_has_a_stub_and_every_stub_an_exercise():
    assert FOUND.keys() == EXERCISES.keys() == MISTAKES.keys()


@by_exercise
def test_the_text_names_the_check_and_what_the_stub_defines(label):
    check, head, _ = EXERCISES[label]
    text, name = FOUND[label][1], re.sub(r"class (\w+)(.|\n)*", r"\1", head)
    assert f"`check_{check}(" in text and f"`{name}`" in text


@by_exercise
def test_the_printed_solution_is_right(label, tried):
    assert tried(solution_of(label)) == "right"


@by_exercise
def test_a_mistake_is_told(label, tried):
    old, new, told = MISTAKES[label]
    solution = solution_of(label)
    assert old in solution
    assert re.search(f"^not right yet: .*{told}", tried(solution.replace(old, new))), told


@by_exercise
def test_an_untouched_stub_and_one_that_raises_stop_nothing(label, tried):
    assert tried() == NOT_YET
    stub, _ = stub_and_check(label)
    assert tried(stub.replace("NotImplementedError", "KeyError('a\\nb')")) == r"raises KeyError: 'a\nb'"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (NotImplementedError(), NOT_YET),
        (NotImplementedError("of torch"), "raises NotImplementedError: of torch"),
        (ValueError("first\nsecond"), "raises ValueError: first"),
        (ValueError(), "raises ValueError: ValueError"),
        (AssertionError(), "not right yet: AssertionError"),
    ],
)
def test_what_is_raised_is_told_in_one_line(error, line, capsys):
    def answer():
        raise error

    attempt(lambda each: each(), answer)
    assert capsys.readouterr().out == f"{line}\n"


def test_an_answer_can_be_interrupted():
    def answer():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt(lambda each: each(), answer)
