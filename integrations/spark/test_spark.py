"""Test onward_spark on a local cluster of two worker processes: python test_spark.py ONWARD."""
import os, signal, sys, tempfile, threading, time
import onnx, pyarrow as pa, pyarrow.parquet as pq
from onnx import TensorProto, helper
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from onward_spark import onward_map

os.environ["PYSPARK_PYTHON"] = sys.executable  # of the workers, too
onward = os.path.abspath(sys.argv[1])
options = ["--bind", "x=a,b", "--batch", "1000"]
rows = int(os.environ.get("ROWS", 1_000_000))
# label[N] is the index of the largest of three linear functions of x[N,2].
vector = lambda name, kind, *shape: helper.make_tensor_value_info(name, kind, shape)
graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("ArgMax", ["z"], ["label"], axis=1, keepdims=0)], "classifier",
                          [vector("x", TensorProto.FLOAT, "N", 2)], [vector("label", TensorProto.INT64, "N")],
                          [helper.make_tensor("w", TensorProto.FLOAT, [2, 3], [1, 0, 0.7, 0, 1, 0.7])])
folder = tempfile.TemporaryDirectory()
model = os.path.join(folder.name, "model.onnx")
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)


def children(pid):
    """Return the processes below pid."""
    tree = {}
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            tree.setdefault(int(open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()[1]), []).append(int(p))
        except OSError:
            pass
    below = [pid]
    for p in below:
        below += tree.get(p, [])
    return below[1:]


def command_of(pid):
    try:
        return open(f"/proc/{pid}/cmdline").read()
    except OSError:
        return ""


def kill_executor(done):
    """Kill one executor, with the processes that it started, once it runs onward map."""
    while not done.is_set():
        for pid in children(os.getpid()):
            if "CoarseGrainedExecutorBackend" in command_of(pid) and any(onward in command_of(c) for c in children(pid)):
                for p in children(pid) + [pid]:
                    try:
                        os.kill(p, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                done.killed = True
                return
        time.sleep(0.01)


here = os.path.dirname(os.path.abspath(__file__))
spark = (SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
         .config("spark.submit.pyFiles", os.path.join(here, "onward_spark.py")).getOrCreate())
spark.sparkContext.setLogLevel("ERROR")
df = spark.range(0, rows, numPartitions=8).select("id", (F.col("id") % 80 / 10).cast("float").alias("a"), (F.col("id") % 45 / 10).cast("float").alias("b"))

source, single = os.path.join(folder.name, "rows.parquet"), os.path.join(folder.name, "single.parquet")
pq.write_table(pa.table({"id": range(rows), "a": pa.array([i % 80 / 10 for i in range(rows)], pa.float32()), "b": pa.array([i % 45 / 10 for i in range(rows)], pa.float32())}), source)
assert os.spawnv(os.P_WAIT, onward, [onward, "map", model, source, "-o", single, *options]) == 0
want = pq.read_table(single).sort_by("id").column("label").to_pylist()
assert len(want) == rows and len(set(want)) == 3

scored = onward_map(df, model, *options, onward=onward)
assert scored.columns == ["id", "a", "b", "label"], scored.columns
got = [r.label for r in scored.select("id", "label").sort("id").collect()]
assert got == want, "the result of two workers differs from that of one process"
print("ok: %d rows equal those of one process" % rows)

done = threading.Event()
done.killed = False
killer = threading.Thread(target=kill_executor, args=(done,))
killer.start()
got = [r.label for r in scored.select("id", "label").sort("id").collect()]
done.set()
killer.join()
assert done.killed, "no executor was killed while it ran onward map"
assert got == want, "the result after a kill differs"
print("ok: a killed executor changes nothing")

bad = df.withColumn("b", F.when(F.col("id") != rows - 5, F.col("b")))
try:
    onward_map(bad, model, *options, onward=onward).collect()
    raise SystemExit("a null gives no error")
except Exception as error:
    assert "column b is null" in str(error) and "partition 7" in str(error) and "row %d:" % (rows // 8 - 4) in str(error), str(error)
print("ok: the driver gets the partition, the row and the reason")

kept = onward_map(bad, model, *options, "--on-error", "null", onward=onward)
nulls = kept.where("label is null").collect()
assert [(r.id, r.error) for r in nulls] == [(rows - 5, "column b is null")] and kept.count() == rows, nulls
print("ok: --on-error null keeps the row")
assert onward_map(df.limit(0), model, *options, onward=onward).count() == 0
print("ok: no rows")
assert len(scored.take(5)) == 5
print("ok: a reader that stops early")
try:
    onward_map(df, model, "--bind", "x=a,nosuch", onward=onward)
    raise SystemExit("a wrong column gives no error")
except RuntimeError as error:
    assert 'no column "nosuch"' in str(error), error
print("ok: a wrong binding fails on the driver")
spark.stop()
