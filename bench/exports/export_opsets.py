"""Exports small torch models for every opset that torch's exporters write, and with
weights and activations in half precision and bfloat16.

    pip install torch onnxscript numpy onnx==1.23.2 onnxruntime==1.31.1
    python bench/exports/export_opsets.py FOLDER [REGULAR-EXPRESSION]

The expected results are torch's."""

import torch
from torch import nn
from torch.nn import functional as F

from torch_case import add, cases, image

LIBRARY = f"torch {torch.__version__.split('+')[0]}"


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU6(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Hardswish())
        self.up = nn.Sequential(nn.ConvTranspose2d(8, 6, 2, 2), nn.InstanceNorm2d(6), nn.PReLU(6), nn.ReflectionPad2d(1), nn.AvgPool2d(2))
        self.head = nn.Linear(6, 5)

    def forward(self, x):
        y = self.up(self.stem(x))
        y = F.interpolate(y, scale_factor=2.0, mode="nearest")
        return self.head(y.mean((2, 3))).softmax(-1), F.log_softmax(y.amax((2, 3)), -1), y.clamp(-1, 1)[:, 1:4, 1:-1]


class Resizing(nn.Module):
    def forward(self, x):
        return [F.interpolate(x, **kw)[:, ::2] for kw in ({"scale_factor": 1.5, "mode": "bilinear"}, {"size": (7, 30), "mode": "bilinear", "align_corners": True}, {"size": (7, 30), "mode": "bicubic"}, {"size": (41, 9), "mode": "nearest"})]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTM(6, 8, 2, batch_first=True, bidirectional=True), nn.GRU(16, 7, batch_first=True), nn.RNN(7, 5, nonlinearity="relu")

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        z, g = self.gru(y)
        return self.rnn(z)[0], h, c, g


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(20, 16), nn.Embedding(9, 16)
        self.qkv, self.out, self.norm, self.wide, self.narrow = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 24), nn.Linear(24, 16)
        self.register_buffer("later", torch.ones(9, 9).triu(1) > 0)
        self.register_buffer("places", torch.arange(9))

    def forward(self, ids):
        n = ids.shape[1]
        x = self.embed(ids) + self.place(self.places[:n])
        q, k, v = (t.reshape(-1, n, 4, 4).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        s = q @ k.transpose(-1, -2) / 2
        s = s.masked_fill(self.later[:n, :n], float("-inf"))
        x = x + self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(-1, n, 16))
        return x + self.narrow(F.gelu(self.wide(self.norm(x)))), s.argmax(-1)


class FusedAttention(Attention):
    def forward(self, ids):
        n = ids.shape[1]
        x = self.embed(ids)
        q, k, v = (t.reshape(-1, n, 4, 4).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(-1, n, 16)), F.rms_norm(x, (16,))


class Indexing(nn.Module):
    def forward(self, x, i):
        top = torch.topk(x, 2, dim=-1)
        y = x.clone()
        y[:, 1] = 3
        return top.values, top.indices, x.gather(2, i), torch.zeros_like(x).scatter(2, i, 1.5), y, x[:, [2, 0]], x.index_select(1, i[0, 0]), x.std(-1), torch.where(x > 0, x, -x).sqrt(), x.sort(-1, descending=True).indices, F.one_hot(i[0, 0], 4), torch.cat([x, x.flip(2)], 2).split(3, 2)[1], x.prod(-1), x.norm(dim=-1), x.unsqueeze(0).expand(2, -1, -1, -1)


IDS = torch.randint(0, 20, (2, 9), generator=torch.Generator().manual_seed(4))
PICTURE, TIMES, TOKENS = {"x": image(2, 3, 20, 22)}, {"x": image(2, 7, 6)}, {"ids": IDS}
ROWS = {"x": image(2, 3, 4), "i": torch.tensor([[[0, 2, 1], [2, 0, 1], [1, 0, 2]]] * 2)}
NETS = [("convolutions", Convolutions, PICTURE), ("resizing", Resizing, PICTURE), ("recurrent", Recurrent, TIMES), ("attention", Attention, TOKENS), ("fused_attention", FusedAttention, TOKENS), ("indexing", Indexing, ROWS)]
for name, net, inputs in NETS:
    for opset in range(7, 21):
        add("torch_opsets", f"{name}_{opset:02}", net, inputs, LIBRARY, opset=opset, only=("torchscript",))
    for opset in range(18, 26):
        add("torch_opsets", f"{name}_{opset:02}", net, inputs, LIBRARY, opset=opset, only=("dynamo",))


class Narrow(nn.Module):
    """Computes in a narrow type; its inputs and outputs are float32."""

    def __init__(self, net, dtype):
        super().__init__()
        self.net, self.dtype = net.to(dtype), dtype

    def forward(self, *args):
        out = self.net(*[a.to(self.dtype) if a.is_floating_point() else a for a in args])
        return [o.float() if o.is_floating_point() else o for o in out]


def narrow(net, dtype):
    return lambda: Narrow(net(), dtype)


for name, net, inputs in NETS:
    for label, dtype, tol in [("float16", torch.float16, 1e-2), ("bfloat16", torch.bfloat16, 6e-2), ("float64", torch.float64, 1e-6)]:
        for opset in (17, 22):
            add("torch_types", f"{name}_{label}_{opset}", narrow(net, dtype), inputs, LIBRARY, opset=opset, only=("torchscript",) if opset == 17 else ("dynamo",), rtol=tol, atol=tol)
cases.close()
