"""nbgrader's settings, for a course folder: this one (the example) or one that `make homework-release` made.

Copy nothing by hand: `python -m course release` writes a term's own folder with this file in it. On a JupyterHub point
nbgrader at that folder; `nbgrader autograde` and the formgrader then mark as `make homework-grade` does.
"""

import os
import sys
from pathlib import Path

COURSE = Path(__file__).resolve().parent
# A term's folder says where the book's homework package lies.
PACKAGE = Path((COURSE / "package.txt").read_text().strip() if (COURSE / "package.txt").exists() else COURSE)
sys.path.insert(0, str(PACKAGE))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
# nbgrader starts programs (alembic) that lie beside Python, whether or not its environment is activated.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])

from functools import partial  # noqa: E402

from course.graders import (  # noqa: E402
    LatePolicy,
    MarkApart,
    ReadApart,
    Rebuild,
    Record,
    rubric_of,
)
from course.rendering import filters  # noqa: E402
from nbgrader import preprocessors as own  # noqa: E402
from nbgrader.converters import GenerateAssignment  # noqa: E402

c = get_config()  # noqa: F821
c.CourseDirectory.root = str(COURSE)
c.CourseDirectory.course_id = "policy-optimization"
c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\nraise NotImplementedError()"}
c.GenerateAssignment.preprocessors = [*GenerateAssignment.preprocessors.default(), Record]
c.Autograde.exporter_class = ReadApart
# No own.ClearOutput: of outputs Rebuild leaves the pictures alone, for whoever marks.
c.Autograde.sanitize_preprocessors = [
    Rebuild,
    own.DeduplicateIds,
    own.OverwriteKernelspec,
    # What it would put back is the term's own draw, not a student's variant; Rebuild put back the given cells already.
    *([] if (COURSE / "variants.txt").exists() else [own.OverwriteCells]),
    own.CheckCellMetadata,
]
# No own.Execute: students' code never runs in a process that knows an answer.
c.Autograde.autograde_preprocessors = [
    MarkApart,
    own.LimitOutput,
    own.SaveAutoGrades,
    own.AssignLatePenalties,
    own.CheckCellMetadata,
]
c.Rebuild.release = str(COURSE / "release")
c.MarkApart.course = str(COURSE)
c.AssignLatePenalties.plugin_class = LatePolicy
# Rubrics stand beside the answers in the formgrader, and on no page for students.
c.HTMLExporter.filters = filters(partial(rubric_of, COURSE))
