"""Exports models with free axes, as their libraries' exporters write them.

    python export.py --requirements GROUP               prints what pip installs for a group
    python export.py GROUP FOLDER [REGULAR-EXPRESSION]  exports its models

It writes NAME.onnx, and GROUP.json with each model's exporter and two sizes of its inputs; a
model that is not exported has the reason instead. Weights are random with fixed seeds: times do
not depend on them, except for those of trees, which are trained on random rows."""

import importlib.metadata
import io
import json
import os
import pathlib
import re
import sys
import warnings

os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3", GLOG_minloglevel="3")
warnings.filterwarnings("ignore")

GROUPS = {
    "torch": {"torch": "2.15.0", "torchvision": "0.29.2", "timm": "1.0.31", "transformers": "5.24.0", "onnx": "1.23.2", "onnxscript": "0.7.2"},
    "trees": {"scikit-learn": "1.9.1", "skl2onnx": "1.20.0", "onnxmltools": "1.16.0", "lightgbm": "4.7.0", "xgboost": "3.2.0", "onnx": "1.23.2", "packaging": "26.4"},
    "tensorflow": {"tensorflow-cpu": "2.21.0", "tf2onnx": "1.17.0"},
    "paddle": {"paddlepaddle": "3.3.1", "paddle2onnx": "2.1.0", "packaging": "26.4"},
}


def sizes(*pairs):
    """Two sets of shapes, each a string such as "x=1x3x224x224 state=2x1x64"."""
    return [s.split() for s in pairs]


class Models:
    """The models of a group, written to a folder. `only` keeps those whose name matches it."""

    def __init__(self, folder, group, only):
        self.folder, self.group, self.only, self.list = folder, group, only, []

    def add(self, name, exporter, shapes, make):
        """make returns the bytes of a model."""
        if not re.search(self.only, name):
            return
        entry = {"name": name, "exporter": exporter, "sizes": shapes}
        try:
            data = make()
            (self.folder / f"{name}.onnx").write_bytes(data)
            print(f"{name}: {len(data)} bytes", flush=True)
        except Exception as e:
            entry["not_exported"] = f"{type(e).__name__}: {e}".strip().splitlines()[0][:200]
            print(f"{name}: {entry['not_exported']}", flush=True)
        self.list.append(entry)

    def close(self):
        (self.folder / f"{self.group}.json").write_text(json.dumps(self.list, indent=1) + "\n")


