package contrib

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// HfJsonTokenizer returns the ids of texts by the tokenizer.json and tokenizer_config.json of a
// byte-pair encoding, which the attributes tokenizer_vocab and tokenizer_config hold.
var _ = registerTokenizer("HfJsonTokenizer", "str:string",
	"ids:int64, attention_mask:int64?, offset_mapping:int64?", func(n *node) (kernel, error) {
		config, file := n.required("tokenizer_config"), n.required("tokenizer_vocab")
		if n.err != nil {
			return nil, n.err
		}
		b, err := newJSONBPE([]byte(config), []byte(file))
		if err != nil {
			return nil, err
		}
		return b.kernel, nil
	})

// jsonConfig is what this package reads of a tokenizer_config.json.
type jsonConfig struct {
	Class  string          `json:"tokenizer_class"`
	BOS    json.RawMessage `json:"bos_token"`
	EOS    json.RawMessage `json:"eos_token"`
	Unk    json.RawMessage `json:"unk_token"`
	Pad    json.RawMessage `json:"pad_token"`
	AddBOS *bool           `json:"add_bos_token"`
	AddEOS *bool           `json:"add_eos_token"`
}

// jsonTokenizer is what this package reads of a tokenizer.json.
type jsonTokenizer struct {
	Added []struct {
		ID      uint32
		Content string
		RStrip  bool
	} `json:"added_tokens"`
	Pre  *jsonSplit      `json:"pre_tokenizer"`
	Post json.RawMessage `json:"post_processor"`

	Decoder *struct {
		Decoders []struct {
			Type, Replacement, Content string
			Prefix                     bool `json:"add_prefix_space"`
			Pattern                    struct{ String string }
		}
	}
	Model struct {
		Vocab  map[string]uint32
		Merges []json.RawMessage
	}
}

// jsonSplit is a pre-tokenizer.
type jsonSplit struct {
	Type    string
	Pattern *struct {
		Regex *string
	}
	List []jsonSplit `json:"pretokenizers"`
}

// bpeClasses are the tokenizer classes of byte-pair encodings.
var bpeClasses = strings.Fields("PreTrained CLIP Whisper Gemma InternLM2 Llama Phi3 CodeLlama CodeGen GPT2 Qwen2 " +
	"Baichuan GPTNeoX")

// newJSONBPE reads the two files.
func newJSONBPE(config, file []byte) (*bpe, error) {
	var c jsonConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("attribute tokenizer_config: %w", err)
	}
	name, _ := strings.CutSuffix(strings.TrimSuffix(c.Class, "Fast"), "Tokenizer")
	if name == c.Class || !slices.Contains(bpeClasses, name) {
		return nil, fmt.Errorf("attribute tokenizer_config: tokenizer_class %q is not supported, want one of %v "+
			"with Tokenizer", c.Class, bpeClasses)
	}
	var t jsonTokenizer
	if err := json.Unmarshal(file, &t); err != nil {
		return nil, fmt.Errorf("attribute tokenizer_vocab: %w", err)
	}
	if len(t.Model.Vocab) == 0 {
		return nil, errors.New("attribute tokenizer_vocab: the model has no vocab")
	}
	b := &bpe{vocab: t.Model.Vocab, width: -1, strip: map[string][2]bool{}}
	b.name, b.bos, b.eos, b.unk = name, tokenText(c.BOS), tokenText(c.EOS), tokenText(c.Unk)
	b.readDecoders(&t)
	if b.sentencePiece {
		b.addByteTokens()
	}
	err := b.jsonMerges(t.Model.Merges)
	if err == nil {
		err = b.readSplits(t.Pre)
	}
	if err != nil {
		return nil, fmt.Errorf("attribute tokenizer_vocab: %w", err)
	}
	b.wordEnd = b.name == "CLIP"
	pad := ""
	if json.Unmarshal(c.Pad, &pad) != nil {
		pad = ""
	}
	seen := map[string]bool{}
	for _, a := range t.Added {
		if seen[a.Content] {
			continue
		}
		seen[a.Content] = true
		b.strip[a.Content] = [2]bool{a.RStrip, false}
		switch a.Content {
		case "":
			return nil, errors.New("attribute tokenizer_vocab: an added token is empty")
		case b.bos:
			b.bosID = int64(a.ID)
		case b.eos:
			b.eosID = int64(a.ID)
		case pad:
			b.padID = int64(a.ID)
		}
		if err := b.addAdded(a.Content, a.ID); err != nil {
			return nil, fmt.Errorf("attribute tokenizer_vocab: added_tokens: %w", err)
		}
	}
	b.addBOS = c.AddBOS != nil && *c.AddBOS
	b.addEOS = c.AddEOS != nil && *c.AddEOS
	if !b.addBOS && b.bos != "" && t.Post != nil { // the post-processor may add them
		b.addBOS = strings.Contains(string(t.Post), b.bos)
		b.addEOS = b.addEOS || strings.Contains(string(t.Post), b.eos)
	}
	return b, nil
}

