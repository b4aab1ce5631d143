package inputs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/tensor"
)

// Flags holds the flags --input, --inputs and --shape.
type Flags struct {
	Values []string // NAME=VALUE
	NPZ    string   // a file with inputs by name
	Shapes []string // NAME=1x3x224x224
}

// Register adds the flags.
func (o *Flags) Register(f *pflag.FlagSet) {
	f.StringArrayVar(&o.Shapes, "shape", nil, "an input's shape, NAME=1x3x224x224; repeat for more")
	f.StringArrayVarP(&o.Values, "input", "i", nil, "an input, NAME=VALUE as in onward run; repeat for more")
	f.StringVar(&o.NPZ, "inputs", "", "a .npz file with inputs by name")
}

// Given returns the inputs that --inputs and --input give.
func (o *Flags) Given(inputs, defaults []onward.NodeArg) (onward.Values, error) {
	feed := onward.Values{}
	if o.NPZ != "" {
		z, err := tensor.ReadNPZFile(o.NPZ, MaxBytes)
		if err != nil {
			return nil, err
		}
		for n, t := range z.Arrays {
			feed[n] = t
		}
	}
	known := slices.Concat(inputs, defaults)
	names := make([]string, len(known))
	for i, a := range known {
		names[i] = a.Name
	}
	for _, arg := range o.Values {
		n, value, ok := strings.Cut(arg, "=")
		if !ok {
			if len(inputs) != 1 {
				return nil, cli.Usagef("--input %q has no name; the inputs are %s", arg, strings.Join(names, ", "))
			}
			n, value = inputs[0].Name, arg
		}
		i := slices.Index(names, n)
		if i < 0 {
			return nil, cli.Usagef("the model has no input %q; it has %s", n, strings.Join(names, ", "))
		}
		v, err := Parse(known[i], value)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", n, err)
		}
		feed[n] = v
	}
	return feed, nil
}

// All returns the inputs that the flags give, and random ones for the rest. Symbolic dims
// are 1 unless --shape sets them.
func (o *Flags) All(inputs, defaults []onward.NodeArg) (onward.Values, error) {
	shapes := map[string]string{}
	for _, s := range o.Shapes {
		n, dims, ok := strings.Cut(s, "=")
		if !ok {
			return nil, cli.Usagef("--shape is %q, want NAME=1x3x224x224", s)
		}
		if !slices.ContainsFunc(inputs, func(a onward.NodeArg) bool { return a.Name == n }) {
			return nil, cli.Usagef("--shape %q: the model has no input %q", s, n)
		}
		shapes[n] = dims
	}
	feed, err := o.Given(inputs, defaults)
	if err != nil {
		return nil, err
	}
	for _, a := range inputs {
		if feed[a.Name] != nil || strings.HasPrefix(a.Type, "optional(") {
			continue
		}
		value := "random"
		if s := shapes[a.Name]; s != "" {
			value += ":" + s
		}
		if feed[a.Name], err = Parse(a, value); err != nil {
			return nil, fmt.Errorf("input %s: %w", a.Name, err)
		}
	}
	return feed, nil
}
