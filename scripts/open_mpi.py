"""Open MPI's mpirun, as this project's Python scripts start it."""
import functools
import os
import re
import shutil
import subprocess
import sys

MISSING = "no mpirun of Open MPI (Debian, Ubuntu: apt-get install openmpi-bin)"


@functools.cache
def find():
    """The first words of a command that starts ranks on this machine: mpirun and the options it needs. Empty: it is missing."""
    program = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout if program else ""
    if "Open MPI" not in version and "OpenRTE" not in version:
        return []
    quiet = ["-quiet"] if re.search(r"\(Open MPI\) [1-4]\.|OpenRTE", version) else []  # version 5 has no such option
    return [program] + ["--allow-run-as-root"] * (os.geteuid() == 0) + quiet


def words():
    """As find; ends the program with a message if mpirun is missing."""
    return find() or sys.exit(MISSING)