def torch_models(models):
    import timm
    import torch
    import torchvision.models as tv
    import transformers as tf
    from torch import nn

    torch.set_num_threads(2)
    versions = GROUPS["torch"]

    def export(library, name, build, inputs, axes, shapes, dynamo=False, names=None, pick=lambda out: out):
        """axes names the free axes of each input. names are those of the arguments, if they are not
        given by position."""

        class Flat(nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.model = build().eval()

            def forward(self, *args):
                out = pick(self.model(**dict(zip(names, args))) if names else self.model(*args))
                return tuple(out) if isinstance(out, (list, tuple)) else out

        def make():
            f, free = io.BytesIO(), dict(zip(inputs, axes))
            with torch.no_grad():
                if not dynamo:
                    torch.onnx.export(Flat(), tuple(inputs.values()), f, dynamo=False, input_names=list(inputs), dynamic_axes=free, opset_version=17)
                    return f.getvalue()
                dims = {}
                spec = tuple({k: dims.setdefault(v, torch.export.Dim.DYNAMIC) for k, v in a.items()} for a in axes)
                program = torch.onnx.export(Flat(), tuple(inputs.values()), dynamo=True, input_names=list(inputs), dynamic_shapes=(spec,), opset_version=18, verbose=False)
                return program.model_proto.SerializeToString()

        models.add(name, f"{library} {versions[library]}", shapes, make)

    def image(*shape):
        return torch.randn(*shape, generator=torch.Generator().manual_seed(2))

    nhw = {0: "batch", 2: "height", 3: "width"}
    photos = sizes("image=1x3x224x224", "image=2x3x192x320")

    def photo(library, name, build, dynamo=False, pick=lambda out: out, shapes=photos):
        export(library, name, build, {"image": image(2, 3, 128, 160)}, [nhw], shapes, dynamo, pick=pick)

    photo("torchvision", "resnet18", lambda: tv.resnet18())
    photo("torchvision", "mobilenet_v3_small", lambda: tv.mobilenet_v3_small())
    photo("torchvision", "efficientnet_b0", lambda: tv.efficientnet_b0(), dynamo=True)
    photo("torchvision", "shufflenet_v2_x1_0", lambda: tv.shufflenet_v2_x1_0())
    photo("torchvision", "deeplabv3_mobilenet_v3_large", lambda: tv.segmentation.deeplabv3_mobilenet_v3_large(weights_backbone=None), pick=lambda out: out["out"])
    for i, name in enumerate(["mobilenetv4_conv_small", "convnext_atto", "hrnet_w18_small", "repvit_m0_9", "mambaout_femto", "regnety_002", "repvgg_a0", "poolformerv2_s12"]):
        photo("timm", name, lambda name=name: timm.create_model(name), dynamo=i % 2 == 1)
    export("timm", "vit_tiny_patch16_224", lambda: timm.create_model("vit_tiny_patch16_224"), {"image": image(2, 3, 224, 224)}, [{0: "batch"}], sizes("image=1x3x224x224", "image=4x3x224x224"), dynamo=True)

    batch_length = {0: "batch", 1: "length"}
    ids = torch.randint(3, 900, (2, 19), generator=torch.Generator().manual_seed(4))
    text = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    sentences = sizes("input_ids=1x16 attention_mask=1x16", "input_ids=8x64 attention_mask=8x64")
    bert = dict(vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, max_position_embeddings=300)

    def hf(name, cls, config, inputs=text, shapes=sentences, axes=None, dynamo=False, pick=lambda out: out.last_hidden_state):
        def build():
            c = config
            c.use_cache, c._attn_implementation = False, "sdpa" if dynamo else "eager"
            return getattr(tf, cls)(c)

        export("transformers", name, build, inputs, axes or [batch_length] * len(inputs), shapes, dynamo, list(inputs), pick)

    logits = lambda out: out.logits
    hf("bert", "BertModel", tf.BertConfig(**bert))
    hf("distilbert", "DistilBertModel", tf.DistilBertConfig(vocab_size=1000, dim=256, n_layers=3, n_heads=4, hidden_dim=1024), dynamo=True)
    hf("roberta_classifier", "RobertaForSequenceClassification", tf.RobertaConfig(**bert), pick=logits)
    hf("deberta_v2", "DebertaV2Model", tf.DebertaV2Config(**bert, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=64))
    hf("t5_encoder", "T5EncoderModel", tf.T5Config(vocab_size=1000, d_model=256, d_kv=64, d_ff=1024, num_layers=4, num_heads=4))
    hf("gpt2", "GPT2LMHeadModel", tf.GPT2Config(vocab_size=1000, n_positions=300, n_embd=256, n_layer=4, n_head=4, bos_token_id=1, eos_token_id=2), dynamo=True, pick=logits)
    hf("llama", "LlamaForCausalLM", tf.LlamaConfig(**bert, num_key_value_heads=2), dynamo=True, pick=logits)
    audio = tf.Wav2Vec2Config(vocab_size=32, hidden_size=256, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512, conv_dim=(128,) * 7)
    hf("wav2vec2", "Wav2Vec2ForCTC", audio, {"input_values": image(2, 8000)}, sizes("input_values=1x16000", "input_values=1x48000"), pick=logits)
    whisper = tf.WhisperConfig(vocab_size=1000, d_model=256, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=1024, decoder_ffn_dim=256, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    export("transformers", "whisper_encoder", lambda: tf.WhisperModel(whisper).encoder, {"input_features": image(2, 80, 3000)}, [{0: "batch"}], sizes("input_features=1x80x3000", "input_features=2x80x3000"), names=["input_features"], pick=lambda out: out.last_hidden_state)
    vision = dict(hidden_size=192, num_hidden_layers=4, num_attention_heads=3, intermediate_size=768)
    hf("clip_vision", "CLIPVisionModel", tf.CLIPVisionConfig(**vision, image_size=224, patch_size=32), {"pixel_values": image(2, 3, 224, 224)}, sizes("pixel_values=1x3x224x224", "pixel_values=4x3x224x224"), [{0: "batch"}])
    hf("segformer_b0", "SegformerForSemanticSegmentation", tf.SegformerConfig(), {"pixel_values": image(2, 3, 128, 160)}, sizes("pixel_values=1x3x256x256", "pixel_values=1x3x192x320"), [nhw], pick=logits)

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.lstm, self.out = nn.Embedding(1000, 128), nn.LSTM(128, 128, 2, bidirectional=True, batch_first=True), nn.Linear(256, 20)

        def forward(self, x):
            return self.out(self.lstm(self.embed(x))[0])

    class Voice(nn.Module):
        """A step of a network for streams: frames and the state in, probabilities and the state out."""

        def __init__(self):
            super().__init__()
            self.conv, self.gru, self.out = nn.Conv1d(40, 64, 3, padding=1), nn.GRU(64, 64, batch_first=True), nn.Linear(64, 1)

        def forward(self, x, state):
            y, state = self.gru(torch.relu(self.conv(x)).transpose(1, 2), state)
            return torch.sigmoid(self.out(y)), state

    class TextLine(nn.Module):
        """Convolutions and a bidirectional LSTM over the columns of a line of text."""

        def __init__(self):
            super().__init__()
            layers, before = [], 1
            for channels, pool in [(32, (2, 2)), (64, (2, 2)), (128, (2, 1)), (256, (4, 1))]:
                layers += [nn.Conv2d(before, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(pool)]
                before = channels
            self.conv, self.lstm, self.out = nn.Sequential(*layers), nn.LSTM(256, 128, bidirectional=True), nn.Linear(256, 97)

        def forward(self, x):
            return self.out(self.lstm(self.conv(x).squeeze(2).permute(2, 0, 1))[0])

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            block = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
            self.down = nn.ModuleList([block(3, 16), block(16, 32), block(32, 64)])
            self.up, self.pool, self.out = nn.ModuleList([block(96, 32), block(48, 16)]), nn.MaxPool2d(2), nn.Conv2d(16, 2, 1)

        def forward(self, x):
            a = self.down[0](x)
            b = self.down[1](self.pool(a))
            c = self.down[2](self.pool(b))
            for skip, block in zip((b, a), self.up):
                c = block(torch.cat([nn.functional.interpolate(c, size=skip.shape[2:], mode="bilinear", align_corners=False), skip], 1))
            return self.out(c)

    export("torch", "bilstm_tagger", Tagger, {"ids": ids}, [batch_length], sizes("ids=1x16", "ids=8x64"))
    export("torch", "gru_voice", Voice, {"x": image(1, 40, 5), "state": image(1, 1, 64)}, [{0: "batch", 2: "frames"}, {1: "batch"}], sizes("x=1x40x4 state=1x1x64", "x=1x40x100 state=1x1x64"))
    export("torch", "crnn_text_line", TextLine, {"image": image(2, 1, 32, 100)}, [{0: "batch", 3: "width"}], sizes("image=1x1x32x160", "image=6x1x32x320"))
    export("torch", "unet", UNet, {"image": image(2, 3, 64, 96)}, [nhw], sizes("image=1x3x128x128", "image=1x3x192x320"), dynamo=True)
    tcn = lambda: nn.Sequential(*[m for i in range(6) for m in (nn.Conv1d(64, 64, 3, padding=2**i, dilation=2**i), nn.BatchNorm1d(64), nn.GELU())])
    export("torch", "tcn", tcn, {"x": image(2, 64, 100)}, [{0: "batch", 2: "length"}], sizes("x=1x64x400", "x=4x64x1000"))


def trees_models(models):
    import lightgbm
    import numpy as np
    import onnxmltools
    import skl2onnx
    import sklearn.ensemble as en
    import xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType
    from sklearn import linear_model, neighbors, neural_network, pipeline, preprocessing, svm

    rng = np.random.default_rng(5)
    x = rng.normal(size=(3000, 30)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] ** 2 > 0.5).astype(int) + (x[:, 2] > 0.7)
    values = (x[:, 0] * 3 + np.sin(x[:, 1] * 2)).astype(np.float32)
    rows = sizes("x=1x30", "x=1000x30")
    scaled = lambda est: pipeline.make_pipeline(preprocessing.StandardScaler(), est)
    for name, est in [
        ("random_forest", en.RandomForestClassifier(100, max_depth=12, random_state=0)), ("gradient_boosting", en.GradientBoostingClassifier(random_state=0)),
        ("logistic_regression", scaled(linear_model.LogisticRegression())), ("mlp", scaled(neural_network.MLPClassifier((64, 64), max_iter=20, random_state=0))),
        ("svc", scaled(svm.SVC())), ("nearest_neighbors", neighbors.KNeighborsClassifier(5)),
    ]:
        models.add(f"sklearn_{name}", f"skl2onnx {skl2onnx.__version__}", rows, lambda est=est: skl2onnx.to_onnx(
            est.fit(x, y), initial_types=[("x", skl2onnx.common.data_types.FloatTensorType([None, 30]))], options={"zipmap": False}, target_opset={"": 21, "ai.onnx.ml": 3}).SerializeToString())
    types = dict(initial_types=[("x", FloatTensorType([None, 30]))], target_opset=15)
    for name, convert, est, target in [
        ("lightgbm_classifier", onnxmltools.convert_lightgbm, lightgbm.LGBMClassifier(n_estimators=100, verbose=-1, random_state=0), y),
        ("lightgbm_regressor", onnxmltools.convert_lightgbm, lightgbm.LGBMRegressor(n_estimators=300, num_leaves=63, verbose=-1, random_state=0), values),
        ("xgboost_classifier", onnxmltools.convert_xgboost, xgboost.XGBClassifier(n_estimators=100, max_depth=6, random_state=0), y),
        ("xgboost_regressor", onnxmltools.convert_xgboost, xgboost.XGBRegressor(n_estimators=300, max_depth=8, random_state=0), values),
    ]:
        zipmap = {"zipmap": False} if name == "lightgbm_classifier" else {}
        models.add(name, f"onnxmltools {onnxmltools.__version__}", rows, lambda: convert(est.fit(x, target), **types, **zipmap).SerializeToString())


def tensorflow_models(models):
    import keras
    import numpy as np  # noqa: F401, tf2onnx needs it first
    import tensorflow as tf
    import tf2onnx
    from keras import applications, layers as L

    def add(name, build, shape, shapes, dtype=tf.float32):
        def make():
            keras.utils.set_random_seed(1)
            model = build()
            call = tf.function(lambda x: model(x, training=False))
            proto, _ = tf2onnx.convert.from_function(call, input_signature=[tf.TensorSpec(shape, dtype, name="x")], opset=17)
            return proto.SerializeToString()

        models.add(name, f"tf2onnx {GROUPS['tensorflow']['tf2onnx']}", shapes, make)

    photos = sizes("x=1x224x224x3", "x=2x192x320x3")
    for name, net in [("keras_mobilenet_v2", applications.MobileNetV2), ("keras_efficientnet_b0", applications.EfficientNetB0), ("keras_densenet121", applications.DenseNet121)]:
        add(name, lambda net=net: net(weights=None, include_top=False, pooling="avg", input_shape=(None, None, 3)), [None, None, None, 3], photos)
    add("keras_keyword_spotter", lambda: keras.Sequential([L.Input((None, 40))] + [m for n in (64, 64, 128) for m in (L.SeparableConv1D(n, 9, padding="same"), L.BatchNormalization(), L.ReLU())] + [L.GlobalAveragePooling1D(), L.Dense(12, "softmax")]),
        [None, None, 40], sizes("x=1x98x40", "x=8x300x40"))
    add("keras_bilstm", lambda: keras.Sequential([L.Input((None,), dtype="int32"), L.Embedding(1000, 64), L.Bidirectional(L.LSTM(64)), L.Dense(4, "softmax")]), [None, None], sizes("x=1x16", "x=8x64"), tf.int32)


def paddle_models(models):
    import tempfile

    import paddle
    import paddle2onnx
    from paddle.vision import models as pv

    def add(name, build, shape, shapes):
        def make():
            paddle.seed(0)
            model = build()
            model.eval()
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "m")
                paddle.jit.save(model, path, input_spec=[paddle.static.InputSpec(shape, "float32", name="x")])
                program = next(p for p in (path + ".json", path + ".pdmodel") if os.path.exists(p))
                paddle2onnx.export(program, path + ".pdiparams", path + ".onnx", opset_version=14, optimize_tool="none")
                return pathlib.Path(path + ".onnx").read_bytes()

        models.add(name, f"paddle2onnx {GROUPS['paddle']['paddle2onnx']}", shapes, make)

    photos = sizes("x=1x3x224x224", "x=2x3x192x320")
    add("paddle_mobilenet_v3_small", lambda: pv.mobilenet_v3_small(), [None, 3, None, None], photos)
    add("paddle_resnet18", lambda: pv.resnet18(), [None, 3, None, None], photos)
    add("paddle_mobilenet_v2", lambda: pv.mobilenet_v2(), [None, 3, None, None], photos)


def missing(group):
    """Says which packages of a group are not installed in the version wanted, "" if none."""
    problems = []
    for name, version in GROUPS[group].items():
        try:
            got = importlib.metadata.version(name).split("+")[0]
        except importlib.metadata.PackageNotFoundError:
            got = "absent"
        if got != version:
            problems.append(f"{name} is {got}, want {version}")
    return "; ".join(problems)


def main(args):
    if args[0] == "--requirements":
        print(*(f"{name}=={version}" for name, version in GROUPS[args[1]].items()))
        return
    if problem := missing(args[0]):
        sys.exit(f"{args[0]} is not exported: {problem}")
    models = Models(pathlib.Path(args[1]), args[0], args[2] if len(args) > 2 else "")
    globals()[f"{args[0]}_models"](models)
    models.close()


if __name__ == "__main__":
    main(sys.argv[1:])
