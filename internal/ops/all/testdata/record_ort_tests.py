"""Records the cases of ONNX Runtime's own operator tests, which are C++.

    python record_ort_tests.py SOURCE BUILD [FILE...]

SOURCE is the unpacked source of ONNX Runtime 1.21.0 (Debian's source package onnxruntime: apt-get source onnxruntime, or
pool/main/o/onnxruntime/onnxruntime_1.21.0+dfsg.orig.tar.xz on a mirror), BUILD a folder for what is compiled.
Needs g++, protoc, and Debian's libprotobuf-dev, libgtest-dev, libgmock-dev, libmsgsl-dev, libabsl-dev, libboost-dev and libeigen3-dev; and
onnx-ml.proto, which the Python package onnx contains.

Each file of onnxruntime/test/providers/cpu and onnxruntime/test/contrib_ops is compiled alone with ort_tests/recorder.h, which
takes the place of OpTester: running the tests writes their inputs, attributes and expected outputs. Files that need more of
ONNX Runtime do not compile; the script lists them. It writes ort_tests/cases.json.gz.
"""
import collections
import gzip
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).parent / "ort_tests"
MOST_ELEMENTS = 4000  # of a case
MOST_BYTES = 40_000  # of the cases of a test, of which some are left out evenly
ENDLESS = "Loop.InfiniteLoopTermination"  # runs until another thread stops it

# Headers of ONNX Runtime that are used as they are. recorder.h replaces the others.
REAL = re.compile(r"""core/common/(common|code_location|exceptions|make_string|status|inlined_containers|inlined_containers_fwd|type_list|narrow|span_utils|type_utils)\.h
    |core/framework/(float16|float8|int4|to_tensor_proto_element_type|endian)\.h|core/session/onnxruntime_float16\.h
    |test/common/(tensor_op_test_utils|quantization_test_utils|random_generator)\.h|core/common/parse_string.h
    |test/providers/cpu/.*|test/contrib_ops/.*|contrib_ops/cpu/bert/attention_common.h|core/providers/cpu/ml/ml_common.h|core/quantization/quantization.h|test/util/include/tensors_from_file.h|contrib_ops/cpu/quantization/.*bnb4.h""", re.X)

# Constants of the half-precision types, which ONNX Runtime defines in a source file.
FLOATS = dict(NaN="kPositiveQNaNBits", NegativeNaN="kNegativeQNaNBits", Infinity="kPositiveInfinityBits", NegativeInfinity="kNegativeInfinityBits",
              MaxValue="kMaxValueBits", Zero="kOneBits & 0", One="kOneBits", MinusOne="kMinusOneBits")


def redirect(source, build):
    """Writes headers that include recorder.h in the place of those of ONNX Runtime."""
    for root in [source / "include/onnxruntime", source / "onnxruntime"]:
        for h in root.rglob("*.h"):
            name = str(h.relative_to(root))
            if REAL.fullmatch(name):
                continue
            names = [name]
            if "/test/util/include/" in str(h):
                names += [h.name]
            for n in names:
                to = build / "include" / n
                if not to.exists():
                    to.parent.mkdir(parents=True, exist_ok=True)
                    to.write_text('#pragma once\n#include "recorder.h"\n')
    (build / "include/core/graph").mkdir(parents=True, exist_ok=True)
    (build / "include/onnxruntime_config.h").write_text("")


def run(*args, **kw):
    return subprocess.run([str(a) for a in args], capture_output=True, text=True, errors="replace", **kw)


def check(r):
    if r.returncode != 0:
        sys.exit(r.stderr[:5000])


def prepare(source, build):
    build.mkdir(parents=True, exist_ok=True)
    redirect(source, build)
    proto = pathlib.Path(importlib.util.find_spec("onnx").origin).parent / "onnx-ml.proto"  # importing it needs protobuf
    check(run("protoc", "-I", proto.parent, "--cpp_out", build, proto))
    flags = ["-std=c++17", "-O0", "-w", "-fpermissive", "-I", build / "pch", "-I", build / "include", "-I", HERE, "-I", build, "-I", source / "include/onnxruntime",
             "-I", source / "onnxruntime", "-I", source, "-I", "/usr/include/eigen3"]
    (build / "pch").mkdir(exist_ok=True)
    header, pch, lib = HERE / "recorder.h", build / "pch/recorder.h.gch", build / "support.o"
    if not pch.exists() or pch.stat().st_mtime < max(f.stat().st_mtime for f in HERE.glob("*.h")):
        check(run("g++", *flags, "-x", "c++-header", header, "-o", pch))
    if not lib.exists():
        check(run("g++", *flags, "-c", build / "onnx-ml.pb.cc", "-o", build / "onnx.o"))
        for i, f in enumerate(["core/common/status.cc", "test/common/tensor_op_test_utils.cc", "test/contrib_ops/attention_op_test_helper.cc", "test/util/tensors_from_file.cc"]):
            check(run("g++", *flags, "-include", "recorder.h", "-c", source / "onnxruntime" / f, "-o", build / f"support{i}.o"))
        (build / "stack.cc").write_text('#include "recorder.h"\nnamespace onnxruntime {\n'
                                        'std::vector<std::string> GetStackTrace() { return {}; }\n'
                                        'void LogRuntimeError(uint32_t, const common::Status&, const char*, const char*, uint32_t) {}\n'
                                        + "".join(f"const {t} {t}::{name}({t}::FromBits({t}::{bits}));\n" for t in ["MLFloat16", "BFloat16"] for name, bits in FLOATS.items()) + "}\n")
        check(run("g++", *flags, "-c", build / "stack.cc", "-o", build / "support9.o"))
        check(run("ld", "-r", "-o", lib, build / "onnx.o", *sorted(build.glob("support[0-9].o"))))
    return flags


