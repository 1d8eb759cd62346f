"""The system calls that homework has no business with, as a BPF program for the kernel (by libseccomp)."""

from __future__ import annotations

import contextlib
import errno
import functools
import tempfile

NAMES = """
    memfd_create memfd_secret shmget shmat shmctl shmdt msgget msgsnd msgrcv msgctl semget semop semctl semtimedop
    mq_open mq_unlink keyctl add_key request_key
    ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd pidfd_open kcmp
    socket socketpair socketcall connect bind listen accept accept4 sendto sendmsg sendmmsg recvmsg recvmmsg
    userfaultfd io_uring_setup io_uring_enter io_uring_register io_setup io_submit bpf perf_event_open
    unshare setns mount umount umount2 pivot_root chroot fsopen fsconfig fsmount fspick move_mount open_tree
    mount_setattr name_to_handle_at open_by_handle_at fanotify_init inotify_init inotify_init1 fsetxattr setxattr
    lsetxattr sched_setscheduler sched_setparam sched_setattr
    init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct quotactl
    quotactl_fd syslog sethostname setdomainname settimeofday clock_settime clock_adjtime adjtimex iopl ioperm
    modify_ldt personality vhangup vmsplice remap_file_pages migrate_pages move_pages mbind set_mempolicy
    landlock_create_ruleset setgroups nfsservctl lookup_dcookie mlock mlock2 mlockall
"""
OF_ANOTHER = "prlimit64 sched_setaffinity setpriority ioprio_set"
NAMESPACES = 0x7E020080  # every CLONE_NEW… flag: cgroup, uts, ipc, user, pid, net, mount, time
CLONE_PARENT = 0x00008000
F_SETPIPE_SZ, LOCKS = 1031, (6, 7, 37, 38)
SIGCHLD = 17
PR_SET_DUMPABLE, PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 4, 1, 36


@functools.cache
def program() -> tuple[bytes, str]:
    """The program for this machine's kernel, and "" or, where there is none, b"" and the reason."""
    try:
        import pyseccomp

        refuse = pyseccomp.ERRNO(errno.EPERM)
        made = pyseccomp.SyscallFilter(pyseccomp.ALLOW)  # another architecture's calls kill whoever makes them
        for name in NAMES.split():
            with contextlib.suppress(OSError, ValueError):  # a call that this library or machine does not have
                made.add_rule(refuse, name)
        # A lock on a file that others see, too, would tell them something. So none is set, and whoever asks goes on.
        made.add_rule(pyseccomp.ERRNO(0), "flock")
        for command in LOCKS:
            made.add_rule(pyseccomp.ERRNO(0), "fcntl", pyseccomp.Arg(1, pyseccomp.EQ, command))
        # Its flags lie in memory, where a filter does not look; C libraries then take the older call.
        with contextlib.suppress(OSError, ValueError):
            made.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
        for flag in (1 << place for place in range(32) if (NAMESPACES | CLONE_PARENT) >> place & 1):
            made.add_rule(refuse, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
        # Who does not wait for its children would hide the time that they took.
        made.add_rule(
            refuse, "rt_sigaction", pyseccomp.Arg(0, pyseccomp.EQ, SIGCHLD), pyseccomp.Arg(1, pyseccomp.NE, 0)
        )
        # Whoever watches is of the same account: its limits, its turn on the processor are not the student's to set.
        for name in OF_ANOTHER.split():
            with contextlib.suppress(OSError, ValueError):
                made.add_rule(refuse, name, pyseccomp.Arg(0, pyseccomp.NE, 0))
        made.add_rule(refuse, "setpriority", pyseccomp.Arg(1, pyseccomp.NE, 0))
        made.add_rule(refuse, "fcntl", pyseccomp.Arg(1, pyseccomp.EQ, F_SETPIPE_SZ))  # memory of the kernel's
        for option in (PR_SET_DUMPABLE, PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER):
            made.add_rule(refuse, "prctl", pyseccomp.Arg(0, pyseccomp.EQ, option))
        with tempfile.TemporaryFile() as file:
            made.export_bpf(file)
            file.seek(0)
            return file.read(), ""
    except (ImportError, OSError, RuntimeError, AttributeError, ValueError) as error:
        return b"", f"no filter of system calls: {error} (pip install pyseccomp; Debian's libseccomp2)"
