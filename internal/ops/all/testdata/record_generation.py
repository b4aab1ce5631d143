"""Writes small text generating models and what ONNX Runtime makes of them.

    python record_generation.py      needs what record.py needs

generation/NAME.onnx holds a model, generation/cases.json inputs and outputs.
"""
import json
import os

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "generation")
VOCAB, HEADS, SIZE = 12, 2, 2


def decoder(name, seed, scale=1.0):
    """A decoder whose scores depend on tokens, positions, mask and past."""
    g = np.random.default_rng(seed)
    w = lambda n, *s: nh.from_array((np.round(g.standard_normal(s) * 64) / 64 * scale).astype(np.float32), n)
    i = lambda n, *v: nh.from_array(np.array(v, np.int64), n)
    init = [w("tokens", VOCAB, VOCAB), w("places", 64, VOCAB), w("of_past", VOCAB), w("of_mask", VOCAB),
            i("column", 1, -1, 1, 1), i("kv", 0, 0, 0, 0), i("one_two", 1, 2), i("ones", 1), i("kv_axes", 0, 2, 3, 4), i("minus", -1)]
    n = h.make_node
    nodes = [
        n("Gather", ["tokens", "input_ids"], ["t"]), n("Gather", ["places", "position_ids"], ["p"]), n("Add", ["t", "p"], ["tp"]),
        n("Cast", ["input_ids"], ["idf"], to=T.FLOAT), n("Unsqueeze", ["idf", "new_axes"], ["id5"]),
        n("Shape", ["idf"], ["shape"]), n("Gather", ["shape", "zero"], ["b"]), n("Gather", ["shape", "ones"], ["s"]),
        n("Concat", ["two", "b", "heads", "s", "size"], ["kv_shape"], axis=0), n("Expand", ["id5", "kv_shape"], ["new"]),
        n("Concat", ["past_0", "new"], ["present_0"], axis=3),
        n("ReduceMean", ["present_0", "kv_axes"], ["m"], keepdims=0), n("Unsqueeze", ["m", "one_two"], ["m3"]), n("Mul", ["m3", "of_past"], ["x"]),
        n("Cast", ["attention_mask"], ["mf"], to=T.FLOAT), n("ReduceSum", ["mf", "ones"], ["ms"], keepdims=0), n("Unsqueeze", ["ms", "one_two"], ["ms3"]),
        n("Mul", ["ms3", "of_mask"], ["y"]), n("Add", ["tp", "x"], ["z"]), n("Mul", ["y", "tenth"], ["y10"]), n("Add", ["z", "y10"], ["logits"]),
    ]
    init = [t for t in init if t.name not in ("column", "kv", "minus")]
    init += [i("new_axes", 0, 2, 4), i("zero", 0), i("two", 2), i("heads", HEADS), i("size", SIZE), nh.from_array(np.array(0.1, np.float32), "tenth")]
    ids = lambda name: h.make_tensor_value_info(name, T.INT32, ["batch", "length"])
    past = lambda name, d: h.make_tensor_value_info(name, T.FLOAT, [2, "batch", HEADS, d, SIZE])
    return h.make_graph(nodes, name, [ids("input_ids"), ids("position_ids"), h.make_tensor_value_info("attention_mask", T.INT32, ["batch", "total"]), past("past_0", "past")],
                        [h.make_tensor_value_info("logits", T.FLOAT, ["batch", "length", VOCAB]), past("present_0", "all")], init)


def graph(name, inputs, outputs, nodes, init):
    vi = lambda k, t, s: h.make_tensor_value_info(k, t, s)
    return h.make_graph(nodes, name, [vi(*x) for x in inputs], [vi(*x) for x in outputs], init)


