"""What the check works with on this machine: the program (built here before, carried, or built now) and its libraries."""
import hashlib
import json
import os
import pathlib
import shutil
import site
import subprocess
import sysconfig
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build/gpu"
ARCHIVE = ROOT / "carry/program.tar.gz"
TESTS = ("device_cuda_device", "device_cuda_operators", "device_cuda_queue", "train_cuda")
PROGRAMS = ("train", "bench_gpu", *(f"test_{name}" for name in TESTS))
PLUGINS = "lockstep_cuda1*.so"  # one or more: one for each major version of CUDA
# Of every Linux; a carried program brings all others.
SYSTEM_LIBRARIES = ("linux-vdso", "ld-linux", "libc.", "libm.", "libdl.", "libpthread.", "librt.", "libstdc++.", "libgcc_s.",
                    "libcudart", "libcudnn", "libcublas", "libnccl", "libcuda.")


class Unfit(Exception):
    """Why a program cannot be used here."""


def text_of(command, env=None, limit=60):
    """stdout; raises Unfit."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=limit, env={**os.environ, **(env or {})})
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unfit(str(error)) from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Unfit(f"exit {done.returncode}: {lines[-1] if lines else command[0]}")
    return done.stdout


def nvidia_smi(query):
    try:
        return text_of(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]).strip().splitlines()[0]
    except (Unfit, IndexError):
        return ""


def devices(folder):
    """`train devices --json`; raises Unfit where the program does not start or finds no card."""
    found = json.loads(text_of([folder / "train", "devices", "--json"]))
    if found["auto"]["device"] != "cuda":
        raise Unfit(found["auto"]["why_not_cuda"] or "it finds no GPU")
    return found


def lacking(folder):
    return [name for name in PROGRAMS if not (folder / name).exists()] + ([] if list(folder.glob(PLUGINS)) else [PLUGINS])


def programs(folder):
    """Those that are there, and the plugins."""
    return [name for name in PROGRAMS if (folder / name).exists()] + sorted(path.name for path in folder.glob(PLUGINS))


def identity(folder):
    """Version and contents: failed items are tried again once this is another one."""
    version = text_of([folder / "train", "--version"]).splitlines()[0]
    digest = hashlib.sha256()
    for name in programs(folder):
        digest.update((folder / name).read_bytes())
    return f"{version} {digest.hexdigest()[:12]}"


# --- libraries of the machine and carried ones

def link_toolkit():
    """cuDNN, cuBLASLt and NCCL of Python packages, as one folder of links: include/ and lib/."""
    toolkit = BUILD / "toolkit"
    folders = {pathlib.Path(path) / "nvidia" for path in [*site.getsitepackages(), sysconfig.get_paths()["purelib"]]}
    for kind in ("include", "lib"):
        (toolkit / kind).mkdir(parents=True, exist_ok=True)
        for entry in sorted(path for folder in folders for path in folder.glob(f"*/{kind}/*")):
            link = toolkit / kind / entry.name
            if not link.is_symlink() and not link.exists():
                link.symlink_to(entry)
    return toolkit


def prepend(variable, value):
    os.environ[variable] = value + (":" + os.environ[variable] if os.environ.get(variable) else "")


def unpack_packages():
    """Debian packages of carry/: data, and for a build headers, libraries and tools where the system has none."""
    deps, packages = BUILD / "deps", sorted((ROOT / "carry").glob("*.deb"))
    if packages and not (deps / "done").exists():
        deps.mkdir(parents=True, exist_ok=True)
        for package in packages:
            subprocess.run(["dpkg", "-x", package, deps], check=True)
        (deps / "done").touch()
    lib = f"{deps}/usr/lib/x86_64-linux-gnu"
    if not os.path.isdir(lib):
        return
    os.environ["PATH"] += f":{deps}/usr/bin"
    os.environ["PKG_CONFIG_SYSROOT_DIR"] = str(deps)
    os.environ["PKG_CONFIG_PATH"] = f"{lib}/pkgconfig:{deps}/usr/share/pkgconfig"
    prepend("LD_LIBRARY_PATH", f"{lib}:{deps}/lib/x86_64-linux-gnu")
    if shutil.which("mpirun.openmpi") == f"{deps}/usr/bin/mpirun.openmpi":
        # Open MPI away from its place; it opens all its plugins, and some lack their fabric's library; it asks for ssh even on one host
        os.environ.update(OPAL_PREFIX=f"{deps}/usr", PMIX_INSTALL_PREFIX=f"{lib}/pmix2", OMPI_MCA_mca_base_component_show_load_errors="0")
        if not shutil.which("ssh"):
            os.environ["OMPI_MCA_plm_rsh_agent"] = "true"


# --- the program

def configure(build, options):
    """The command: the program and its tests for a card, without what the emulation needs."""
    prefix = f"{BUILD}/deps/usr;{BUILD}/toolkit"
    fetched = [f"-DLOCKSTEP_CUDA_ROOT={ROOT}/cuda"] if (ROOT / "cuda/packages").exists() else []  # by scripts/fetch-cuda.sh
    return ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-Wno-dev", "-DCMAKE_BUILD_TYPE=Release", "-DLOCKSTEP_CUDA=on",
            "-DLOCKSTEP_EMULATED_CUDA=OFF", f"-DCMAKE_PREFIX_PATH={prefix}", *fetched, *options]


def options_here():
    """For this machine's card, with MPI where it is."""
    compiler, capability = shutil.which("mpicc.openmpi") or shutil.which("mpicc"), nvidia_smi("compute_cap").replace(".", "")
    return [f"-DMPI_C_COMPILER={compiler}" if compiler else "-DLOCKSTEP_MPI=OFF",
            *([f"-DLOCKSTEP_CUDA_ARCHITECTURES={capability}"] if capability else [])]


