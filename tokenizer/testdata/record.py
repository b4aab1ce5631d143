"""Train small tokenizers with package tokenizers, and record what they make of texts.

    venv/bin/pip install tokenizers==0.23.3
    venv/bin/python testdata/record.py

Writes testdata/small: NAME.json is a tokenizer, NAME.golden a line for each text or pair of texts.
"""
import json
import os

from tokenizers import AddedToken, Regex, Tokenizer, __version__
from tokenizers import decoders as D, models as M, normalizers as N, pre_tokenizers as P, processors as R, trainers as T

assert __version__ == "0.23.3"
here = os.path.dirname(os.path.abspath(__file__))
lines = open(os.path.join(here, "texts.txt"), encoding="utf-8").read().strip().split("\n")
extra = ["", " ", "  a  b ", "\n\n\tx\r\n", "<mask> a<mask>b <mask>  <s>", "a\u0301\u0323b\u0308 \u0344\u212b", "<sep>x [MASK]y Añ<cls>",
         "\u1e9b\u0323 \ufb03 \u2460 \u3231", "abc\u0000\u0085def\ufffd", "it's IT'S '\u017f 'll 12345 1/2", "ΑΣΣ ΣΑΣ İI", "\u0e01\u0e33\u0e19 \u0f71\u0f72",
         "\U0001f469\u200d\U0001f467\U0001f1e9\U0001f1ea\u2764\ufe0f", "한국어 \u1112\u1161\u11ab"]
texts = lines + extra
pairs = [(lines[0], lines[1]), (lines[6], lines[0]), ("", lines[2]), (lines[3], ""), ("short", lines[4])]
SPECIAL = ["<s>", "</s>", "<unk>", "<pad>"]


def save(name, tok):
    path = os.path.join(here, "small", name)
    tok.save(path + ".json", pretty=False)
    tok = Tokenizer.from_file(path + ".json")
    with open(path + ".golden", "w", encoding="utf-8") as f:
        for t in texts + pairs:
            e = tok.encode(*t) if isinstance(t, tuple) else tok.encode(t)
            line = {"texts": list(t) if isinstance(t, tuple) else [t], "windows": [], "decoded": tok.decode(e.ids, skip_special_tokens=True)}
            for w in [e] + e.overflowing:
                line["windows"].append({"ids": w.ids, "types": w.type_ids, "mask": w.attention_mask, "special": w.special_tokens_mask,
                                        "words": [-1 if x is None else x for x in w.word_ids], "offsets": w.offsets, "tokens": w.tokens,
                                        "sequences": [-1 if x is None else x for x in w.sequence_ids]})
            f.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


def train(tok, trainer):
    tok.train_from_iterator(lines, trainer)
    return tok


def added(tok):
    tok.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    tok.add_tokens([AddedToken("Añ", normalized=True), AddedToken("<sep>", rstrip=True, single_word=True, normalized=False)])


# BERT: WordPiece, with truncated windows and padding.
t = Tokenizer(M.WordPiece(unk_token="[UNK]"))
t.normalizer, t.pre_tokenizer, t.decoder = N.BertNormalizer(), P.BertPreTokenizer(), D.WordPiece()
train(t, T.WordPieceTrainer(vocab_size=700, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
t.post_processor = R.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)])
t.enable_truncation(24, stride=4)
t.enable_padding(pad_id=0, pad_token="[PAD]", pad_to_multiple_of=8)
save("bert", t)

# RoBERTa: byte-level BPE.
t = Tokenizer(M.BPE())
t.pre_tokenizer, t.decoder = P.ByteLevel(add_prefix_space=True), D.ByteLevel()
train(t, T.BpeTrainer(vocab_size=600, special_tokens=SPECIAL, initial_alphabet=P.ByteLevel.alphabet(), show_progress=False))
added(t)
t.post_processor = R.RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=True, add_prefix_space=True)
t.enable_truncation(30, stride=3, direction="left")
save("roberta", t)

# Llama 3: a pattern, byte-level BPE that ignores merges, a sequence of post-processors.
t = Tokenizer(M.BPE(ignore_merges=True))
split = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
t.normalizer = N.NFC()
t.pre_tokenizer = P.Sequence([P.Split(Regex(split), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)])
t.decoder = D.ByteLevel()
train(t, T.BpeTrainer(vocab_size=600, special_tokens=SPECIAL, initial_alphabet=P.ByteLevel.alphabet(), show_progress=False))
added(t)
t.post_processor = R.Sequence([R.ByteLevel(trim_offsets=True), R.TemplateProcessing("<s> $A", "<s> $A <s>:1 $B:1", [("<s>", 0)])])
save("llama3", t)

# Llama 2: BPE with byte fallback and no pre-tokenizer.
t = Tokenizer(M.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
t.normalizer = N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")])
bytes_ = ["<0x%02X>" % b for b in range(256)]
train(t, T.BpeTrainer(vocab_size=800, special_tokens=["<unk>", "<s>", "</s>"] + bytes_, limit_alphabet=120, show_progress=False))
f = json.loads(t.to_str())
f["added_tokens"] = [x for x in f["added_tokens"] if not x["content"].startswith("<0x")]  # bytes are no added tokens
t = Tokenizer.from_str(json.dumps(f))
t.decoder = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
t.enable_truncation(40, stride=0)
t.enable_padding(length=44, direction="left", pad_id=2, pad_type_id=5, pad_token="</s>")
save("llama2", t)

# T5: Unigram.
t = Tokenizer(M.Unigram())
t.normalizer = N.Sequence([N.Nmt(), N.NFKC(), N.Replace(Regex(" {2,}"), " ")])
t.pre_tokenizer, t.decoder = P.Metaspace(), D.Metaspace()
train(t, T.UnigramTrainer(vocab_size=1200, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False))
t.post_processor = R.BertProcessing(("</s>", 1), ("<s>", 0))
added(t)
save("unigram", t)

# CLIP: BPE with a suffix of words.
t = Tokenizer(M.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
t.normalizer = N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()])
clip = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
t.pre_tokenizer = P.Sequence([P.Split(Regex(clip), "removed", invert=True), P.ByteLevel(add_prefix_space=False)])
t.decoder = D.BPEDecoder()
alphabet = P.ByteLevel.alphabet()
train(t, T.BpeTrainer(vocab_size=900, special_tokens=SPECIAL, initial_alphabet=alphabet, end_of_word_suffix="</w>", show_progress=False))
save("clip", t)

# Words, scripts and digits.
t = Tokenizer(M.WordLevel(unk_token="<unk>"))
t.normalizer = N.Sequence([N.Strip(), N.NFKD(), N.StripAccents()])
t.pre_tokenizer = P.Sequence([P.Whitespace(), P.UnicodeScripts(), P.Digits(individual_digits=True), P.Punctuation("merged_with_previous")])
t.decoder = D.CTC()
train(t, T.WordLevelTrainer(vocab_size=300, special_tokens=SPECIAL, show_progress=False))
added(t)
save("words", t)