def record(source, build, flags, file):
    """Compiles and runs a file of tests. Returns its records and what went wrong."""
    name = str(file.relative_to(source / "onnxruntime/test")).replace("/", "+")
    program, to = build / "bin" / name, build / "records" / (name + ".json")
    for folder in [program.parent, to.parent, build / "new"]:
        folder.mkdir(exist_ok=True)
    newest = max(f.stat().st_mtime for f in [file, *HERE.glob("*.h")])
    if not program.exists() or program.stat().st_mtime < newest:
        r = run("g++", *flags, "-include", "recorder.h", file, build / "support.o", "-o", build / "new" / name, "-lprotobuf", "-lgtest", "-lgtest_main", "-lgmock", "-labsl_raw_hash_set", "-labsl_hash", "-labsl_city", "-labsl_low_level_hash", "-lpthread")
        (build / "records" / (name + ".log")).write_text(r.stderr)
        if r.returncode != 0:
            return [], "does not compile: " + next((line.split("error: ", 1)[-1] for line in r.stderr.splitlines() if "error: " in line or "undefined ref" in line), "?")
        (build / "new" / name).rename(program)
    to.unlink(missing_ok=True)
    env = dict(os.environ, RECORD_TO=str(to))
    r = run(program, "--gtest_also_run_disabled_tests=0", env=env, cwd=source / "onnxruntime/test", timeout=600)
    problem = ""
    if r.returncode not in (0, 1):  # a test crashed: run them one by one
        problem = f"a test ended with {r.returncode}"
        to.unlink(missing_ok=True)
        suite = ""
        for line in run(program, "--gtest_list_tests", env=env).stdout.splitlines():
            if not line.startswith("  "):
                suite = line.split("#")[0].strip()
            elif suite:
                run(program, "--gtest_filter=" + suite + line.split("#")[0].strip(), env=env, cwd=source / "onnxruntime/test", timeout=600)
    elif r.returncode == 1:
        problem = "tests failed: " + ", ".join(sorted(set(re.findall(r"\[  FAILED  \] (\S+?\.\S+)", r.stdout)))[:5])
    records = []
    for line in to.read_bytes().splitlines() if to.exists() else []:
        try:
            records.append(json.loads(line, parse_float=number, parse_int=lambda t: -0.0 if t == "-0" else int(t)))
        except ValueError:
            problem += " a record is not valid UTF-8"
    return records, problem


def number(text):
    """Returns an int for a float without fraction, which is shorter."""
    v = float(text)
    return int(v) if v.is_integer() and abs(v) < 2**53 and not text.startswith("-0") else v


def elements(v):
    if isinstance(v, dict):
        return sum(elements(x) for x in v.values())
    return sum(elements(x) for x in v) if isinstance(v, list) else 1


def test_of(case):
    return case["Note"].split("/")[0]


def main():
    source, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    flags = prepare(source, build)
    tests = source / "onnxruntime/test"
    files = sorted(f for d in ["providers/cpu", "contrib_ops"] for f in (tests / d).rglob("*.cc") if not sys.argv[3:] or f.name in sys.argv[3:])
    cases, seen, skipped = [], set(), collections.Counter()
    with ThreadPoolExecutor(2) as pool:
        for file, (records, problem) in zip(files, pool.map(lambda f: record(source, build, flags, f), files)):
            if problem:
                print(f"{file.relative_to(tests)}: {problem}")
            for r in records:
                key = json.dumps({k: v for k, v in r.items() if k != "Note"})
                if "Skip" in r:
                    skipped[r["Skip"]] += 1
                elif r["Note"] == ENDLESS:
                    skipped["runs until it is stopped"] += 1
                elif key in seen:
                    skipped["same as another"] += 1
                elif elements([r["In"], r["Out"]]) > MOST_ELEMENTS:
                    skipped[f"more than {MOST_ELEMENTS} elements"] += 1
                else:
                    cases.append(r)
                seen.add(key)
    tests, sizes = collections.Counter(), collections.Counter()
    for c in cases:
        sizes[test_of(c)] += len(json.dumps(c))
    kept = []
    for c in cases:
        n = tests[test_of(c)]
        tests[test_of(c)] += 1
        if n % -(-sizes[test_of(c)] // MOST_BYTES) == 0:
            kept.append(c)
        else:
            skipped[f"more than {MOST_BYTES} bytes of a test"] += 1
    cases = kept
    for why, n in skipped.most_common():
        print(f"{n} cases left out: {why}")
    cases.sort(key=lambda c: c["Op"])
    data = ("[\n" + ",\n".join(json.dumps(c, separators=(",", ":"), ensure_ascii=False) for c in cases) + "\n]\n").encode()
    packed = gzip.compress(data, 9, mtime=0)
    print(f"{len(cases)} cases, {len(data)} bytes, {len(packed)} compressed")
    if not sys.argv[3:]:
        (HERE / "cases.json.gz").write_bytes(packed)


if __name__ == "__main__":
    main()
