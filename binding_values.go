package onward

import (
	"context"
	"maps"

	"github.com/onward-ml/onward/tensor"
)

// RunWithOrtValues is [Session.Run] for OrtValues, which may be in the memory of a
// device of the session's provider. The results are on the CPU; the caller owns them.
func (s *Session) RunWithOrtValues(ctx context.Context, feed map[string]*OrtValue, opts *RunOptions) (map[string]*OrtValue, error) {
	if opts != nil && len(opts.Adapters) > 0 {
		parameters, err := opts.adapted(nil)
		if err != nil {
			return nil, err
		}
		adapted := map[string]*OrtValue{}
		maps.Copy(adapted, feed)
		for name, v := range parameters {
			adapted[name] = &OrtValue{value: v}
		}
		feed = adapted
		o := *opts
		o.Adapters = nil
		opts = &o
	}
	bound := false
	values := make(Values, len(feed))
	for name, v := range feed {
		if v == nil {
			continue
		}
		values[name] = v.value
		s, ok := v.value.(*tensor.Sparse)
		bound = bound || v.device != nil || ok && s.Format != tensor.SparseCOO
	}
	if bound {
		return s.runBound(ctx, feed, opts)
	}
	out, err := s.Run(ctx, values, opts)
	if err != nil {
		return nil, err
	}
	r := make(map[string]*OrtValue, len(out))
	for name, v := range out {
		r[name] = &OrtValue{value: v}
	}
	return r, nil
}

// runBound runs the model once through a new binding.
func (s *Session) runBound(ctx context.Context, feed map[string]*OrtValue, opts *RunOptions) (map[string]*OrtValue, error) {
	b, err := s.NewBinding()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	for name, v := range feed {
		if _, ok := s.inIndex[name]; !ok {
			return nil, s.unknownInput(name, "Invalid input name: %s")
		}
		if v == nil {
			continue
		}
		if err := b.BindInputValue(name, v); err != nil {
			return nil, err
		}
	}
	if opts != nil && opts.Outputs != nil {
		if _, err := s.wanted(opts.Outputs); err != nil {
			return nil, err
		}
	}
	names := s.outputNames(opts)
	for _, n := range names {
		if err := b.BindOutput(n); err != nil {
			return nil, err
		}
	}
	if opts != nil {
		o := *opts
		o.Outputs = nil
		opts = &o
	}
	if err := s.RunBinding(ctx, b, opts); err != nil {
		return nil, err
	}
	out, err := b.Outputs()
	if err != nil {
		return nil, err
	}
	r := make(map[string]*OrtValue, len(out))
	for k, name := range b.OutputNames() {
		r[name] = out[k]
	}
	return r, nil
}
