package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/onward-ml/onward/tensor"
	"github.com/onward-ml/onward/tokenizer"
)

// staticEmbedding returns the mean of the vectors of a text's tokens in a table.
type staticEmbedding struct {
	tok   *tokenizer.Tokenizer
	table []float32 // width numbers per token
	width int
	ids   []int64   // rows of the table by token; nil if they are equal
	scale []float32 // factors by token; nil if they are 1

	memory *weightMemory
}

// staticEmbedding opens the module StaticEmbedding, also in model2vec's form.
func (f *folder) staticEmbedding(m *module, opts *EmbedderOptions) (_ *staticEmbedding, err error) {
	if len(opts.Pooling) > 0 {
		return nil, errors.New("a static embedding has no other pooling than the mean")
	}
	w, memory, err := f.weights(m)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			memory.keep(0)
		}
	}()
	sub, err := fs.Sub(f.fs, cleanPath(m.Path))
	if err != nil {
		return nil, err
	}
	s := &staticEmbedding{memory: memory}
	o := opts.Tokenizer
	o.NoPadding, o.NoSpecialTokens = true, true
	if opts.MaxTokens > 0 {
		o.Truncation = &tokenizer.Truncation{MaxLength: opts.MaxTokens, NoOverflow: true}
	}
	if s.tok, err = tokenizer.OpenFS(sub, "tokenizer.json", &o); err != nil {
		return nil, err
	}
	name := "embedding.weight"
	if w[name] == nil {
		name = "embeddings"
		if t := w["mapping"]; t != nil {
			if t, err = tensor.Convert(t, tensor.TypeInt64, nil); err != nil {
				return nil, err
			}
			s.ids = tensor.MustData[int64](t)
		}
		if w["weights"] != nil {
			if s.scale, err = weight(w, "weights", -1); err != nil {
				return nil, err
			}
		}
	}
	if s.table, err = weight(w, name, -1, -1); err != nil {
		return nil, err
	}
	s.width = w[name].Shape()[1]
	if s.width == 0 {
		return nil, fmt.Errorf("model.safetensors: %s has vectors of no numbers", name)
	}
	memory.keep(4*int64(len(s.table)+len(s.scale)) + 8*int64(len(s.ids)))
	return s, nil
}

// row returns the vector of a token and its factor.
func (s *staticEmbedding) row(id int64) ([]float32, float32, error) {
	token, scale := id, float32(1)
	if s.scale != nil {
		if id >= int64(len(s.scale)) {
			return nil, 0, fmt.Errorf("the table of weights has no row for token %d", token)
		}
		scale = s.scale[id]
	}
	if s.ids != nil {
		if id >= int64(len(s.ids)) {
			return nil, 0, fmt.Errorf("the mapping has no row for token %d", token)
		}
		id = s.ids[id]
	}
	if id < 0 || id >= int64(len(s.table)/s.width) {
		return nil, 0, fmt.Errorf("the table of vectors has no row for token %d", token)
	}
	return s.table[int(id)*s.width:][:s.width], scale, nil
}

func (s *staticEmbedding) embed(ctx context.Context, in inputs, fn func([]int, []float32) error) error {
	for from := 0; from < in.n; from += chunk {
		encodings, err := in.encode(from, min(from+chunk, in.n))
		if err != nil {
			return err
		}
		x, index, sums := make([]float32, len(encodings)*s.width), make([]int, len(encodings)), 0
		for i, e := range encodings {
			index[i] = from + i
			out := x[i*s.width:][:s.width]
			for _, id := range e.IDs {
				if sums += s.width; sums >= 1<<20 {
					if sums = 0; ctx.Err() != nil {
						return context.Cause(ctx)
					}
				}
				row, scale, err := s.row(id)
				if err != nil {
					return err
				}
				for c, v := range row {
					out[c] += v * scale
				}
			}
			for c := range out {
				out[c] /= float32(max(e.Len(), 1))
			}
		}
		if err := fn(index, x); err != nil {
			return err
		}
	}
	return nil
}
