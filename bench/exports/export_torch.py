"""Exports torchvision's and transformers' models, with random weights, through both
of torch's exporters: the one on torch.export ("dynamo") and that on TorchScript.

    pip install torch torchvision transformers onnxscript numpy onnx==1.23.2 onnxruntime==1.31.1
    python bench/exports/export_torch.py FOLDER [PART-OF-A-NAME]

The expected results are torch's. Weights and inputs come from fixed seeds; the
batch normalizations get statistics of their own, or deep networks would vanish."""

import io
import os
import sys
import warnings

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import numpy as np
import onnx
import torch
import torchvision
import transformers
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


def add(family, name, build, inputs, library, pick=None, names=None, opset=18, only=("dynamo", "torchscript"), rtol=1e-3, atol=1e-4):
    """Adds a case for each exporter. inputs are tensors by name."""

    def through(exporter):
        def make():
            torch.manual_seed(0)
            model = Flat(settle(build()), names, pick).eval()
            args = tuple(t.clone() for t in inputs.values())
            with torch.no_grad():
                want = [t.numpy() for t in model(*args)]
                if exporter == "dynamo":
                    proto = torch.onnx.export(model, args, dynamo=True, input_names=list(inputs), opset_version=opset, verbose=False).model_proto
                else:
                    f = io.BytesIO()
                    torch.onnx.export(model, args, f, dynamo=False, input_names=list(inputs), opset_version=min(opset, 17))
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


# --- torchvision -------------------------------------------------------------------
tv = torchvision.models
VISION = f"torchvision {torchvision.__version__.split('+')[0]}"
for name, size in [
    ("resnet18", 64), ("resnext50_32x4d", 64), ("mobilenet_v2", 64), ("mobilenet_v3_small", 64),
    ("efficientnet_b0", 64), ("efficientnet_v2_s", 64), ("squeezenet1_0", 64), ("squeezenet1_1", 64), ("shufflenet_v2_x0_5", 64),
    ("densenet121", 64), ("mnasnet0_5", 64), ("regnet_y_400mf", 64), ("regnet_x_400mf", 64), ("googlenet", 64), ("inception_v3", 96),
    ("alexnet", 80), ("convnext_tiny", 64), ("swin_t", 64), ("swin_v2_t", 64), ("maxvit_t", 224),
]:
    extra = {"init_weights": False, "aux_logits": False} if name in ("googlenet", "inception_v3") else {}
    add("torchvision_classification", name, lambda n=name, e=extra: getattr(tv, n)(weights=None, num_classes=10, **e), {"image": image(2 if size < 200 else 1, 3, size, size)}, VISION)
add("torchvision_classification", "vit_small", lambda: tv.VisionTransformer(32, 8, 3, 4, 64, 128, num_classes=10), {"image": image(2, 3, 32, 32)}, VISION)

for name in ["fcn_resnet50", "deeplabv3_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"]:
    extra = {} if name.startswith("lraspp") else {"aux_loss": False}
    add("torchvision_segmentation", name, lambda n=name, e=extra: getattr(tv.segmentation, n)(weights=None, weights_backbone=None, num_classes=5, **e), {"image": image(1, 3, 65, 65)}, VISION)


