"""Encodes and decodes MP3 files by libsndfile: oracle_mp3.py FOLDER, with pip's soundfile and numpy.

Writes files of every rate to FOLDER: by libsndfile, and by the command lame if there is one. Then
writes the samples of each MP3 file in FOLDER to FILE.raw, as float32, and prints a JSON object for it.
"""
import json, os, shutil, subprocess, sys
import numpy as np, soundfile

RATES = [8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000]
rng = np.random.default_rng(5)


def sound(rate, channels, seconds=1.0):
    """Returns tones, bursts of noise and clicks, which need blocks of all types."""
    t = np.arange(int(rate * seconds)) / rate
    x = [0.3 * np.sin(2 * np.pi * (200 + 150 * c) * t * (1 + t)) + 0.1 * np.sin(2 * np.pi * rate * 0.3 * t)
         + 0.15 * rng.normal(0, 1, len(t)) * (np.sin(2 * np.pi * 3 * t) > 0.3) + 0.5 * (rng.random(len(t)) > 0.9995)
         for c in range(channels)]
    return np.clip(np.stack(x, -1), -1, 1)


def main(folder):
    for rate in RATES:
        for channels in (1, 2):
            x, name = sound(rate, channels), f"{folder}/encoded-{rate}-{channels}"
            for mode in ("CONSTANT", "AVERAGE", "VARIABLE"):
                soundfile.write(f"{name}-{mode}.mp3", x, rate, bitrate_mode=mode, compression_level=float(rng.random()))
            if shutil.which("lame"):
                soundfile.write(name + ".wav", x, rate)
                low = rate < 16000
                for kind, options in {"cbr": f"--cbr -b {32 if low else 64}", "vbr": "-V2", "abr": "--abr 48", "free": "--freeformat -b 50",
                                      "joint": "-m j -V4", "stereo": f"-m s -b {64 if low else 96}", "dual": "-m d", "forced": "-m f -V5",
                                      "crc": "-p -b 64", "plain": "-t", "alone": "--nores -b 64"}.items():
                    subprocess.run(["lame", "--quiet", "--resample", str(rate / 1000)] + options.split() + [name + ".wav", f"{name}-{kind}.mp3"],
                                   check=True)
    for file in sorted(os.listdir(folder)):
        if file.endswith(".mp3"):
            x, rate = soundfile.read(f"{folder}/{file}", always_2d=True, dtype="float32")
            x.tofile(f"{folder}/{file}.raw")
            print(json.dumps({"file": file, "rate": rate, "frames": x.shape[0], "channels": x.shape[1]}))


if __name__ == "__main__":
    main(sys.argv[1])
