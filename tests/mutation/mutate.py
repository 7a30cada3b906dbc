#!/usr/bin/env python3
"""mutate.py [--seed N] [--count N] [--place FILE:LINE[:COLUMN],...] [--list] [--again] [--tests A,B] [--jobs N] [--work DIR] [--record FILE]

Tests the tests: changes the sources one place at a time and looks whether a fast test fails. A change is a comparison, an arithmetic
or logic operator, a constant, or a dropped statement (places.py) in base, config, data, dist, model, train or the cpu device.

  --seed N --count N   the first N places of seed N's order that compile to other code
  --place FILE:LINE    all changes of that line (or column) and nothing else, whatever the record says of them
  --tests A,B          shown to no other tests; only what they catch goes into the record
  --list               only print the places
  --again              of the places above, those that the record says survived
  --record FILE        one JSON line a place; what stands there is not done again, so an interrupted run goes on (WORK/seed-N.jsonl)

A copy of the tree is built once in WORK (build/mutation): its rooms as one shared library, beside which lie the test programs and `train`;
a change costs one compilation and one link. A second build counts lines (gcov): each test is run once with it, and a change is
shown only to the tests that reach its line, the quickest first, until one fails. Tests that take more than --slowest seconds then, fail, or
are skipped there are not fast tests. A failure counts if the same test then passes without the change, a hang if it takes ten times as long as
without. Outcomes:

  caught               a test fails (by: its name), or hangs
  survived             all of them pass; or none reaches the line (tests: 0)
  without effect       survived, and tests/mutation/without-effect.txt says why nothing can see it, or -O2 makes the same code of it
  same code, does not compile     not counted; the next place is drawn

Exit 0: nothing survived; 1: something did; 77: cannot be run here.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
from places import find_places  # noqa: E402

ROOMS = ["src/base", "src/config", "src/data", "src/dist", "src/model", "src/program", "src/files", "src/train",
         "src/device/cpu"]
LIBRARY = "liblockstep.so"
PLUGIN = "bin/emulated/lockstep_cuda.so"  # the emulated GPU: sums through host memory and much else run with it only
ADDRESSES_MAX = 1 << 40  # a changed size may ask for anything
WRAPPED = ("train_flipped", "train_injected", "train_unsound")  # the program, linked with --wrap: that needs the rooms' objects, not the library
MARK = "LOCKSTEP_MUTATION"  # in the environment of all that a test starts

Source = collections.namedtuple("Source", "path objects commands")  # a kernel has several: one for each vector width
Test = collections.namedtuple("Test", "name path seconds lines")  # lines: path -> the lines that it runs


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **options)
    if done.returncode:
        sys.exit(f"{shlex.join(command)[:300]}\n{done.stdout[-3000:]}")
    return done.stdout


def room_of(path):
    return "cpu" if path.startswith("src/device/cpu") else path.split("/")[1]


# ---- the tree and its two builds

class Build:
    """WORK/NAME: objects made by CMake's commands; bin/ has train, the test programs and the rooms as one shared library."""

    def __init__(self, work, name, flags):
        self.tree, self.folder = os.path.join(work, "tree"), os.path.join(work, name)
        self.bin = os.path.join(self.folder, "bin")
        self.flags = flags
        run(["cmake", "-S", self.tree, "-B", self.folder, "-G", "Ninja", "-Wno-dev", "-DCMAKE_BUILD_TYPE=None", "-DLOCKSTEP_CUDA=off",
             f"-DCMAKE_C_FLAGS={flags}"])
        with open(os.path.join(self.folder, "compile_commands.json")) as file:
            entries = json.load(file)
        self.sources, self.programs, library, mains = {}, {}, [], []
        for entry in entries:
            path = os.path.relpath(entry["file"], self.tree)
            words = shlex.split(entry["command"])
            if os.path.basename(words[0]) == "ccache":
                words = words[1:]
            out = words[words.index("-o") + 1]
            target = out.split("/")[1].removesuffix(".dir")
            if target.startswith("lockstep_"):
                if "emulated" in target or target.endswith("_mpich") or "/cuda/" in path:
                    continue  # what lies in no program that is linked here
                library.append(out)
                source = self.sources.setdefault(path, Source(path, [], []))
                source.objects.append(out)
                source.commands.append(words)
            elif target == "train" or target in ("newest_checkpoint", "plant_plans") or re.match(r"tests/[\w/]+/test_\w+\.c$", path):
                mains.append((target, out))
        self.library, self.mains = library, mains
        with open(os.path.join(self.folder, "build.ninja")) as file:
            text = file.read()
        block = text[text.index("\nbuild bin/train:"):]
        words = shlex.split(re.search(r"LINK_LIBRARIES = (.*)", block).group(1))
        self.libraries = [w for w in words if not w.endswith(".a")]
        self.wrapped = {}  # name -> its own objects, the linker's options
        for name in WRAPPED:
            block = text[text.index(f"\nbuild bin/{name}:"):]
            objects = re.search(r"LINKER\S+ (.*?) \|", block).group(1).split()
            self.wrapped[name] = objects, shlex.split(re.search(r"LINK_FLAGS = (.*)", block).group(1))

    def make(self, with_programs):
        others = [PLUGIN, *[out for _, out in self.mains]] if with_programs else []
        others += [o for objects, _ in self.wrapped.values() for o in objects]
        run(["ninja", "-C", self.folder, *self.library, *others])
        os.makedirs(self.bin, exist_ok=True)
        library = os.path.join(self.bin, LIBRARY)
        newest = max(os.path.getmtime(os.path.join(self.folder, o)) for o in self.library)
        if not os.path.exists(library) or os.path.getmtime(library) < newest:
            self.link_library(library + ".new", {})
            os.replace(library + ".new", library)
        for name in WRAPPED:
            program = os.path.join(self.bin, name)
            if not os.path.exists(program) or os.path.getmtime(program) < newest:
                self.link_wrapped(name, self.bin, {})
        if with_programs:
            cmocka = shlex.split(run(["pkg-config", "--libs", "cmocka"]))
            for target, out in self.mains:
                program = os.path.join(self.bin, target)
                made = os.path.join(self.folder, out)
                if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(made):
                    run(["cc", "-o", program, made, "-Wl,-rpath,$ORIGIN", "-L" + self.bin, "-llockstep", *self.libraries, *cmocka],
                        cwd=self.folder)

    def lend_programs(self, folder):
        """Into another bin folder, all but the library."""
        for name in os.listdir(self.bin):
            source, target = os.path.join(self.bin, name), os.path.join(folder, name)
            if name == LIBRARY or name in WRAPPED:
                continue
            if os.path.isdir(source):
                shutil.copytree(source, target, copy_function=shutil.copy2, dirs_exist_ok=True)
                continue
            if os.path.lexists(target):
                os.unlink(target)
            os.link(source, target)

    def link_library(self, out, replaced):
        """The rooms as one library; replaced: object -> the one that stands in for it."""
        run(["cc", "-shared", "-o", out, *shlex.split(self.flags), *[replaced.get(o, o) for o in self.library], *self.libraries],
            cwd=self.folder)


    def link_wrapped(self, name, folder, replaced):
        objects, options = self.wrapped[name]
        out = os.path.join(folder, name)
        run(["cc", "-o", out + ".new", *shlex.split(self.flags), *options, *objects, *[replaced.get(o, o) for o in self.library],
             *self.libraries], cwd=self.folder)
        os.replace(out + ".new", out)


