"""Records samples of MP3 files, as libsndfile decodes them.

    python record_mp3.py      needs pip's soundfile 0.14 and numpy, and the command lame 3.100

Encodes the files encoded-*.mp3. Streams drawn-*.mp3 are of mp3Draw in mp3_draw_test.go. mp3.npz has
every seventh sample of each channel by the name of the file, and NAME_n with the number of samples.
"""
import glob, os, subprocess, tempfile
import numpy as np, soundfile
from oracle_mp3 import sound

FILES = {"joint": (44100, 2, 0.22, "-m j -V5"), "mono": (8000, 1, 0.4, "-b 16"), "free": (22050, 2, 0.25, "--freeformat -b 50"),
         "crc": (48000, 1, 0.12, "-p -b 64 -t")}
for name, (rate, channels, seconds, options) in FILES.items():
    with tempfile.NamedTemporaryFile(suffix=".wav") as f:
        soundfile.write(f.name, sound(rate, channels, seconds), rate)
        subprocess.run(["lame", "--quiet", "--resample", str(rate / 1000)] + options.split() + [f.name, f"encoded-{name}.mp3"], check=True)
r = {}
for file in sorted(glob.glob("*.mp3")):
    x, rate = soundfile.read(file, always_2d=True, dtype="float32")
    name = file.removesuffix(".mp3")
    r[name], r[name + "_n"] = np.clip(x[::7], -1, 1), np.array([len(x), rate], np.int64)
    print(name, x.shape, rate, abs(x).max(), os.path.getsize(file))
np.savez_compressed("mp3.npz", **r)