class Weights:
    """Random weights, and nodes that use them."""

    def __init__(self, seed, scale):
        self.g, self.scale, self.init, self.nodes = np.random.default_rng(seed), scale, [], []

    def weight(self, *shape):
        name = "w%d" % len(self.init)
        self.init.append(nh.from_array((np.round(self.g.standard_normal(shape) * 64) / 64 * self.scale).astype(np.float32), name))
        return name

    def ints(self, *v, shape=None):
        name = "w%d" % len(self.init)
        self.init.append(nh.from_array(np.array(v, np.int64).reshape(shape if shape is not None else (len(v),)), name))
        return name

    def node(self, op, *ins, out=None, **attrs):
        out = out or "n%d" % len(self.nodes)
        self.nodes.append(h.make_node(op, list(ins), [out], **attrs))
        return out

    def tokens(self, ids, words):
        """Scores by the tokens, [batch, length, word]."""
        return self.node("Gather", self.weight(64, words), ids)

    def mean(self, x, axes, words):
        """Scores by the mean of x over all axes but the first, [batch, 1, word]."""
        m = self.node("ReduceMean", x, self.ints(*axes), keepdims=0)
        return self.node("Mul", self.node("Unsqueeze", m, self.ints(1, 2)), self.weight(words))

    def past(self, ids, salt):
        """A key or value of ids, [batch, HEADS, length, SIZE]."""
        f = self.node("Unsqueeze", self.node("Cast", ids, to=T.FLOAT), self.ints(1, 3))
        return self.node("Mul", f, self.weight(1, HEADS, 1, SIZE)) if salt else self.node("Add", f, self.weight(1, HEADS, 1, SIZE))


KV = lambda name, b, n: (name, T.FLOAT, [b, HEADS, n, SIZE])
KINDS = ["key", "value"]


def encoder(seed, layers, speech=False, new=False, words=VOCAB, scale=1.0):
    w = Weights(seed, scale)
    if speech:
        ins = [("encoder_input_ids", T.FLOAT, ["batch", 3, "frames"]), ("decoder_input_ids", T.INT32, ["batch", "start"])]
        frames = w.node("Transpose", "encoder_input_ids", perm=[0, 2, 1])
        ids = w.node("Cast", w.node("ReduceSum", frames, w.ints(2), keepdims=0), to=T.INT32)
    else:
        ins = [("encoder_input_ids", T.INT32, ["batch", "length"]), ("encoder_attention_mask", T.INT32, ["batch", "length"])]
        if not new:
            ins.append(("decoder_input_ids", T.INT32, ["batch", 1]))
        ids = w.node("Mul", "encoder_input_ids", "encoder_attention_mask")
    outs, cross = [], []
    for i in range(layers):
        for j, k in enumerate(KINDS):
            name = "present_%s_cross_%d" % (k, i)
            w.node("Identity", w.past(ids, j), out=name)
            cross.append(KV(name, "batch", "length"))
    if new:
        return graph("encoder", ins, cross, w.nodes, w.init)
    hidden = w.node("Mul", w.node("Unsqueeze", w.node("Cast", ids, to=T.FLOAT), w.ints(2)), w.weight(4))
    w.node("Identity", hidden, out="encoder_hidden_states")
    x = w.tokens("decoder_input_ids", words)
    x = w.node("Add", x, w.mean(hidden, [1, 2], words), out="logits")
    outs = [("logits", T.FLOAT, ["batch", "start" if speech else 1, words]), ("encoder_hidden_states", T.FLOAT, ["batch", "length", 4])]
    for i in range(layers):
        for j, k in enumerate(KINDS):
            name = "present_%s_self_%d" % (k, i)
            w.node("Identity", w.past("decoder_input_ids", j), out=name)
            outs.append(KV(name, "batch", "start" if speech else 1))
    return graph("encoder", ins, outs + cross, w.nodes, w.init)


