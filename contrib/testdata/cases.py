"""The cases that oracle.py records."""
import base64
import json
import os
import struct
import zlib


def t(kind, values, shape=None):
    if not isinstance(values, list):
        return {"t": kind, "s": [], "d": [values]}
    return {"t": kind, "s": [len(values)] if shape is None else shape, "d": values}


def s(*values, shape=None):
    return t("string", list(values), shape)


def i(*values, shape=None):
    return t("int64", list(values), shape)


def f(*values, shape=None):
    return t("float", list(values), shape)


def b(*values, shape=None):
    return t("bool", list(values), shape)


def refused(*args, **attrs):
    """Return a case that onnxruntime-extensions reads beyond its inputs for."""
    return {**case(*args, **attrs), "error": "refused"}


def case(op, types, *inputs, domain=None, **attrs):
    c = {"op": op}
    if domain:
        c["domain"] = domain
    return {**c, "attrs": attrs, "in": list(inputs), "types": types.split()}


TEXTS = ["Hello World", "", " \t ", "ÀÉ×Þß ΑΒΙΛ АБЯё", "a  b\tc\n", "日本 한국 🎉", "ABCDEFGHIJKLMNOP"]


def strings():
    yield case("StringUpper", "string", s(*TEXTS))
    yield case("StringLower", "string", s(*TEXTS))
    yield case("StringLower", "string", s("ἈἉἘὨὩΠΡ", "ÆÐŁǄ", shape=[1, 2, 1]))
    yield case("StringStrip", "string", s(*TEXTS))
    yield case("StringStrip", "string", s("\u00a0a\u00a0", "\v\fb\r"))
    yield case("StringLength", "int64", s(*TEXTS))
    yield case("StringLength", "int64", s(*TEXTS[:6], shape=[2, 3]))
    yield case("StringConcat", "string", s("a", "", "c"), s("x", "y", ""))
    yield case("StringConcat", "string", s("a\0b"), s("x"))
    yield case("StringLength", "int64", s("a\0b"))
    yield case("StringSplit", "int64 string int64", s("a\0b,c,d"), s(","), b(False))
    yield case("StringMapping", "string", s("a\0b"), map="a\tx\n")
    yield case("StringConcat", "string", s("a", "", "c"), s("x", "y", "z", shape=[1, 3]))
    yield case("StringJoin", "string", s("a", "b", "c", "d", "e", "f", shape=[2, 3]), s(", "), i(1))
    yield case("StringJoin", "string", s("a", "b", "c", "d", "e", "f", shape=[3, 2, 1]), s(""), i(0))
    yield case("StringJoin", "string", s("a", "b", "c", "d", "e", "f", shape=[1, 3, 2]), s("-"), i(1))
    yield case("StringJoin", "string", s("a", "b", "c"), s("–"), i(0))
    yield case("StringJoin", "string", s("a", shape=[]), s("–"), i(0))
    yield case("StringJoin", "string", s(shape=[0]), s("–"), i(0))
    yield case("StringJoin", "string", s("a"), s("-"), i(1))
    yield case("StringSplit", "int64 string int64", s("a,b;c", "", ",,x", "日,本"), s(",;"), b(True))
    yield case("StringSplit", "int64 string int64", s("a,b;c", "", ",,x,", "日,本"), s(",;"), b(False))
    yield case("StringSplit", "int64 string int64", s("abc", "", "de"), s(""), b(False))
    yield case("StringEqual", "bool", s("a", "b", "a", "c", shape=[2, 2]), s("a", "c", shape=[2, 1]))
    yield case("StringEqual", "bool", s("a", "b", shape=[1, 2]), s("a", "b", "a", "c", shape=[2, 2]))
    yield case("StringEqual", "bool", s("a", "b", "c"), s("b"))
    yield case("StringEqual", "bool", s("a", "b", "a", "c", "d", "b", shape=[3, 2]), s("a", "c", "b"))
    yield case("StringEqual", "bool", s("a", "b", "a", "c", "d", "b", shape=[3, 2]), s("a", "c"))
    yield case("StringMapping", "string", s("a", "b", "", "ä"), map="a\tx\n\nä\ty z\n")
    yield case("StringMapping", "string", s("a"), map="a\tx\tz")
    yield case("StringToHashBucket", "int64", s(*TEXTS, "a" * 100), i(1 << 40))
    yield case("StringToHashBucket", "int64", s(*["abcdefghijkl"[:n] for n in range(12)], shape=[3, 4]), i(-7))
    yield case("StringToHashBucketFast", "int64", s(*TEXTS, "a" * 100), i(1 << 40))
    yield case("StringToHashBucketFast", "int64", s(*["abcdefghijkl"[:n] for n in range(12)], shape=[3, 4]), i(7))
    yield case("MaskedFill", "string", s("a", "b", "c"), b(True, False, True))
    yield case("MaskedFill", "string", s("a", shape=[]), b(True, shape=[]))
    yield case("MaskedFill", "string", s("a", "b"), b(True))
    yield case("StringToVector", "int64", s("a", "c", "b", "x", shape=[2, 2]), map="a\t0 1\nb\t-2 3\n", unk="-1 9")
    yield refused("StringToVector", "int64", s("a"), map="a\t0 1\nb\t2\n", unk="-1 -1")
    yield case("StringToVector", "int64", s("a"), map="a\t0 1\n", unk="-1")
    yield case("VectorToString", "string", i(0, 1, 5, 6, -2, 3, shape=[3, 2]), map="a\t0 1\nb\t-2 3\n", unk="?")
    yield case("VectorToString", "string", i(0, 1, 5, shape=[3]), map="a\t0\nb\t1\n", unk="?")
    yield case("VectorToString", "string", i(0, 1, 5, shape=[3, 1]), map="a\t0\nb\t1\n", unk="?")
    yield case("VectorToString", "string", i(1, shape=[]), map="a\t0\nb\t1\n", unk="?")
    yield case("VectorToString", "string", i(0, 1, 5, shape=[1, 3]), map="a\t0 1\nb\t1 1\n", unk="?")


