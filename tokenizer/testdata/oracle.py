"""Encode and decode texts with package tokenizers, for differential tests.

    python oracle.py tokenizer.json

Reads batches from the standard input: the number of texts, and each text's length and bytes.
Writes for each text its tokens, and the text that they decode to. Numbers are uint32, little
endian; a count of 0xFFFFFFFF stands for a panic.
"""
import array
import struct
import sys

from tokenizers import Tokenizer, __version__

assert __version__ == "0.23.3", __version__
tok = Tokenizer.from_file(sys.argv[1])
if "--pair" not in sys.argv:
    tok.no_truncation()
    tok.no_padding()
out, inp = sys.stdout.buffer, sys.stdin.buffer


def numbers(values):
    return array.array("I", values).tobytes()


while True:
    head = inp.read(4)
    if len(head) < 4:
        break
    texts = []
    for _ in range(struct.unpack("<I", head)[0]):
        n = struct.unpack("<I", inp.read(4))[0]
        texts.append(inp.read(n).decode("utf-8", "replace"))
    parts = []
    for text in texts:
        try:
            e = tok.encode(text)
            ids = e.ids
            # A token without source may have an offset beyond the text.
            offsets = [x & 0xFFFFFFFF for o in e.offsets for x in o]
            words = [0xFFFFFFFF if w is None else w for w in e.word_ids]
            text = tok.decode(ids, skip_special_tokens=False).encode()
            tokens = "\0".join(e.tokens).encode("utf-8", "surrogatepass")
            parts += [numbers([len(ids)]), numbers(ids), numbers(offsets), numbers(words), numbers(e.type_ids),
                      numbers([len(text)]), text, numbers([len(tokens)]), tokens]
        except BaseException as err:
            if isinstance(err, KeyboardInterrupt):
                raise
            message = str(err).encode()
            parts += [numbers([0xFFFFFFFF, len(message)]), message]
    out.write(b"".join(parts))
    out.flush()
