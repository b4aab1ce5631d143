"""Writes what ONNX Runtime's own tools make of the models that the other scripts
exported: its transformer optimizer's fused models in single and half precision,
models saved after graph optimization, quantized ones, and conversions to float16.

    pip install onnx==1.23.2 onnxruntime==1.31.1 onnxconverter-common sympy numpy
    python bench/exports/export_ort.py FOLDER [REGULAR-EXPRESSION]

It reads the cases below FOLDER. The expected results are ONNX Runtime's on the new
model: half precision and quantization change a model's results, so the original's
are not what an engine must give."""

import copy
import json
import logging
import pathlib
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime as ort
from onnxconverter_common import float16
from onnxruntime import quantization as quant
from onnxruntime.transformers import fusion_options, optimizer

from case import Cases

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
root = pathlib.Path(sys.argv[1])
cases = Cases(root, sys.argv[2] if len(sys.argv) > 2 else "")
LIBRARY = f"onnxruntime {ort.__version__}"


def results(model, feeds):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    types = {i.name: np.dtype(np.float16) if i.type == "tensor(float16)" else None for i in session.get_inputs()}
    feeds = {k: v.astype(types[k] or v.dtype) for k, v in feeds.items() if k in types}
    names = [o.name for o in model.graph.output]
    return feeds, dict(zip(names, session.run(names, feeds)))


def add(family, name, change, folder, tool, rtol, atol):
    def make():
        model = onnx.load(folder / "model.onnx")
        arrays = np.load(folder / "data.npz")
        feeds = {k[3:]: arrays[k] for k in arrays.files if k.startswith("in/")}
        new = change(model, feeds)
        feeds, want = results(new, feeds)
        return new, feeds, want

    cases.add(family, name, make, LIBRARY, tool, rtol=rtol, atol=atol)


def fused(kind, heads=4, hidden=32, half=False, level=None, **fusions):
    def change(model, feeds):
        options = fusion_options.FusionOptions(kind)
        for k, v in fusions.items():
            setattr(options, k, v)
        with tempfile.TemporaryDirectory() as d:
            path = f"{d}/model.onnx"
            onnx.save(model, path)
            m = optimizer.optimize_model(path, kind, num_heads=heads, hidden_size=hidden, optimization_options=options, opt_level=level or 0)
        if half:
            m.convert_float_to_float16(keep_io_types=half == "io")
        # what is not fused would only be tested twice
        assert any(n.domain == "com.microsoft" for n in m.model.graph.node), "nothing is fused"
        return m.model

    return change


def saved(level):
    def change(model, feeds):
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        options.log_severity_level = 4
        with tempfile.TemporaryDirectory() as d:
            options.optimized_model_filepath = f"{d}/out.onnx"
            ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            return onnx.load(options.optimized_model_filepath)

    return change


def dynamic(**kw):
    def change(model, feeds):
        with tempfile.TemporaryDirectory() as d:
            onnx.save(model, f"{d}/in.onnx")
            quant.quantize_dynamic(f"{d}/in.onnx", f"{d}/out.onnx", **kw)
            return onnx.load(f"{d}/out.onnx")

    return change


class Once(quant.CalibrationDataReader):
    def __init__(self, feeds):
        self.left = [feeds]

    def get_next(self):
        return self.left.pop() if self.left else None


def static(**kw):
    def change(model, feeds):
        with tempfile.TemporaryDirectory() as d:
            onnx.save(model, f"{d}/in.onnx")
            quant.quantize_static(f"{d}/in.onnx", f"{d}/out.onnx", Once(feeds), **kw)
            return onnx.load(f"{d}/out.onnx")

    return change


def blocks(**kw):
    def change(model, feeds):
        from onnxruntime.quantization import matmul_nbits_quantizer as nbits

        q = nbits.MatMulNBitsQuantizer(model, **kw)
        q.process()
        return q.model.model

    return change


def half(**kw):
    return lambda model, feeds: float16.convert_float_to_float16(copy.deepcopy(model), **kw)


KINDS = {"gpt2": "gpt2", "bart": "bart", "vit": "vit", "deit": "vit", "beit": "vit", "dinov2": "vit", "clip_vision": "clip", "clip_text": "clip", "t5": "t5", "t5_encoder": "t5",
         "llama": "gpt2", "mistral": "gpt2", "qwen2": "gpt2", "phi": "phi", "whisper": "bart", "whisper_encoder": "bart", "swin": "swin", "swin_v2": "swin", "conformer": "conformer"}
QType, QFormat = quant.QuantType, quant.QuantFormat
Level = ort.GraphOptimizationLevel

sources = sorted(f.parent for f in root.glob("*/*/model.onnx") if not f.parent.parent.name.startswith("ort_"))
for folder in sources:
    family, name = folder.parent.name, folder.name
    note = json.loads((folder / "case.json").read_text())
    if note.get("onnxruntime") or (folder / "model.onnx").stat().st_size > 40e6:
        continue
    torchlike = family.startswith(("torch", "transformers", "timm", "diffusers"))
    if family.startswith("transformers"):
        kind = KINDS.get(name.rsplit("_", 1)[0], "bert")
        for label, change, tol in [
            ("fused", fused(kind), (1e-3, 1e-4)),
            ("fused_level_1", fused(kind, level=1), (1e-3, 1e-4)),
            ("fused_float16", fused(kind, half=True), (2e-2, 2e-2)),
            ("fused_float16_inside", fused(kind, half="io"), (2e-2, 2e-2)),
            ("fused_packed", fused(kind, use_multi_head_attention=True), (1e-3, 1e-4)),
        ]:
            add("ort_fused", f"{name}_{label}", change, folder, f"onnxruntime.transformers optimizer, {kind}", *tol)
    if torchlike:
        add("ort_saved", f"{name}_extended", saved(Level.ORT_ENABLE_EXTENDED), folder, "graph optimization level extended", 1e-3, 1e-4)
        add("ort_float16", f"{name}_float16", half(), folder, "onnxconverter-common float16", 2e-2, 2e-2)
        add("ort_float16", f"{name}_float16_inside", half(keep_io_types=True), folder, "onnxconverter-common float16", 2e-2, 2e-2)
        if "detection" in family or "flow" in family:
            continue
        for label, change in [
            ("dynamic_uint8", dynamic(weight_type=QType.QUInt8)),
            ("dynamic_int8_channels", dynamic(weight_type=QType.QInt8, per_channel=True)),
            ("static_qdq", static(quant_format=QFormat.QDQ)),
            ("static_qdq_channels_int8", static(quant_format=QFormat.QDQ, per_channel=True, activation_type=QType.QInt8)),
            ("static_qdq_int16", static(quant_format=QFormat.QDQ, activation_type=QType.QInt16, extra_options={"UseQDQContribOps": True})),
            ("static_operators", static(quant_format=QFormat.QOperator, activation_type=QType.QUInt8)),
        ]:
            add("ort_quantized", f"{name}_{label}", change, folder, "onnxruntime.quantization", 5e-2, 5e-2)
    if family == "transformers_decoders":
        add("ort_quantized", f"{name}_blocks_4", blocks(block_size=16, is_symmetric=False), folder, "onnxruntime MatMulNBits", 1e-2, 1e-3)
        add("ort_quantized", f"{name}_blocks_4_symmetric", blocks(block_size=32, is_symmetric=True, accuracy_level=4), folder, "onnxruntime MatMulNBits, accuracy level 4", 1e-2, 1e-1)  # which rounds activations to int8
cases.close()
