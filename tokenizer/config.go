package tokenizer

// Config is what tokenizer_config.json and special_tokens_map.json say.
type Config struct {
	Class          string // tokenizer_class
	ModelMaxLength int    // 0 if it is missing or unlimited
	PaddingLeft    bool   // padding_side
	TruncateLeft   bool   // truncation_side
	ChatTemplate   string // chat_template, the one named "default" of several
	CleanUpSpaces  bool   // clean_up_tokenization_spaces

	BOS, EOS, Unknown, Separator, Pad, Class_, Mask string
}

func (f *files) readConfig() error { return nil }

func (f *files) override(p *parts) error { return nil }
