// Package session opens models with the options that flags select.
package session

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
)

// Options returns the options of a session on a provider.
func Options(provider string, threads int) (*onward.SessionOptions, error) {
	if threads < 0 {
		return nil, cli.Usagef("--threads is %d, want 0 (all cores) or more", threads)
	}
	if driver.Lookup(provider) == nil {
		return nil, cli.Usagef("unknown provider %q, want one of %s", provider, strings.Join(onward.Providers(), ", "))
	}
	return &onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: provider}}, Threads: threads}, nil
}

// ProviderFlag adds the flag --provider.
func ProviderFlag(f *pflag.FlagSet, provider *string) {
	f.StringVarP(provider, "provider", "p", "cpu", "the provider: "+strings.Join(onward.Providers(), ", "))
}

// ThreadsFlag adds the flag --threads.
func ThreadsFlag(f *pflag.FlagSet, threads *int) {
	f.IntVar(threads, "threads", 0, "threads per run (default all cores)")
}

// MapWeightsFlag adds the flag --map-weights.
func MapWeightsFlag(f *pflag.FlagSet, mapWeights *bool) {
	f.BoolVar(mapWeights, "map-weights", false, "memory-map the model's files: weights that are not packed are loaded when they are first read")
}

// Open loads a model file or an example for running.
func Open(path string, opts *onward.SessionOptions) (*onward.Session, error) {
	if _, err := os.Stat(path); err == nil && opts.MapWeights {
		return onward.Open(context.Background(), path, opts)
	}
	m, err := modelfile.Load(path)
	if err != nil {
		return nil, err
	}
	s, err := onward.OpenModel(context.Background(), m, opts)
	if err != nil {
		m.Close()
	}
	return s, err
}

// TryProviders opens a model on every provider and returns their errors, nil for success.
func TryProviders(m *onnx.Model) map[string]error {
	r := map[string]error{}
	for _, p := range onward.Providers() {
		s, err := onward.OpenModel(context.Background(), m, &onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: p}}})
		if err == nil {
			err = s.Close()
		}
		r[p] = err
	}
	return r
}
