package onward

import (
	"context"
	"maps"
	"slices"

	"github.com/onward-ml/onward/driver"
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

// runInto runs the model once through a new binding, whose outputs are bound to opts.Into.
func (s *Session) runInto(ctx context.Context, feed Values, opts *RunOptions) (Values, error) {
	values := make(map[string]*OrtValue, len(feed))
	for name, v := range feed {
		values[name] = &OrtValue{value: v}
	}
	o := *opts
	o.Adapters = nil // which are in the feed
	out, err := s.runBound(ctx, values, &o)
	if err != nil {
		return nil, err
	}
	r := make(Values, len(out))
	for name, v := range out {
		if r[name] = v.value; o.Into[name] != nil {
			r[name] = o.Into[name]
		}
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
	var into map[string]*tensor.Tensor
	names := s.outputNames(opts)
	if opts != nil {
		o := *opts
		into, o.Outputs, o.Into = o.Into, nil, nil
		opts = &o
	}
	for name := range into {
		if !slices.Contains(names, name) {
			return nil, hinted(statusf(InvalidArgument, "Invalid output name:%s", name), driver.Suggest(name, names))
		}
	}
	for _, n := range names {
		if t, ok := into[n]; ok {
			if t == nil {
				return nil, statusf(InvalidArgument, "RunOptions.Into[%q] is nil, want a tensor that receives the output", n)
			}
			err = b.BindOutputTensor(n, t)
		} else {
			err = b.BindOutput(n)
		}
		if err != nil {
			return nil, err
		}
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
