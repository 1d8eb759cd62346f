"""One released assignment for all tests that want one, and a grader that runs harmless answers in this process."""

from __future__ import annotations

import functools
import shutil

import nbgrader.api
import pytest

from .hostile import CLASS, NAME, hand_in
from .trials import example_term

from course import classroom, marking  # isort: skip - found by what trials puts on the path
from course.captured import called, plain  # isort: skip
from course.isolation import Limits, Said  # isort: skip


@pytest.fixture(scope="session", autouse=True)
def form_of_a_gradebook():
    """nbgrader asks a process of alembic's which form a new gradebook has; here once, as that takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nbgrader.api, "get_alembic_version", functools.cache(nbgrader.api.get_alembic_version))
        yield


@pytest.fixture(scope="session")
def released(tmp_path_factory):
    """A term in which homework 2 was released, due on the first of February 2027; to be copied."""
    folder = tmp_path_factory.mktemp("released") / "term"
    due = {NAME: "2027-02-01T12:00+01:00"}
    return example_term(folder, names=[NAME], due=due)


def in_this_process(cells, questions, cases, **kwargs) -> Said:
    """In place of the process apart, for answers that are known to be harmless."""
    said, space = Said("this process"), {}
    with marking.in_double():  # whatever a cell sets
        for cell in cells:
            try:
                exec(cell["source"], space)
            except Exception as error:
                said.cells[cell["id"]] = f"{type(error).__name__}: {error}"
        for question in questions:
            for case in cases[question.name]:
                try:
                    inputs, leaves = marking.copied(case.inputs), [*question.leaves]
                    got = called(question.call, space[question.function], inputs, leaves)
                    said.answers[question.name, case.name] = plain(got)
                except Exception as error:
                    said.errors[question.name, case.name] = f"{type(error).__name__}: {error}"
    return said


@pytest.fixture
def term(released, tmp_path, monkeypatch):
    """A term of its own, in which functions run in this process."""
    shutil.copytree(released, tmp_path / "term")
    monkeypatch.setattr(marking, "run", in_this_process)
    return tmp_path / "term"


@pytest.fixture(scope="session")
def graded(released, tmp_path_factory):
    """A folder in which CLASS was graded, in this process; not to be changed."""
    folder = tmp_path_factory.mktemp("graded")
    shutil.copytree(released, folder / "term")
    hand_in(CLASS, folder / "term" / "release", folder / "in")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marking, "run", in_this_process)
        assert classroom.grade(folder / "in", folder / "term", limits=Limits()).failed == 0
    return folder
