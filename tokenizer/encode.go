package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// errTextLength is returned for texts beyond Limits.MaxText.
var errTextLength = errors.New("text exceeds the size limit")

// split divides a text into pieces.
func (t *Tokenizer) split(s string, sc *scratch) (*source, error) {
	if len(s) > sc.limit || len(s) > math.MaxInt32/4 {
		return nil, fmt.Errorf("%w of %d bytes: it has %d", errTextLength, min(sc.limit, math.MaxInt32/4), len(s))
	}
	src := newSource(s, sc)
	if sc.err != nil {
		return nil, sc.err
	}
	src.runes = t.opts.RuneOffsets
	whole := piece{text{s: src.s}, -1}
	sc.next = sc.next[:0]
	if err := t.added.split(&whole, t.added.original, sc); err != nil {
		return nil, err
	}
	sc.pieces, sc.next = sc.next, sc.pieces[:0]
	if t.normalizer != nil || t.added.normalized != nil {
		for i := range sc.pieces {
			p := &sc.pieces[i]
			if p.added >= 0 {
				sc.add(*p)
				continue
			}
			if err := sc.poll(len(p.s)); err != nil {
				return nil, err
			}
			if t.normalizer != nil {
				if err := t.normalizer.normalize(&p.text, sc); err != nil {
					return nil, err
				}
			}
			if err := t.added.split(p, t.added.normalized, sc); err != nil {
				return nil, err
			}
		}
		sc.pieces, sc.next = sc.next, sc.pieces
	}
	if t.pre != nil {
		if err := preTokenize(t.pre, sc); err != nil {
			return nil, err
		}
	}
	return src, nil
}

// encode returns the tokens of one text.
func (t *Tokenizer) encode(s string, typeID int64, sc *scratch) (*Encoding, *source, error) {
	src, err := t.split(s, sc)
	if err != nil {
		return nil, nil, err
	}
	n := len(sc.pieces) + len(s)/8 + 4
	e := &Encoding{IDs: make([]int64, 0, n), Tokens: make([]string, 0, n), Words: make([]int32, 0, n),
		Offsets: make([][2]int, 0, n)}
	sc.encoding = e
	for i := range sc.pieces {
		p := &sc.pieces[i]
		if p.added >= 0 {
			lo, hi := src.offsets(p.original(0, len(p.s)))
			content := t.added.byID[p.added].Content
			if !sc.step(len(p.s)) || !sc.enlarge(e, 1) {
				return nil, nil, sc.err
			}
			if content != string(p.s) { // tokens that take the same spaces overlap
				if !sc.take(len(p.s)) {
					return nil, nil, sc.err
				}
				content = string(p.s)
			}
			e.IDs, e.Tokens = append(e.IDs, int64(p.added)), append(e.Tokens, content)
			e.Words, e.Offsets = append(e.Words, int32(i)), append(e.Offsets, [2]int{lo, hi})
			continue
		}
		if err := sc.poll(len(p.s)); err != nil {
			return nil, nil, err
		}
		tokens, err := t.model.tokenize(p.s, sc, sc.out[:0])
		if err != nil {
			return nil, nil, err
		}
		sc.out = tokens
		if !sc.enlarge(e, len(tokens)) {
			return nil, nil, sc.err
		}
		for _, k := range tokens {
			if !sc.step(1) {
				return nil, nil, sc.err
			}
			lo, hi := src.offsets(p.original(int(k.lo), int(k.hi)))
			text := ""
			if k.surface {
				text = string(p.s[k.lo:k.hi])
			} else {
				text, _ = t.model.token(k.id)
			}
			e.IDs, e.Tokens = append(e.IDs, int64(k.id)), append(e.Tokens, text)
			e.Words, e.Offsets = append(e.Words, int32(i)), append(e.Offsets, [2]int{lo, hi})
		}
	}
	e.TypeIDs, e.Mask, e.Special = make([]int64, len(e.IDs)), make([]int64, len(e.IDs)), make([]bool, len(e.IDs))
	for i := range e.Mask {
		e.Mask[i], e.TypeIDs[i] = 1, typeID
	}
	if !sc.check() { // reserves the memory of short texts too
		return nil, nil, sc.err
	}
	sc.encodings, sc.encoding = sc.encodings+tokenBytes*cap(e.IDs), nil
	return e, src, nil
}

// AppendIDs appends the ids of a text to dst, without special tokens, truncation or padding.
// It allocates nothing for words that it has seen, but for dst.
func (t *Tokenizer) AppendIDs(dst []int64, s string) ([]int64, error) {
	sc := t.acquire(context.Background())
	defer t.release(sc)
	if _, err := t.split(s, sc); err != nil {
		return dst, err
	}
	for i := range sc.pieces {
		p := &sc.pieces[i]
		if p.added >= 0 {
			dst = append(dst, int64(p.added))
			continue
		}
		tokens, err := t.model.tokenize(p.s, sc, sc.out[:0])
		if err != nil {
			return dst, err
		}
		sc.out = tokens
		for _, k := range tokens {
			dst = append(dst, int64(k.id))
		}
	}
	return dst, nil
}

