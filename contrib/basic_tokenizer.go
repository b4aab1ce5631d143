package contrib

import "github.com/onward-ml/onward/tensor"

// BasicTokenizer divides a string into words as BERT does, with classes of characters of its own.
var _ = registerTokenizer("BasicTokenizer", "text:string", "tokens:string", func(n *node) (kernel, error) {
	t := newBasicTokenizer(n)
	t.punctuation = n.flag("tokenize_punctuation", false)
	t.clean = n.flag("remove_control_chars", true)
	return func(c *call) ([]tensor.Value, error) {
		s, err := one[string](c, 0)
		if err == nil {
			err = c.Reserve(64 * int64(len(s)))
		}
		if err != nil {
			return nil, err
		}
		words := t.split(decodeText(s))
		out := make([]string, len(words))
		for i, w := range words {
			out[i] = encodeText(w)
		}
		return values(list(out))
	}, nil
})

// basicTokenizer divides texts at white space, and around Chinese characters and punctuation.
type basicTokenizer struct {
	lower, accents, chinese, punctuation, clean bool
}

func newBasicTokenizer(n *node) *basicTokenizer {
	return &basicTokenizer{lower: n.flag("do_lower_case", true), accents: n.flag("strip_accents", false),
		chinese: n.flag("tokenize_chinese_chars", true), punctuation: true, clean: true}
}

// split returns the words of a text, which it changes.
func (t *basicTokenizer) split(text []rune) [][]rune {
	var words [][]rune
	var word []rune
	end := func() {
		if len(word) > 0 {
			words, word = append(words, word), nil
		}
	}
	for _, r := range text {
		if t.accents {
			r = unaccent(r)
		}
		if t.lower {
			r = lower(r)
		}
		switch {
		case t.chinese && between(chinese, r), !t.skips(r) && t.punctuation && between(puncts, r):
			end()
			words = append(words, []rune{r})
		case t.skips(r):
		case between(spaces, r):
			end()
		case t.clean && between(control, r):
		default:
			word = append(word, r)
		}
	}
	end()
	return words
}

// skips reports whether a character is a combining accent that is removed.
func (t *basicTokenizer) skips(r rune) bool { return t.accents && r >= 0x300 && r <= 0x36F }
