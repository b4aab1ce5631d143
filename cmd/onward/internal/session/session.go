// Package session opens models with the options that flags select.
package session

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/driver"
)

// ProviderOptions are the values of the flag --option.
type ProviderOptions []string

// OptionFlag adds the flag --option.
func OptionFlag(f *pflag.FlagSet, o *ProviderOptions) {
	f.StringArrayVar((*[]string)(o), "option", nil,
		"an option of the provider: NAME=VALUE, or PROVIDER/NAME=VALUE for one of several")
}

// For returns the options for a provider.
func (o ProviderOptions) For(provider string) (map[string]string, error) {
	var r map[string]string
	for _, s := range o {
		name, value, ok := strings.Cut(s, "=")
		if p, rest, one := strings.Cut(name, "/"); one && driver.Lookup(p) != nil {
			if p != provider {
				continue
			}
			name = rest
		}
		if !ok || name == "" {
			return nil, cli.Usagef("--option %q: want NAME=VALUE", s)
		}
		if r == nil {
			r = map[string]string{}
		}
		r[name] = value
	}
	return r, nil
}

// Named checks that each option names its provider, for verbs that try all of them.
func (o ProviderOptions) Named() error {
	for _, s := range o {
		name, _, _ := strings.Cut(s, "=")
		if p, _, _ := strings.Cut(name, "/"); p == name || driver.Lookup(p) == nil {
			return cli.Usagef("--option %q: want PROVIDER/NAME=VALUE with one of the providers %s", s,
				strings.Join(onward.Providers(), ", "))
		}
	}
	return nil
}

// Options returns the options of a session on a provider.
func Options(provider string, threads int, own ProviderOptions) (*onward.SessionOptions, error) {
	if threads < 0 {
		return nil, cli.Usagef("--threads is %d, want 0 (all cores) or more", threads)
	}
	if driver.Lookup(provider) == nil {
		if _, ok := driver.PackageOf(provider); ok {
			return nil, cli.NotLinked{What: fmt.Sprintf("provider %q", provider)}
		}
		return nil, cli.Usagef("unknown provider %q, want one of %s", provider, strings.Join(onward.Providers(), ", "))
	}
	options, err := own.For(provider)
	if err != nil {
		return nil, err
	}
	return &onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: provider, Options: options}},
		Threads: threads}, nil
}

// ProviderFlag adds the flag --provider.
func ProviderFlag(f *pflag.FlagSet, provider *string) {
	f.StringVarP(provider, "provider", "p", "cpu", "the provider: "+strings.Join(onward.Providers(), ", "))
}

// ThreadsFlag adds the flag --threads.
func ThreadsFlag(f *pflag.FlagSet, threads *int) {
	f.IntVar(threads, "threads", 0, "threads per run (default all cores)")
}

// PrecisionFlag adds the flag --precision.
func PrecisionFlag(f *pflag.FlagSet, p *onward.Precision) {
	f.TextVar(p, "precision", onward.PrecisionFloat32, "bfloat16: operands of products may be rounded")
}

// PrecisionName returns the name of a precision in results, "" for the default.
func PrecisionName(p onward.Precision) string {
	if p == onward.PrecisionFloat32 {
		return ""
	}
	return p.String()
}

// MapWeightsFlag adds the flag --map-weights.
func MapWeightsFlag(f *pflag.FlagSet, mapWeights *bool) {
	f.BoolVar(mapWeights, "map-weights", false,
		"memory-map the model's files: weights that are not packed are loaded when they are first read")
}

// Open loads a model file or an example for running.
func Open(ctx context.Context, path string, opts *onward.SessionOptions) (*onward.Session, error) {
	if _, err := os.Stat(path); err == nil && opts.MapWeights {
		return onward.Open(ctx, path, opts)
	}
	m, err := modelfile.Load(path)
	if err != nil {
		return nil, err
	}
	s, err := onward.OpenModel(ctx, m, opts)
	if err != nil {
		m.Close()
	}
	return s, err
}
