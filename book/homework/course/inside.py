"""Runs a student's cells and functions, and sends back numbers. Nothing in this process knows what is right.

Started by `isolation.py`: a job comes as a line of JSON on standard input, and a question's cases when they are asked
for; frames of JSON go out by the descriptor that argv[1] names; the others are where the packages lie. The process that
reads the job runs nothing of the student's (`overseer.py`): it forks one that runs the cells, which forks one for every
question, so that what kills a process costs no more than its cell or its question.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys

TASKS = 48  # processes and threads that the kernel lets a submission have: the overseer ends it at fewer processes


def answer_question(channel: int, job: dict, loaded, question: dict, place: int, anew) -> None:
    """Call one function on all its cases, which come by `place`, and send what came back. anew: `captured`'s."""
    with open(place, "rb") as file:
        cases = json.load(file)
    name = question["name"]
    loaded.as_after(f"{name}-code")
    answer = getattr(loaded.module, question["function"], None)
    if not callable(answer):
        overseer.send(channel, question=name, error=f"there is no function {question['function']}")
        return
    call = compile(question["call"], "<call>", "eval")
    for case in cases:
        try:
            inputs = {key: anew("tensor_of")(value) for key, value in case["inputs"].items()}
            leaves = (*(inputs[leaf] for leaf in question["leaves"]),)
            with loading.at_most(job["case_seconds"]):
                got = anew("evaluated")(call, answer, inputs, leaves)
                got = anew("plain")(anew("with_gradients")(got, leaves))
            overseer.send(channel, question=name, case=case["name"], parts=got)
        except BaseException as error:
            overseer.send(channel, question=name, case=case["name"], error=loading.said(error))


def forked(task) -> int:
    """The number of a new process, with a group of its own, that runs `task` and exits with CAME_THROUGH."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.setpgid(0, 0)
            task()
        os._exit(overseer.CAME_THROUGH)
    return pid


def student(channel: int, orders: dict[str, int], others: list[int], job: dict, skip: dict) -> None:
    """The student's process: the cells, then for every question whose cases come by `orders` a process of its own."""
    for descriptor in (*others, *job.pop("descriptors")):
        os.close(descriptor)
    os.nice(5)
    kernel.limit(job["memory"], int(job["seconds"]) + 10, 1 << 24, TASKS)
    kernel.without_calls(bytes.fromhex(job["filter"]))
    anew = captured.taken()
    seconds = {"cell_seconds": job["cell_seconds"], "own_seconds": job["own_seconds"]}
    loaded = loading.load(job["cells"], lambda **frame: overseer.send(channel, **frame), skip=skip, **seconds)
    for question in job["questions"]:
        place = orders[question["name"]]
        select.select([place], [], [])
        pid = forked(lambda q=question, p=place: answer_question(channel, job, loaded, q, p, anew))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(place)
        overseer.send(channel, question=question["name"], ended=code)


def main() -> None:
    channel, orders = int(sys.argv[1]), os.dup(0)
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    global captured, kernel, loading, overseer
    import kernel
    import overseer

    kernel.keyring_of_its_own()
    line, rest = overseer.line_of(orders)
    job = json.loads(line)
    sys.path[:1] = sys.argv[2:]  # these very packages, whichever the environment would find
    import matplotlib.pyplot  # what the student's cells import is there before the bounds
    import torch

    from minerva_book.exercises import loading

    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import captured

    del sys.path[0], matplotlib
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):  # what is printed is forgotten
        os.dup2(null, descriptor)
    os.close(null)
    torch.set_num_threads(1)
    loading.prepare_loops()
    kernel.closed_to_others()
    kernel.orphans_come_here()
    job["descriptors"] = [channel, orders]
    overseer.send(channel, ready=True)
    overseer.Overseer(job, orders, channel, student, forked, coming=rest).oversee()
    os._exit(0)  # nothing is left to be tidied up, which takes torch a while


if __name__ == "__main__":
    main()
