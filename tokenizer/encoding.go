package tokenizer

import (
	"fmt"
	"slices"
)

// Encoding is the result of Encode: one element of each slice for a token. The ids, types
// and mask are int64, so that they are the data of tensors as they are.
type Encoding struct {
	IDs     []int64
	TypeIDs []int64 // 0 for the first text, 1 for the second, unless the file says otherwise
	Mask    []int64 // attention mask: 0 for padding, else 1
	Special []bool  // tokens that the post-processor or padding adds
	Tokens  []string
	// Words are the indices of the words that tokens belong to, -1 for special tokens. Words
	// are what the pre-tokenizer splits a text into.
	Words []int32
	// Sequences are 0 for the tokens of the first text, 1 for those of the second, else -1.
	Sequences []int8
	// Offsets are where tokens begin and end in their original text: in bytes, or in runes if
	// Options.RuneOffsets is set. Special tokens have 0 and 0.
	Offsets [][2]int
	// Overflow holds the windows that truncation cuts off, unless Truncation.NoOverflow is set.
	Overflow []*Encoding
	// Truncated says that truncation has cut off tokens.
	Truncated bool

	ranges [2]tokenRange // tokens of each text; both unset means that all are of the first
}

// tokenRange is a range of tokens.
type tokenRange struct {
	lo, hi int
	set    bool
}

// Len returns the number of tokens.
func (e *Encoding) Len() int { return len(e.IDs) }

// slice copies the tokens from lo to hi.
func (e *Encoding) slice(lo, hi int) *Encoding {
	return &Encoding{
		IDs: append([]int64(nil), e.IDs[lo:hi]...), TypeIDs: append([]int64(nil), e.TypeIDs[lo:hi]...),
		Mask: append([]int64(nil), e.Mask[lo:hi]...), Special: append([]bool(nil), e.Special[lo:hi]...),
		Tokens: append([]string(nil), e.Tokens[lo:hi]...), Words: append([]int32(nil), e.Words[lo:hi]...),
		Offsets: append([][2]int(nil), e.Offsets[lo:hi]...),
	}
}

func (e *Encoding) setType(id int64) {
	for i := range e.TypeIDs {
		e.TypeIDs[i] = id
	}
}

func (e *Encoding) setSequence(k int) { e.ranges[k] = tokenRange{0, len(e.IDs), true} }

// special returns an encoding of tokens that no text contains. It is empty if the call ends.
func special(ids []int32, tokens []string, typeID int64, sc *scratch) *Encoding {
	n := len(ids)
	if !sc.takeTokens(n) {
		return &Encoding{}
	}
	e := &Encoding{IDs: make([]int64, n), TypeIDs: make([]int64, n), Mask: make([]int64, n), Special: make([]bool, n),
		Tokens: slices.Clone(tokens), Words: make([]int32, n), Offsets: make([][2]int, n)}
	for i, id := range ids {
		e.IDs[i], e.TypeIDs[i], e.Mask[i], e.Special[i], e.Words[i] = int64(id), typeID, 1, true, -1
	}
	return e
}

// merge returns the concatenation of encodings. Overflowing windows are combined: each with
// what follows it, and what comes before with each.
func merge(list []*Encoding, sc *scratch) *Encoding {
	if len(list) == 1 {
		return list[0]
	}
	out := &Encoding{}
	for _, e := range list {
		out.append(e, sc)
	}
	return out
}

// append appends the tokens of other. It ends early if the call does.
func (e *Encoding) append(other *Encoding, sc *scratch) {
	var overflow []*Encoding
	join := func(a, b *Encoding) {
		if !sc.takeTokens(len(a.IDs)) {
			return
		}
		n := a.clone()
		n.append(b, sc)
		overflow = append(overflow, n)
	}
	for _, own := range e.Overflow {
		join(own, other)
		for _, o := range other.Overflow {
			join(own, o)
		}
	}
	for _, o := range other.Overflow {
		join(e, o)
	}
	if !sc.takeTokens(len(other.IDs)) {
		return
	}
	at := len(e.IDs)
	for k, r := range other.ranges {
		if r.set {
			e.ranges[k] = tokenRange{at + r.lo, at + r.hi, true}
		}
	}
	e.IDs, e.TypeIDs = append(e.IDs, other.IDs...), append(e.TypeIDs, other.TypeIDs...)
	e.Mask, e.Special, e.Tokens = append(e.Mask, other.Mask...), append(e.Special, other.Special...),
		append(e.Tokens, other.Tokens...)
	e.Words, e.Offsets = append(e.Words, other.Words...), append(e.Offsets, other.Offsets...)
	e.Overflow = overflow
}

// clone copies e with its overflow.
func (e *Encoding) clone() *Encoding {
	n := e.slice(0, len(e.IDs))
	n.ranges = e.ranges
	n.Overflow = append(n.Overflow, e.Overflow...)
	return n
}

// Truncation limits the number of tokens.
type Truncation struct {
	MaxLength int
	// Strategy is LongestFirst (the default), OnlyFirst or OnlySecond: which of two texts is
	// shortened.
	Strategy string
	// Stride is how many tokens a window of Encoding.Overflow shares with the one before.
	Stride int
	Left   bool // cut off the start
	// NoOverflow drops what is cut off. Otherwise the windows of two long texts are combined, each
	// with each: two texts of 100 kB can take gigabytes.
	NoOverflow bool
}