def copy_tree(work):
    """What git knows or would add, into WORK/tree; files that are the same stay untouched, so that nothing is built again for them."""
    tree = os.path.join(work, "tree")
    names = run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"]).splitlines()
    for name in names:
        source, target = os.path.join(ROOT, name), os.path.join(tree, name)
        if not os.path.isfile(source):
            continue
        if os.path.exists(target):
            with open(source, "rb") as a, open(target, "rb") as b:
                if a.read() == b.read():
                    continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(source, target + ".new")
        os.replace(target + ".new", target)  # a shell may be reading the old one
    wanted = {os.path.join(tree, name) for name in names}
    for room in ("src", "tests"):
        for folder, _, files in os.walk(os.path.join(tree, room)):
            for file in files:
                path = os.path.join(folder, file)
                if path not in wanted or not os.path.exists(os.path.join(ROOT, os.path.relpath(path, tree))):
                    os.unlink(path)
    return tree


# ---- tests

def end_processes(mark):
    """Kills all that carries this mark in its environment: ranks leave the launcher's process group."""
    needle = f"{MARK}={mark}".encode() + b"\0"
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/environ", "rb") as file:
                if needle in file.read():
                    os.kill(int(number), signal.SIGKILL)
        except OSError:
            pass


def limits():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES_MAX, ADDRESSES_MAX))
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # who takes all memory is ended, and nobody else


