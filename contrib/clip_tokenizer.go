package contrib

// CLIPTokenizer returns the ids of texts in lowercase by the vocabulary of CLIP, whose words end
// with </w>, between <|startoftext|> and <|endoftext|>.
var _ = registerTokenizer("CLIPTokenizer", bpeInputs, bpeOutputs, bindBPE(bpeForm{name: "CLIP",
	unk: "<|endoftext|>", bos: "<|startoftext|>", eos: "<|endoftext|>", pad: "<|endoftext|>", hasPad: true}))
