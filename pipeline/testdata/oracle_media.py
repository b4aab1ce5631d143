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


globals()[KIND]()
