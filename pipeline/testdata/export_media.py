"""Exports small models with random weights as model folders, with what transformers makes of images:
export_media.py FOLDER. Prints one JSON object a line."""

import json, os, sys, types
import numpy as np, onnxruntime, torch, transformers
from PIL import Image

FOLDER = sys.argv[1]
rng = np.random.default_rng(3)
torch.manual_seed(3)
LABELS = {i: f"thing {i}" for i in range(7)}
small = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)


def picture():
    import cv2
    h, w = int(rng.integers(150, 400)), int(rng.integers(150, 400))
    m = cv2.resize(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8), (w, h), interpolation=cv2.INTER_CUBIC)
    return Image.fromarray(m)


class Outputs(torch.nn.Module):
    """A model whose outputs are those of some fields."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, pixel_values):
        out = self.model(pixel_values=pixel_values)
        return tuple(getattr(out, n) for n in self.names)


def export(name, model, processor, names):
    model.eval()
    with torch.no_grad():  # larger weights, for scores that differ
        for p in model.parameters():
            if p.ndim > 1:
                p.mul_(3)
    folder = f"{FOLDER}/{name}"
    os.makedirs(folder, exist_ok=True)
    model.config.save_pretrained(folder)
    processor.save_pretrained(folder)
    x = processor(images=picture(), return_tensors="pt")["pixel_values"]
    torch.onnx.export(Outputs(model, names), (x,), folder + "/model.onnx", input_names=["pixel_values"], output_names=names,
                      dynamo=False, opset_version=17, dynamic_axes={"pixel_values": {2: "height", 3: "width"}})
    return folder


def run(folder, processor, image, names):
    """Returns what ONNX Runtime makes of an image."""
    x = processor(images=image, return_tensors="np")["pixel_values"]
    out = onnxruntime.InferenceSession(folder + "/model.onnx").run(names, {"pixel_values": x})
    return types.SimpleNamespace(**{n: torch.from_numpy(v) for n, v in zip(names, out)})


def show(**fields):
    print(json.dumps(fields), flush=True)


def images(kind, model, processor, names, answer):
    folder = export(kind + "_" + type(model).__name__, model, processor, names)
    for k in range(3):
        m = picture()
        file = f"{folder}/{k}.png"
        m.save(file)
        show(kind=kind, folder=folder, image=file, **answer(run(folder, processor, m, names), m))


T = transformers


def classes(out, m):
    p = torch.softmax(out.logits[0], 0)
    return dict(labels=[LABELS[int(i)] for i in p.argsort(descending=True)], scores=sorted(p.tolist(), reverse=True))


def depth(out, m):
    d = torch.nn.functional.interpolate(out.predicted_depth[None], size=m.size[::-1], mode="bicubic", align_corners=False)
    return dict(values=d.flatten()[::97].tolist())


def segments(out, m):
    s = processor.post_process_semantic_segmentation(out, target_sizes=[m.size[::-1]])[0]
    return dict(classes=s.flatten().tolist())


def objects(out, m):
    r = processor.post_process_object_detection(out, threshold=.05, target_sizes=[m.size[::-1]])[0]
    order = r["scores"].argsort(descending=True, stable=True)
    return dict(scores=r["scores"][order].tolist(), labels=[LABELS[int(i)] for i in r["labels"][order]],
                boxes=r["boxes"][order].tolist())


processor = T.ViTImageProcessorPil(size={"height": 64, "width": 64})
images("classify", T.ViTForImageClassification(T.ViTConfig(image_size=64, patch_size=16, id2label=LABELS, **small)), processor,
       ["logits"], classes)
processor = T.ConvNextImageProcessorPil(size={"shortest_edge": 96})
images("classify", T.ConvNextForImageClassification(T.ConvNextConfig(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32],
       id2label=LABELS)), processor, ["logits"], classes)
regression = lambda out, m: dict(labels=[LABELS[int(i)] for i in out.logits[0].argsort(descending=True)],
                                 scores=sorted(out.logits[0].tolist(), reverse=True))
processor = T.ViTImageProcessorPil(size={"height": 64, "width": 64})
images("classify", T.DeiTForImageClassification(T.DeiTConfig(image_size=64, patch_size=16, id2label=LABELS,
       problem_type="regression", **small)), processor, ["logits"], regression)
processor = T.SegformerImageProcessorPil(size={"height": 128, "width": 160})
images("segment", T.SegformerForSemanticSegmentation(T.SegformerConfig(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32],
       num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=32, id2label=LABELS)), processor, ["logits"], segments)
processor = T.DPTImageProcessorPil(size={"height": 96, "width": 96})
images("depth", T.DPTForDepthEstimation(T.DPTConfig(image_size=96, patch_size=16, neck_hidden_sizes=[8, 8, 8, 8],
       fusion_hidden_size=16, backbone_out_indices=[0, 1, 2, 3], is_hybrid=False, hidden_size=32, num_hidden_layers=4,
       num_attention_heads=4, intermediate_size=64)), processor, ["predicted_depth"], depth)
processor = T.YolosImageProcessorPil(size={"shortest_edge": 128, "longest_edge": 200})
images("detect", T.YolosForObjectDetection(T.YolosConfig(image_size=[128, 192], patch_size=16, num_detection_tokens=20,
       id2label=LABELS, **small)), processor, ["logits", "pred_boxes"], objects)
square = {"height": 96, "width": 128}
resnet = lambda: T.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], layer_type="basic",
                                out_features=["stage4"])
detr = lambda: dict(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=resnet(),
                    d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
                    encoder_ffn_dim=32, decoder_ffn_dim=32, num_queries=30, id2label=LABELS)


def spread(model):
    """Makes queries differ."""
    torch.nn.init.normal_(model.model.query_position_embeddings.weight, std=2)
    return model


processor = T.DetrImageProcessorPil(size=square)
images("detect", spread(T.DetrForObjectDetection(T.DetrConfig(**detr()))), processor, ["logits", "pred_boxes"], objects)
processor = T.ConditionalDetrImageProcessorPil(size=square)  # the best 100 of 210 scores count
images("detect", spread(T.ConditionalDetrForObjectDetection(T.ConditionalDetrConfig(**detr()))), processor,
       ["logits", "pred_boxes"], objects)
processor = T.RTDetrImageProcessorPil(size=square)  # the best 30 count
images("detect", T.RTDetrForObjectDetection(T.RTDetrConfig(
    backbone_config=T.RTDetrResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1],
                                         layer_type="basic", out_features=["stage2", "stage3", "stage4"]),
    encoder_hidden_dim=32, encoder_in_channels=[16, 16, 32], d_model=32, decoder_in_channels=[32, 32, 32], encoder_ffn_dim=32,
    decoder_ffn_dim=32, encoder_attention_heads=4, decoder_attention_heads=4, decoder_layers=1, num_queries=30,
    num_denoising=0, id2label=LABELS)), processor, ["logits", "pred_boxes"], objects)


class Part(torch.nn.Module):
    def __init__(self, model, name):
        super().__init__()
        self.model, self.name = model, name

    def forward(self, *inputs):
        names = ["pixel_values"] if self.name == "image_embeds" else ["input_ids", "attention_mask"]
        return getattr(self.model(**dict(zip(names, inputs))), self.name)


def clip():
    folder = FOLDER + "/clip"
    os.makedirs(folder)
    letters = [chr(c) for c in range(97, 123)]
    vocab = {t: i for i, t in enumerate(letters + [c + "</w>" for c in letters] + ["th", "the</w>", "<|startoftext|>",
                                                                                    "<|endoftext|>"])}
    tok = T.CLIPTokenizer(vocab=vocab, merges=[("t", "h"), ("th", "e</w>")])
    tok.save_pretrained(folder)
    processor = T.CLIPImageProcessorPil(size={"shortest_edge": 64}, crop_size={"height": 64, "width": 64})
    processor.save_pretrained(folder)
    text = dict(vocab_size=len(vocab), eos_token_id=len(vocab) - 1, bos_token_id=len(vocab) - 2, **small)
    config = T.CLIPConfig(text_config=text, vision_config=dict(image_size=64, patch_size=16, **small), projection_dim=24)
    config.save_pretrained(folder)
    vision = T.CLIPVisionModelWithProjection(T.CLIPVisionConfig(image_size=64, patch_size=16, projection_dim=24, **small)).eval()
    words = T.CLIPTextModelWithProjection(T.CLIPTextConfig(projection_dim=24, **text)).eval()
    m = picture()
    x = processor(images=m, return_tensors="pt")["pixel_values"]
    torch.onnx.export(Part(vision, "image_embeds"), (x,), folder + "/vision_model.onnx", input_names=["pixel_values"],
                      output_names=["image_embeds"], dynamo=False, opset_version=17)
    ids = tok("the cat", return_tensors="pt")
    torch.onnx.export(Part(words, "text_embeds"), (ids["input_ids"], ids["attention_mask"]), folder + "/text_model.onnx",
                      input_names=["input_ids", "attention_mask"], output_names=["text_embeds"], dynamo=False,
                      opset_version=17, dynamic_axes={"input_ids": {1: "n"}, "attention_mask": {1: "n"}})
    unit = lambda v: torch.nn.functional.normalize(v[0], dim=0).tolist()
    for k in range(3):
        m = picture()
        m.save(f"{folder}/{k}.png")
        with torch.no_grad():
            show(kind="embed", folder=folder, image=f"{folder}/{k}.png",
                 values=unit(vision(**processor(images=m, return_tensors="pt")).image_embeds))
    for t in ["the cat", "a very long text " * 30, "x"]:
        with torch.no_grad():
            e = tok(t, return_tensors="pt", truncation=True, max_length=77)
            show(kind="embed", folder=folder, text=t, values=unit(words(**e).text_embeds))


clip()


def siglip():
    import tokenizers
    folder = FOLDER + "/siglip"
    os.makedirs(folder)
    words = ["<pad>", "</s>", "<unk>", "\u2581the", "\u2581cat"] + ["\u2581"] + [chr(c) for c in range(97, 123)]
    raw = tokenizers.Tokenizer(tokenizers.models.Unigram([(w, -float(k)) for k, w in enumerate(words)], unk_id=2))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    raw.post_processor = tokenizers.processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tok = T.PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="</s>", eos_token="</s>", unk_token="<unk>",
                                    model_input_names=["input_ids"], model_max_length=20)
    tok.save_pretrained(folder)
    processor = T.SiglipImageProcessorPil(size={"height": 64, "width": 64})
    processor.save_pretrained(folder)
    text = dict(vocab_size=len(words), max_position_embeddings=20, projection_size=32, **small)
    vision = T.SiglipVisionModel(T.SiglipVisionConfig(image_size=64, patch_size=16, **small)).eval()
    texts = T.SiglipTextModel(T.SiglipTextConfig(**text)).eval()
    T.SiglipConfig(text_config=text, vision_config=vision.config.to_dict()).save_pretrained(folder)
    torch.onnx.export(Outputs(vision, ["last_hidden_state", "pooler_output"]), (torch.zeros(1, 3, 64, 64),),
                      folder + "/vision_model.onnx", input_names=["pixel_values"],
                      output_names=["last_hidden_state", "pooler_output"], dynamo=False, opset_version=17)
    kwargs = dict(padding="max_length", truncation=True, return_tensors="pt")
    torch.onnx.export(Part(texts, "pooler_output"), (tok("the cat", **kwargs)["input_ids"],), folder + "/text_model.onnx",
                      input_names=["input_ids"], output_names=["pooler_output"], dynamo=False, opset_version=17)
    unit = lambda v: torch.nn.functional.normalize(v[0], dim=0).tolist()
    with torch.no_grad():
        for k in range(2):
            m = picture()
            m.save(f"{folder}/{k}.png")
            show(kind="embed", folder=folder, image=f"{folder}/{k}.png",
                 values=unit(vision(**processor(images=m, return_tensors="pt")).pooler_output))
        for t in ["the cat", "a very long text " * 30, "x"]:
            show(kind="embed", folder=folder, text=t, values=unit(texts(**tok(t, **kwargs)).pooler_output))


siglip()


def dino():
    model = T.Dinov2Model(T.Dinov2Config(image_size=64, patch_size=16, **small)).eval()
    processor = T.BitImageProcessorPil(size={"shortest_edge": 72}, crop_size={"height": 64, "width": 64}, do_resize=True,
                                       do_center_crop=True)
    for name, outputs in [("dinov2", ["last_hidden_state"]), ("dinov2-pooled", ["last_hidden_state", "pooler_output"])]:
        folder = f"{FOLDER}/{name}"
        os.makedirs(folder)
        model.config.save_pretrained(folder)
        processor.save_pretrained(folder)
        torch.onnx.export(Outputs(model, outputs), (torch.zeros(1, 3, 64, 64),), folder + "/model.onnx",
                          input_names=["pixel_values"], output_names=outputs, dynamo=False, opset_version=17)
        m = picture()
        m.save(folder + "/0.png")
        with torch.no_grad():
            v = model(**processor(images=m, return_tensors="pt")).pooler_output[0]
        show(kind="embed", folder=folder, image=folder + "/0.png",
             values=torch.nn.functional.normalize(v, dim=0).tolist())


dino()


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).logits


def speech():
    folder = FOLDER + "/speech"
    os.makedirs(folder)
    tokens = ["<pad>", "<s>", "</s>", "<unk>", "|"] + [chr(c) for c in range(65, 91)]
    json.dump({t: i for i, t in enumerate(tokens)}, open(folder + "/vocab.json", "w"))
    tok = T.Wav2Vec2CTCTokenizer(folder + "/vocab.json", do_lower_case=True)
    extractor = T.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=False)
    tok.save_pretrained(folder)
    extractor.save_pretrained(folder)
    model = T.Wav2Vec2ForCTC(T.Wav2Vec2Config(vocab_size=len(tokens), conv_dim=[32] * 7, num_conv_pos_embeddings=16,
                             num_conv_pos_embedding_groups=4, **small)).eval()
    with torch.no_grad():
        model.lm_head.weight.mul_(30)

    torch.onnx.export(Logits(model), (torch.randn(1, 16000),), folder + "/model.onnx", input_names=["input_values"],
                      output_names=["logits"], dynamo=False, opset_version=17, dynamic_axes={"input_values": {1: "n"}})
    session = onnxruntime.InferenceSession(folder + "/model.onnx")
    for k in range(4):
        n = int(rng.integers(8000, 60000))
        x = (rng.normal(0, .1, n) * np.sin(np.arange(n) / 900) + .03).astype(np.float32)
        x.tofile(f"{folder}/{k}.f32")
        v = extractor(x, sampling_rate=16000, return_tensors="np")["input_values"]
        y = session.run(None, {"input_values": v})[0][0]
        show(kind="speech", folder=folder, sound=f"{folder}/{k}.f32", text=tok.decode(y.argmax(-1)))


speech()
