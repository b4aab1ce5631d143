"""Exports models of speech with random weights to a folder, in the forms of k2, NeMo and others, and prints what
sherpa-onnx and onnx-asr make of generated sound: oracle_speech.py FOLDER. Prints one JSON object a line."""

import json, os, sys
import numpy as np
import onnx, onnx_asr, sherpa_onnx, torch
from onnx_asr.preprocessors.numpy_preprocessor import KaldiPreprocessorNumpy, NemoPreprocessorNumpy

FOLDER = sys.argv[1]
rng = np.random.default_rng(11)
torch.manual_seed(5)
SOUNDS = []


def show(**fields):
    print(json.dumps(fields, ensure_ascii=False), flush=True)


def sound(n):
    """Returns gliding tones with noise and pauses."""
    x = np.zeros(n)
    for _ in range(6):
        start, length = int(rng.integers(0, n)), int(rng.integers(800, 16000))
        part = np.arange(min(length, n - start))
        glide = rng.uniform(80, 3000) * (1 + rng.uniform(-.5, .5) * part / length)
        x[start:start + len(part)] += rng.uniform(.02, .3) * np.sin(2 * np.pi * np.cumsum(glide) / 16000) * np.hanning(length)[:len(part)]
    return (x + rng.normal(0, rng.uniform(.0003, .02), n)).astype(np.float32)


def sounds():
    for k, n in enumerate([400, 3000, 16000, 16001, 33333, 80000]):
        x = sound(n)
        if k == 4:
            x[9000:15000] = 0
        file = f"{FOLDER}/{k}.f32"
        x.tofile(file)
        SOUNDS.append((file, x))


def features():
    kinds = [("kaldi", KaldiPreprocessorNumpy("kaldi"))] + [(n, NemoPreprocessorNumpy(n)) for n in ("nemo80", "nemo128")]
    for name, f in kinds:
        for file, x in SOUNDS:
            y, n = f(x[None].astype(np.float64), np.array([len(x)]))
            out = f"{file[:-4]}.{name}.f32"
            y[0].astype(np.float32).tofile(out)
            show(kind="features", name=name, sound=file, output=out, shape=list(y.shape[1:]), frames=int(n[0]))


def export(model, folder, file, inputs, names, outputs, axes, **meta):
    os.makedirs(folder, exist_ok=True)
    path = f"{folder}/{file}"
    torch.onnx.export(model.eval(), inputs, path, input_names=names, output_names=outputs, dynamo=False, opset_version=17,
                      dynamic_axes=axes)
    if meta:
        m = onnx.load(path)
        onnx.helper.set_model_props(m, {k: str(v) for k, v in meta.items()})
        onnx.save(m, path)


def words(n, blank_first):
    """Returns tokens as byte-pair encodings have them."""
    found = ["<unk>", "▁", "s", "▁the", "ing", ".", ",", "'", "▁a", "é", "▁привет", "中", "ed", "▁to", "<0xE4>", "-"]
    while len(found) < n - 1:
        w = "".join(chr(97 + c) for c in rng.integers(0, 26, rng.integers(1, 4)))
        w = ("▁" if rng.random() < .5 else "") + w
        if w not in found:
            found.append(w)
    return ["<blk>"] + found if blank_first else found + ["<blk>"]


def tokens(folder, file, list):
    with open(f"{folder}/{file}", "w", encoding="utf-8") as f:
        f.writelines(f"{t} {i}\n" for i, t in enumerate(list))


class Subsample(torch.nn.Module):
    """Makes a vector of a number of frames."""

    def __init__(self, bands, factor, dim):
        super().__init__()
        self.factor = factor
        self.conv = torch.nn.Conv1d(bands, dim, factor + 3, factor)
        self.mix = torch.nn.Linear(dim, dim)

    def forward(self, x):  # [N, bands, T]
        return torch.tanh(self.mix(torch.tanh(self.conv(x) * .3).transpose(1, 2)) * 2)


V, D = 60, 24


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.sub = Subsample(80, 4, D)

    def forward(self, x, x_lens):
        return self.sub(x.transpose(1, 2)), (x_lens - 7) // 4 + 1


class Decoder(torch.nn.Module):
    def __init__(self, context):
        super().__init__()
        self.embedding = torch.nn.Embedding(V, D)
        self.conv = torch.nn.Conv1d(D, D, context)

    def forward(self, y):
        e = self.embedding(y.clamp(min=0)) * (y >= 0).unsqueeze(-1)
        return torch.tanh(self.conv(e.transpose(1, 2))).squeeze(2)


class Joiner(torch.nn.Module):
    def __init__(self, blank, bias):
        super().__init__()
        self.out = torch.nn.Linear(D, V)
        with torch.no_grad():
            self.out.weight.mul_(4)
            self.out.bias[blank] += bias

    def forward(self, encoder_out, decoder_out):
        return self.out(torch.tanh(encoder_out * 4 + decoder_out))


