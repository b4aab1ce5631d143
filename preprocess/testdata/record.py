"""Records what Pillow 13, OpenCV 5 and librosa make of small inputs.

    python record.py      needs pip's pillow, opencv-python-headless, librosa and numpy

images.npz holds an image and its sizes as pillow_FILTER_HxW and opencv_FILTER_HxW; sound.npz
holds samples, their transforms, mel filters and Whisper's features, which are computed as in
whisper/audio.py of https://github.com/openai/whisper, with librosa's transform.
"""
import cv2
import librosa
import numpy as np
from PIL import Image

rng = np.random.default_rng(7)
y, x = np.mgrid[0:23, 0:37]
smooth = np.stack([128 + 100 * np.sin(x / 5), 4 * y + 3 * x, 255 * ((x // 6 + y // 5) % 2)], -1)
image = np.clip(smooth + rng.normal(0, 12, smooth.shape), 0, 255).astype(np.uint8)
even = image[:22, :36].copy()
r = {"image": image, "even": even}
filters = {"nearest": Image.NEAREST, "box": Image.BOX, "bilinear": Image.BILINEAR, "hamming": Image.HAMMING, "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}
inter = {"nearest": cv2.INTER_NEAREST, "linear": cv2.INTER_LINEAR, "cubic": cv2.INTER_CUBIC, "area": cv2.INTER_AREA}
for h, w in [(10, 16), (50, 80), (23, 11), (7, 37), (40, 9), (1, 1), (22, 36), (9, 35)]:
    for name, f in filters.items():
        r[f"pillow_{name}_{h}x{w}"] = np.asarray(Image.fromarray(image).resize((w, h), f))
    for name, f in inter.items():
        r[f"opencv_{name}_{h}x{w}"] = cv2.resize(image, (w, h), interpolation=f)
for name, f in inter.items():
    r[f"evencv_{name}_11x18"] = cv2.resize(even, (18, 11), interpolation=f)
    r[f"evencv_{name}_11x12"] = cv2.resize(even, (12, 11), interpolation=f)
np.savez_compressed("images.npz", **r)

samples = (0.5 * np.sin(np.arange(4000) ** 1.5 / 90) + rng.normal(0, 0.05, 4000)).astype(np.float32)
s = {"samples": samples}
for size, hop, mode in [(400, 160, "reflect"), (512, 128, "constant"), (21, 7, "reflect"), (94, 40, "constant")]:
    z = librosa.stft(samples, n_fft=size, hop_length=hop, pad_mode=mode)
    s[f"stft_{size}_{hop}_{mode}"] = np.stack([z.real, z.imag], -1)[:, :: max(1, z.shape[1] // 6)]
for rate, size, bands in [(16000, 400, 80), (22050, 2048, 128), (8000, 64, 10)]:
    s[f"mel_{rate}_{size}_{bands}"] = librosa.filters.mel(sr=rate, n_fft=size, n_mels=bands)
z = librosa.stft(samples, n_fft=400, hop_length=160, pad_mode="reflect")[:, :-1]
mel = librosa.filters.mel(sr=16000, n_fft=400, n_mels=80) @ (np.abs(z) ** 2)
log = np.log10(np.maximum(mel, 1e-10))
s["whisper"] = ((np.maximum(log, log.max() - 8) + 4) / 4)[None].astype(np.float32)
s = {k: v.astype(np.float32) if v.dtype != np.float32 else v for k, v in s.items()}
del s["mel_22050_2048_128"]
np.savez_compressed("sound.npz", **s)