def behind(seed, layers, speech=False, hidden=False, whole=False, words=VOCAB, scale=1.0):
    """A decoder behind an encoder."""
    w = Weights(seed, scale)
    ins = [("input_ids", T.INT32, ["rows", "tokens" if whole else 1])]
    ids = "input_ids"
    x = w.tokens(ids, words)
    if whole:  # the keys and values are those of the last token
        ids = w.node("Slice", "input_ids", w.ints(-1), w.ints(1 << 30), w.ints(1))
        x = w.node("Add", x, w.mean(w.node("Unsqueeze", w.node("Cast", "input_ids", to=T.FLOAT), w.ints(2)), [1, 2], words))
    if not speech:
        ins.append(("encoder_attention_mask", T.INT32, ["rows", "length"]))
        mask = w.node("Unsqueeze", w.node("Cast", "encoder_attention_mask", to=T.FLOAT), w.ints(2))
        x = w.node("Add", x, w.mean(mask, [1, 2], words))
    if hidden:
        # ONNX Runtime passes the shape, not the contents.
        ins.append(("encoder_hidden_states", T.FLOAT, ["rows", "length", 4]))
        n = w.node("Cast", w.node("Shape", "encoder_hidden_states", start=1, end=2), to=T.FLOAT)
        x = w.node("Add", x, w.node("Mul", n, w.weight(words)))
    outs = []
    for i in range(layers):
        for j, k in enumerate(KINDS):
            past, present = "past_%s_self_%d" % (k, i), "present_%s_self_%d" % (k, i)
            ins.append(KV(past, "rows", "past"))
            w.node("Concat", past, w.past(ids, j), out=present, axis=2)
            outs.append(KV(present, "rows", "all"))
            x = w.node("Add", x, w.mean(present, [1, 2, 3], words))
    for i in range(layers):
        for k in KINDS:
            past = "past_%s_cross_%d" % (k, i)
            ins.append(KV(past, "rows", "length"))
            x = w.node("Add", x, w.mean(past, [1, 2, 3], words))
    w.node("Identity", x, out="logits")
    return graph("decoder", ins, [("logits", T.FLOAT, ["rows", "tokens" if whole else 1, words])] + outs, w.nodes, w.init)


def value(v):
    return {"t": v.dtype.name, "s": list(v.shape), "d": [float(x) if v.dtype == np.float32 else int(x) for x in v.ravel()]}


def model(op, feed, attrs, outs):
    order = INPUTS[op]
    ins = [k if k in feed else "" for k in order]
    while ins[-1] == "":
        ins.pop()
    node = h.make_node(op, ins, list(outs), domain="com.microsoft", **attrs)
    vi = [h.make_tensor_value_info(k, h.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in feed.items()]
    vo = [h.make_tensor_value_info(o, T.INT32 if o == "sequences" else T.FLOAT, None) for o in outs if o]
    return h.make_model(h.make_graph([node], "g", vi, vo), opset_imports=[h.make_opsetid("", 18), h.make_opsetid("com.microsoft", 1)], ir_version=10)


def save(name, m, feed, want):
    onnx.save(m, os.path.join(HERE, name + ".onnx"))
    return {"model": name, "inputs": {k: value(v) for k, v in feed.items()}, "want": {k: value(v) for k, v in want.items()}}


def run(op, name, feed, attrs, outs=("sequences",)):
    m = model(op, feed, attrs, outs)
    so = ort.SessionOptions()
    so.log_severity_level = 4
    got = ort.InferenceSession(m.SerializeToString(), so, providers=["CPUExecutionProvider"]).run(None, feed)
    return save(name, m, feed, dict(zip([o for o in outs if o], got)))


COMMON = ["input_ids", "max_length", "min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask"]
BEAMS = ["input_ids", "max_length", "min_length", "num_beams", "num_return_sequences", "length_penalty", "repetition_penalty", "vocab_mask",
         "prefix_vocab_mask", "attention_mask", "decoder_input_ids", "logits_processor"]
INPUTS = {"GreedySearch": COMMON, "Sampling": COMMON + ["presence_mask", "seed"], "BeamSearch": BEAMS,
          "WhisperBeamSearch": BEAMS + ["cross_qk_layer_head", "extra_decoding_ids", "temperature"]}

I = np.int32
IDS = np.array([[3, 5, 7], [1, 2, 4], [0, 0, 6]], I)


def one(v):
    return np.array([v], np.float32 if isinstance(v, float) else I)


def greedy():
    base = dict(input_ids=IDS, max_length=one(12))
    attrs = dict(eos_token_id=11, pad_token_id=0)
    vocab = np.ones(VOCAB, I)
    vocab[[2, 5, 9]] = 0
    prefix = np.ones((3, VOCAB), I)
    prefix[:, ::2] = 0
    for name, feed, more in [
        ("plain", {}, {}), ("ngram", {}, dict(no_repeat_ngram_size=2)), ("penalty", dict(repetition_penalty=one(1.8)), {}),
        ("masks", dict(vocab_mask=vocab, prefix_vocab_mask=prefix), {}), ("eos", {}, dict(eos_token_id=7)), ("min_length", dict(min_length=one(9)), dict(eos_token_id=7)),
        ("attention_mask", dict(attention_mask=np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1]], I)), {}),
        ("init_decoder", {}, dict(init_decoder=decoder("first", 9))),
    ]:
        for seed in [1, 2]:
            row = run("GreedySearch", "greedy_%s_%d" % (name, seed), dict(base, **feed), {**attrs, **more, "decoder": decoder("decoder", seed)})
            if name == "eos" and seed == 1:
                # All sequences have ended with token 6 of the third one. ONNX Runtime does not write what follows.
                d = np.array(row["want"]["sequences"]["d"], I).reshape(3, 12)
                d[:, 6:] = 0
                row["want"]["sequences"] = value(d)
            yield row