def k2_rest(folder, suffix="", context=2):
    n = {0: "N"}
    export(Decoder(context), folder, f"decoder{suffix}.onnx", (torch.zeros(2, context, dtype=torch.int64),), ["y"],
           ["decoder_out"], {"y": n, "decoder_out": n}, context_size=context, vocab_size=V)
    export(Joiner(0, 3), folder, f"joiner{suffix}.onnx", (torch.zeros(2, D), torch.zeros(2, D)), ["encoder_out", "decoder_out"],
           ["logit"], {"encoder_out": n, "decoder_out": n, "logit": n}, joiner_dim=D)
    tokens(folder, "tokens.txt", words(V, True))


def paths(folder, suffix=""):
    return dict(encoder=f"{folder}/encoder{suffix}.onnx", decoder=f"{folder}/decoder{suffix}.onnx",
                joiner=f"{folder}/joiner{suffix}.onnx", tokens=f"{folder}/tokens.txt")


def k2():
    for context, suffix in (2, ""), (1, "-epoch-99-avg-1"), (3, "_x"):
        folder = f"{FOLDER}/k2-{context}"
        t = {0: "N", 1: "T"}
        export(Encoder(), folder, f"encoder{suffix}.onnx", (torch.randn(2, 100, 80), torch.tensor([100, 90])), ["x", "x_lens"],
               ["encoder_out", "encoder_out_lens"], {"x": t, "x_lens": {0: "N"}, "encoder_out": t, "encoder_out_lens": {0: "N"}},
               model_type="zipformer2", version=1, comment="zipformer2")
        k2_rest(folder, suffix, context)
        r = sherpa_onnx.OfflineRecognizer.from_transducer(**paths(folder, suffix))
        for file, x in SOUNDS[1:]:
            s = r.create_stream()
            s.accept_waveform(16000, x)
            r.decode_stream(s)
            show(kind="speech", folder=folder, sound=file, text=s.result.text.strip(), tokens=list(s.result.tokens),
                 starts=list(s.result.timestamps))


class Zipformer(torch.nn.Module):
    """Has the states of a streaming zipformer of one layer, and mixes some of them."""

    def __init__(self):
        super().__init__()
        self.sub = Subsample(80, 4, D)
        self.key = torch.nn.Linear(D, 8)
        self.back = torch.nn.Linear(8, D)

    def forward(self, x, key, nonlin, val1, val2, conv1, conv2, embed, lens):
        y = self.sub(x[:, :35].transpose(1, 2))  # [N, 8, D]
        k = self.key(y).transpose(0, 1)
        joined = torch.cat([key, k])[-6:]
        y = y + torch.tanh(self.back(joined.mean(0))).unsqueeze(1) * .3 + torch.sin(lens.float() / 50).view(-1, 1, 1) * .2
        conv = torch.cat([conv1, y.transpose(1, 2)], 2)[:, :, -3:]
        y = y + conv1.mean(2).unsqueeze(1) * .3
        return (y, joined, nonlin + 1, val1 * .5, val2 + .25, conv, conv2 + 1, embed + .5, lens + y.size(1))


def streaming(folder, model_type, model, names, states, **meta):
    outputs = ["encoder_out"] + ["new_" + n for n in names]
    axes = {"x": {0: "N"}, "encoder_out": {0: "N"}}
    for n, (s, axis) in zip(names, states):
        axes[n] = axes["new_" + n] = {axis: "N"}
    export(model, folder, "encoder.onnx", (torch.randn(1, 45, 80), *[s for s, _ in states]), ["x"] + names, outputs, axes,
           model_type=model_type, version=1, T=45, decode_chunk_len=32, **meta)
    k2_rest(folder)
    r = sherpa_onnx.OnlineRecognizer.from_transducer(**paths(folder))
    for file, x in SOUNDS[1:]:
        s = r.create_stream()
        s.accept_waveform(16000, x)
        s.accept_waveform(16000, np.zeros(int(.66 * 16000), np.float32))
        s.input_finished()
        while r.is_ready(s):
            r.decode_stream(s)
        show(kind="speech", folder=folder, sound=file, text=r.get_result(s), tokens=r.tokens(s), starts=r.timestamps(s),
             streams=True)


