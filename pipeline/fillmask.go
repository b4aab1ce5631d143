package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/onward-ml/onward/tensor"
	"github.com/onward-ml/onward/tokenizer"
)

// FillOptions configure one call of a [MaskFiller].
type FillOptions struct {
	Top int // how many tokens are returned for each mask. Default: 5
	// Targets are the tokens to choose from. Of a text that is not a token, its first token
	// counts. Default: all tokens.
	Targets []string
}

// Fill is a token in place of a mask.
type Fill struct {
	Token string // decoded
	ID    int64
	Score float32
	Text  string // the text with the token in place of the mask, decoded from tokens
}

// MaskFiller predicts tokens for masks in texts, as the pipeline fill-mask of transformers does.
type MaskFiller struct {
	model *textModel
	mask  int64
}

// OpenMaskFiller opens the folder of a model for masked language modeling.
func OpenMaskFiller(ctx context.Context, dir string, opts *TextOptions) (*MaskFiller, error) {
	if opts == nil {
		opts = &TextOptions{}
	}
	m, config, err := openText(ctx, dir, opts, "logits")
	if err != nil {
		return nil, err
	}
	f := &MaskFiller{model: m}
	id, ok := m.tok.IDOf(m.tok.Config().Mask)
	if !ok && config.err == nil {
		config.err = errors.New("the tokenizer has no mask_token")
	}
	f.mask = id
	return f, m.closeAfter(config.err)
}

// Close closes the session of the pipeline.
func (f *MaskFiller) Close() error { return f.model.session.Close() }

// Mask returns the token that marks what is to be filled, such as "[MASK]".
func (f *MaskFiller) Mask() string { return f.model.tok.Config().Mask }

// Fill returns, for each text and each of its masks, the most likely tokens. The probability of a
// token is that of the mask alone, also if a text has several.
func (f *MaskFiller) Fill(ctx context.Context, texts []string, opts *FillOptions) ([][][]Fill, error) {
	o := FillOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Top <= 0 {
		o.Top = 5
	}
	targets, err := f.targets(o.Targets)
	if err != nil {
		return nil, wrap("fill mask", err)
	}
	result := make([][][]Fill, len(texts))
	err = f.model.runTexts(ctx, texts, func(b *textBatch, out []*tensor.Tensor) error {
		x, err := floats(out[0], b.rows, b.columns, -1)
		if err != nil {
			return err
		}
		width := out[0].Shape()[2]
		for r, rows := range b.sequences(x, width) {
			i, e := b.index[r], b.encodings[r]
			masks := 0
			for _, id := range e.IDs {
				if id == f.mask {
					masks++
				}
			}
			if masks == 0 {
				return fmt.Errorf("text %d has no %s", i, f.Mask())
			}
			for k, id := range e.IDs {
				if id != f.mask {
					continue
				}
				list, err := f.fill(e, k, rows[k*width:][:width], targets, o.Top, masks == 1)
				if err != nil {
					return err
				}
				result[i] = append(result[i], list)
			}
		}
		return nil
	})
	return result, wrap("fill mask", err)
}

// targets returns the ids of the tokens to choose from, nil for all.
func (f *MaskFiller) targets(texts []string) ([]int64, error) {
	var ids []int64
	for _, s := range texts {
		id, ok := f.model.tok.IDOf(s)
		if !ok {
			list, err := f.model.tok.AppendIDs(nil, s)
			if err != nil {
				return nil, err
			}
			if len(list) == 0 {
				return nil, fmt.Errorf("target %q has no tokens", s)
			}
			id = list[0]
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// fill returns the most likely tokens at a position, by the outputs for it.
func (f *MaskFiller) fill(e *tokenizer.Encoding, at int, scores []float32, targets []int64, top int,
	single bool) ([]Fill, error) {
	softmax(scores)
	if targets == nil {
		targets = make([]int64, len(scores))
		for i := range targets {
			targets[i] = int64(i)
		}
	}
	for _, id := range targets {
		if id < 0 || id >= int64(len(scores)) {
			return nil, fmt.Errorf("token %d is beyond the %d outputs of the model", id, len(scores))
		}
	}
	order := slices.Clone(targets)
	slices.SortStableFunc(order, func(a, b int64) int { return descending(scores[a], scores[b]) })
	var list []Fill
	for _, id := range order[:min(top, len(order))] {
		filled := Fill{ID: id, Score: scores[id]}
		ids := slices.Clone(e.IDs)
		ids[at] = id
		ids = slices.DeleteFunc(ids, func(id int64) bool { return id == f.model.padID })
		var err error
		if filled.Token, err = f.model.tok.Decode([]int64{id}, false); err != nil {
			return nil, err
		}
		if filled.Text, err = f.model.tok.Decode(ids, single); err != nil {
			return nil, err
		}
		list = append(list, filled)
	}
	return list, nil
}