def run_test(command, tree, folder, limit_s, **more):
    """The test's exit status (None: took longer than limit_s) and the seconds it took. Its temporary files go to a folder of its own."""
    mark = f"{os.getpid()}-{threading.get_ident()}"
    temporary = tempfile.mkdtemp(prefix="t", dir=folder)
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=tree, stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=limits,
                                   start_new_session=True, env={**os.environ, "TMPDIR": temporary, MARK: mark, **more})
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        seconds = time.monotonic() - start
        end_processes(mark)
        process.wait()
    shutil.rmtree(temporary, ignore_errors=True)
    return status, seconds


def lines_run(cover, counts, tree):
    """path -> [lines that were run], and path -> [lines that have code], of the counts that a test left below a folder."""
    ran, code = collections.defaultdict(set), collections.defaultdict(set)
    files = []
    for folder, _, names in os.walk(counts):
        for name in names:
            if name.endswith(".gcda"):
                files.append(os.path.join(folder, name))
                notes = files[-1].removesuffix(".gcda") + ".gcno"
                os.symlink(os.path.join(cover.folder, os.path.relpath(notes, counts)), notes)
    if not files:
        return ran, code
    done = subprocess.run(["gcov", "--json-format", "--stdout", *files], cwd=counts, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for record in done.stdout.decode(errors="replace").splitlines():
        for file in json.loads(record)["files"]:
            path = os.path.relpath(os.path.join(cover.folder, file["file"]), tree)
            for line in file["lines"]:
                code[path].add(line["line_number"])
                if line["count"]:
                    ran[path].add(line["line_number"])
    return ran, code


def digest(*paths):
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            total.update(file.read())
    return total.hexdigest()


def wrapped_programs(path):
    """Those that a test's script, or the one in its folder that it names, starts."""
    with open(path) as file:
        text = file.read()
    for name in re.findall(r"\w+\.(?:py|sh)\b", text):
        other = os.path.join(os.path.dirname(path), name)
        if os.path.exists(other):
            with open(other) as file:
                text += file.read()
    return {name for name in WRAPPED if name in text}


class Tests:
    """All tests, each run once with the counting build; WORK/tests.json remembers it while sources and test stay the same."""

    def __init__(self, plain, cover, work, arguments):
        self.most, self.only, slowest = arguments.most, arguments.tests, arguments.slowest
        self.tree, self.memory = plain.tree, os.path.join(work, "tests.json")
        self.code, self.tests, self.left_out = collections.defaultdict(set), {}, {}
        known = {}
        if os.path.exists(self.memory):
            with open(self.memory) as file:
                known = json.load(file)
        sources = digest(*[os.path.join(self.tree, path) for path in sorted(cover.sources)])
        place = tempfile.mkdtemp(prefix="counts-", dir=work)
        plain.lend_programs(cover.bin)

        def measure(item):
            name, path = item
            key = sources + digest(path)
            row = known.get(name)
            if not row or row["key"] != key or (row["left_out"] == "slow" and row["limit"] < slowest):
                counts = tempfile.mkdtemp(dir=place)
                depth = len(cover.folder.strip("/").split("/"))
                status, seconds = run_test(self.command(name, path, cover.bin), self.tree, place, slowest, GCOV_PREFIX=counts,
                                           GCOV_PREFIX_STRIP=str(depth))
                ran, code = lines_run(cover, counts, self.tree) if status == 0 else ({}, {})
                shutil.rmtree(counts, ignore_errors=True)
                why = {0: "", 77: "skipped", None: "slow"}.get(status, "fails")
                row = {"key": key, "left_out": why, "seconds": seconds, "limit": slowest,
                       "lines": {p: sorted(ls) for p, ls in ran.items()}, "code": {p: sorted(ls) for p, ls in code.items()}}
                print(f"  {seconds:5.1f} s  {name}  {why}", flush=True)
            return name, path, row

        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            wanted = [item for item in self.all_tests() if not self.only or item[0] in self.only]
            rows = list(pool.map(measure, sorted(wanted)))
        shutil.rmtree(place, ignore_errors=True)
        with open(self.memory, "w") as file:
            json.dump({**known, **{name: row for name, _, row in rows}}, file)
        for name, path, row in rows:
            for p, numbers in row["code"].items():
                self.code[p].update(numbers)
            if row["left_out"]:
                self.left_out[name] = row["left_out"]
            else:
                self.tests[name] = Test(name, path, row["seconds"], {p: set(ls) for p, ls in row["lines"].items()})

    def all_tests(self):
        top = os.path.join(self.tree, "tests")
        for folder, _, files in os.walk(top):
            room = os.path.relpath(folder, top).replace("/", ".")
            for file in files:
                if room != "mutation" and re.fullmatch(r"test_\w+\.(c|sh)", file):
                    yield f"{room}.{file[5:].rsplit('.', 1)[0]}", os.path.join(folder, file)

    @staticmethod
    def command(name, path, bin_folder):
        if path.endswith(".sh"):
            return ["bash", path, bin_folder]
        return [os.path.join(bin_folder, "test_" + name.replace(".", "_"))]

    def that_reach(self, path, line):
        """The tests that run this line, or the one with code before it (a statement's later lines have none), the quickest first."""
        code = [n for n in self.code.get(path, ()) if n <= line]
        near = max(code, default=line)
        return sorted((t for t in self.tests.values() if near in t.lines.get(path, ())), key=lambda t: t.seconds)[:self.most]


# ---- changes

class Worker:
    """A folder with programs of its own beside a library that holds the change."""

    def __init__(self, plain, work, tests):
        self.plain, self.tests = plain, tests
        self.folder = tempfile.mkdtemp(prefix="worker-", dir=work)
        self.bin = os.path.join(self.folder, "bin")
        os.makedirs(self.bin)
        plain.lend_programs(self.bin)

    def compile(self, place, text, flags=()):
        """The changed source's objects, {the tree's: ours}; None where it does not compile."""
        tree = self.plain.tree
        file = os.path.join(self.folder, "changed", place.path)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "w") as out:
            out.write(text)
        made, source = {}, self.plain.sources[place.path]
        for i, (name, command) in enumerate(zip(source.objects, source.commands)):
            mine = os.path.join(self.folder, f"{i}.o")
            words = [mine if w == name else file if w == os.path.join(tree, place.path) else w for w in command]
            words += ["-w", "-iquote", os.path.dirname(os.path.join(tree, place.path)), f"-ffile-prefix-map={self.folder}/changed={tree}", *flags]
            if subprocess.run(words, cwd=self.plain.folder, stderr=subprocess.DEVNULL).returncode:
                return None
            made[name] = mine
        return made

    def same_code(self, made):
        return all(digest(mine) == digest(os.path.join(self.plain.folder, name)) for name, mine in made.items())

    def same_when_optimized(self, place, text, changed):
        digests = []
        for version in (text, changed):
            made = self.compile(place, version, ["-O2"])
            digests.append([digest(mine) for mine in made.values()] if made else None)
        return digests[0] == digests[1]

    def try_place(self, place):
        start = time.monotonic()
        with open(os.path.join(self.plain.tree, place.path)) as file:
            text = file.read()
        changed = text[:place.offset] + place.new + text[place.offset + len(place.old):]
        made = self.compile(place, changed)
        record = {"place": f"{place.path}:{place.line}:{place.column}", "kind": place.kind, "old": place.old, "new": place.new,
                  "room": room_of(place.path), "line": text.splitlines()[place.line - 1].strip(), "tests": 0}
        if not made:
            return {**record, "outcome": "does not compile"}
        if self.same_code(made):
            return {**record, "outcome": "same code"}
        self.plain.link_library(os.path.join(self.bin, LIBRARY), made)
        record.update(self.run_tests(place, made))
        if record["outcome"] == "survived" and self.same_when_optimized(place, text, changed):
            record["outcome"] = "same code"
        return {**record, "seconds": round(time.monotonic() - start, 1)}

    def run_tests(self, place, made):
        ran, linked = 0, set()
        for test in self.tests.that_reach(place.path, place.line):
            for name in wrapped_programs(test.path) - linked:
                self.plain.link_wrapped(name, self.bin, made)
                linked.add(name)
            limit_s = 20 + 10 * test.seconds
            command = self.tests.command(test.name, test.path, self.bin)
            status, _ = run_test(command, self.plain.tree, self.folder, limit_s)
            ran += 1
            if status == 0:
                continue
            without, _ = run_test(self.tests.command(test.name, test.path, self.plain.bin), self.plain.tree, self.folder, limit_s)
            if without == 0:
                return {"outcome": "caught", "by": test.name, "hangs": status is None, "tests": ran}
        return {"outcome": "survived", "tests": ran}


