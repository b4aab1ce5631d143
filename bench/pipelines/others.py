"""Embeds texts and reads pages with ONNX Runtime, as Python programs do. Commands are lines of
standard input:

    METHOD VARIANT

METHOD is rapidocr, VARIANT pages, for the images of PAGES; the command models returns the folder
of its models. Else METHOD is fastembed (batches of 256 texts in their order) or sentence-transformers (batches of 32
texts, sorted by length). VARIANT is float32 or int8. The answer is a line with the seconds that all
texts or pages took, those of processor time, and the first number of the last vector or the number
of lines.

    others.py FOLDER TEXTS THREADS [PAGES]
"""
import glob
import json
import os
import sys
import time

import numpy as np
import onnxruntime as ort
from tokenizers import Tokenizer

folder, texts, threads = sys.argv[1], json.load(open(sys.argv[2])), int(sys.argv[3])
os.environ["RAYON_NUM_THREADS"] = str(threads)


def open_model(variant):
    path = os.path.join(folder, "onnx", "model.onnx")
    if variant == "int8":
        path = os.path.join(folder, "onnx", "model_quantized.onnx")
    o = ort.SessionOptions()
    o.intra_op_num_threads = threads
    return ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])


def quantize():
    """Writes model_quantized.onnx as optimum does for avx512_vnni: int8 weights, per channel."""
    path = os.path.join(folder, "onnx", "model_quantized.onnx")
    if not os.path.exists(path):
        from onnxruntime.quantization import QuantType, quantize_dynamic
        quantize_dynamic(os.path.join(folder, "onnx", "model.onnx"), path, weight_type=QuantType.QInt8,
                         per_channel=True)


tok = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
limit = json.load(open(os.path.join(folder, "sentence_bert_config.json")))["max_seq_length"]
tok.enable_truncation(limit)
tok.enable_padding(pad_id=0, pad_token="[PAD]")
quantize()
sessions = {v: open_model(v) for v in ["float32", "int8"]}


def embed(session, batch):
    encodings = tok.encode_batch(batch)
    mask = np.array([e.attention_mask for e in encodings], dtype=np.int64)
    hidden = session.run(None, {
        "input_ids": np.array([e.ids for e in encodings], dtype=np.int64), "attention_mask": mask,
        "token_type_ids": np.array([e.type_ids for e in encodings], dtype=np.int64)})[0]
    weights = mask[:, :, None].astype(hidden.dtype)
    v = (hidden * weights).sum(1) / np.clip(weights.sum(1), 1e-9, None)
    return v / np.clip(np.linalg.norm(v, axis=1, keepdims=True), 1e-12, None)


def run(method, variant):
    session, order, size = sessions[variant], np.arange(len(texts)), 256
    if method == "sentence-transformers":
        order, size = np.argsort([-len(t) for t in texts]), 32
    out = np.empty((len(texts), 384), dtype=np.float32)
    for i in range(0, len(texts), size):
        part = order[i:i + size]
        out[part] = embed(session, [texts[k] for k in part])
    return out


def reader():
    """Returns a function that reads all pages, and the folder of models."""
    import cv2
    import rapidocr
    engine = rapidocr.RapidOCR(params={"Global.log_level": "error",
                                       "EngineConfig.onnxruntime.intra_op_num_threads": threads})
    cv2.setNumThreads(threads)
    images = [cv2.imread(f) for f in sorted(glob.glob(os.path.join(sys.argv[4], "*.png")))]
    return lambda: sum(len(engine(m).txts or []) for m in images), os.path.dirname(rapidocr.__file__) + "/models"


read = None
for line in sys.stdin:
    method, *variant = line.split()
    if method in ("models", "rapidocr") and read is None:
        read, models = reader()
    if method == "models":
        print(models, flush=True)
        continue
    start, used = time.perf_counter(), time.process_time()
    result = read() if method == "rapidocr" else float(run(method, *variant)[-1][0])
    print(time.perf_counter() - start, time.process_time() - used, result, flush=True)