class Detector(nn.Module):
    """Takes one image, and tells classes apart more than fresh weights do. Scores that
    are almost equal, or that saturate, leave the order of the boxes to rounding."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        with torch.no_grad():
            for name, p in model.named_parameters():
                if "weight" in name and ("cls" in name or "classification_head" in name):
                    p.mul_(30)

    def forward(self, image):
        return self.model([image])[0]


for name, extra in [
    ("ssdlite320_mobilenet_v3_large", {}), ("ssd300_vgg16", {}), ("fasterrcnn_mobilenet_v3_large_320_fpn", {"min_size": 96, "max_size": 96}),
    ("fasterrcnn_resnet50_fpn", {"min_size": 64, "max_size": 64}), ("retinanet_resnet50_fpn", {"min_size": 64, "max_size": 64}),
    ("fcos_resnet50_fpn", {"min_size": 64, "max_size": 64}), ("maskrcnn_resnet50_fpn", {"min_size": 64, "max_size": 64}),
    ("keypointrcnn_resnet50_fpn", {"min_size": 64, "max_size": 64}),
]:
    size = extra.get("min_size", 64)
    add("torchvision_detection", name, lambda n=name, e=extra: Detector(getattr(tv.detection, n)(weights=None, weights_backbone=None, num_classes=4, **e)),
        {"image": torch.rand(3, size, size, generator=torch.Generator().manual_seed(3))}, VISION, rtol=1e-3, atol=1e-2 if name.startswith(("mask", "keypoint")) else 1e-3)
add("torchvision_video", "r3d_18", lambda: tv.video.r3d_18(weights=None, num_classes=5), {"clip": image(1, 3, 4, 32, 32)}, VISION)
add("torchvision_flow", "raft_small", lambda: tv.optical_flow.raft_small(weights=None), {"a": image(1, 3, 128, 128), "b": image(1, 3, 128, 128).flip(3)}, VISION,
    pick=lambda flows: flows[-1], rtol=1e-2, atol=1e-2)

# --- transformers ---------------------------------------------------------------------
tf = transformers
HF = f"transformers {transformers.__version__}"
IDS = torch.randint(3, 90, (2, 11), generator=torch.Generator().manual_seed(4))
MASK = torch.ones(2, 11, dtype=torch.int64)
MASK[1, 8:] = 0
TEXT = {"input_ids": IDS, "attention_mask": MASK}
SMALL = dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=40)


def hf(name, cls, config, inputs, family="transformers_encoders", **kw):
    def build():
        c = getattr(tf, config[0])(**config[1])
        c.use_cache = False
        return getattr(tf, cls)(c)

    def first(out):
        return [v for v in out.values() if isinstance(v, torch.Tensor)]

    add(family, name, build, inputs, HF, pick=first, names=list(inputs), **kw)


hf("bert", "BertModel", ("BertConfig", SMALL), TEXT)
hf("bert_eager", "BertModel", ("BertConfig", SMALL | {"attn_implementation": "eager"}), TEXT)
hf("bert_masked", "BertForMaskedLM", ("BertConfig", SMALL), TEXT)
hf("bert_classifier", "BertForSequenceClassification", ("BertConfig", SMALL), TEXT)
hf("distilbert", "DistilBertModel", ("DistilBertConfig", dict(vocab_size=96, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=40)), TEXT)
hf("roberta", "RobertaModel", ("RobertaConfig", SMALL), TEXT)
hf("xlm_roberta", "XLMRobertaModel", ("XLMRobertaConfig", SMALL), TEXT)
hf("electra", "ElectraModel", ("ElectraConfig", SMALL | {"embedding_size": 16}), TEXT)
hf("albert", "AlbertModel", ("AlbertConfig", SMALL | {"embedding_size": 16}), TEXT)
hf("deberta_v2", "DebertaV2Model", ("DebertaV2Config", SMALL | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}), TEXT)
hf("mpnet", "MPNetModel", ("MPNetConfig", SMALL), TEXT)
hf("modernbert", "ModernBertModel", ("ModernBertConfig", SMALL | {"pad_token_id": 0, "global_attn_every_n_layers": 2, "local_attention": 8}), TEXT)
hf("squeezebert", "SqueezeBertModel", ("SqueezeBertConfig", SMALL | {"embedding_size": 32}), TEXT)
hf("fnet", "FNetModel", ("FNetConfig", SMALL), {"input_ids": IDS})
T5 = dict(vocab_size=96, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
hf("t5_encoder", "T5EncoderModel", ("T5Config", T5), TEXT)
hf("t5", "T5ForConditionalGeneration", ("T5Config", T5), TEXT | {"decoder_input_ids": IDS[:, :5]}, family="transformers_decoders")
GPT2 = dict(vocab_size=96, n_positions=40, n_embd=32, n_layer=2, n_head=4)
hf("gpt2", "GPT2LMHeadModel", ("GPT2Config", GPT2), TEXT, family="transformers_decoders")
hf("gpt_neo", "GPTNeoForCausalLM", ("GPTNeoConfig", dict(vocab_size=96, hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], max_position_embeddings=40, window_size=4)), TEXT, family="transformers_decoders")
hf("gptj", "GPTJForCausalLM", ("GPTJConfig", GPT2 | {"rotary_dim": 4}), TEXT, family="transformers_decoders")
hf("opt", "OPTForCausalLM", ("OPTConfig", dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=48, max_position_embeddings=40, word_embed_proj_dim=32)), TEXT, family="transformers_decoders")
hf("bloom", "BloomForCausalLM", ("BloomConfig", dict(vocab_size=96, hidden_size=32, n_layer=2, n_head=4)), TEXT, family="transformers_decoders")
for name, cls in [("llama", "Llama"), ("mistral", "Mistral"), ("qwen2", "Qwen2"), ("qwen3", "Qwen3"), ("gemma", "Gemma"), ("gemma2", "Gemma2"), ("phi3", "Phi3"), ("phi", "Phi"), ("olmo", "Olmo"), ("stablelm", "StableLm"), ("gpt_neox", "GPTNeoX"), ("falcon", "Falcon"), ("mixtral", "Mixtral")]:
    extra = {"num_key_value_heads": 2} if name not in ("gpt_neox", "falcon") else {}
    if name in ("gemma", "gemma2", "qwen3"):
        extra["head_dim"] = 8
    if name in ("phi3",):
        extra["pad_token_id"] = 0
    if name == "mixtral":
        extra |= {"num_local_experts": 4}
    hf(name, cls + "ForCausalLM", (cls + "Config", SMALL | extra), TEXT, family="transformers_decoders")
hf("bart", "BartModel", ("BartConfig", dict(vocab_size=96, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=40)), TEXT | {"decoder_input_ids": IDS[:, :5]}, family="transformers_decoders")
hf("mamba", "MambaForCausalLM", ("MambaConfig", dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, state_size=8)), {"input_ids": IDS}, family="transformers_decoders")


WHISPER = dict(vocab_size=96, num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_source_positions=20, max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
MEL = image(1, 16, 40)


def whisper_encoder():
    return tf.WhisperModel(tf.WhisperConfig(**WHISPER)).encoder


add("transformers_audio", "whisper_encoder", whisper_encoder, {"input_features": MEL}, HF, pick=lambda o: o.last_hidden_state, names=["input_features"])
hf("whisper", "WhisperForConditionalGeneration", ("WhisperConfig", WHISPER), {"input_features": MEL, "decoder_input_ids": IDS[:1, :5]}, family="transformers_audio")
W2V = dict(vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2)
hf("wav2vec2", "Wav2Vec2Model", ("Wav2Vec2Config", W2V), {"input_values": image(1, 1600)}, family="transformers_audio")
hf("hubert", "HubertModel", ("HubertConfig", W2V), {"input_values": image(1, 1600)}, family="transformers_audio")
VIT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=32, patch_size=8)
PIXELS = {"pixel_values": image(2, 3, 32, 32)}
hf("vit", "ViTModel", ("ViTConfig", VIT), PIXELS, family="transformers_vision")
hf("deit", "DeiTModel", ("DeiTConfig", VIT), PIXELS, family="transformers_vision")
hf("beit", "BeitModel", ("BeitConfig", VIT), PIXELS, family="transformers_vision")
hf("dinov2", "Dinov2Model", ("Dinov2Config", VIT), PIXELS, family="transformers_vision")
hf("clip_vision", "CLIPVisionModel", ("CLIPVisionConfig", VIT), PIXELS, family="transformers_vision")
hf("clip_text", "CLIPTextModel", ("CLIPTextConfig", SMALL | {"eos_token_id": 95, "bos_token_id": 94}), TEXT, family="transformers_vision")
hf("segformer", "SegformerForSemanticSegmentation", ("SegformerConfig", dict(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16)), {"pixel_values": image(1, 3, 64, 64)}, family="transformers_vision")
hf("convnext", "ConvNextModel", ("ConvNextConfig", dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 2, 1])), {"pixel_values": image(1, 3, 64, 64)}, family="transformers_vision")
hf("mobilevit", "MobileViTModel", ("MobileViTConfig", dict(image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[4, 8, 8, 16, 16, 16, 32], num_attention_heads=4)), {"pixel_values": image(1, 3, 64, 64)}, family="transformers_vision")

# --- layers of torch.nn ------------------------------------------------------------------


def layer(name, build, inputs, **kw):
    add("torch_layers", name, build, inputs, f"torch {torch.__version__.split('+')[0]}", **kw)


class LSTMStack(nn.Module):
    def __init__(self, kind, **kw):
        super().__init__()
        self.rnn = kind(6, 8, num_layers=2, batch_first=True, **kw)

    def forward(self, x):
        return self.rnn(x)


SEQUENCE = {"x": image(2, 7, 6)}
layer("lstm", lambda: LSTMStack(nn.LSTM), SEQUENCE)
layer("lstm_bidirectional", lambda: LSTMStack(nn.LSTM, bidirectional=True), SEQUENCE)
layer("gru", lambda: LSTMStack(nn.GRU), SEQUENCE)
layer("gru_bidirectional", lambda: LSTMStack(nn.GRU, bidirectional=True), SEQUENCE)
layer("rnn", lambda: LSTMStack(nn.RNN), SEQUENCE)
layer("transformer_encoder", lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 24, batch_first=True), 2), {"x": image(2, 5, 16)})
layer("transformer", lambda: nn.Transformer(16, 4, 1, 1, 24, batch_first=True), {"a": image(2, 5, 16), "b": image(2, 4, 16)})
layer("multihead_attention", lambda: nn.MultiheadAttention(16, 4, batch_first=True), {"q": image(2, 5, 16), "k": image(2, 6, 16), "v": image(2, 6, 16)})
layer("conv_transpose", lambda: nn.Sequential(nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), nn.InstanceNorm2d(4), nn.PReLU(), nn.ConvTranspose2d(4, 2, 3, groups=2, dilation=2)), {"x": image(1, 3, 6, 7)})
layer("pooling", lambda: nn.Sequential(nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.AvgPool2d(3, 1, 1, count_include_pad=False), nn.LPPool2d(2, 2), nn.AdaptiveAvgPool2d(1)), {"x": image(1, 3, 21, 23)})
layer("upsampling", lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Upsample(scale_factor=1.5, mode="nearest"), nn.Upsample(size=(11, 13), mode="bicubic", align_corners=True), nn.PixelShuffle(1), nn.ReflectionPad2d(2)), {"x": image(1, 2, 5, 6)})
layer("activations", lambda: nn.Sequential(nn.GELU(), nn.SiLU(), nn.Mish(), nn.Hardswish(), nn.ELU(), nn.SELU(), nn.CELU(0.7), nn.Softplus(2.0), nn.LeakyReLU(), nn.Hardsigmoid(), nn.LogSoftmax(-1), nn.Softsign(), nn.GLU()), {"x": image(4, 6)})
layer("normalizations", lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.LayerNorm([5, 6]), nn.BatchNorm2d(4), nn.LocalResponseNorm(3), nn.RMSNorm(6)), {"x": image(2, 4, 5, 6)})


class Ops(nn.Module):
    def forward(self, x, i):
        y = torch.einsum("bij,bkj->bik", x, x.flip(1))
        z = torch.cumsum(x, 1).clamp(-1, 2).roll(1, 2)
        top = torch.topk(x, 2, dim=-1)
        g = torch.gather(x, 2, i)
        s = torch.zeros_like(x).scatter_add(2, i, torch.ones_like(g))
        return y, z, top.values, top.indices, g, s, torch.tril(y), x.std(1), torch.logsumexp(x, -1), torch.where(x > 0, x, x.exp()), x.unfold(2, 2, 1), x.argmax(-1), torch.nn.functional.one_hot(i[0, 0], 4), x.sort(-1).values


layer("operators", lambda: Ops(), {"x": image(2, 3, 4), "i": torch.tensor([[[0, 2, 1], [3, 3, 0], [1, 0, 2]]] * 2)})


class Sampling(nn.Module):
    def forward(self, x, theta):
        grid = torch.nn.functional.affine_grid(theta, (1, 2, 5, 6), align_corners=False)
        return torch.nn.functional.grid_sample(x, grid, align_corners=False, padding_mode="border")


layer("grid_sample", lambda: Sampling(), {"x": image(1, 2, 7, 8), "theta": image(1, 2, 3) * 0.3}, opset=20, only=("dynamo",))
cases.close()