def ragged():
    yield case("RaggedTensorToSparse", "int64 int64", i(0, 3, 3, 4))
    yield case("RaggedTensorToSparse", "int64 int64", i(0))
    yield refused("RaggedTensorToSparse", "int64 int64", i(0, 3, 2))
    yield refused("RaggedTensorToSparse", "int64 int64", i(1, 3))
    yield case("RaggedTensorToDense", "int64", i(-1, -1), i(5, 6, 7, 8), i(-9), i(0, 3, 3, 4))
    yield case("RaggedTensorToDense", "int64", i(-1, -1), i(5, 6, 7, 8), i(-9), i(1, 2))
    yield refused("RaggedTensorToDense", "int64", i(-1, -1), i(5, 6, 7, 8), i(-9), i(0, 5))
    yield refused("RaggedTensorToDense", "int64", i(-1, -1), i(5, 6, 7, 8), i(-9), i(0, 2, 1))
    yield case("StringRaggedTensorToDense", "string", i(-1, -1), s("a", "b", "c", "d"), i(0, 3, 3, 4), s("", "", "", ""))
    yield case("StringRaggedTensorToDense", "string", i(-1, -1), s("a", "b", "c", "d"), i(0, 1, 3, 4), s("", "", ""))


def numbers():
    yield case("NegPos", "float float", f(1.5, -2, 0, 3, shape=[2, 2]))
    yield case("SegmentSum", "float", f(1, 2, 3, 4, 5, 6, 7, 8, shape=[4, 2]), i(0, 0, 1, 2))
    yield case("SegmentSum", "float", f(1, 2, 3), i(1, 1, 2))
    yield case("SegmentSum", "float", f(1, 2, 3), i(0, 2, 2))
    yield case("SegmentSum", "float", f(1, 2, 3), i(0, 1))
    yield case("SegmentExtraction", "int64 int64", i(0, 0, 1, 1, 2, 0, 2, 2))
    yield case("SegmentExtraction", "int64 int64", i(3, 3, 0, -1, shape=[1, 4]))
    yield case("SegmentExtraction", "int64 int64", i(3, 3, shape=[2, 1]))
    yield case("MergeSignalSegments", "int64", i(0, 10, 15, 20, 40, 50, 45, 47, shape=[4, 2]), i(5))
    yield case("MergeSignalSegments", "int64", i(shape=[0, 2]), i(5))