// Padding makes encodings equally long.
type Padding struct {
	// Length is the number of tokens. 0 stands for the longest of a batch.
	Length     int
	MultipleOf int // round the length up; 0 for no rounding
	Left       bool
	ID         int
	TypeID     int
	Token      string
}

// truncate cuts e to limit tokens, and keeps the rest as overlapping windows unless t drops it.
func (t *Truncation) truncate(e *Encoding, limit int, sc *scratch) error {
	n, stride := len(e.IDs), t.Stride
	switch {
	case limit >= n:
		return nil
	case t.NoOverflow && !sc.takeTokens(limit):
		return sc.err
	case t.NoOverflow && t.Left:
		*e = *e.slice(n-limit, n)
		return nil
	case t.NoOverflow:
		*e = *e.slice(0, limit)
		return nil
	case limit == 0:
		whole := *e
		*e = Encoding{Overflow: []*Encoding{&whole}}
		return nil
	case stride >= limit:
		return fmt.Errorf("truncation: stride %d must be below the length without special tokens, %d", stride, limit)
	}
	var windows []*Encoding
	step := limit - stride
	if t.Left {
		for hi := n; ; hi -= step {
			lo := max(hi-limit, 0)
			if !sc.takeTokens(hi - lo) {
				return sc.err
			}
			windows = append(windows, e.slice(lo, hi))
			if lo == 0 {
				break
			}
		}
	} else {
		for lo := 0; ; lo += step {
			hi := min(lo+limit, n)
			if !sc.takeTokens(hi - lo) {
				return sc.err
			}
			windows = append(windows, e.slice(lo, hi))
			if hi == n {
				break
			}
		}
	}
	*e = *windows[0]
	e.Overflow = windows[1:]
	return nil
}

// truncatePair applies t to one or two encodings. special is the number of tokens that the
// post-processor adds.
func (t *Truncation) truncatePair(first, second *Encoding, special int, sc *scratch) error {
	limit := t.MaxLength - special
	if limit < 0 {
		return fmt.Errorf("truncation to %d tokens leaves no space for %d special tokens", t.MaxLength, special)
	}
	if limit == 0 {
		if err := t.truncate(first, 0, sc); err != nil || second == nil {
			return err
		}
		return t.truncate(second, 0, sc)
	}
	total := len(first.IDs)
	if second != nil {
		total += len(second.IDs)
	}
	if total <= limit {
		return nil
	}
	remove := total - limit
	if t.Strategy == "" || t.Strategy == "LongestFirst" {
		if second == nil {
			return t.truncate(first, limit, sc)
		}
		n1, n2 := len(first.IDs), len(second.IDs)
		swap := n1 > n2
		if swap {
			n1, n2 = n2, n1
		}
		if n1 > limit {
			n2 = n1
		} else {
			n2 = max(n1, limit-n1)
		}
		if n1+n2 > limit {
			n1 = limit / 2
			n2 = n1 + limit%2
		}
		if swap {
			n1, n2 = n2, n1
		}
		if err := t.truncate(first, n1, sc); err != nil {
			return err
		}
		return t.truncate(second, n2, sc)
	}
	target := first
	if t.Strategy == "OnlySecond" {
		if target = second; second == nil {
			return fmt.Errorf("truncation OnlySecond needs a second text")
		}
	}
	if len(target.IDs) <= remove {
		return fmt.Errorf("truncation: the text has %d tokens, and %d must be removed", len(target.IDs), remove)
	}
	return t.truncate(target, len(target.IDs)-remove, sc)
}

// pad makes e and its overflow at least n tokens long. It ends early if the call does.
func (e *Encoding) pad(n int, p *Padding, sc *scratch) {
	for _, o := range e.Overflow {
		o.pad(n, p, sc)
	}
	k := n - len(e.IDs)
	if k <= 0 || !sc.takeTokens(k) {
		return
	}
	fill := &Encoding{}
	for range k {
		fill.IDs, fill.TypeIDs = append(fill.IDs, int64(p.ID)), append(fill.TypeIDs, int64(p.TypeID))
		fill.Mask, fill.Special, fill.Tokens = append(fill.Mask, 0), append(fill.Special, true),
			append(fill.Tokens, p.Token)
		fill.Words, fill.Offsets = append(fill.Words, -1), append(fill.Offsets, [2]int{})
	}
	overflow := e.Overflow
	e.Overflow = nil
	if p.Left {
		fill.append(e, sc)
		*e = *fill
	} else {
		e.append(fill, sc)
	}
	e.Overflow = overflow
}

// padAll pads a batch.
func (p *Padding) padAll(list []*Encoding, sc *scratch) error {
	n := p.Length
	if n == 0 {
		for _, e := range list {
			n = max(n, len(e.IDs))
		}
	}
	if k := p.MultipleOf; k > 0 && n%k > 0 {
		n += k - n%k
	}
	for _, e := range list {
		e.pad(n, p, sc)
	}
	return sc.err
}

// finish fills Sequences.
func (e *Encoding) finish() {
	for _, o := range e.Overflow {
		o.finish()
	}
	e.Sequences = make([]int8, len(e.IDs))
	if e.ranges[0].set { // else all tokens are of the first text: so says tokenizers
		for i := range e.Sequences {
			e.Sequences[i] = -1
		}
		for k, r := range e.ranges {
			for i := r.lo; i < r.hi; i++ {
				e.Sequences[i] = int8(k)
			}
		}
	}
}