def carried_options(architecture):
    """For any card or one kind of card; with MPI if Open MPI is installed here, whose libraries travel (scripts/carry.sh mpi brings its launcher).
    Libraries are found in lib/ beside bin/, also by libraries."""
    compiler = shutil.which("mpicc.openmpi")
    return [f"-DMPI_C_COMPILER={compiler}" if compiler else "-DLOCKSTEP_MPI=OFF",
            *([f"-DLOCKSTEP_CUDA_ARCHITECTURES={architecture}-real"] if architecture else []),
            "-DCMAKE_INSTALL_RPATH=$ORIGIN/../lib", "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags"]


def compile_program(build):
    return ["cmake", "--build", build, "--target", "train", "lockstep_cuda", "bench_gpu", *(f"test_{name}" for name in TESTS)]


def unpack_carried(archive):
    """bin/ of a carried program, lib/ beside it."""
    folder = BUILD / "carried"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tarfile.open(archive) as file:
        file.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    link_program_to_toolkit(folder / "bin")
    return folder / "bin"


def link_program_to_toolkit(folder):
    """cuda/lib and cuda12/lib beside the program are where it looks for NVIDIA's libraries first."""
    for name in ("cuda", "cuda12"):
        if any((BUILD / "toolkit/lib").iterdir()) and not (folder / name).exists():
            (folder / name).symlink_to(BUILD / "toolkit")


def libraries_of(program):
    """By name the paths of the libraries that not every Linux has; raises Unfit if one is not found."""
    found = {}
    for line in text_of(["ldd", program]).splitlines():
        words = line.split()
        if "=>" in words and not words[0].startswith(SYSTEM_LIBRARIES):
            if words[2] == "not":
                raise Unfit(f"{program}: {words[0]} is not found")
            found[words[0]] = words[2]
    return found


def pack(folder):
    """The program and all libraries that not every Linux has, as one file; raises Unfit. The program finds them by its run path."""
    if lacking(folder):
        raise Unfit(f"{folder} lacks {', '.join(lacking(folder))}")
    libraries = {}
    for name in programs(folder):
        libraries.update(libraries_of(folder / name))
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(ARCHIVE, "w:gz", dereference=True) as file:
        for name in programs(folder):
            file.add(folder / name, f"bin/{name}")
        for name, path in sorted(libraries.items()):
            file.add(path, f"lib/{name}")


def candidates(named):
    """Folders with a program, best first, each with where it is from."""
    if named:
        yield named, "named by --bin"
        return
    if (BUILD / "bin/train").exists():
        yield BUILD / "bin", "built here before"
    if ARCHIVE.exists():
        yield unpack_carried(ARCHIVE), "carried"


def find_program(named):
    """(folder, where it is from, devices) of the first that runs here, or None; and why the others do not."""
    reasons = []
    for folder, origin in candidates(named):
        try:
            if lacking(folder) and not named:
                raise Unfit(f"lacks {', '.join(lacking(folder))}")
            return (folder, origin, devices(folder)), reasons
        except (Unfit, ValueError, KeyError) as why:
            reasons.append(f"the program {origin} is not used: {why}")
    return None, reasons
