"""Encode and decode texts with packages sentencepiece or tiktoken, for differential tests.

    python formats.py FILE

Reads batches from the standard input: the number of texts, and each text's length and bytes.
Writes for each text its ids, and the text that they decode to.
"""
import array
import base64
import struct
import sys

path = sys.argv[1]
if path.endswith(".tiktoken"):
    import tiktoken

    ranks = {base64.b64decode(t): int(r) for t, r in (line.split() for line in open(path, "rb") if line.strip())}
    special = {"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260,
               "<|endofprompt|>": 100276}
    pattern = (r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|"""
               r"""\s+(?!\S)|\s""")
    enc = tiktoken.Encoding("cl100k_base", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    encode = lambda s: enc.encode(s, allowed_special="all")
    decode = lambda ids: enc.decode(ids)
else:
    import sentencepiece

    sp = sentencepiece.SentencePieceProcessor(model_file=path)
    encode, decode = sp.encode, sp.decode
out, inp = sys.stdout.buffer, sys.stdin.buffer
while True:
    head = inp.read(4)
    if len(head) < 4:
        break
    texts = []
    for _ in range(struct.unpack("<I", head)[0]):
        texts.append(inp.read(struct.unpack("<I", inp.read(4))[0]).decode("utf-8", "replace"))
    for s in texts:
        ids = encode(s)
        b = decode(ids).encode()
        out.write(array.array("I", [len(ids), *ids, len(b)]).tobytes() + b)
    out.flush()