def sampling():
    base = dict(input_ids=IDS, max_length=one(14))
    attrs = dict(eos_token_id=11, pad_token_id=0, min_tokens_to_keep=1)
    for i, (name, feed, more) in enumerate([
        ("top_p", {}, dict(top_p=0.8)), ("temperature", {}, dict(top_p=0.9, temperature=2.5)), ("custom", {}, dict(top_p=0.7, custom=1, temperature=1.5)),
        ("keep", {}, dict(top_p=0.1, min_tokens_to_keep=3)), ("filter", {}, dict(top_p=0.5, filter_value=-2.0)),
        ("masks", dict(vocab_mask=np.arange(VOCAB, dtype=I) % 2, min_length=one(13), repetition_penalty=one(1.4)), dict(top_p=0.9, eos_token_id=7, no_repeat_ngram_size=3)),
    ]):
        for seed in [5, 2026]:
            yield run("Sampling", "sampling_%s_%d" % (name, seed), dict(base, seed=one(seed), **feed), {**attrs, **more, "decoder": decoder("decoder", 20 + i, 0.7)})

    # ONNX Runtime takes the penalty off the wrong scores; a great one bans tokens as vocab_mask does.
    mask = np.arange(VOCAB, dtype=I) % 2
    feed, more = dict(base, seed=one(7)), {**attrs, "top_p": 0.9, "decoder": decoder("decoder", 30, 0.7)}
    row = run("Sampling", "presence", dict(feed, vocab_mask=mask), more)
    feed, more = dict(feed, presence_mask=np.tile(1 - mask, (3, 1))), {**more, "presence_penalty": 1e30}
    os.remove(os.path.join(HERE, "presence.onnx"))
    yield save("sampling_presence", model("Sampling", feed, more, ("sequences",)), feed, {"sequences": np.array(row["want"]["sequences"]["d"], I).reshape(3, 14)})


def beams():
    attrs = dict(eos_token_id=11, pad_token_id=0)
    all3 = ("sequences", "sequences_scores", "scores")
    vocab = np.ones(VOCAB, I)
    vocab[[2, 5, 9]] = 0
    prefix = np.ones((3, VOCAB), I)
    prefix[:, ::2] = 0
    b = lambda n, k: dict(num_beams=one(n), num_return_sequences=one(k), length_penalty=one(1.0))
    cases = [
        ("plain", b(4, 3), {}, all3), ("one", b(1, 1), {}, all3), ("eos", dict(b(3, 2), length_penalty=one(0.6)), dict(eos_token_id=7), all3),
        ("early", dict(b(3, 3), length_penalty=one(2.0)), dict(eos_token_id=7, early_stopping=1), all3[:2]),
        ("negative", dict(b(3, 3), length_penalty=one(-1.0)), dict(eos_token_id=7), all3[:2]),
        ("penalty", dict(b(2, 1), repetition_penalty=one(1.8)), {}, all3), ("ngram", b(4, 2), dict(no_repeat_ngram_size=2), all3[:2]),
        ("masks", dict(b(3, 2), vocab_mask=vocab, prefix_vocab_mask=prefix), {}, all3[:2]),
        ("min_length", dict(b(3, 1), min_length=one(9)), dict(eos_token_id=7), all3[:2]),
    ]
    base = dict(input_ids=IDS, max_length=one(12), min_length=one(0))
    for name, feed, more, outs in cases + [
        ("attention_mask", dict(b(2, 2), attention_mask=np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1]], I)), {}, all3),
        ("init_decoder", b(3, 1), dict(init_decoder=decoder("first", 9)), all3),
    ]:
        for seed in [1, 2]:
            yield run("BeamSearch", "beams_%s_%d" % (name, seed), dict(base, **feed), {**attrs, **more, "decoder": decoder("decoder", seed, 0.6)}, outs)
    t5 = dict(attrs, model_type=1, decoder_start_token_id=1)
    for name, feed, more, outs in cases + [("attention_mask", dict(b(2, 2), attention_mask=np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1]], I)), {}, all3)]:
        for seed, new in [(1, False), (2, True)]:
            layers = 1 + len(name) % 2
            g = dict(encoder=encoder(seed, layers, new=new, scale=0.5), decoder=behind(seed + 10, layers, scale=0.5, hidden=not new and name in ("plain", "eos")))
            yield run("BeamSearch", "t5_%s_%s" % (name, "new" if new else "old"), dict(base, **feed), {**t5, **more, **g}, outs)
    g = dict(encoder=encoder(3, 1, scale=0.5), decoder=behind(4, 1, scale=0.5, whole=True))
    yield run("BeamSearch", "bart_whole", dict(base, **b(3, 2)), {**t5, **g}, all3[:2])

    # ONNX Runtime searches greedily without an encoder only; a search with one beam makes the same text when none ends.
    g = dict(encoder=encoder(1, 2, scale=0.5), decoder=behind(11, 2, scale=0.5))
    feed = dict(base, min_length=one(11))
    row = run("BeamSearch", "t5_greedy", dict(feed, **b(1, 1)), {**t5, **g})
    yield save("t5_greedy", model("GreedySearch", feed, {**t5, **g}, ("sequences",)), feed, {"sequences": np.array(row["want"]["sequences"]["d"], I).reshape(3, 12)})