class LSTM(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.sub = Subsample(80, 4, D)
        self.lstm = torch.nn.LSTM(D, D, 2, batch_first=True)

    def forward(self, x, h, c):
        y, (h, c) = self.lstm(self.sub(x[:, :35].transpose(1, 2)), (h, c))
        return y * 3, h, c


def streams():
    z = torch.zeros
    states = [(z(4, 1, 8), 1), (z(1, 1, 4, D * 3 // 4), 1), (z(4, 1, 6), 1), (z(4, 1, 6), 1), (z(1, D, 3), 0), (z(1, D, 3), 0),
              (z(1, 128, 3, 19), 0), (z(1, dtype=torch.int64), 0)]
    # Six frames are kept, but the sizes of states are fixed: the last four are returned.
    model = Zipformer()
    forward = model.forward
    model.forward = lambda *a: (lambda o: (o[0], o[1][-4:], *o[2:]))(forward(*a))
    streaming(f"{FOLDER}/stream-zipformer", "zipformer2", model,
              ["cached_key_0", "cached_nonlin_attn_0", "cached_val1_0", "cached_val2_0", "cached_conv1_0", "cached_conv2_0",
               "embed_states", "processed_lens"], states, encoder_dims=D, query_head_dims=4, value_head_dims=3, num_heads=2,
              num_encoder_layers=1, cnn_module_kernels=7, left_context_len=4)
    streaming(f"{FOLDER}/stream-lstm", "lstm", LSTM(), ["h", "c"], [(z(2, 1, D), 1), (z(2, 1, D), 1)],
              num_encoder_layers=2, rnn_hidden_size=D, d_model=D)


class NemoEncoder(torch.nn.Module):
    def __init__(self, bands):
        super().__init__()
        self.sub = Subsample(bands, 8, D)

    def forward(self, audio_signal, length):
        y = self.sub(torch.nn.functional.pad(audio_signal * 2, (5, 5)))
        return y.transpose(1, 2), (length - 1) // 8 + 1


class NemoDecoder(torch.nn.Module):
    def __init__(self, size, blank, bias):
        super().__init__()
        self.embedding = torch.nn.Embedding(V, D)
        self.lstm = torch.nn.LSTM(D, D, 2)
        self.out = torch.nn.Linear(D, size)
        with torch.no_grad():
            self.out.weight.mul_(6)
            self.out.bias[blank] += bias

    def forward(self, encoder_outputs, targets, target_length, h, c):
        y, (h, c) = self.lstm(self.embedding(targets.long()).transpose(0, 1), (h, c))
        joint = torch.tanh(encoder_outputs.transpose(1, 2).unsqueeze(2) * 4 + y.transpose(0, 1).unsqueeze(1))
        return self.out(joint), target_length, h, c


class NemoCTC(torch.nn.Module):
    def __init__(self, bands):
        super().__init__()
        self.encoder = NemoEncoder(bands)
        self.out = torch.nn.Linear(D, V)
        with torch.no_grad():
            self.out.weight.mul_(6)
            self.out.bias[V - 1] += 2

    def forward(self, audio_signal, length):
        y, n = self.encoder(audio_signal, length)
        return torch.log_softmax(self.out(y.transpose(1, 2)), -1) + 0 * n.view(-1, 1, 1)


def recognize(folder, kind):
    r = onnx_asr.load_model(kind, folder, providers=["CPUExecutionProvider"]).with_timestamps()
    for file, x in SOUNDS[1:]:
        y = r.recognize(x, sample_rate=16000)
        show(kind="speech", folder=folder, sound=file, text=y.text, tokens=y.tokens, starts=y.timestamps)


def nemo():
    t, n = {0: "batch", 2: "time"}, {0: "batch"}
    for kind, size, bands, limit in ("rnnt", V, 80, 4), ("tdt", V + 5, 128, 10), ("rnnt", V, 128, 1):
        folder = f"{FOLDER}/nemo-{kind}-{limit}"
        export(NemoEncoder(bands), folder, "encoder-model.onnx", (torch.randn(2, bands, 100), torch.tensor([100, 90])),
               ["audio_signal", "length"], ["outputs", "encoded_lengths"],
               {"audio_signal": t, "length": n, "outputs": t, "encoded_lengths": n})
        state = torch.zeros(2, 2, D)
        export(NemoDecoder(size, V - 1, 4), folder, "decoder_joint-model.onnx",
               (torch.randn(2, D, 3), torch.zeros(2, 1, dtype=torch.int32), torch.ones(2, dtype=torch.int32), state, state),
               ["encoder_outputs", "targets", "target_length", "input_states_1", "input_states_2"],
               ["outputs", "prednet_lengths", "output_states_1", "output_states_2"],
               {"encoder_outputs": t, "targets": {0: "batch", 1: "u"}, "target_length": n, "input_states_1": {1: "batch"},
                "input_states_2": {1: "batch"}, "outputs": {0: "batch", 1: "time", 2: "u"}, "prednet_lengths": n,
                "output_states_1": {1: "batch"}, "output_states_2": {1: "batch"}})
        tokens(folder, "vocab.txt", words(V, False))
        json.dump({"model_type": f"nemo-conformer-{kind}", "features_size": bands, "subsampling_factor": 8,
                   "max_tokens_per_step": limit}, open(folder + "/config.json", "w"))
        recognize(folder, f"nemo-conformer-{kind}")
    folder = f"{FOLDER}/nemo-ctc"
    export(NemoCTC(80), folder, "model.onnx", (torch.randn(2, 80, 100), torch.tensor([100, 90])), ["audio_signal", "length"],
           ["logprobs"], {"audio_signal": t, "length": n, "logprobs": {0: "batch", 1: "time"}})
    tokens(folder, "vocab.txt", words(V, False))
    json.dump({"model_type": "nemo-conformer-ctc"}, open(folder + "/config.json", "w"))
    recognize(folder, "nemo-conformer-ctc")


sounds()
features()
nemo()
k2()
streams()