// Encode returns the tokens of a text, with special tokens, truncation and padding as the
// tokenizer's file and its options say. Invalid UTF-8 in the text is read as U+FFFD.
func (t *Tokenizer) Encode(text string) (*Encoding, error) {
	return t.EncodeContext(context.Background(), text)
}

// EncodePair returns the tokens of two texts, such as a question and its context.
func (t *Tokenizer) EncodePair(first, second string) (*Encoding, error) {
	return t.EncodeContext(context.Background(), first, second)
}

// EncodeContext is Encode or EncodePair for one or two texts. It ends with the context's
// error.
func (t *Tokenizer) EncodeContext(ctx context.Context, texts ...string) (*Encoding, error) {
	e, err := t.encodeTexts(ctx, texts)
	if err == nil && t.padding != nil {
		sc := t.acquire(ctx)
		err = t.padding.padAll([]*Encoding{e}, sc)
		t.release(sc)
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	e.finish()
	return e, nil
}

// encodeTexts encodes one or two texts without padding. Offsets are converted.
func (t *Tokenizer) encodeTexts(ctx context.Context, texts []string) (*Encoding, error) {
	if len(texts) < 1 || len(texts) > 2 {
		return nil, fmt.Errorf("want 1 or 2 texts, got %d", len(texts))
	}
	sc := t.acquire(ctx)
	defer t.release(sc)
	var list []*Encoding
	c := &postContext{special: !t.opts.NoSpecialTokens, sc: sc}
	for i, s := range texts {
		e, src, err := t.encode(s, int64(i), sc)
		if err != nil {
			return nil, err
		}
		c.texts[i] = src
		list = append(list, e)
	}
	pair, truncated := len(texts) == 2, false
	if tr := t.truncation; tr != nil {
		added := 0
		if c.special && t.post != nil {
			added = t.post.added(pair)
		}
		var second *Encoding
		n := list[0].Len()
		if pair {
			second = list[1]
			n += second.Len()
		}
		if err := tr.truncatePair(list[0], second, added, sc); err != nil {
			return nil, err
		}
		for _, e := range list {
			n -= e.Len()
		}
		truncated = n > 0
	}
	if t.post != nil {
		for i, e := range list {
			e.setSequence(i)
			e.setType(int64(i))
			for _, o := range e.Overflow {
				o.setSequence(i)
			}
		}
		var err error
		if list, err = t.post.process(list, c); err != nil {
			return nil, err
		}
	} else if pair {
		for i, e := range list {
			e.setSequence(i)
		}
	}
	e := merge(list, sc)
	e.Truncated = truncated
	return e, sc.err
}

// EncodeBatch encodes texts, several at a time, and pads them to the same length if padding
// is on.
func (t *Tokenizer) EncodeBatch(ctx context.Context, texts []string) ([]*Encoding, error) {
	return t.batch(ctx, len(texts), func(i int) []string { return texts[i : i+1] })
}

// EncodePairs encodes pairs of texts as EncodeBatch does.
func (t *Tokenizer) EncodePairs(ctx context.Context, pairs [][2]string) ([]*Encoding, error) {
	return t.batch(ctx, len(pairs), func(i int) []string { return pairs[i][:] })
}

func (t *Tokenizer) batch(ctx context.Context, n int, texts func(i int) []string) ([]*Encoding, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make([]*Encoding, n)
	var next atomic.Int64
	work := func() {
		defer func() { // in a goroutine, a panic would end the program
			if p := recover(); p != nil {
				cancel(fmt.Errorf("tokenizer: internal error: %v\n%s", p, debug.Stack()))
			}
		}()
		for {
			i := int(next.Add(1)) - 1
			if i >= n || ctx.Err() != nil {
				return
			}
			e, err := t.encodeTexts(ctx, texts(i))
			if err != nil {
				cancel(fmt.Errorf("tokenizer: text %d: %w", i, err))
				return
			}
			out[i] = e
		}
	}
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if t.padding == nil {
		for _, e := range out {
			e.finish()
		}
	} else {
		sc := t.acquire(ctx)
		defer t.release(sc)
		for _, e := range out { // each alone first: MultipleOf may make one longer than the batch
			if err := t.padding.padAll([]*Encoding{e}, sc); err != nil {
				return nil, fmt.Errorf("tokenizer: %w", err)
			}
		}
		if err := t.padding.padAll(out, sc); err != nil {
			return nil, fmt.Errorf("tokenizer: %w", err)
		}
		for _, e := range out {
			e.finish()
		}
	}
	return out, nil
}
