package contrib

// RobertaTokenizer returns the ids of texts by a byte-level vocabulary, between <s> and </s>.
var _ = registerTokenizer("RobertaTokenizer", bpeInputs, bpeOutputs, bindBPE(bpeForm{name: "Roberta",
	unk: "<unk>", bos: "<s>", eos: "</s>", pad: "<pad>", hasPad: true}))
