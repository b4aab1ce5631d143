"""The model and the rows of the integrations' tests."""
import os, subprocess
import onnx, pyarrow as pa, pyarrow.parquet as pq
from onnx import TensorProto, helper

options = ["--bind", "x=a,b", "--batch", "1000"]


def write_model(folder):
    """Write a model whose label[N] is the index of the largest of three linear functions of x[N,2]. Return its path."""
    vector = lambda name, kind, *shape: helper.make_tensor_value_info(name, kind, shape)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("ArgMax", ["z"], ["label"], axis=1, keepdims=0)], "classifier",
                              [vector("x", TensorProto.FLOAT, "N", 2)], [vector("label", TensorProto.INT64, "N")],
                              [helper.make_tensor("w", TensorProto.FLOAT, [2, 3], [1, 0, 0.7, 0, 1, 0.7])])
    path = os.path.join(folder, "model.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def table(rows):
    """Return rows with the columns id, a and b."""
    return pa.table({"id": pa.array(range(rows), pa.int64()), "a": pa.array([i % 80 / 10 for i in range(rows)], pa.float32()),
                     "b": pa.array([i % 45 / 10 for i in range(rows)], pa.float32())})


def single_process(onward, model, folder, rows):
    """Return the labels, by id, that one process of onward map computes."""
    source, scored = os.path.join(folder, "rows.parquet"), os.path.join(folder, "single.parquet")
    pq.write_table(table(rows), source)
    subprocess.run([onward, "map", model, source, "-o", scored, *options], check=True)
    want = pq.read_table(scored).sort_by("id").column("label").to_pylist()
    assert len(want) == rows and len(set(want)) == 3
    return want
