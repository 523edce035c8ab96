"""One process at cuda-core, for `cargo xtask bench cuda`.

It is told what to do as JSON in its first line, does it once, and says how long the result is. Then it obeys a line
at a time: a number of calls. It answers each with the nanoseconds that they took together.
"""

import json
import sys
import time

from cuda.core import Program, ProgramOptions
from cuda.core.utils import FileStreamProgramCache, InMemoryProgramCache, make_program_cache_key

task = json.loads(sys.stdin.readline())
code, arch = task["code"], task["arch"]
cache = InMemoryProgramCache() if task["path"] is None else FileStreamProgramCache(task["path"])
options = ProgramOptions(arch=arch)
program = Program(code, "c++", options)


def described():
    return Program(code, "c++", ProgramOptions(arch=arch)).compile("cubin", cache=cache)


def kept():
    return program.compile("cubin", cache=cache)


def key():
    return make_program_cache_key(code=code, code_type="c++", options=options, target_type="cubin")


def result():
    made = call()
    return made if isinstance(made, bytes) else bytes(made.code)


call = {"described": described, "kept": kept, "key": key}[task["job"]]
first = result()
if task["job"] != "key" and not first.startswith(b"\x7fELF"):
    sys.exit("what was compiled is no binary")
print(len(first), flush=True)
for line in sys.stdin:
    calls = range(int(line))
    before = time.perf_counter_ns()
    for _ in calls:
        call()
    took = time.perf_counter_ns() - before
    if result() != first:
        sys.exit("a later call has another result")
    print(took, flush=True)