// tokenText returns a token that is a string, or an object with its content.
func tokenText(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	var o struct{ Content string }
	json.Unmarshal(v, &o) // no content: no token
	return o.Content
}

// readDecoders finds out whether the model was converted from SentencePiece.
func (b *bpe) readDecoders(t *jsonTokenizer) {
	if t.Decoder == nil {
		return
	}
	for _, d := range t.Decoder.Decoders {
		switch d.Type {
		case "Replace":
			b.sentencePiece = b.sentencePiece || d.Pattern.String == string(pieceSpace)
		case "Strip":
			b.prefix = b.prefix || d.Content == " "
		}
	}
}

// jsonMerges reads merges as strings of two tokens or as lists of them.
func (b *bpe) jsonMerges(list []json.RawMessage) error {
	b.merges = map[[2]uint32]merge{}
	if len(list) > maxMerges {
		return fmt.Errorf("the model has %d merges, want at most %d", len(list), maxMerges)
	}
	for rank, raw := range list {
		var pair []string
		var line string
		if json.Unmarshal(raw, &line) == nil {
			pair = strings.SplitN(line, " ", 2)
		} else if err := json.Unmarshal(raw, &pair); err != nil {
			return fmt.Errorf("merge %d: %w", rank, err)
		}
		if len(pair) != 2 {
			return fmt.Errorf("merge %d must be two tokens", rank)
		}
		b.merges[[2]uint32{b.id(pair[0]), b.id(pair[1])}] = merge{b.id(pair[0] + pair[1]), uint32(rank)}
	}
	return nil
}

// splitPatterns are the parts of patterns that pre-tokenizers have, with longer ones before those
// that they begin with.
var splitPatterns = []struct {
	text string
	m    matcher
}{
	{`(?i:'s|'t|'re|'ve|'m|'ll|'d)`, matchContractions},
	{`(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`, matchContractions},
	{`'s|'t|'re|'ve|'m|'ll|'d`, matchContraction},
	{`[^\r\n\p{L}\p{N}]?\p{L}+`, matchWord},
	{`\p{N}{1,3}`, matchDigits},
	{`\p{N}`, func(text []rune) int { return min(run(text, 0, isNumber), 1) }},
	{` ?[^\s\p{L}\p{N}]+[\r\n]*`, matchOtherLines},
	{` ?[^\s\p{L}\p{N}]+`, matchOther},
	{` ?\p{L}+| ?\p{N}+`, matchWordOrNumber},
	{`\s*[\r\n]+`, matchLines},
	{`\s+(?!\S)|\s+`, matchSpaces},
}

// parseSplit returns the matchers of a pattern of known parts.
func parseSplit(pattern string) ([]matcher, error) {
	var list []matcher
	for rest := pattern; ; {
		found := false
		for _, p := range splitPatterns {
			if after, ok := strings.CutPrefix(rest, p.text); ok && (after == "" || after[0] == '|') {
				list, rest, found = append(list, p.m), strings.TrimPrefix(after, "|"), true
				break
			}
		}
		if !found {
			return nil, fmt.Errorf("the pattern %q of the pre_tokenizer is not supported", pattern)
		}
		if rest == "" {
			return list, nil
		}
	}
}

// readSplits reads the pre-tokenizer.
func (b *bpe) readSplits(pre *jsonSplit) error {
	b.split = splitGPT2
	if b.name == "Llama" || b.sentencePiece {
		b.split = splitLlama
	}
	if pre == nil {
		return nil
	}
	escape := strings.NewReplacer("\r", `\r`, "\n", `\n`)
	for _, s := range pre.List {
		switch s.Type {
		case "Split":
			if s.Pattern == nil || s.Pattern.Regex == nil {
				return errors.New("a Split without a regular expression is not supported")
			}
			list, err := parseSplit(escape.Replace(*s.Pattern.Regex))
			if err != nil {
				return err
			}
			b.steps = append(b.steps, list)
		case "ByteLevel":
		default:
			return fmt.Errorf("the pre_tokenizer %q is not supported", s.Type)
		}
	}
	switch {
	case pre.Type == "Split" && pre.Pattern != nil && pre.Pattern.Regex != nil:
		list, err := parseSplit(*pre.Pattern.Regex)
		b.split = list
		return err
	case pre.Type == "Split":
		return errors.New("a Split without a regular expression is not supported")
	case pre.Type != "ByteLevel" && pre.Type != "Sequence" && pre.Type != "Metaspace":
		return fmt.Errorf("the pre_tokenizer %q is not supported", pre.Type)
	}
	return nil
}
