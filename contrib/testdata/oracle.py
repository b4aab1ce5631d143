"""Run operators of onnxruntime-extensions.

    python oracle.py record    write the cases of cases.py with their results to cases.json
    python oracle.py           read cases in JSON, one in a line, from the standard input, and
                               write their results, one in a line

Needs onnxruntime, onnxruntime-extensions 0.15.2 and onnx.
"""
import base64
import json
import os
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnxruntime_extensions import __version__, get_library_path

assert __version__ == "0.15.2", __version__
TYPES = {"string": (TensorProto.STRING, object), "int64": (TensorProto.INT64, np.int64),
         "int32": (TensorProto.INT32, np.int32), "float": (TensorProto.FLOAT, np.float32),
         "bool": (TensorProto.BOOL, np.bool_), "uint8": (TensorProto.UINT8, np.uint8)}
options = onnxruntime.SessionOptions()
options.register_custom_ops_library(get_library_path())
options.log_severity_level = 4
sessions = {}


def attribute(v):
    if isinstance(v, dict):
        return base64.b64decode(v["base64"])
    return v


def session(case):
    key = json.dumps([case["op"], case.get("domain"), case.get("attrs"), [x and x["t"] for x in case["in"]],
                      case["types"]])
    if key not in sessions:
        domain = case.get("domain", "ai.onnx.contrib")
        names = [f"x{i}" if x else "" for i, x in enumerate(case["in"])]
        outputs = [f"y{i}" for i in range(len(case["types"]))]
        node = helper.make_node(case["op"], names, outputs, domain=domain,
                                **{k: attribute(v) for k, v in case.get("attrs", {}).items()})
        graph = helper.make_graph(
            [node], "case",
            [helper.make_tensor_value_info(n, TYPES[x["t"]][0], None)
             for n, x in zip(names, case["in"]) if n],
            [helper.make_tensor_value_info(n, TYPES[t][0], None) for n, t in zip(outputs, case["types"])])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(domain, 1)],
                                  ir_version=9)
        if len(sessions) > 100:
            sessions.clear()
        sessions[key] = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                                     providers=["CPUExecutionProvider"])
    return sessions[key]


def run(case):
    try:
        feeds = {f"x{i}": np.array(x["d"], dtype=TYPES[x["t"]][1]).reshape(x["s"])
                 for i, x in enumerate(case["in"]) if x}
        out = session(case).run(None, feeds)
    except Exception as e:  # the kinds of errors are not compared
        return {"error": str(e)}
    return {"out": [{"t": t, "s": list(v.shape), "d": v.flatten().tolist()} for t, v in zip(case["types"], out)]}


if sys.argv[1:] == ["record"]:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, here)
    from cases import cases
    texts, recorded = [], []  # long attributes occur in several cases
    for case in cases():
        result = {} if "error" in case else run(case)
        if "error" in result:
            print(case["op"], result["error"][:200], file=sys.stderr)
            result["error"] = "fails"
        for k, v in case["attrs"].items():
            if not isinstance(v, int) and len(str(v)) > 100:
                if v not in texts:
                    texts.append(v)
                case["attrs"][k] = {"text": texts.index(v)}
        recorded.append(json.dumps({**case, **result}))
    with open(os.path.join(here, "cases.json"), "w") as f:
        f.write('{"texts": [\n' + ",\n".join(map(json.dumps, texts)) + '\n], "cases": [\n' + ",\n".join(recorded) + "\n]}\n")
else:
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)
