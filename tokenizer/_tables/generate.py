"""Generate z_unicode.go: the Unicode properties that tokenizers 0.23.3 sees.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3 regex
    venv/bin/python tokenizer/_tables/generate.py tokenizer/z_unicode.go

The package tokenizers links libraries of different Unicode versions. Therefore each property
is read from its behavior, for every code point. Grapheme properties come from package regex,
and TestGraphemes compares them with tokenizers.
"""
import base64
import json
import struct
import sys
import unicodedata
import zlib

import regex
import tokenizers
from tokenizers import Regex, normalizers as N, pre_tokenizers as P

assert tokenizers.__version__ == "0.23.3"
CODEPOINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
TEXT = "".join(map(chr, CODEPOINTS))

# Planes 3 to 13 and 15 to 16 are unassigned or private but for some ideographs and tags. Tables
# that would take minutes are read from the other code points, and a text of the rest must
# pass unchanged.
SHORT = [c for c in CODEPOINTS if c < 0x34000 or 0xE0000 <= c < 0xE1000 or c & 0xFFFF >= 0xFFF0]
SHORT_TEXT = "".join(map(chr, SHORT))
REST = "".join(chr(c) for c in CODEPOINTS if not (c < 0x34000 or 0xE0000 <= c < 0xE1000 or c & 0xFFFF >= 0xFFF0))


def matches(cls, text=SHORT_TEXT):
    """Return which code points the class of an Oniguruma pattern matches."""
    out = bytearray(0x110000)
    for piece, _ in P.Split(Regex("[" + cls + "]+"), "removed", True).pre_tokenize_str(text):
        for ch in piece:
            out[ord(ch)] = 1
    return out


def removed(pre):
    """Return which code points a pre-tokenizer removes."""
    kept = {ch for piece, _ in pre.pre_tokenize_str(SHORT_TEXT) for ch in piece}
    assert "".join(piece for piece, _ in pre.pre_tokenize_str(REST)) == REST
    return bytearray(c in SHORT_SET and chr(c) not in kept for c in range(0x110000))


SHORT_SET = set(SHORT)


def per_char(f):
    out = bytearray(0x110000)
    for c in SHORT:
        out[c] = f(chr(c))
    return out


def deleted(normalizer):
    """Return which code points a normalizer deletes."""
    kept = set(normalizer.normalize_str(TEXT))
    return bytearray(0 <= c < 0xD800 and chr(c) not in kept or c >= 0xE000 and chr(c) not in kept for c in range(0x110000))


CATEGORIES = ("Cn Cc Cf Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs").split()
category = bytearray(0x110000)
for i, name in enumerate(CATEGORIES):
    if i and name != "Cs":
        for c, m in enumerate(matches(r"\p{%s}" % name, TEXT if name == "Co" else SHORT_TEXT)):
            if m:
                category[c] = i
assert len(P.Split(Regex(r"[\p{Cn}\p{Co}]+"), "isolated").pre_tokenize_str(REST)) == 1

# Script names that Oniguruma knows: those of the Unicode script property, without underscores.
SCRIPTS = [""]
script = bytearray(0x110000)
for name in open(__file__.replace("generate.py", "scripts.txt")).read().split():
    try:
        m = matches(r"\p{%s}" % name)
    except Exception:
        continue
    SCRIPTS.append(name)
    for c in CODEPOINTS:
        if m[c]:
            assert not script[c], (hex(c), name)
            script[c] = len(SCRIPTS) - 1

flags = [0] * 0x110000


def flag(bit, table):
    for c in CODEPOINTS:
        if table[c]:
            flags[c] |= 1 << bit


