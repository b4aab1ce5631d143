"""Writes one exported model with its inputs and the results of the library that it
comes from: model.onnx, data.npz (arrays in/NAME and out/NAME) and case.json."""

import json
import pathlib
import re
import shutil
import traceback

import numpy as np
import onnx
import onnxruntime

onnxruntime.set_default_logger_severity(4)


class Cases:
    """The cases of one run of a script. `only` keeps those whose FAMILY/NAME matches it."""

    def __init__(self, root, only=""):
        self.root, self.only = pathlib.Path(root), only
        self.failed = []

    def add(self, family, name, make, library, exporter, rtol=1e-4, atol=1e-5):
        """make() gives the model, its feeds and the results expected by output name;
        a model may come with None for the results that are not compared. A case
        whose export fails has nothing but a case.json that says why."""
        if not re.search(self.only, f"{family}/{name}"):
            return
        folder = self.root / family / name
        shutil.rmtree(folder, ignore_errors=True)
        try:
            model, feeds, want = make()
        except Exception as e:  # what an exporter cannot do is not ours to judge
            traceback.print_exc(limit=-3)
            while e.__cause__ is not None:  # the exporters wrap what went wrong
                e = e.__cause__
            why = re.sub("\x1b\\[[0-9;]*m", "", f"{type(e).__name__}: {e}").strip().splitlines()[0]
            self.failed.append(f"{family}/{name}: {why}")
            folder.mkdir(parents=True)
            note = {"library": library, "exporter": exporter, "not_exported": why}
            (folder / "case.json").write_text(json.dumps(note, indent=1) + "\n")
            print("NOT EXPORTED", self.failed[-1], flush=True)
            return
        names = [o.name for o in model.graph.output]
        if not isinstance(want, dict):
            want = dict(zip(names, want))
        want = {k: np.asarray(v) for k, v in want.items() if v is not None}
        assert want and set(want) <= set(names), (set(want), names)
        folder.mkdir(parents=True)
        data = model.SerializeToString(deterministic=True)
        (folder / "model.onnx").write_bytes(data)
        arrays = {f"in/{k}": v for k, v in feeds.items()} | {f"out/{k}": v for k, v in want.items()}
        note = {"library": library, "exporter": exporter, "rtol": rtol, "atol": atol}
        note["onnxruntime"], other = onnxruntime_results(data, feeds, want, rtol, atol)
        arrays |= {f"ort/{k}": v for k, v in other.items()}
        np.savez_compressed(folder / "data.npz", **{k: plain(v) for k, v in arrays.items()})
        (folder / "case.json").write_text(json.dumps(note, indent=1) + "\n")
        print(f"{family}/{name}: {len(data)} bytes, ONNX Runtime: {note['onnxruntime'] or 'agrees'}", flush=True)

    def close(self):
        print(f"{len(self.failed)} not exported")
        for line in self.failed:
            print(" ", line)


def squeezed(shape):
    return [d for d in shape if d != 1]


def plain(a):
    """Text of objects becomes text of fixed width: .npz takes no objects otherwise."""
    return a.astype(str) if a.dtype == object else a


def onnxruntime_results(data, feeds, want, rtol, atol):
    """Says where ONNX Runtime's results differ from the library's, "" if nowhere, and
    gives its results if they differ."""
    try:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        text = {i.name for i in session.get_inputs() if i.type == "tensor(string)"}
        got = session.run(list(want), {k: v.astype(object) if k in text else v for k, v in feeds.items()})
    except Exception as e:
        return f"fails: {str(e).splitlines()[0][:300]}", {}
    got = [np.array([[row[k] for k in sorted(row)] for row in g]) if isinstance(g, list) and g and isinstance(g[0], dict) else np.asarray(g) for g in got]
    difference = unlike(got, want, rtol, atol)
    return difference, dict(zip(want, got)) if difference else {}


def unlike(got, want, rtol, atol):
    for g, (name, w) in zip(got, want.items()):
        if squeezed(g.shape) == squeezed(w.shape):
            g = g.reshape(w.shape)
        if g.shape != w.shape:
            return f"{name} has shape {g.shape}, want {w.shape}"
        if w.dtype.kind in "OUSb":
            if (g.astype(str) != w.astype(str)).any():
                return f"{name} differs"
        elif not np.allclose(g.astype(float), w.astype(float), rtol, atol, equal_nan=True):
            return f"{name} differs by {np.nanmax(np.abs(g.astype(float) - w.astype(float))):.3g}"
    return ""
