"""Writes images and sounds, and what the Python packages make of them, to a folder:
oracle_media.py KIND FOLDER [MODELS]. Prints one JSON object a line."""

import glob, io, json, os, random, subprocess, sys, wave
import numpy as np

KIND, FOLDER = sys.argv[1:3]
rng = np.random.default_rng(7)


def show(**fields):
    print(json.dumps(fields, ensure_ascii=False), flush=True)


def speech(text, rate):
    """Returns synthetic speech by espeak-ng."""
    voice = ["en", "de", "en-us", "en+f3"][rng.integers(4)]
    data = subprocess.run(["espeak-ng", "-v", voice, "-s", str(rng.integers(110, 220)), "--stdout", text],
                          capture_output=True, check=True).stdout
    of = wave.open(io.BytesIO(data)).getframerate()
    x = np.frombuffer(data[44:], np.int16).astype(np.float32) / 32768
    n = int(len(x) * rate / of)
    return np.interp(np.arange(n) * of / rate, np.arange(len(x)), x).astype(np.float32)


TEXTS = ["Hello, this is a test of the voice detector.", "Yes.", "One two three four five six seven eight nine ten.",
         "The quick brown fox jumps over the lazy dog. It was not amused by that at all, and went on.",
         "Guten Morgen, wie geht es Ihnen heute? Das Wetter ist schön.", "Alexa, what is the weather in Berlin?",
         "Hey Jarvis!", "Hey Mycroft.", "Set a timer for ten minutes."]