flag(0, matches(r"\s"))
flag(1, matches(r"\w"))
flag(2, matches(r"\d"))
white = P.Whitespace()
whites = per_char(lambda ch: len(white.pre_tokenize_str("a" + ch + "a")))
flag(3, bytearray(n == 1 for n in whites))  # \w of Rust's regex
flag(4, bytearray(n == 2 for n in whites))  # \s of Rust's regex
flag(5, removed(P.WhitespaceSplit()))
digits = P.Digits(individual_digits=True)
flag(6, per_char(lambda ch: len(digits.pre_tokenize_str("a" + ch + "a")) == 3))
flag(7, removed(P.Punctuation("removed")))
clean = N.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
spaces = {chr(c) for c in CODEPOINTS if flags[c] >> 5 & 1}  # clean_text writes " " for most of them
spaces = {ch for ch in spaces if clean.normalize_str("a" + ch + "b") != "ab"}
flag(8, bytearray(d and chr(c) not in spaces and chr(c) not in "\0\ufffd" for c, d in enumerate(deleted(clean))))
nfd = [""] * 0x110000
nfkd = [""] * 0x110000
lower = [""] * 0x110000
NFC, NFD, NFKC, NFKD, LOWER = N.NFC(), N.NFD(), N.NFKC(), N.NFKD(), N.Lowercase()
for f in NFD, NFC, NFKD, NFKC, LOWER:
    assert f.normalize_str(REST) == REST
for c in CODEPOINTS:
    nfd[c] = nfkd[c] = lower[c] = chr(c)
for c in SHORT:
    ch = chr(c)
    nfd[c], nfkd[c], lower[c] = NFD.normalize_str(ch), NFKD.normalize_str(ch), LOWER.normalize_str(ch)
accents = N.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
flag(9, bytearray(d and nfd[c] == chr(c) for c, d in enumerate(deleted(accents))))
flag(10, deleted(N.StripAccents()))

# Combining classes: tokenizers knows those of an older Unicode version than Python.
ccc = bytearray(0x110000)
for c in CODEPOINTS:
    k = unicodedata.combining(chr(c))
    if k == 0:
        continue
    ch = chr(c)
    moves_back = NFD.normalize_str("a" + ch + "\u0334") == "a\u0334" + ch
    moves_front = NFD.normalize_str("a\u0345" + ch) == "a" + nfd[c] + "\u0345"
    if moves_back or moves_front:
        ccc[c] = k
representatives = {k: chr(c) for c, k in enumerate(ccc) if k and nfd[c] == chr(c)}
for c in CODEPOINTS:
    if len(nfd[c]) > 1 or nfd[c] != chr(c):
        continue
    if unicodedata.combining(chr(c)) == 0 and (c > 0x1000 or c not in SHORT_SET):
        continue
    for k, rep in representatives.items():
        want = "a" + chr(c) + rep if ccc[c] <= k else "a" + rep + chr(c)
        assert NFD.normalize_str("a" + chr(c) + rep) == want, (hex(c), k)

compositions = []
for c in CODEPOINTS:
    d = unicodedata.normalize("NFD", chr(c))
    raw = unicodedata.decomposition(chr(c)).split()
    if len(raw) == 2 and not raw[0].startswith("<"):
        a, b = (int(x, 16) for x in raw)
        if NFC.normalize_str(chr(a) + chr(b)) == chr(c):
            compositions.append((a, b, c))
seconds = {b for _, b, _ in compositions} | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
flag(11, bytearray(c in seconds for c in range(0x110000)))
hangul = range(0xAC00, 0xD7A4)
flag(12, bytearray(bool(nfd[c]) and nfd[c] != chr(c) for c in range(0x110000)))
flag(13, bytearray(bool(nfkd[c]) and nfkd[c] != chr(c) for c in range(0x110000)))
flag(14, bytearray(bool(lower[c]) and lower[c] != chr(c) for c in range(0x110000)))
flag(15, matches(r"[:alnum:]"))

scripts = P.UnicodeScripts()
differ = lambda a, b: len(scripts.pre_tokenize_str(a + b)) > 1
reps = []  # most recently used first
group = bytearray(0x110000)  # 0 is the script Any, which joins every other one
assert len(scripts.pre_tokenize_str("a" + REST)) == 1  # Any
for c in SHORT:
    ch = chr(c)
    if len(scripts.pre_tokenize_str(ch)) == 0:  # a text of script Any alone has no pieces
        continue
    for i, (rep, n) in enumerate(reps):
        if not differ(rep, ch):
            group[c] = n
            if i:
                reps.insert(0, reps.pop(i))
            break
    else:
        group[c] = len(reps) + 1
        reps.insert(0, (ch, group[c]))