def sounds():
    wave = [((k * 37) % 101 / 50 - 1) * (0.01 if k // 300 % 2 else 1) for k in range(1200)]
    for size, hop, window in ((16, 4, 16), (15, 4, 15), (16, 5, 12), (16, 4, 13), (60, 25, 60), (7, 40, 7)):
        args = f(*wave[:80], shape=[1, 80]), i(size), i(hop), f(*[0.1 + k % 7 for k in range(window)]), i(size)
        yield case("StftNorm", "float", *args)
    yield case("StftNorm", "float", *args, onesided=0)
    yield case("StftNorm", "float", *args[:4], i(5))
    for ms, hop, db in ((20, 10, -20.0), (30, 10, -40.0), (16, 8, 0.0)):
        yield case("SplitSignalSegments", "int64", f(*wave, shape=[1, 1200]), i(1000), i(ms), i(hop), f(db))
    yield case("Inverse", "float", f(1, 2, 3, 4, shape=[2, 2]))
    yield case("Inverse", "float", f(0, 1, 1, 0, shape=[2, 2]))
    yield case("Inverse", "float", f(*[(k * k * 7 + k) % 23 for k in range(36)], shape=[6, 6]))
    yield refused("Inverse", "float", f(1, 2, 2, 4, shape=[2, 2]))
    yield case("Inverse", "float", f(1, 2))


BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", "un", "##want", "##ed", "run", "##n", "##ing",
        ",", ".", "日", "本", "é", "e", "#", "##", "!", "'", "a", "##b", "-", "ü", "(", ")", "$", "“", "”", "he", "##llo"]
SENTENCES = ["Hello, unwanted running!", "日本é", "a  b\tab #", "x", "", "Ünwanted “he”-hello", "cafe\u0301 [MASK] ab"]


def bert():
    vocab = "\n".join(BERT) + "\n"
    for text in SENTENCES:
        yield case("BertTokenizer", "int64 int64 int64 int64", s(text), vocab_file=vocab)
        yield case("BasicTokenizer", "string", s(text))
    yield case("BasicTokenizer", "string", s(SENTENCES[0]), tokenize_punctuation=1, do_lower_case=0)
    yield case("BasicTokenizer", "string", s(SENTENCES[6]), strip_accents=1)
    yield case("BasicTokenizer", "string", s("a\u00adb\u200bc"), remove_control_chars=0)
    yield case("BertTokenizer", "int64 int64 int64", s(*SENTENCES[:2]), vocab_file=vocab.replace("\n", "\r\n\n"))
    yield case("BertTokenizer", "int64 int64 int64", s(*SENTENCES[:3]), vocab_file=vocab)
    yield case("BertTokenizer", "int64 int64 int64", s(SENTENCES[0]), vocab_file=vocab, max_length=5)
    yield case("BertTokenizer", "int64 int64 int64", s(SENTENCES[0]), vocab_file=vocab, max_length=2)
    yield case("BertTokenizer", "int64 int64 int64", s(*SENTENCES[:2]), vocab_file=vocab, max_length=5)
    yield case("BertTokenizer", "int64 int64 int64", s("hello  unwanted X"), vocab_file=vocab, do_basic_tokenize=0)
    yield case("BertTokenizer", "int64 int64 int64", s(SENTENCES[5]), vocab_file=vocab, strip_accents=1,
               do_lower_case=0, tokenize_chinese_chars=0)
    yield case("BertTokenizer", "int64 int64 int64", s("a b"), vocab_file=vocab, unk_token="[X]")
    yield case("BertTokenizer", "int64 int64 int64", s("hello-hello ab"), vocab_file=vocab, suffix_indicator="-",
               unk_token="x")
    yield case("BertTokenizer", "int64 int64 int64", s("ab " + "ab" * 50 + " " + "ab" * 51), vocab_file=vocab)
    yield case("BertTokenizer", "int64 int64 int64", s("hello", "world"), vocab_file=vocab,
               domain="com.microsoft.extensions")
    yield case("HfBertTokenizer", "int64 int64 int64", s(*SENTENCES[:2]), vocab_file=vocab)
    yield case("HfBertTokenizer", "int64 int64", s(*SENTENCES[4:6]), vocab_file=vocab)
    yield case("HfBertTokenizer", "int64 int64", s(SENTENCES[0]), vocab_file=vocab)
    every = list(range(len(BERT))) + [5, 8, 13, 6, 99, -1, 7]
    for extra in ({}, {"skip_special_tokens": 1}, {"clean_up_tokenization_spaces": 0}):
        yield case("BertTokenizerDecoder", "string", i(*every), i(), vocab_file=vocab, **extra)
    yield case("BertTokenizerDecoder", "string", i(*every), i(), vocab_file="[SEP]\n" + vocab, skip_special_tokens=1)
    yield case("BertTokenizerDecoder", "string", i(8, 5, 9, 13, 6, shape=[1, 5]), i(0, 2, 1, 5, 2, 2, shape=[3, 2]),
               vocab_file=vocab, use_indices=1)
    yield case("BertTokenizerDecoder", "string", i(8, 5), i(0, 2), vocab_file=vocab, use_indices=1)
    words = json.dumps({w: 10 + k for k, w in enumerate(["want", "##want", "##ed", "wa", "un", "runn", "##ing"])})
    texts = s("unwanted running", "unwantedX running  wa", "")
    for rows in (i(), i(0, 2), i(0, 1, 3)):
        yield case("WordpieceTokenizer", "string int64 int64 int64", texts, rows, vocab=words, suffix_indicator="##",
                   unknown_token="[UNK]")
    yield case("WordpieceTokenizer", "string int64 int64 int64", texts, i(), vocab=words, suffix_indicator="##",
               unknown_token="?", max_input_chars_per_word=8)
    yield case("WordpieceTokenizer", "string int64 int64 int64", texts, i(), vocab=words)


def trie():
    tokens = ["a", "ab", "b'\\xe6'", "é", "日本", "\n", "'", "c", "bc"]
    lines = []
    for k, token in enumerate(tokens):
        text = token if token.startswith("b'") else repr(token)
        lines.append(f"{k + 1} {text} {1 if token.startswith('b') and len(token) > 2 else len(token.encode())}\n")
    vocab = "".join(lines)
    yield case("TrieTokenizer", "int64", s("abcab", "é日本'", "\n", ""), vocab=vocab)
    yield case("TrieTokenizer", "int64", s("abcab", "a", "c", "bcbc", shape=[2, 2]), vocab=vocab)
    yield case("TrieTokenizer", "int64", s("a"), vocab="1 'a' 2\n")
    yield case("TrieTokenizer", "int64", s("a"), vocab="0 'a' 1\n")
    yield case("TrieDetokenizer", "string", i(1, 2, 4, 5, 6, 99, shape=[2, 3]), vocab=vocab)
    yield case("TrieDetokenizer", "string", i(3, 4, shape=[2, 1]), vocab=vocab)


PLAIN = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTES = {b: chr(b) for b in PLAIN}
BYTES.update({b: chr(256 + k) for k, b in enumerate(b for b in range(256) if b not in PLAIN)})
CORPUS = """The quick brown fox doesn't jump over the lazy dogs' 12345 times. Hello hello world, the world's
end isn't near; we'll see 2024's café, naïve Über straße. 日本語のテキスト 日本 한국어 Привет привет the then there
hellohello  running walked walking talk talked ... !!! ??? --- the\tthe\n\nthe""" * 2
WORDS = ["Hello world, isn't it?", "  two  spaces ", "12345 and 日本語 café", "the\n\nthe \t the", "", "ΑΣΣ İstanbul ÀB",
         "🎉🎉 !!!??? 'S 'll don'T", "hello<|endoftext|>world <s>the</s> <mask>", "ﬁ ½²Ⅷ ǅ a\u0301\u2028b", "\x1c \x85x"]


def train(words, count):
    """Return the merges of a byte-pair encoding of lists of symbols."""
    merges = []
    for _ in range(count):
        pairs = {}
        for w in words:
            for p in zip(w, w[1:]):
                pairs[p] = pairs.get(p, 0) + 1
        best = max(pairs, key=lambda p: (pairs[p], p))
        merges.append(best)
        for w in words:
            k = 0
            while k + 1 < len(w):
                if (w[k], w[k + 1]) == best:
                    w[k:k + 2] = ["".join(best)]
                k += 1
    return merges


def bpe_files(end="", first=()):
    words = []
    for word in CORPUS.replace("\n", " \n").split(" "):
        for text in (word, " " + word):
            if text and not (end and text[0] == " "):
                symbols = [BYTES[b] for b in (text.lower() if end else text).encode()]
                symbols[-1] += end
                words.append(symbols)
    merges = train(words, 120)
    tokens = [*first, *BYTES.values(), *([c + end for c in BYTES.values()] if end else []), *("".join(m) for m in merges)]
    vocab = {}
    for token in tokens:
        vocab.setdefault(token, len(vocab))
    return {"vocab": json.dumps(vocab), "merges": "#version: 0.2\n" + "\n".join(map(" ".join, merges)) + "\n"}


def spm_files():
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{k:02X}>" for k in range(256)), "▁", "a", "b", "h", "e", "l", "o", "t", "w", "r", "d",
              "日", "▁t", "he", "▁the", "ll", "hell", "hello", "▁hello", "▁w", "or", "ld", "orld", "▁world", "▁▁", "é", "▁a"]
    merges = ["▁ t", "h e", "▁t he", "l l", "he ll", "hell o", "▁ hello", "▁ w", "o r", "l d", "or ld", "▁w orld", "▁ ▁", "▁ a"]
    return pieces, merges


