"""What a process asks of Linux for itself: fewer system calls, a keyring of its own, no look into it from beside.

For the process that runs students' code; it imports nothing but the standard library. Where the kernel refuses, nothing
changes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
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


def asked(option: int, *values: object) -> None:
    """`prctl` with its four values."""
    given = [value if isinstance(value, ctypes._SimpleCData) else ctypes.c_ulong(value) for value in values]
    LIBC.prctl(option, *given, *[ctypes.c_ulong(0)] * (4 - len(given)))


def without_calls(program: bytes) -> None:
    """Put this process, and those that it starts, under a BPF program that refuses system calls; for good."""
    if program:
        asked(PR_SET_NO_NEW_PRIVS, 1)
        instructions = ctypes.create_string_buffer(program, len(program))
        filter_ = Program(len(program) // INSTRUCTION, ctypes.cast(instructions, ctypes.c_void_p))
        asked(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_void_p(ctypes.addressof(filter_)))


def keyring_of_its_own() -> None:
    """Leave the session keyring that was inherited: tickets and keys of whoever started this lie in it."""
    if number := KEYCTL.get(os.uname().machine):
        LIBC.syscall(number, KEYCTL_JOIN_SESSION_KEYRING, None)


def closed_to_others() -> None:
    """Nobody without privileges reads this process's memory, descriptors or environment, under whatever user."""
    asked(PR_SET_DUMPABLE, 0)


def orphans_come_here() -> None:
    """Processes whose parent has ended become children of this one, and so their time is counted here."""
    asked(PR_SET_CHILD_SUBREAPER, 1)


def limit(memory: int, seconds: int, file_bytes: int, processes: int) -> None:
    """Bounds that the kernel holds to, for this process and those it starts.

    memory, file_bytes: bytes; memory is beyond what is in use. seconds: of the processor, for each process.
    """
    with open("/proc/self/statm") as file:
        memory += int(file.read().split()[0]) * resource.getpagesize()
    # Since Linux 5.14 a user's processes are counted by namespace; before, those outside count as well.
    release = [int(number) for number in re.findall(r"\d+", os.uname().release)[:2]]
    bounds = {"AS": memory, "CPU": seconds, "FSIZE": file_bytes, "CORE": 0, "NOFILE": 256, "MSGQUEUE": 0, "MEMLOCK": 0}
    for name, bound in (bounds | {"NPROC": processes if release >= [5, 14] else 4096}).items():
        with contextlib.suppress(ValueError, OSError):  # the bound that is there is lower
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (bound, bound))
