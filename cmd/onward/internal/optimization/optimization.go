// Package optimization holds the optimization flags of the verbs.
package optimization

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
)

// Flags holds the flags --level, --disable and --dimension.
type Flags struct {
	level   string
	disable []string
	dims    []string
}

// Options returns the session options that the flags select.
func (f *Flags) Options() (*onward.SessionOptions, error) {
	var level onward.OptimizationLevel
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		return nil, cli.Usagef("--level is %q, want none, basic, extended or all", f.level)
	}
	o := &onward.SessionOptions{OptimizationLevel: level, DisabledPasses: f.disable, FreeDimensions: map[string]int64{}}
	var names []string
	for _, p := range onward.OptimizationPasses() {
		names = append(names, p.Name)
	}
	for _, d := range f.disable {
		if !slices.Contains(names, d) {
			return nil, cli.Usagef("unknown pass %q, want one of %s", d, strings.Join(names, ", "))
		}
	}
	for _, d := range f.dims {
		name, size, ok := strings.Cut(d, "=")
		n, err := strconv.ParseInt(size, 10, 64)
		if !ok || name == "" || err != nil || n < 0 {
			return nil, cli.Usagef("--dimension is %q, want NAME=SIZE", d)
		}
		o.FreeDimensions[name] = n
	}
	return o, nil
}

// Register adds the flags.
func (f *Flags) Register(s *pflag.FlagSet) {
	s.StringVar(&f.level, "level", "all", "optimization level: none, basic, extended or all")
	s.StringArrayVar(&f.disable, "disable", nil, "disable this pass; repeat for more")
	s.StringArrayVar(&f.dims, "dimension", nil, "fix a symbolic dimension, NAME=SIZE; repeat for more")
}
