"""One function on many arguments, in processes of this machine or of a Ray cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

CONNECT_SECONDS = 30  # the time that a Ray cluster has to answer
Key = TypeVar("Key", bound=Hashable)
Pool = Callable[[], Any]  # makes a joblib.Parallel


@contextmanager
def workers(jobs: int, address: str | None = None) -> Iterator[Pool]:
    """A function that makes a pool for `jobs` calls at a time: joblib's own, or Ray's at `address` (`local`: here).

    A cluster that wants a token gets it if RAY_AUTH_MODE=token is set, as with Ray's own programs.
    Raises ValueError: no Ray cluster answers at `address`, or it is too small. ImportError: joblib or Ray is missing.
    """
    try:
        from joblib import Parallel
    except ImportError as error:
        raise ImportError(f"studies need `pip install minerva_lite[studies]` ({error})") from error
    # With one worker joblib would start no process, and a call that kills its process would end everything. So there
    # are at least two workers, and `pre_dispatch` limits how many calls they get at a time.
    count = max(2, jobs)
    pool = partial(Parallel, count, pre_dispatch=jobs, batch_size=1, return_as="generator_unordered")
    if address is None:
        yield partial(pool, backend="loky")
    else:
        with _ray(address, count):
            yield partial(pool, backend="ray")


def outcomes(
    function: Callable[[Any], Any], arguments: Mapping[Key, Any], pool: Pool
) -> Iterator[tuple[Key, Any, str | None]]:
    """For every call, when it ends: its key, what it returned (or None), and its error in one line (or None).

    A call that kills its process breaks the pool, and the pool does not say which call it was. So all calls that had
    begun are done again, each in a pool of its own, and the others in a new pool.
    """
    left = dict(arguments)
    while left:
        begun: list[Key] = []
        try:
            for key, result, error in pool()(_calls(function, dict(left), begun)):
                del left[key]
                yield key, result, error
        except Exception:
            if not begun:  # the pool itself could not be made
                raise
        for key in [key for key in begun if key in left]:
            try:
                [(_, result, error)] = pool()(_calls(function, {key: left[key]}, []))
            except Exception as death:
                result, error = None, _in_one_line(death)
            del left[key]
            yield key, result, error


def _calls(function: Callable[[Any], Any], arguments: Mapping[Key, Any], begun: list[Key]) -> Iterable[Any]:
    """The calls, which joblib takes one by one as its workers become free."""
    from joblib import delayed

    for key, argument in arguments.items():
        begun.append(key)
        yield delayed(_call)(function, key, argument)


def _call(function: Callable[[Any], Any], key: Key, argument: Any) -> tuple[Key, Any, str | None]:
    """Make one call in the worker and catch what it raises: an exception would end the other calls too."""
    try:
        return key, function(argument), None
    except (Exception, SystemExit) as error:
        return key, None, _in_one_line(error)


def _in_one_line(error: BaseException) -> str:
    """Type and message of an error in one line, even if the message has several."""
    return " ".join(f"{type(error).__name__}: {error}".split())


@contextmanager
def _ray(address: str, cpus: int) -> Iterator[None]:
    """Make Ray a back end of joblib until the end of the block. A connection that exists already is used and kept."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # so that it sends no reports
    try:
        import ray
        from joblib.parallel import BACKENDS
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise ImportError(f"address: Ray needs `pip install minerva_lite[ray]` ({error})") from error
    register_ray()
    # joblib returns no generator from pools of `multiprocessing`, because they may deadlock. Ray's pool inherits this
    # refusal without the reason.
    BACKENDS["ray"].supports_return_generator = True
    started = not ray.is_initialized()
    if started:
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        if address == "local":
            ray.init("local", num_cpus=cpus, include_dashboard=False, **quiet)
        else:
            _require_cluster(address)
            ray.init(address, **quiet)
    try:
        if (there := ray.cluster_resources().get("CPU", 0)) < cpus:
            raise ValueError(f"address: wanted a Ray cluster of at least {cpus} CPUs; {address!r} has {there:g}")
        yield
    finally:
        if started:
            ray.shutdown()


def _require_cluster(address: str) -> None:
    """Raise ValueError unless a Ray cluster answers.

    Another process asks, because Ray may wait for minutes and then end the process that asked.
    """
    program = "import sys, ray; ray.init(sys.argv[1], log_to_driver=False, logging_level='ERROR')"
    try:
        command = [sys.executable, "-c", program, address]
        probe = subprocess.run(command, capture_output=True, text=True, timeout=CONNECT_SECONDS)
    except subprocess.TimeoutExpired:
        why = f"no answer in {CONNECT_SECONDS} s"
    else:
        if probe.returncode == 0:
            return
        why = probe.stderr.strip().split("\n")[-1]
    raise ValueError(f"address: wanted local, auto or the host:port of a Ray cluster; got {address!r} ({why})")
