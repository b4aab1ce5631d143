"""Makes cases of torch modules, through both of torch's exporters: the one on
torch.export ("dynamo") and that on TorchScript. Weights and inputs come from fixed
seeds; the batch normalizations get statistics of their own, or deep networks would
vanish."""

import contextlib
import io
import os
import sys
import warnings

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import onnx
import torch
from torch import nn

from case import Cases

warnings.filterwarnings("ignore")
torch.set_num_threads(2)
cases = Cases(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")


class Flat(nn.Module):
    """Calls a model by positions and gives its tensors as a flat tuple."""

    def __init__(self, model, names=None, pick=None):
        super().__init__()
        self.model, self.names, self.pick = model, names, pick

    def forward(self, *args):
        out = self.model(**dict(zip(self.names, args))) if self.names else self.model(*args)
        if self.pick:
            out = self.pick(out)
        return tuple(flatten(out))


def flatten(v):
    if isinstance(v, torch.Tensor):
        yield v
    elif isinstance(v, dict):
        for k in v:
            yield from flatten(v[k])
    elif isinstance(v, (list, tuple)):
        for x in v:
            yield from flatten(x)


def settle(model):
    generator = torch.Generator().manual_seed(1)
    for m in model.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            m.running_mean = torch.randn(m.running_mean.shape, generator=generator) * 0.1
            m.running_var = torch.rand(m.running_var.shape, generator=generator) + 0.5
    return model.eval()


def add(family, name, build, inputs, library, pick=None, names=None, opset=None, settled=True, patched=None, only=("dynamo", "torchscript"), rtol=1e-3, atol=1e-4):
    """Adds a case for each exporter. inputs are tensors by name. patched is a context
    in which the exporter on torch.export traces; torch's results come from outside it."""

    def through(exporter):
        def make():
            torch.manual_seed(0)
            model = Flat(settle(build()) if settled else build(), names, pick).eval()
            args = tuple(t.clone() for t in inputs.values())
            with torch.no_grad():
                want = [t.numpy() for t in model(*args)]
                if exporter == "dynamo":
                    with (patched or contextlib.nullcontext)():
                        proto = torch.onnx.export(model, args, dynamo=True, input_names=list(inputs), opset_version=opset or 18, verbose=False).model_proto
                else:
                    f = io.BytesIO()
                    torch.onnx.export(model, args, f, dynamo=False, input_names=list(inputs), opset_version=opset or 17)
                    proto = onnx.load_from_string(f.getvalue())
            used = {i.name for i in proto.graph.input}
            feeds = {k: v.numpy() for k, v in inputs.items() if k in used}
            assert len(want) == len(proto.graph.output), (len(want), len(proto.graph.output))
            return proto, feeds, want

        cases.add(family, f"{name}_{exporter}", make, library, f"torch {torch.__version__.split('+')[0]} {exporter}", rtol=rtol, atol=atol)

    for exporter in only:
        through(exporter)


def image(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2))
