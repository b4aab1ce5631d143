"""Apply a normalizer or a pre-tokenizer of package tokenizers to texts, for differential tests.

    python components.py

Reads requests from the standard input: a component as JSON, the number of texts, and each text's
length and bytes. Writes for each text the normalized text, or the pieces and their offsets.
"""
import array
import json
import struct
import sys

from tokenizers import Tokenizer, __version__

assert __version__ == "0.23.3", __version__
out, inp = sys.stdout.buffer, sys.stdin.buffer


def number():
    return struct.unpack("<I", inp.read(4))[0]


def numbers(values):
    return array.array("I", values).tobytes()


def text(s):
    b = s.encode()
    return numbers([len(b)]) + b


while True:
    head = inp.read(4)
    if len(head) < 4:
        break
    component = json.loads(inp.read(struct.unpack("<I", head)[0]))
    f = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
         "post_processor": None, "decoder": None, "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}
    f.update(component)
    failure = ""
    try:
        tok = Tokenizer.from_str(json.dumps(f))
    except BaseException as err:
        failure = str(err) or "failed"
    texts = [inp.read(number()).decode("utf-8", "replace") for _ in range(number())]
    out.write(text(failure))
    for s in texts:
        try:
            assert not failure
            if "normalizer" in component:
                out.write(numbers([0]) + text(tok.normalizer.normalize_str(s)))
            else:
                pieces = tok.pre_tokenizer.pre_tokenize_str(s)
                parts = [numbers([1, len(pieces)])]
                for p, (lo, hi) in pieces:
                    parts.append(text(p) + numbers([lo, hi]))
                out.write(b"".join(parts))
        except BaseException as err:
            if isinstance(err, KeyboardInterrupt):
                raise
            out.write(numbers([2]) + text(str(err)))
    out.flush()