def whisper():
    words = 40
    attrs = dict(eos_token_id=11, pad_token_id=0, decoder_start_token_id=12)
    times = dict(translate_token_id=13, transcribe_token_id=14, start_of_lm_token_id=15, no_speech_token_id=16, no_timestamps_token_id=17, beginning_timestamp_token_id=18)
    g = np.random.default_rng(0)
    base = dict(input_ids=g.uniform(0, 9, (2, 3, 5)).astype(np.float32), max_length=one(14), min_length=one(0), num_beams=one(3), num_return_sequences=one(2), length_penalty=one(1.0))
    start = np.array([[12, 14, 3], [12, 14, 5]], I)
    all3 = ("sequences", "sequences_scores", "scores")
    for name, feed, more, outs in [
        ("plain", {}, {}, all3), ("start", dict(decoder_input_ids=start), {}, all3),
        ("times", dict(decoder_input_ids=start, logits_processor=one(1)), times, all3[:2]),
        ("times_begin", dict(logits_processor=one(1)), times, all3[:2]),
        ("temperature", dict(decoder_input_ids=start, temperature=one(1.7)), {}, all3[:2]),
        ("no_speech", dict(decoder_input_ids=start, temperature=one(1.7)), times, ("sequences", "sequences_scores", "", "", "non_speech_probs")),
        ("extra", dict(decoder_input_ids=start, extra_decoding_ids=np.array([[7, 8], [9, 4]], I)), {}, all3[:2]),
    ]:
        for seed in [1, 2]:
            sub = dict(encoder=encoder(seed, 1, speech=True, words=words, scale=0.6), decoder=behind(seed + 5, 1, speech=True, hidden=seed == 2, words=words, scale=0.6))
            row = run("WhisperBeamSearch", "whisper_%s_%d" % (name, seed), dict(base, **feed), {**attrs, **more, **sub}, outs)
            if "non_speech_probs" in outs:
                # ONNX Runtime writes this output on CUDA only: the probability that the encoder's scores give the token.
                m = h.make_model(sub["encoder"], opset_imports=[h.make_opsetid("", 18)], ir_version=10)
                x = ort.InferenceSession(m.SerializeToString()).run(["logits"], dict(encoder_input_ids=base["input_ids"], decoder_input_ids=start))[0][:, -1]
                p = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
                row["want"]["non_speech_probs"] = value(p[:, times["no_speech_token_id"]])
            yield row
    yield run("BeamSearch", "whisper_older", dict(base, decoder_input_ids=start), {**attrs, **sub, "model_type": 2}, all3[:2])


def main():
    os.makedirs(HERE, exist_ok=True)
    rows = [r for part in (greedy, sampling, beams, whisper) for r in part()]
    with open(os.path.join(HERE, "cases.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]\n")
    for r in rows:
        print(r["model"], r["want"]["sequences"]["d"])


if __name__ == "__main__":
    main()