def bpe():
    gpt2, roberta = bpe_files(), bpe_files(first=["<s>", "<pad>", "</s>", "<unk>"])
    clip = bpe_files("</w>", first=["<|startoftext|>", "<|endoftext|>"])
    for op, files in (("GPT2Tokenizer", gpt2), ("RobertaTokenizer", roberta), ("CLIPTokenizer", clip)):
        yield case(op, "int64 int64", s(*WORDS), **files)
        for text in WORDS[:4] + WORDS[5:7]:
            yield case(op, "int64 int64 int64", s(text), **files)
        yield case(op, "int64", s(*WORDS[:4], shape=[2, 2]), padding_length=40, **files)
        yield case(op, "int64 int64", s(WORDS[0]), padding_length=4 if op == "GPT2Tokenizer" else 60, **files)
        yield case(op, "int64", s(*WORDS), b(False), **files)
        # onnxruntime-extensions reads beyond a text that is a space before an added token, for CLIP.
        texts = [w for w in WORDS if "> <" not in w] + ["hello<mask>world<s>x"]
        yield case(op, "int64", s(*texts), **files, added_token="<mask>=300\n<s>=0\n<sx>=12\nx=13")
        yield case(op, "int64", s("a"), padding_length=0, **files)
        yield case(op, "int64", s("a"), **{**files, "merges": "ab"})
        yield case(op, "int64", s("a"), vocab=files["vocab"])
        yield case(op, "int64", s(*WORDS), **files, model_name="Llama")
        yield case(op, "int64", s(*WORDS), **files, model_name="GPT2")
        yield case(op, "int64", s(*WORDS), **files, domain="com.microsoft.extensions")
    yield case("GPT2Tokenizer", "int64 int64", s("aaaaa aab baab abab caab"),
               vocab=json.dumps({"a": 0, "b": 1, "aa": 2, "ab": 3, "aab": 4, "Ġ": 5, "aaa": 6}),
               merges="aa b\na a\na b\nab ab\naa a\nx y\na aa\n")
    pieces, merges = spm_files()
    spm = {"vocab": json.dumps({p: k for k, p in enumerate(pieces)}), "merges": "\n".join(merges)}
    yield case("SpmTokenizer", "int64 int64", s(*WORDS), **spm)
    for text in ("hello the world", " hello  the 日é", "the\nthe", "hello world " * 20, "x" * 130, " x" * 130):
        yield case("SpmTokenizer", "int64 int64 int64", s(text), **spm)
    yield case("SpmTokenizer", "int64", s("hello <s>the</s> a"), **spm, added_token="<s>=1")
    yield case("SpmTokenizer", "int64", s("hello the world a a a"), **spm, padding_length=5)
    yield case("SpmTokenizer", "int64", s("hello the world a a a"), **spm, model_name="Gemma")