def without_effect():
    """(path, line as it is, from, to) -> the reason, of without-effect.txt: see its head."""
    known, path, row = {}, None, []
    with open(os.path.join(HERE, "without-effect.txt")) as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if line.startswith("#") or not line.strip():
                continue
            if line.startswith("src/"):
                path = line
            elif line.startswith("    ") and row:
                known[row] = (known.get(row, "") + " " + line.strip()).strip()
            elif line.startswith("  ") and " | " in line:
                row = (path, *[part.strip() for part in line.strip().rsplit(" | ", 1)])
                known[row] = ""
            else:
                sys.exit(f"without-effect.txt:{number}: neither a file, nor LINE | CHANGE, nor a reason")
    return known


def described(record):
    """A change in one line: `old` -> `new`; of a statement its beginning."""
    if record["kind"] == "statement":
        return "dropped"
    return f"{record['old']} -> {record['new'] or 'nothing'}"


def judged(record, reasons):
    reason = reasons.get((record["place"].split(":")[0], record["line"], described(record)))
    if record["outcome"] == "survived" and reason:
        return {**record, "outcome": "without effect", "reason": reason}
    return record


def key_of(record):
    return record["place"], record["old"], record["new"]


def table(records):
    """Rooms and kinds: changes that count, caught ones, without effect, surviving ones."""
    rows = collections.OrderedDict()
    for name in [*sorted({r["room"] for r in records}), *sorted({r["kind"] for r in records}), "all"]:
        rows[name] = [r for r in records if name in (r["room"], r["kind"], "all")]
    lines = [f"{'':12} {'places':>7} {'caught':>7} {'no effect':>9} {'survived':>8}  share caught of those with an effect"]
    for name, group in rows.items():
        count = collections.Counter(r["outcome"] for r in group)
        effect = len(group) - count["without effect"]
        share = f"{100 * count['caught'] / effect:.1f} %" if effect else "-"
        lines.append(f"{name:12} {len(group):7} {count['caught']:7} {count['without effect']:9} {count['survived']:8}  {share}")
    return "\n".join(lines)


