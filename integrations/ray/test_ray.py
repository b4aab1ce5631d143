"""Test onward_ray with two actors: python test_ray.py ONWARD."""
import os, sys, tempfile

here = os.path.dirname(os.path.abspath(__file__))
paths = [here, os.path.dirname(here)]
sys.path += paths
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
import pyarrow as pa, ray
from onward_ray import Onward
from testmodel import options, single_process, table, write_model

onward = os.path.abspath(sys.argv[1])
rows = int(os.environ.get("ROWS", 1_000_000))
folder = tempfile.TemporaryDirectory()
model = write_model(folder.name)
want = single_process(onward, model, folder.name, rows)

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(paths)}})
ray.data.DataContext.get_current().enable_progress_bars = False


def scored(t):
    return ray.data.from_arrow(t).map_batches(Onward, fn_constructor_args=[model, *options], fn_constructor_kwargs={"onward": onward}, batch_format="pyarrow",
                                              batch_size=100_000, compute=ray.data.ActorPoolStrategy(size=2))


result = pa.Table.from_pandas(scored([table(rows).slice(i, 50_000) for i in range(0, rows, 50_000)]).to_pandas()).sort_by("id")
assert result.column_names == ["id", "a", "b", "label"], result.column_names
assert result.column("label").to_pylist() == want, "the result of two actors differs from that of one process"
print("ok: %d rows on two actors equal those of one process" % rows)

bad = table(1000).set_column(2, "b", pa.array([None if i == 7 else 1.0 for i in range(1000)], pa.float32()))
try:
    scored(bad).materialize()
    raise SystemExit("a null gives no error")
except Exception as error:
    assert "column b is null" in str(error) and "row 8:" in str(error), str(error)
print("ok: the driver gets the row and the reason")
ray.shutdown()
