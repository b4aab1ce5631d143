package contrib

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// bpeForm is what the operators for byte-pair encodings differ in.
type bpeForm struct {
	name                string // of the model, which selects rules
	unk, bos, eos       string
	pad                 string
	hasPad              bool // pad_token is set, maybe to ""
	sentencePiece       bool // converted from a SentencePiece model: ▁ is a space
	prefix              bool // texts begin with ▁
	addBOS, addEOS      bool
	wordEnd             bool // CLIP: words end with </w>, and spaces are removed
	noSplit             bool
	steps               [][]matcher // each divides the parts of the one before it; nil: split alone
	split               []matcher
	bosID, eosID, padID int64
}

// bpe is a tokenizer of one of the operators for byte-pair encodings.
type bpe struct {
	bpeForm
	vocab   map[string]uint32
	merges  map[[2]uint32]merge
	added   *trie[rune] // may be nil
	strip   map[string][2]bool
	special []segment
	width   int // tokens of a row; −1: those of the longest
}

// byteText returns the text that stands for a byte in the vocabulary: bytes without a printable
// character have one from U+0100 on.
var byteText = func() (out [256]string) {
	free := rune(256)
	for i := range out {
		r := rune(i)
		if i < 33 || i >= 127 && i < 161 || i == 173 {
			r = free
			free++
		}
		out[i] = string(r)
	}
	return out
}()

// maxMerges limits the lines of merges.
const maxMerges = 1 << 22

// newBPE reads the attributes vocab, merges, added_token and padding_length.
func newBPE(n *node, form bpeForm) (*bpe, error) {
	text, lines := n.required("vocab"), n.required("merges")
	form.name = n.text("model_name", form.name)
	width, added := n.int("padding_length", -1), n.text("added_token", "")
	if n.err != nil {
		return nil, n.err
	}
	if width != -1 && (width <= 0 || width > 1<<24) {
		return nil, fmt.Errorf("attribute padding_length is %d, want -1 or a number up to %d", width, 1<<24)
	}
	b := &bpe{bpeForm: form, width: int(width)}
	if err := json.Unmarshal([]byte(text), &b.vocab); err != nil {
		return nil, fmt.Errorf("attribute vocab: %w", err)
	}
	if len(b.vocab) == 0 {
		return nil, errors.New("attribute vocab is empty")
	}
	b.addToken(form.unk)
	if form.sentencePiece {
		b.addByteTokens()
	}
	if err := b.parseMerges(lines); err != nil {
		return nil, fmt.Errorf("attribute merges: %w", err)
	}
	for _, t := range []string{form.unk, form.bos, form.eos, form.pad} {
		if t != "" && !containsToken(b.special, t) {
			b.special = append(b.special, segment{decodeText(t), b.addToken(t)})
		}
	}
	if err := b.parseAdded(added); err != nil {
		return nil, fmt.Errorf("attribute added_token: %w", err)
	}
	b.bosID, b.eosID = int64(b.id(form.bos)), int64(b.id(form.eos))
	if form.hasPad {
		b.padID = int64(b.id(form.pad))
	}
	b.apply()
	return b, nil
}

// apply sets the rules that follow from the name of the model.
func (b *bpe) apply() {
	b.split = splitGPT2
	if b.name == "Llama" || b.sentencePiece {
		b.split = splitLlama
	}
	b.wordEnd = b.name == "CLIP"
	b.addBOS = b.sentencePiece || b.name != "GPT2" && b.name != "CodeGen"
	b.addEOS = b.addBOS
}

func containsToken(list []segment, text string) bool {
	for _, t := range list {
		if string(t.text) == text {
			return true
		}
	}
	return false
}

// addToken returns the id of a token, which gets the number of tokens if it has none.
func (b *bpe) addToken(text string) uint32 {
	id, ok := b.vocab[text]
	if !ok {
		id = uint32(len(b.vocab))
		b.vocab[text] = id
	}
	return id
}

// addByteTokens gives bytes without a token of their own that of <0x00> to <0xFF>.
func (b *bpe) addByteTokens() {
	for i := range 256 {
		char := string([]byte{byte(i)})
		if _, ok := b.vocab[char]; !ok {
			if id, ok := b.vocab[fmt.Sprintf("<0x%02X>", i)]; ok {
				b.vocab[char] = id
			}
		}
	}
}

func (b *bpe) id(token string) uint32 {
	if id, ok := b.vocab[token]; ok {
		return id
	}
	return noToken
}

// parseMerges reads lines of two tokens, with a space between them, in the order of their ranks.
func (b *bpe) parseMerges(text string) error {
	b.merges = map[[2]uint32]merge{}
	rank := 0
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\r", "")
		if line == "" || line[0] == '#' && rank == 0 {
			continue
		}
		left, right, ok := strings.Cut(line, " ")
		if !ok || rank >= maxMerges {
			return fmt.Errorf("line %q must be two tokens with a space between them, one of at most %d lines", line,
				maxMerges)
		}
		b.merges[[2]uint32{b.id(left), b.id(right)}] = merge{b.id(left + right), uint32(rank)}
		rank++
	}
	return nil
}

// parseAdded reads lines such as "<token>=5".
func (b *bpe) parseAdded(text string) error {
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\r", "")
		if line == "" {
			continue
		}
		k := strings.LastIndexByte(line, '=')
		if k <= 0 {
			return fmt.Errorf("line %q must be a token, = and an id", line)
		}
		id, err := strconv.ParseInt(line[k+1:], 10, 32)
		if err != nil || id < 0 {
			return fmt.Errorf("line %q must end with an id of at most %d", line, math.MaxInt32)
		}
		if err := b.addAdded(line[:k], uint32(id)); err != nil {
			return err
		}
	}
	return nil
}

func (b *bpe) addAdded(token string, id uint32) error {
	if b.added == nil {
		b.added = newTrie[rune]()
	}
	return b.added.add(decodeText(token), int64(id))
}
