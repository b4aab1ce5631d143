package contrib

const (
	bpeInputs  = "input_text:string, add_special_tokens:bool?"
	bpeOutputs = "input_ids:int64, attention_mask:int64?, offset_mapping:int64?"
)

// GPT2Tokenizer returns the ids of texts by the byte-level vocabulary and merges of GPT-2.
var _ = registerTokenizer("GPT2Tokenizer", bpeInputs, bpeOutputs, bindBPE(bpeForm{name: "GPT2",
	unk: "<|endoftext|>", bos: "<|endoftext|>", eos: "<|endoftext|>"}))

// bindBPE returns the bind of an operator for a byte-pair encoding.
func bindBPE(form bpeForm) bind {
	return func(n *node) (kernel, error) {
		b, err := newBPE(n, form)
		if err != nil {
			return nil, err
		}
		return b.kernel, nil
	}
}
