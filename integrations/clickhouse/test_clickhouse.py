"""Test the recipe for ClickHouse of docs/tables.md with chdb, which is ClickHouse as a library: python test_clickhouse.py ONWARD."""
import os, sys, tempfile

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import chdb
from testmodel import options, single_process, write_model

onward = os.path.abspath(sys.argv[1])
rows = int(os.environ.get("ROWS", 1_000_000))
folder = tempfile.TemporaryDirectory()
model = write_model(folder.name)
want = single_process(onward, model, folder.name, rows)
scripts = os.path.join(folder.name, "user_scripts")
os.mkdir(scripts)
for name, more in ("score", []), ("score_all", ["--on-error", "null"]):
    script = os.path.join(scripts, name)
    with open(script, "w") as f:
        print("#!/bin/sh", f"exec {onward} map {model} {' '.join(options + more)}", sep="\n", file=f)
    os.chmod(script, 0o755)

clickhouse = chdb.connect(":memory:?user_scripts_path=" + scripts)
query = """SELECT {columns} FROM executable('{script}', ArrowStream, 'id UInt64, a Float32, b {type}, label {label}',
           (SELECT number AS id, toFloat32(number % 80 / 10) AS a, {b} AS b FROM numbers({rows}))) {rest}"""
b = "toFloat32(number % 45 / 10)"
one_null = {"type": "Nullable(Float32)", "b": f"if(number = 7, NULL, {b})", "rows": 1000}

got = clickhouse.query(query.format(columns="label", script="score", type="Float32", label="Int64", b=b, rows=rows, rest="ORDER BY id"), "CSV")
assert [int(line) for line in str(got).split()] == want, "the result of ClickHouse differs from that of one process"
print("ok: %d rows equal those of one process" % rows)

try:
    clickhouse.query(query.format(columns="label", script="score", label="Int64", rest="", **one_null), "CSV")
    raise SystemExit("a null gives no error")
except RuntimeError:
    print("ok: the query fails where onward map fails")

got = clickhouse.query(query.format(columns="id, error", script="score_all", label="Nullable(Int64), error Nullable(String)", rest="WHERE label IS NULL", **one_null), "CSV")
assert str(got).strip() == '7,"column b is null"', got
print("ok: --on-error null keeps the row and the reason")
