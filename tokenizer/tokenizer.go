package tokenizer

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// Options change how a tokenizer is opened and encodes. The zero value does as the files say.
type Options struct {
	// Truncation replaces the truncation of the file.
	Truncation *Truncation
	// NoTruncation keeps all tokens.
	NoTruncation bool
	// Padding replaces the padding of the file.
	Padding *Padding
	// NoPadding adds no padding.
	NoPadding bool
	// NoSpecialTokens leaves out the tokens that the post-processor adds.
	NoSpecialTokens bool
	// RuneOffsets returns offsets in runes instead of bytes.
	RuneOffsets bool
	// Lowercase converts texts to lowercase before the normalizer of the file does its work, as
	// do_lower_case of sentence-transformers asks for.
	Lowercase bool
	// SentencePieceRules lets the normalizer Precompiled replace the longest prefix that has a
	// rule, as SentencePiece does and tokenizers 0.23.3 does not.
	SentencePieceRules bool
	// Encoding names the encoding of a .tiktoken file, such as cl100k_base, if the name of the
	// file does not say it.
	Encoding string
	// MaxFile is the limit of the size of a file in bytes; 0 stands for 256 MiB.
	MaxFile int64
	// MaxText is the limit of the size of a text in bytes, before and after normalization; 0
	// stands for 256 MiB.
	MaxText int
	// Reserve, if not nil, is called while Encode, EncodeContext, EncodeBatch and EncodePairs take
	// memory, mostly before they do, with three times the bytes that buffers take in addition:
	// the collector frees outgrown ones later. Several goroutines call it. Its error ends the call.
	Reserve func(bytes int64) error
	// ReserveOpening, if not nil, is called while a tokenizer is opened, before it takes memory,
	// with about twice the bytes: the collector frees garbage later. At the end it is called with
	// the negative number of bytes that are needed no more; the others count as long as the
	// tokenizer is used. Its error ends opening, and then nothing that was reserved is needed.
	ReserveOpening func(bytes int64) error
}

func (o *Options) maxFile() int64 {
	if o.MaxFile > 0 {
		return o.MaxFile
	}
	return 256 << 20
}

func (o *Options) maxText() int {
	if o.MaxText > 0 {
		return o.MaxText
	}
	return 256 << 20
}

// Tokenizer converts text to token ids and back. It is safe for use by several goroutines.
type Tokenizer struct {
	*parts
	opts       Options
	truncation *Truncation
	padding    *Padding
}

// parts is what the tokenizers of one file share.
type parts struct {
	normalizer normalizer
	pre        preTokenizer
	model      model
	post       postProcessor
	decoder    decoder
	added      *addedTokens
	config     Config

	fileTruncation *Truncation
	filePadding    *Padding
	pool           sync.Pool // of *scratch
}

// WithOptions returns a tokenizer that shares the vocabulary of t. Options that concern
// opening a file have no effect.
func (t *Tokenizer) WithOptions(opts *Options) (*Tokenizer, error) {
	n := &Tokenizer{parts: t.parts}
	if opts != nil {
		n.opts = *opts
	}
	n.truncation, n.padding = t.fileTruncation, t.filePadding
	if n.opts.Truncation != nil {
		tr := *n.opts.Truncation
		n.truncation = &tr
		special := 0
		if t.post != nil {
			special = t.post.added(false)
		}
		if tr.MaxLength-special < tr.Stride {
			return nil, fmt.Errorf(
				"tokenizer: truncation: stride %d exceeds the length without special tokens, %d - %d",
				tr.Stride, tr.MaxLength, special)
		}
	}
	if n.opts.NoTruncation {
		n.truncation = nil
	}
	if n.opts.Padding != nil {
		p := *n.opts.Padding
		n.padding = &p
	}
	if n.opts.NoPadding {
		n.padding = nil
	}
	if err := n.truncation.check(); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if err := n.padding.check(); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return n, nil
}

func (t *Truncation) check() error {
	if t == nil {
		return nil
	}
	switch t.Strategy {
	case "", "LongestFirst", "OnlyFirst", "OnlySecond":
	default:
		return fmt.Errorf("truncation strategy %q is not supported", t.Strategy)
	}
	if t.MaxLength < 0 || t.Stride < 0 {
		return fmt.Errorf("truncation lengths must be non-negative, got %d and stride %d", t.MaxLength, t.Stride)
	}
	return nil
}

// maxPadding limits the lengths of padding.
const maxPadding = 1 << 24

func (p *Padding) check() error {
	if p != nil && (p.Length < 0 || p.Length > maxPadding || p.MultipleOf < 0 || p.MultipleOf > maxPadding) {
		return fmt.Errorf("padding lengths must be from 0 to %d, got %d and multiple %d", maxPadding,
			p.Length, p.MultipleOf)
	}
	return nil
}

// TokenOf returns the text of an id.
func (t *Tokenizer) TokenOf(id int64) (string, bool) {
	if id < 0 || id > 1<<31-1 {
		return "", false
	}
	if a, ok := t.added.byID[int32(id)]; ok {
		if s, ok := t.added.texts[int32(id)]; ok {
			return s, true
		}
		return a.Content, true
	}
	return t.model.token(int32(id))
}

// IDOf returns the id of a token.
func (t *Tokenizer) IDOf(token string) (int64, bool) {
	if id, ok := t.added.byContent[token]; ok {
		return int64(id), true
	}
	id, ok := t.model.id(token)
	return int64(id), ok
}

// VocabSize returns the number of tokens, added ones included.
func (t *Tokenizer) VocabSize() int {
	n := t.model.size()
	for content := range t.added.byContent {
		if _, ok := t.model.id(content); !ok {
			n++
		}
	}
	return n
}

// AddedTokens returns the added tokens, ordered by id.
func (t *Tokenizer) AddedTokens() []AddedToken {
	list := make([]AddedToken, 0, len(t.added.byID))
	for _, a := range t.added.byID {
		list = append(list, *a)
	}
	slices.SortFunc(list, func(a, b AddedToken) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Truncation returns the truncation in effect, or nil.
func (t *Tokenizer) Truncation() *Truncation {
	if t.truncation == nil {
		return nil
	}
	tr := *t.truncation
	return &tr
}

// Padding returns the padding in effect, or nil.
func (t *Tokenizer) Padding() *Padding {
	if t.padding == nil {
		return nil
	}
	p := *t.padding
	return &p
}

// Config returns what the files beside the tokenizer's say.
func (t *Tokenizer) Config() Config { return t.config }

// SubwordPrefix returns what begins the tokens that continue a word, such as "##", or "" if
// the tokenizer marks none.
func (t *Tokenizer) SubwordPrefix() string {
	switch m := t.model.(type) {
	case *wordPiece:
		return m.prefix
	case *bpe:
		return m.prefix
	}
	return ""
}
