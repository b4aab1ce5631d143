package contrib

// SpmTokenizer returns the ids of texts by a byte-pair encoding that was converted from a
// SentencePiece model, after <s>.
var _ = registerTokenizer("SpmTokenizer", bpeInputs, bpeOutputs, bindBPE(bpeForm{name: "Llama",
	unk: "<unk>", bos: "<s>", eos: "</s>", hasPad: true, sentencePiece: true, prefix: true}))