LLAMA3 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"


def hf_json():
    files = bpe_files()
    vocab, merges = json.loads(files["vocab"]), files["merges"].splitlines()[1:]
    n = len(vocab)
    added = [{"id": n + k, "content": c, "special": True, "lstrip": False, "rstrip": c == "<mask>", "normalized": False,
              "single_word": False} for k, c in enumerate(["<|endoftext|>", "<s>", "</s>", "<mask>"])]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}

    def call(config, types="int64 int64", texts=WORDS, fails=False, **parts):
        file = {"added_tokens": added, "pre_tokenizer": level, "post_processor": None, "decoder": None,
                "model": {"type": "BPE", "vocab": vocab, "merges": merges}, **parts}
        return (refused if fails else case)("HfJsonTokenizer", types, s(*texts), tokenizer_config=json.dumps(config),
                                            tokenizer_vocab=json.dumps(file))
    gpt2 = {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>",
            "unk_token": "<|endoftext|>"}
    yield call(gpt2)
    yield call({**gpt2, "tokenizer_class": "Qwen2Tokenizer", "pad_token": "<|endoftext|>"}, pre_tokenizer={
        "type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": LLAMA3}, "behavior": "Isolated"}, level]})
    yield call({**gpt2, "tokenizer_class": "Qwen2Tokenizer"}, pre_tokenizer={
        "type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": LLAMA3.replace("{1,3}", "")}}, level]})
    marks = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": {"content": "</s>"}}
    yield call({**marks, "add_bos_token": True, "add_eos_token": True}, "int64 int64")
    yield call({**marks, "add_bos_token": True}, texts=["hello<mask>  the", "<s>x</s>", "the <mask>"])
    yield call(marks, model={"type": "BPE", "vocab": vocab, "merges": [m.split(" ") for m in merges]})
    post = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}]}
    yield call(marks, post_processor=post)
    yield call({**marks, "add_bos_token": False}, post_processor=post)
    yield call({"tokenizer_class": "PreTrainedTokenizer", "bos_token": "<s>"}, post_processor=post)
    yield call({**marks, "tokenizer_class": "GPT2Tokenizer"}, post_processor={"single": ["</s>"]})
    pieces, spm_merges = spm_files()
    llama = {"model": {"type": "BPE", "vocab": {p: k for k, p in enumerate(pieces)}, "merges": spm_merges},
             "added_tokens": [{"id": 1, "content": "<s>", "special": True}], "pre_tokenizer": None, "post_processor": post,
             "decoder": {"type": "Sequence", "decoders": [
                 {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                 {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}}
    texts = ["hello the world", " hello  the 日é", "the\nthe", "", "hello <s>the", "x" * 130]
    yield call({**marks, "tokenizer_class": "LlamaTokenizer"}, texts=texts, **llama)
    yield call({**marks, "tokenizer_class": "LlamaTokenizer", "add_bos_token": False}, texts=texts, **{**llama, "post_processor": None})
    yield call({**marks, "tokenizer_class": "GemmaTokenizer", "add_bos_token": True}, texts=texts, **llama)
    yield call({**marks, "tokenizer_class": "BertTokenizer"}, fails=True)
    yield call({**marks, "tokenizer_class": "T5Tokenizer"}, fails=True)
    yield call(marks, pre_tokenizer={"type": "Split", "pattern": {"Regex": "a+"}}, fails=True)


def bpe_decoder():
    files = {"id_vocab": "\n".join(["<|endoftext|>", "Hello", "Ġworld", "Ã©", "a", "日", "!", "<0x41>", "▁b▁"]),
             "byte_decoder": "\n".join(f"{ord(v)}\t{k}" for k, v in BYTES.items())}
    ids = i(1, 6, 2, 20, 0, 5, 99, 4, 6, 0, 3, -1)
    marks = {"all_special_ids": "0\n6", "added_tokens": "6\t<x>\n20\t<y>"}
    yield case("BpeDecoder", "string", ids, **files)
    yield case("BpeDecoder", "string", ids, **files, unk_token="?")
    for skip in (0, 1):
        for space in (0, 1):
            yield case("BpeDecoder", "string", ids, **files, **marks, skip_special_tokens=skip, whitespace_token=space)
    yield case("BpeDecoder", "string", i(1, 2, 3, shape=[1, 1, 3]), **files)
    yield case("BpeDecoder", "string", i(6, 6, 1), **files, **marks, whitespace_token=1)
    for text in (files["id_vocab"], files["id_vocab"] + "\n"):
        yield case("BpeDecoder", "string", i(8, 7, 4, 9, 5), id_vocab=text, byte_decoder="9601\t32")
    yield case("BpeDecoder", "string", i(1), id_vocab="a")
    yield refused("BpeDecoder", "string", i(), **files)


def images():
    def png(kind, depth, rows, *chunks):
        def chunk(name, data):
            return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        width = len(rows[0]) * 8 // depth // {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
        return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, len(rows), depth, kind, 0, 0, 0))
                + b"".join(chunk(*c) for c in chunks)
                + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + bytes(r) for r in rows))) + chunk(b"IEND", b""))
    files = [png(2, 8, [range(12), range(100, 112)]), png(0, 8, [range(0, 250, 50)]), png(6, 8, [range(16), range(16, 32)]),
             png(4, 8, [range(8)]), png(0, 16, [range(120, 128)]), png(2, 16, [range(0, 240, 20)]), png(0, 1, [[0xA5]]),
             png(3, 8, [[0, 1, 2]], (b"PLTE", bytes(range(9)))), png(0, 8, [range(4)], (b"tRNS", b"\0\1")), b"GIF89a......"]
    vision = {"domain": "com.microsoft.extensions"}
    for data in files[:-1]:
        yield case("DecodeImage", "uint8", t("uint8", list(data)), **vision)
    yield refused("DecodeImage", "uint8", t("uint8", list(files[-1])), **vision)
    yield case("DecodeImage", "uint8", t("uint8", list(files[0])), color_space="rgb", **vision)
    yield case("DecodeImage", "uint8", t("uint8", list(files[0])), color_space="gray", **vision)
    pixels = t("uint8", [k * 7 % 256 for k in range(45)], [3, 5, 3])
    for space in ("bgr", "rgb"):
        yield case("EncodeImage", "uint8", pixels, color_space=space, format="png", **vision)
    for h, w in ((1, 1), (16, 16), (33, 47)):
        smooth = t("uint8", [(x * x + 3 * y * (c + 1)) // 8 % 256 for y in range(h) for x in range(w) for c in range(3)],
                   [h, w, 3])
        for space in ("bgr", "rgb"):
            yield case("EncodeImage", "uint8", smooth, color_space=space, format="jpg", **vision)
    yield case("EncodeImage", "uint8", pixels, format="gif", **vision)
    yield case("EncodeImage", "uint8", pixels, **vision)


def boxes():
    vision = {"domain": "com.microsoft.extensions"}
    image = t("uint8", [k * 5 % 256 for k in range(24 * 32 * 3)], [24, 32, 3])
    some = [2, 3, 20, 15, 0.5, 1, 8.5, 6.49, 12, 9, 0.9, 0, -4, -4, 6, 6, 0.5, 2, 30, 20, 40, 40, 0.1, 1, 9, 9, 9, 12, 0.8, 3,
            12, 4, 2, 8, 0.7, 3, 1e30, 0, 2e30, 9, 0.6, 5, 0, 0, 31, 23, 0.2, 6]
    many = [v for k in range(14) for v in (k, k, k + 9, k + 7, k * 5 % 14 / 20, k % 12)]
    for mode in ("XYXY", "XYWH", "CENTER_XYWH"):
        for thickness in (1, 2, 4, 5, 100):
            for by in (0, 1):
                yield case("DrawBoundingBoxes", "uint8", image, f(*some, shape=[8, 6]), mode=mode, thickness=thickness,
                           colour_by_classes=by, **vision)
    for by in (0, 1):
        yield case("DrawBoundingBoxes", "uint8", image, f(*many, shape=[14, 6]), colour_by_classes=by, **vision)
    yield case("DrawBoundingBoxes", "uint8", image, f(*many, shape=[14, 6]), **vision)
    yield case("DrawBoundingBoxes", "uint8", image, f(shape=[0, 6]), **vision)
    yield case("DrawBoundingBoxes", "uint8", image, f(*many, shape=[12, 7]), **vision)
    yield case("DrawBoundingBoxes", "uint8", t("uint8", [1, 2], [1, 2, 1]), f(*many, shape=[14, 6]), **vision)
    yield case("DrawBoundingBoxes", "uint8", image, f(*many, shape=[14, 6]), thickness=0, **vision)
    yield case("DrawBoundingBoxes", "uint8", image, f(*many, shape=[14, 6]), mode="XXYY", **vision)


def audio():
    def file(name):
        return t("uint8", list(open(f"{os.path.dirname(__file__)}/../../internal/soundcodec/testdata/{name}", "rb").read()))

    def wav(rate, channels, kind, form, *samples):
        data = struct.pack(f"<{len(samples)}{form}", *samples)
        width = struct.calcsize(form)
        head = struct.pack("<HHIIHH", kind, channels, rate, rate * channels * width, channels * width, 8 * width)
        return list(b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<I", 16) + head + b"data"
                    + struct.pack("<I", len(data)) + data)

    def call(data, *rest, types="float", **attrs):
        return case("AudioDecoder", types, data, *rest, **attrs)
    stereo = wav(16000, 2, 1, "h", *(k * k * 37 % 65536 - 32768 for k in range(60)))
    for attrs in ({}, {"stereo_to_mono": 1}, {"downsampling_rate": 16000}, {"downsampling_rate": 12345, "stereo_to_mono": 1},
                  {"downsampling_rate": 4000}, {"downsampling_rate": -1}, {"downsampling_rate": 16001}):
        yield call(t("uint8", stereo), **attrs)
    floats = wav(44100, 1, 3, "f", *((k * k * 37 % 1001 - 500) / 500 for k in range(200)))
    for rate in (44099, 22050, 1000, 220, 1):
        yield call(t("uint8", floats), downsampling_rate=rate)
    yield call(t("uint8", wav(8000, 1, 1, "i", 1 << 30, -1 << 31, 5)))
    yield call(t("uint8", wav(8000, 1, 1, "h", 7000)), downsampling_rate=7999)
    yield call(t("uint8", wav(8000, 1, 1, "h")))
    for shape in ([1, len(stereo)], [2, len(stereo) // 2], [len(stereo), 1]):
        yield call(t("uint8", stereo, shape))
    for name in ("wav", "default", "", "flac", "mp3", "ogg", "WAV"):
        yield call(t("uint8", stereo), s(name))
    yield call(t("uint8", stereo), s("wav", "wav"))
    yield call(t("uint8", []))
    yield call(t("uint8", list(b"OggS....")))
    yield refused("AudioDecoder", "float", t("uint8", stereo), downsampling_rate=0)
    yield call(file("wasted8.flac"))
    yield call(file("stereo16.flac"), s("flac"), stereo_to_mono=1, downsampling_rate=3000)
    yield call(file("encoded-mono.mp3"), downsampling_rate=500)
    yield call(file("encoded-joint.mp3"), s("mp3"), stereo_to_mono=1, downsampling_rate=1000)
    yield call(file("encoded-free.mp3"), downsampling_rate=441)


def regex():
    def replace(pattern, rewrite, *texts, **attrs):
        return case("StringRegexReplace", "string", s(*texts), s(pattern), s(rewrite), **attrs)
    yield replace("a*", "x", "baac", "", "é", "aé")
    yield replace("(a)(b)?", r"[\2\1\0]", "abaca")
    yield replace("(a)(b)?", r"[\2\1\0]", "abaca", global_replace=0)
    yield replace("(a)", "\\\\", "abc")
    for pattern in ("^a", "(?m)^a", "\\b", "a|", ".", "$", "\\pL+", "(?i)K", "\\w+", "(?P<n>a)", "a{2,3}", "\\d", "x*?",
                    "[^a-c]", "(?s).a", "\\s+"):
        yield replace(pattern, "<\\0>", "aaa", "a\na", "ab cd", "ba", "é\n", "kK\u212a", "añ1٣", "xx")
    yield replace("", "x", "abc")

    def split(pattern, keep, *texts):
        return case("StringRegexSplitWithOffsets", "string int64 int64 int64", s(*texts), s(pattern), s(*keep))
    for pattern, keep in (("(\\s)", []), ("(\\s)", ["\\s"]), ("\\s", []), ("^(a)", ["."]), ("(x(y))", ["xy"]), ("x(y)", ["y"]),
                          ("(\\s)", ["\\s|a"]), ("(,+)", [","]), ("(?:é|(,))", []), ("(\\b,)", [""])):
        yield split(pattern, keep, "a b  c", "", " x ", "aab", "axyb", ",,é,日", "a,,b")
    yield split("(\\s)", ["a", "b"], "x")
    yield split("", [], "x")


def field(number, value):
    """Return a field of a protobuf message."""
    def varint(n):
        out = b""
        while n >= 128:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def spm_model(kind, pieces, trainer=b"", normalizer=b""):
    """Return a SentencePiece model; pieces are texts, scores and types."""
    out = b"".join(field(1, field(1, t) + field(2, float(x)) + field(3, k)) for t, x, k in pieces)
    return out + field(2, field(3, kind) + trainer) + field(3, field(1, "identity") + normalizer)


def sentencepiece():
    special = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3)]
    words = ["▁", "a", "b", "h", "e", "l", "o", "▁hello", "hell", "▁w", "or", "ld", "world", "日本", "é", ",", "▁the", "th"]
    unigram = spm_model(1, [*special, *((w, -k / 3 - 1, 1) for k, w in enumerate(words)), ("<x>", 0, 4)])
    marks = spm_model(1, [("<unk>", 0, 2), *((w, -k / 3 - 1, 1) for k, w in enumerate(words)), ("[B]", 0, 3), ("[E]", 0, 3)],
                      field(46, "[B]") + field(47, "[E]"))
    none = spm_model(1, [("<unk>", 0, 2), *((w, -k / 3 - 1, 1) for k, w in enumerate(words))])
    bpe = spm_model(2, [*special, *((f"<0x{k:02X}>", 0, 6) for k in range(256)),
                        *((w, -k, 1) for k, w in enumerate(["he", "ll", "hell", "hello", "▁hello", "▁w", "or", "ld", "▁",
                                                            "h", "e", "l", "o", "w", "r", "d", "a"]))],
                    field(35, 1), field(3, 0) + field(4, 0))
    texts = ["hello world", "  the  hello, 日本é b", "", "xyz 🎉🎉 a", "a<x>b", "hellohello the"]

    def call(model, flags, *texts, extra=(), **attrs):
        return case("SentencepieceTokenizer", "int32 int64 int32", s(*texts), i(0), f(0), *(b(x) for x in flags), *extra,
                    model={"base64": base64.b64encode(model).decode()}, **attrs)
    for model in (unigram, marks, none, bpe):
        for flags in ((0, 0, 0), (1, 1, 0), (1, 1, 1)):
            yield call(model, map(bool, flags), *texts)
            yield call(model, map(bool, flags), *texts, extra=[b(True)])
        yield case("SentencepieceTokenizer", "int32 int64", s(*texts), i(0), f(0), b(True), b(False), b(False),
                   model=base64.b64encode(model).decode())
        for ids in ([7, 8, 3, 10, 1, 2, 0, 4, 16], [], [12, 0, 0, 5], [3, 195, 200], [1000], [-1]):
            for extra in ((), (b(False),), (b(True),)):
                if model in (unigram, bpe) or not extra:
                    yield case("SentencepieceDecoder", "string", i(*ids), *extra,
                               model={"base64": base64.b64encode(model).decode()})
    yield case("SentencepieceTokenizer", "int32 int64", s(*texts), i(0), f(0), b(True), b(False), b(False), model="ab!")


def cases():
    for group in (strings, ragged, numbers, sounds, bert, trie, bpe, sentencepiece, hf_json, bpe_decoder, regex, images,
                  boxes, audio):
        yield from group()
