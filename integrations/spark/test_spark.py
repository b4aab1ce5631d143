"""Test onward_spark on a local cluster of two worker processes: python test_spark.py ONWARD."""
import os, signal, sys, tempfile, threading, time
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

here = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(here))
from onward_spark import onward_map
from testmodel import options, single_process, write_model

os.environ["PYSPARK_PYTHON"] = sys.executable  # of the workers, too
onward = os.path.abspath(sys.argv[1])
rows = int(os.environ.get("ROWS", 1_000_000))
folder = tempfile.TemporaryDirectory()
model = write_model(folder.name)


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


spark = (SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
         .config("spark.submit.pyFiles", os.path.join(here, "onward_spark.py")).getOrCreate())
spark.sparkContext.setLogLevel("ERROR")
df = spark.range(0, rows, numPartitions=8).select("id", (F.col("id") % 80 / 10).cast("float").alias("a"), (F.col("id") % 45 / 10).cast("float").alias("b"))

want = single_process(onward, model, folder.name, rows)

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
