"""Encode one or two texts with package tokenizers, truncated and padded, for differential tests.

    python windows.py tokenizer.json

Reads a JSON object a line: texts, ids to decode, special, and the arguments of enable_truncation and enable_padding or null.
Writes the windows, the text of the ids, and the parts that a DecodeStream returns, as a JSON object a line.
"""
import json
import sys

from tokenizers import Tokenizer, __version__
from tokenizers.decoders import DecodeStream

assert __version__ == "0.23.3", __version__
tok = Tokenizer.from_file(sys.argv[1])
for line in sys.stdin:
    r = json.loads(line)
    out = {"texts": r["texts"], "windows": [], "decoded": "", "stream": [], "failed": ""}
    out["text"] = tok.decode(r["ids"], skip_special_tokens=r["special"])
    try:
        tok.no_truncation()
        tok.no_padding()
        if r["truncation"]:
            tok.enable_truncation(**r["truncation"])
        if r["padding"]:
            tok.enable_padding(**r["padding"])
        e = tok.encode(*r["texts"], add_special_tokens=r["special"])
        for w in [e] + e.overflowing:
            out["windows"].append({"ids": w.ids, "types": w.type_ids, "mask": w.attention_mask, "special": w.special_tokens_mask,
                                   "words": [-1 if x is None else x for x in w.word_ids], "offsets": w.offsets, "tokens": w.tokens,
                                   "sequences": [-1 if x is None else x for x in w.sequence_ids]})
        out["decoded"] = tok.decode(e.ids, skip_special_tokens=True)
        stream = DecodeStream(skip_special_tokens=True)
        try:
            for i in e.ids:
                out["stream"].append(stream.step(tok, i) or "")
        except Exception:
            out["stream"] = None
    except BaseException as err:
        if isinstance(err, KeyboardInterrupt):
            raise
        out["failed"] = str(err) or "failed"
    print(json.dumps(out), flush=True)
