"""What a process asks of Linux for itself: fewer system calls, a keyring of its own, no look into it from beside.

For the process that runs students' code; it imports nothing but the standard library. Where the kernel is another or
refuses, the functions say so and change nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource

PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 4, 22, 36, 38
SECCOMP_MODE_FILTER = 2
KEYCTL_JOIN_SESSION_KEYRING = 1
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219}  # the number of the system call, which libc does not wrap
INSTRUCTION = 8  # bytes of a BPF instruction


class Program(ctypes.Structure):
    """The kernel's `struct sock_fprog`."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


LIBC = ctypes.CDLL(None, use_errno=True)


def asked(option: int, *values: object) -> bool:
    """Whether `prctl` did what it was asked to."""
    try:
        given = [value if isinstance(value, ctypes._SimpleCData) else ctypes.c_ulong(value) for value in values]
        return LIBC.prctl(option, *given, *[ctypes.c_ulong(0)] * (4 - len(given))) == 0
    except AttributeError:  # no Linux
        return False


def without_calls(program: bytes) -> bool:
    """Put this process, and those that it starts, under a BPF program that refuses system calls; for good."""
    if not program or not asked(PR_SET_NO_NEW_PRIVS, 1):
        return False
    instructions = ctypes.create_string_buffer(program, len(program))
    filter_ = Program(len(program) // INSTRUCTION, ctypes.cast(instructions, ctypes.c_void_p))
    return asked(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_void_p(ctypes.addressof(filter_)))


def keyring_of_its_own() -> bool:
    """Leave the session keyring that was inherited: tickets and keys of whoever started this lie in it."""
    number = KEYCTL.get(os.uname().machine)
    return number is not None and LIBC.syscall(number, KEYCTL_JOIN_SESSION_KEYRING, None) >= 0


def closed_to_others() -> bool:
    """Nobody without privileges reads this process's memory, descriptors or environment, under whatever user."""
    return asked(PR_SET_DUMPABLE, 0)


def orphans_come_here() -> bool:
    """Processes whose parent has ended become children of this one, and so their time is counted here."""
    return asked(PR_SET_CHILD_SUBREAPER, 1)


def limit(memory: int, seconds: int, file_bytes: int, processes: int) -> None:
    """Bounds that the kernel holds to, for this process and those it starts.

    memory, file_bytes: bytes; memory is beyond what is in use. seconds: of the processor, for each process.
    """
    with contextlib.suppress(OSError, ValueError):  # Linux alone tells, and holds to it
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    bounds = {"CPU": seconds, "FSIZE": file_bytes, "CORE": 0, "NOFILE": 256, "MSGQUEUE": 0, "MEMLOCK": 0}
    for name, bound in bounds.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (bound, bound))
    # Since Linux 5.14 a user's processes are counted by namespace; before, those outside count as well.
    for bound in (processes, 4096):
        with contextlib.suppress(ValueError, OSError):
            hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
            bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
            resource.setrlimit(resource.RLIMIT_NPROC, (bound, hard))
            if can_fork():
                resource.setrlimit(resource.RLIMIT_NPROC, (bound, bound))
                return


def can_fork() -> bool:
    try:
        pid = os.fork()
    except OSError:
        return False
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return True