# Package regex may know a newer Unicode version. Its grapheme properties hold for the code
# points that tokenizers joins to a letter, and for those that Rust's regex knows.
unit = [0] * 512  # a trie of "a" alone, which becomes "b": what "a" is joined to disappears
unit[0], unit[256 ^ 0x61], unit[256 ^ 0x60] = 256 << 10, 0x61 | 1 << 8 | 1 << 10, 1 << 31
trie = struct.pack("<512I", *unit)
charsmap = base64.b64encode(struct.pack("<I", len(trie)) + trie + b"b\0").decode()
model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
joiner = tokenizers.Tokenizer.from_str(json.dumps({
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "pre_tokenizer": None, "post_processor": None,
    "decoder": None, "model": model, "normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap}})).normalizer
joined = per_char(lambda ch: joiner.normalize_str("a" + ch) == "b")
GCB = "Other CR LF Control Extend ZWJ Regional_Indicator Prepend SpacingMark L V T LV LVT".split()
gcb = bytearray(0x110000)
for i, name in enumerate(GCB):
    if i:
        for m in regex.finditer(r"\p{GCB=%s}" % name, TEXT):
            if joined[ord(m[0])] == (name in ("Extend", "ZWJ", "SpacingMark")):
                gcb[ord(m[0])] = i
flag(16, bytearray(bool(regex.match(r"\p{Extended_Pictographic}", chr(c))) for c in range(0x110000)))
for bit, name in ((17, "Consonant"), (18, "Extend"), (19, "Linker")):
    flag(bit, bytearray(bool(regex.match(r"\p{InCB=%s}" % name, chr(c))) and (gcb[c] != 0 or name == "Consonant")
                        for c in range(0x110000)))

# Code points that NFC leaves alone unless one that combines follows.
flag(20, bytearray(not 0xD800 <= c < 0xE000 and ccc[c] == 0 and c not in seconds and (c not in SHORT_SET or NFC.normalize_str(chr(c)) == chr(c)) and
                   ccc[ord(nfd[c][0])] == 0 and ord(nfd[c][0]) not in seconds for c in range(0x110000)))

out = bytearray()


def put(*values):
    for v in values:
        while v >= 0x80:
            out.append(v & 0x7F | 0x80)
            v >>= 7
        out.append(v)


classes, runs = {}, []
for c in range(0x110000):
    key = (category[c], script[c], group[c], ccc[c], gcb[c], flags[c])
    k = classes.setdefault(key, len(classes))
    if runs and runs[-1][1] == k:
        runs[-1][0] += 1
    else:
        runs.append([1, k])
put(len(classes))
for key in classes:
    put(*key)
put(len(runs))
for n, k in runs:
    put(n, k)
for table, skip in ((nfd, None), (nfkd, nfd), (lower, None)):
    entries = [(c, table[c]) for c in CODEPOINTS
               if table[c] != chr(c) and not (table is not lower and c in hangul) and not (skip and skip[c] == table[c])]
    put(len(entries))
    last = 0
    for c, s in entries:
        put(c - last, len(s), *map(ord, s))
        last = c
put(len(compositions))
for t in compositions:
    put(*t)
put(len(SCRIPTS) - 1)
for name in SCRIPTS[1:]:
    put(len(name))
    out += name.encode()

text = base64.b64encode(zlib.compress(bytes(out), 9)).decode()
with open(sys.argv[1], "w") as f:
    f.write("// Code generated by tokenizer/_tables/generate.py; DO NOT EDIT.\n\npackage tokenizer\n\n")
    f.write("// unicodeTables holds the Unicode properties, compressed; loadUnicode reads it.\nconst unicodeTables = \"\" +\n")
    lines = [text[i:i + 110] for i in range(0, len(text), 110)]
    f.write(" +\n".join('\t"%s"' % line for line in lines) + "\n")
print(len(classes), "classes,", len(runs), "runs,", len(SCRIPTS) - 1, "scripts,", len(compositions), "compositions,", len(text), "bytes")