def sound(k, rate):
    """Returns speech, silence and noise."""
    parts = []
    for _ in range(rng.integers(4, 9)):
        parts.append(np.zeros(rng.integers(0, rate * 3 // 2), np.float32))
        parts.append(speech(TEXTS[rng.integers(len(TEXTS))], rate) * np.float32(rng.uniform(.05, 1)))
    x = np.concatenate(parts)
    return (x + rng.normal(0, [0, .001, .01, .05][k % 4], len(x))).astype(np.float32)


def voice():
    import silero_vad
    from silero_vad.utils_vad import OnnxWrapper, VADIterator, get_speech_timestamps
    from silero_vad.sequence_vad import SileroVADSequence, get_speech_timestamps_sequence
    import onnxruntime, torch, warnings
    warnings.simplefilter("ignore")
    data = os.path.join(os.path.dirname(silero_vad.__file__), "data")

    class Plain(OnnxWrapper):
        """A model without an input for the rate."""

        def __init__(self, path):
            super().__init__(path, True)
            run, self.sample_rates = self.session.run, [16000]
            names = [i.name for i in self.session.get_inputs()]
            self.session = type("", (), {"run": lambda _, out, feed: run(out, {n: feed[n] for n in names})})()

    class LSTM:
        """A model of version 4."""

        def __init__(self, path):
            self.session = onnxruntime.InferenceSession(path)

        def reset_states(self):
            self.h = self.c = np.zeros((2, 1, 64), np.float32)

        def __call__(self, x, rate):
            out, self.h, self.c = self.session.run(
                None, {"input": x.numpy().reshape(1, -1), "sr": np.array(rate), "h": self.h, "c": self.c})
            return torch.from_numpy(out)

    options = [dict(), dict(threshold=.3, min_silence_duration_ms=300, speech_pad_ms=100),
               dict(max_speech_duration_s=2.5, min_speech_duration_ms=500), dict(neg_threshold=.1, speech_pad_ms=200)]
    for k in range(int(os.environ.get("ONWARD_SOUNDS", 8))):
        rate = [16000, 8000, 16000, 48000][k % 4]
        x = sound(k, min(rate, 16000))
        if rate == 48000:
            x = np.repeat(x, 3)
        file = f"{FOLDER}/{k}.f32"
        x.tofile(file)
        for path in sorted(glob.glob(data + "/*.onnx")) + sys.argv[3:]:
            name = os.path.basename(path)
            only16k = "16k" in name or "half" in name
            if rate == 8000 and only16k:
                continue
            streamed = None
            if "sequence" in name:
                model, run = SileroVADSequence(path), get_speech_timestamps_sequence
            else:
                run = get_speech_timestamps
                model = LSTM(path) if path in sys.argv[3:] else Plain(path) if "half" in name or "openvino" in name \
                    else OnnxWrapper(path, True)
                if rate <= 16000:
                    stream, n = VADIterator(model, sampling_rate=rate), 512 * rate // 16000
                    events = [stream(torch.from_numpy(x[i:i + n])) for i in range(0, len(x) - n + 1, n)]
                    streamed = [[k == "start", v] for e in events if e for k, v in e.items()]
            for o in options:
                a = x if "sequence" in name else torch.from_numpy(x)
                found = [[s["start"], s["end"]] for s in run(a, model, sampling_rate=rate, **o)]
                show(file=file, rate=rate, model=path, options=o, segments=found, streamed=streamed)


def wake():
    import types
    for name in ["sklearn", "sklearn.linear_model", "sklearn.pipeline", "sklearn.preprocessing"]:  # for training alone
        try:
            __import__(name)
        except ImportError:
            sys.modules[name] = types.ModuleType(name)
            for c in ["LogisticRegression", "make_pipeline", "FunctionTransformer", "StandardScaler"]:
                setattr(sys.modules[name], c, None)
    from openwakeword.model import Model
    models = sys.argv[3]
    words = sorted(p for p in glob.glob(models + "/*.onnx")
                   if os.path.basename(p) not in ("melspectrogram.onnx", "embedding_model.onnx", "silero_vad.onnx"))
    import onnxruntime, openwakeword
    for path in words:
        output = onnxruntime.InferenceSession(path).get_outputs()[0].name
        if output[0] == "{":
            openwakeword.model_class_mappings[os.path.basename(path)[:-5]] = json.loads(output)
    for k in range(int(os.environ.get("ONWARD_SOUNDS", 4))):
        x = np.clip(np.rint(sound(k, 16000) * 32768), -32768, 32767).astype(np.int16)
        file = f"{FOLDER}/{k}.f32"
        (x.astype(np.float32) / 32768).tofile(file)
        m = Model(wakeword_models=words, inference_framework="onnx", melspec_model_path=models + "/melspectrogram.onnx",
                  embedding_model_path=models + "/embedding_model.onnx")
        m.preprocessor.feature_buffer = np.zeros((41, 96))  # instead of those of random noise
        scores = []
        for i in range(0, len(x) - 1279, 1280):
            p = m.predict(x[i:i + 1280])
            scores.append({n: float(v) for n, v in p.items()})
        show(file=file, scores=scores)


def resample():
    import torch, torchaudio.transforms
    x = rng.normal(0, .3, 5000).astype(np.float32)
    x.tofile(f"{FOLDER}/x.f32")
    kaiser = dict(resampling_method="sinc_interp_kaiser", beta=14.769656459379492)
    for k, (a, b) in enumerate([(22050, 16000), (16000, 8000), (8000, 16000), (44100, 16000), (48000, 16000),
                                (16000, 44100), (11025, 8000), (16000, 11025)]):
        for width, rolloff, more in [(6, .99, {}), (6, .99, kaiser), (64, .9475937167399596, kaiser)]:
            resample = torchaudio.transforms.Resample(a, b, lowpass_filter_width=width, rolloff=rolloff, **more)
            y = resample(torch.from_numpy(x))
            file = f"{FOLDER}/{k}_{width}_{len(more)}.f32"
            y.numpy().tofile(file)
            show(input=f"{FOLDER}/x.f32", output=file, rates=[a, b], width=width, rolloff=rolloff, beta=more.get("beta", 0))


def picture(k):
    """Returns an image of smooth shapes with noise."""
    import cv2
    h, w = int(rng.integers(120, 700)), int(rng.integers(120, 700))
    m = cv2.resize(rng.integers(0, 256, (rng.integers(4, 40), rng.integers(4, 40), 3), dtype=np.uint8), (w, h),
                   interpolation=cv2.INTER_CUBIC)
    return np.clip(m + rng.normal(0, 10, m.shape), 0, 255).astype(np.uint8)


def save(k):
    from PIL import Image
    m = picture(k)
    file = f"{FOLDER}/{k}.png"
    Image.fromarray(m).save(file)
    return m, file


def processor():
    """Inputs of models by transformers' processors with Pillow."""
    import transformers
    from transformers.models.auto import image_processing_auto
    t = lambda name, **o: (name, o)
    cases = [t("ViT"), t("ViT", size={"height": 97, "width": 160}, resample=3), t("CLIP"), t("DeiT"), t("Siglip"),
             t("ConvNext", size={"shortest_edge": 224}), t("ConvNext"), t("MobileViT"), t("MobileNetV2"),
             t("Segformer", size={"height": 128, "width": 128}), t("DPT"),
             t("DPT", keep_aspect_ratio=True, ensure_multiple_of=14, size={"height": 518, "width": 518}),
             t("Detr", size={"shortest_edge": 300, "longest_edge": 450}), t("Yolos", size={"shortest_edge": 256,
             "longest_edge": 900}), t("Bit", crop_size={"height": 300, "width": 200}, resample=0),
             t("ViT", resample=1, size={"height": 64, "width": 50}, do_normalize=False),
             t("ViT", resample=4, do_rescale=False, do_normalize=False), t("ViT", resample=5),
             t("RTDetr", size={"height": 320, "width": 320}), t("Beit", crop_size={"height": 300, "width": 300})]
    for k, (name, o) in enumerate(cases * 2):
        m, file = save(k)
        kind = getattr(transformers, name + "ImageProcessorPil")
        p = kind(**o)
        folder = f"{FOLDER}/p{k}"
        p.save_pretrained(folder)
        x = p(images=m, return_tensors="np")["pixel_values"]
        np.ascontiguousarray(x, dtype=np.float32).tofile(folder + "/x.f32")
        show(image=file, folder=folder, shape=x.shape, name=name, options=str(o))


WORDS = """the quick brown fox jumps over a lazy dog while seven wizards boxed Invoice No. 2024-117 Total: $1,250.00 Straße
München Ärger Zürich (GmbH) e-mail: info@example.org https://example.org/path?x=1 Runtime 1.26 kernel 42% A/B test O'Neil
"quoted" naïve café résumé 3.14159 +49 30 1234567 hello world Lorem ipsum dolor sit amet consectetur""".split()


def page(k, draw):
    """Returns a page of text, which may be rotated, in perspective, noisy, blurred, or upside down."""
    import cv2
    from PIL import Image, ImageDraw, ImageFont
    fonts = sorted(glob.glob("/usr/share/fonts/truetype/**/*.ttf", recursive=True))
    w, h = draw.randint(400, 1100), draw.randint(300, 900)
    light = draw.random() < .8
    paper = tuple(draw.randint(200, 255) if light else draw.randint(0, 60) for _ in range(3))
    ink = tuple(draw.randint(0, 90) if light else draw.randint(190, 255) for _ in range(3))
    image = Image.new("RGB", (w, h), paper)
    d, y = ImageDraw.Draw(image), draw.randint(10, 40)
    while y < h - 40:
        size, x = draw.randint(16, 44), draw.randint(10, 60)
        font = ImageFont.truetype(draw.choice(fonts), size)
        while x < w - 80:
            text = " ".join(draw.choice(WORDS) for _ in range(draw.randint(1, 7)))
            length = d.textlength(text, font=font)
            if x + length < w - 10:
                d.text((x, y), text, font=font, fill=ink)
            x += int(length) + draw.randint(60, 200)
        y += int(size * draw.uniform(1.5, 2.6))
    m = np.array(image)
    if k % 5 == 1:
        turn = cv2.getRotationMatrix2D((w / 2, h / 2), draw.uniform(-12, 12), draw.uniform(.8, 1))
        m = cv2.warpAffine(m, turn, (w, h), borderValue=paper)
    elif k % 5 == 2:
        s = lambda: draw.uniform(0, .08)
        corners = np.float32([[w * s(), h * s()], [w - w * s(), h * s()], [w - w * s(), h - h * s()], [w * s(), h - h * s()]])
        warp = cv2.getPerspectiveTransform(np.float32([[0, 0], [w, 0], [w, h], [0, h]]), corners)
        m = cv2.warpPerspective(m, warp, (w, h), borderValue=paper)
    elif k % 5 == 3:
        m = np.clip(m + rng.normal(0, draw.uniform(3, 18), m.shape), 0, 255).astype(np.uint8)
    elif k % 10 == 4:
        m = cv2.GaussianBlur(m, (0, 0), draw.uniform(.4, 1.2))
    elif k % 10 == 9:
        m = m[::-1, ::-1].copy()
    return m


def ocr():
    """What rapidocr reads on pages."""
    import rapidocr
    from PIL import Image
    engine = rapidocr.RapidOCR(params={"Global.log_level": "error"})
    draw = random.Random(int(os.environ.get("ONWARD_SEED", 1)))
    for k in range(int(os.environ.get("ONWARD_PAGES", 10))):
        m = page(k, draw)
        file = f"{FOLDER}/{k}.png"
        Image.fromarray(m).save(file)
        r = engine(m[:, :, ::-1].copy())
        lines = [] if r.txts is None else [dict(text=t, score=float(s), box=b.tolist())
                                           for t, s, b in zip(r.txts, r.scores, r.boxes)]
        show(image=file, models=os.path.dirname(rapidocr.__file__) + "/models", lines=lines)


def yolo():
    """Boxes of nudenet's YOLO v8, and of a model whose output has the form of version 5."""
    import cv2, nudenet, onnx, onnxruntime, torch, torchvision
    from onnx import helper
    folder = os.path.dirname(nudenet.__file__)
    source = onnx.load(glob.glob(folder + "/*.onnx")[0])
    labels = [f"part {i}" for i in range(18)]
    name = source.graph.output[0].name
    models = {}
    for form in ["grid", "objects"]:
        m = onnx.ModelProto()
        m.CopyFrom(source)
        del m.metadata_props[:]
        helper.set_model_props(m, {"names": str(dict(enumerate(labels)))})
        if form == "objects":  # transposed, with a score of objects of 0.9 before the classes
            f = onnx.TensorProto.FLOAT
            one = helper.make_tensor("objectness", f, [1], [.9])
            m.graph.node.extend([
                helper.make_node("Transpose", [name], ["rows"], perm=[0, 2, 1]),
                helper.make_node("Split", ["rows", "split"], ["corners", "classes"], axis=2),
                helper.make_node("ReduceMax", ["classes"], ["largest"], axes=[2], keepdims=1),
                helper.make_node("Mul", ["largest", "zero"], ["zeros"]), helper.make_node("Add", ["zeros", "one"], ["object"]),
                helper.make_node("Concat", ["corners", "object", "classes"], ["final"], axis=2)])
            m.graph.initializer.extend([helper.make_tensor("split", onnx.TensorProto.INT64, [2], [4, 18]),
                                        helper.make_tensor("zero", f, [1], [0.]), helper.make_tensor("one", f, [1], [.9])])
            del m.graph.output[:]
            m.graph.output.append(helper.make_tensor_value_info("final", f, [1, 2100, 23]))
            if [o.version for o in m.opset_import if not o.domain][0] >= 18:
                m.graph.node[-4].ClearField("attribute")
                m.graph.node[-4].input.append("axes")
                m.graph.initializer.append(helper.make_tensor("axes", onnx.TensorProto.INT64, [1], [2]))
        os.makedirs(f"{FOLDER}/{form}")
        onnx.save(m, f"{FOLDER}/{form}/yolo.onnx")
        models[form] = onnxruntime.InferenceSession(f"{FOLDER}/{form}/yolo.onnx")
    threshold, overlap, size = .004, .45, 320
    for k in range(8):
        m, file = save(k)
        h, w = m.shape[:2]
        scale = min(size / h, size / w)
        nh, nw = round(h * scale), round(w * scale)
        top, left = (size - nh) // 2, (size - nw) // 2
        x = np.full((size, size, 3), 114, np.uint8)
        x[top:top + nh, left:left + nw] = cv2.resize(m, (nw, nh))
        x = np.ascontiguousarray(x.transpose(2, 0, 1)[None], np.float32) / 255
        for form, session in models.items():
            y = session.run(None, {session.get_inputs()[0].name: x})[0][0]
            if form == "grid":
                y = y.T
                scores = y[:, 4:]
            else:
                scores = y[:, 5:] * y[:, 4:5]
            best, s = scores.argmax(1), scores.max(1)
            keep = s > threshold
            c, best, s = y[keep, :4], best[keep], s[keep]
            b = np.concatenate([c[:, :2] - c[:, 2:] / 2, c[:, :2] + c[:, 2:] / 2], 1)
            b = ((b - [left, top, left, top]) / scale).clip(0, [w, h, w, h])
            kept = torchvision.ops.batched_nms(torch.tensor(b).float(), torch.tensor(s), torch.tensor(best), overlap).numpy()
            show(image=file, folder=f"{FOLDER}/{form}", threshold=threshold, boxes=b[kept].tolist(), scores=s[kept].tolist(),
                 labels=[labels[i] for i in best[kept]])


globals()[KIND]()
