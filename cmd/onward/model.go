package main

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func exampleNames() string { return strings.Join(datasets.Names(), ", ") }

// loadModel reads a model file, or an example when no such file exists.
func loadModel(path string) (*onnx.Model, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && slices.Contains(datasets.Names(), path) {
		data, err := datasets.Get(path)
		if err != nil {
			return nil, err
		}
		return onnx.Unmarshal(data, nil)
	}
	return onnx.ReadFile(path, nil)
}

// sessionOptions turns the common flags into options.
func sessionOptions(provider string, threads int) (*onward.SessionOptions, error) {
	if threads < 0 {
		return nil, usagef("--threads is %d, want 0 (all cores) or more", threads)
	}
	if onward.LookupProvider(provider) == nil {
		return nil, usagef("there is no provider %q; there are %s", provider, strings.Join(onward.Providers(), ", "))
	}
	return &onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: provider}}, Threads: threads}, nil
}

// mapWeightsFlag adds the flag --map-weights.
func mapWeightsFlag(c *cobra.Command, p *bool) {
	c.Flags().BoolVar(p, "map-weights", false, "keep the model's files mapped: weights that are not packed load as they are read")
}

// openSession loads a model for running.
func openSession(path string, opts *onward.SessionOptions) (*onward.Session, error) {
	if _, err := os.Stat(path); err == nil && opts.MapWeights {
		return onward.Open(path, opts)
	}
	m, err := loadModel(path)
	if err != nil {
		return nil, err
	}
	s, err := onward.OpenModel(m, opts)
	if err != nil {
		m.Close()
	}
	return s, err
}

// dtypeBits is the width of an element in a file; 0 for strings.
func dtypeBits(d onnx.DataType) int {
	if d < 0 || d > 255 {
		return 0
	}
	return tensor.DType(d).Bits()
}

// tryProviders opens a model on every provider and returns why it cannot be, nil
// where it can.
func tryProviders(m *onnx.Model) map[string]error {
	r := map[string]error{}
	for _, p := range onward.Providers() {
		s, err := onward.OpenModel(m, &onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: p}}})
		if err == nil {
			err = s.Close()
		}
		r[p] = err
	}
	return r
}
