"""Open MPI's mpirun, as this project's Python scripts start it."""
import functools
import os
import re
import shutil
import subprocess


@functools.cache
def words():
    """The first words of a command that starts ranks on this machine: mpirun and the options it needs. Empty: there is none of Open MPI."""
    program = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout if program else ""
    if "Open MPI" not in version and "OpenRTE" not in version:
        return []
    quiet = ["-quiet"] if re.search(r"\(Open MPI\) [1-4]\.|OpenRTE", version) else []  # version 5 has no such option
    return [program] + ["--allow-run-as-root"] * (os.geteuid() == 0) + quiet
