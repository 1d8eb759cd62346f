"""One arithmetic on every x86 processor: what notebooks have stored is what they print anywhere.

MKL, with which PyTorch multiplies and solves, takes other paths on processors that are not Intel's. Then the last
digits differ, and in a training those before them, too. The stored outputs are of Intel's paths.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[2] / ".build" / "intel.so"
ANSWER = "int mkl_serv_intel_cpu_true(void) { return 1; }"  # MKL's own question, answered in its place
PROCESSORS = Path("/proc/cpuinfo")


def as_intel() -> None:
    """Processes that start from here on take Intel's paths; not without a C compiler, and not outside of Linux."""
    compiler = shutil.which("cc")
    if not compiler or sys.platform != "linux" or "GenuineIntel" in PROCESSORS.read_text("utf8"):
        return
    if " " in str(LIBRARY) or ":" in str(LIBRARY):  # which end a name for the loader
        return
    if not LIBRARY.exists():
        LIBRARY.parent.mkdir(exist_ok=True)
        new = LIBRARY.with_suffix(f".{os.getpid()}")  # another process may be about it, too
        subprocess.run([compiler, "-shared", "-x", "c", "-o", new, "-"], input=ANSWER, text=True, check=True)
        new.replace(LIBRARY)
    os.environ["LD_PRELOAD"] = str(LIBRARY)
