package tokenizer

import "fmt"

// token is a token of a piece: its id and the bytes of the piece that it stands for.
type token struct {
	id      int32
	lo, hi  uint32
	surface bool // its text is that of the piece, not that of the vocabulary
}

// model divides a piece into tokens.
type model interface {
	// tokenize appends the tokens of a piece, which is not empty.
	tokenize(s []byte, sc *scratch, out []token) ([]token, error)
	id(token string) (int32, bool)
	token(id int32) (string, bool)
	size() int
}

// modelState is the memory of a model during a call.
type modelState struct {
	cache   wordCache
	symbols []symbol
	heap    []uint64
	path    []pathNode
	key     []byte
}

// parseModel builds the model of a tokenizer.json. Files without a type are tried as BPE,
// WordPiece, WordLevel and Unigram, in this order, as tokenizers does.
func parseModel(m *modelFile, o *opening) (model, error) {
	kind := ""
	if m.has("type") {
		kind = m.string("type")
	} else {
		list := m.pieces != nil
		switch {
		case !list && m.has("vocab") && m.hasMerges:
			kind = "BPE"
		case !list && m.has("vocab") && m.has("unk_token") && m.has("continuing_subword_prefix") &&
			m.has("max_input_chars_per_word"):
			kind = "WordPiece"
		case !list && m.has("vocab") && m.has("unk_token"):
			kind = "WordLevel"
		case list:
			kind = "Unigram"
		}
	}
	var (
		result model
		err    error
	)
	if !m.has("vocab") {
		return nil, fmt.Errorf("model %q has no vocab", kind)
	}
	if (kind == "Unigram") != (m.pieces != nil) {
		return nil, fmt.Errorf("model %q: vocab has the wrong form", kind)
	}
	switch kind {
	case "BPE":
		result, err = parseBPE(m, o)
	case "WordPiece":
		result, err = parseWordPiece(m, o)
	case "WordLevel":
		unk := m.string("unk_token")
		if m.err == nil {
			v := newVocab(m.vocab, o)
			unkID, ok := v.ids[unk]
			result = &wordLevel{vocab: v, unk: unk, unkID: unkID, hasUnk: ok}
		}
	case "Unigram":
		result, err = parseUnigram(m, o)
	default:
		return nil, fmt.Errorf("model %q is not supported", kind)
	}
	if err == nil {
		err = m.err
	}
	if err == nil {
		err = o.failed()
	}
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", kind, err)
	}
	return result, nil
}

// wordLevel maps whole pieces to ids.
type wordLevel struct {
	*vocab
	unk    string
	unkID  int32
	hasUnk bool
}

func (m *wordLevel) id(token string) (int32, bool) { id, ok := m.ids[token]; return id, ok }

func (m *wordLevel) tokenize(s []byte, _ *scratch, out []token) ([]token, error) {
	id, ok := m.ids[string(s)]
	if !ok {
		if !m.hasUnk {
			return out, errNoUnknown("WordLevel", m.unk)
		}
		id = m.unkID
	}
	return append(out, token{id: id, hi: uint32(len(s))}), nil
}