def all_places(plain):
    places = []
    for path in sorted(plain.sources):
        if any(path.startswith(room + "/") for room in ROOMS):
            with open(os.path.join(plain.tree, path)) as file:
                places += find_places(path, file.read())
    return places


def chosen_places(places, arguments):
    if arguments.place:
        wanted = [part.split(":") for part in arguments.place.split(",")]
        places = [p for p in places if any([p.path, str(p.line), str(p.column)][:len(w)] == w for w in wanted)]
        if not places:
            sys.exit(f"{arguments.place}: no place to change there (FILE:LINE[:COLUMN], as --list prints them)")
    else:
        # By hashes: where a line of another file changes, the order of the rest stays.
        places.sort(key=lambda p: hashlib.sha256(f"{arguments.seed} {p.path}:{p.line}:{p.column} {p.old} {p.new}".encode()).digest())
    return places


class Campaign:
    """Takes places in their order until enough of them count; several workers."""

    def __init__(self, workers, places, known, count, path, partial):
        self.free, self.places, self.known, self.count, self.path = list(workers), places, known, count, path
        self.partial = partial  # not all tests are looked at: that a change survived them says nothing yet
        self.reasons = without_effect()
        self.mutex = threading.Lock()

    def one(self, place):
        record = self.known.get((f"{place.path}:{place.line}:{place.column}", place.old, place.new))
        if record is None:
            with self.mutex:
                worker = self.free.pop()
            try:
                record = worker.try_place(place)
            finally:
                with self.mutex:
                    self.free.append(worker)
            if record["outcome"] != "survived" or not self.partial:
                with self.mutex, open(self.path, "a") as file:
                    file.write(json.dumps(record) + "\n")
        record = judged(record, self.reasons)
        if record["outcome"] in ("caught", "survived", "without effect"):
            by = record.get("by", "") + (" (hangs)" if record.get("hangs") else "")
            print(f"{record['outcome']:14} {record['place']}  {record['kind']}  {described(record)}  {by or str(record['tests']) + ' tests'}",
                  flush=True)
            return record
        return None

    def run(self):
        """The first places that count, in their order; later ones are under way meanwhile."""
        done, order, waiting = [], iter(self.places), collections.deque()
        with concurrent.futures.ThreadPoolExecutor(len(self.free)) as pool:
            while len(done) < self.count:
                while len(waiting) < 8 * len(self.free) and (place := next(order, None)):
                    waiting.append(pool.submit(self.one, place))
                if not waiting:
                    break
                record = waiting.popleft().result()
                done += [record] if record else []
            for future in waiting:
                future.cancel()
        return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--place")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--slowest", type=float, default=40, help="seconds; slower tests are left out")
    parser.add_argument("--most", type=int, default=1000, help="tests for one change, the quickest that reach it")
    parser.add_argument("--tests", type=lambda text: text.split(","), help="A,B: no others")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "mutation"))
    parser.add_argument("--record")
    arguments = parser.parse_args()
    for tool in ("cmake", "ninja", "gcov", "git", "pkg-config"):
        if not shutil.which(tool):
            print(f"skipped: no {tool}")
            sys.exit(77)
    work = os.path.abspath(arguments.work)
    os.makedirs(work, exist_ok=True)
    copy_tree(work)
    plain = Build(work, "plain", "-O1 -fno-builtin-malloc")
    places = chosen_places(all_places(plain), arguments)
    if arguments.list:
        for p in places[:arguments.count]:
            print(f"{p.path}:{p.line}:{p.column}  {p.kind}  {p.old!r} -> {p.new!r}")
        return
    plain.make(with_programs=True)
    cover = Build(work, "cover", "-O1 -fno-builtin-malloc --coverage")
    cover.make(with_programs=False)
    tests = Tests(plain, cover, work, arguments)
    print(f"{len(tests.tests)} fast tests; {len(tests.left_out)} left out: {', '.join(sorted(tests.left_out))}")
    path, known = arguments.record or os.path.join(work, f"seed-{arguments.seed}.jsonl"), {}
    if os.path.exists(path):
        with open(path) as file:
            known = {key_of(r): r for r in map(json.loads, file)}
    if arguments.again:
        known = {key: r for key, r in known.items() if judged(r, without_effect())["outcome"] != "survived"}
    if arguments.place:
        known = {}
    workers = [Worker(plain, work, tests) for _ in range(arguments.jobs)]
    try:
        records = Campaign(workers, places, known, arguments.count, path, bool(arguments.tests)).run()
    finally:
        for worker in workers:
            shutil.rmtree(worker.folder, ignore_errors=True)
    print(table(records))
    sys.exit(any(r["outcome"] == "survived" for r in records))


if __name__ == "__main__":
    main()
