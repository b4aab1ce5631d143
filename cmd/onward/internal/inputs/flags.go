package inputs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/fit"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Flags holds the flags that give the inputs of a run.
type Flags struct {
	Values []string // NAME=VALUE
	Files  string   // a .npz file with inputs by name, or a folder with input_0.pb and so on
	Sizes  Sizes
	Image  Image
	Seed   uint64
}

// Sizes holds the flags that give the shapes of generated inputs.
type Sizes struct {
	Shapes     []string // NAME=1x3x224x224
	Dimensions []string // NAME=SIZE
}

// Register adds the flags.
func (o *Sizes) Register(f *pflag.FlagSet) {
	f.StringArrayVar(&o.Shapes, "shape", nil, "an input's shape, NAME=1x3x224x224; repeat for more")
	f.StringArrayVar(&o.Dimensions, "dimension", nil, "the size of a free dimension, NAME=SIZE; repeat for more")
}

// Feed holds the inputs of a run.
type Feed struct {
	Values onward.Values
	// Dimensions are the sizes that the free dimensions have, by name, if inputs were generated.
	Dimensions map[string]int
	free       []string
}

// Sizes lists the sizes of the free dimensions, such as "batch=1, sequence=8".
func (f *Feed) Sizes() string {
	s := make([]string, len(f.free))
	for i, name := range f.free {
		s[i] = name + "=" + strconv.Itoa(f.Dimensions[name])
	}
	return strings.Join(s, ", ")
}

// Help describes for the help of a verb how inputs are generated.
const Help = `Without --input and --inputs, inputs are generated at random. They fit the nodes that read
them: indices are within their tables, masks are 0 and 1. A free dimension is 1 if it is the
first of an input, else 8 or a size that the model accepts. --dimension and --shape set it.`

// ValueHelp describes VALUE for the help of a verb.
const ValueHelp = `VALUE is one of
  a JSON literal         x=[[1,2],[3,4]]   x=3   x=["a","b"]
  @file.npy              a NumPy array
  @file.json, @file.csv  a JSON literal; rows of values, also with a line of column names
  @file.pb               a TensorProto, SequenceProto, ... as in the ONNX backend suite
  @image.png             a PNG, JPEG or GIF image for an input [N,C,H,W] or [N,H,W,C]; values are
                         0 to 1 for float inputs and 0 to 255 for integer inputs. --resize
                         scales it, --mean and --std normalize it
  random, zeros, ones, range
                         generated values, also in a given shape: zeros:1x3x224x224
  random:LO..HI[:SHAPE]  random values from LO to HI, for integers including HI
Values of random are those that the nodes of the model accept.`

// Register adds the flags.
func (o *Flags) Register(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.Values, "input", "i", nil, "an input, NAME=VALUE as in onward run; repeat for more")
	f.StringVar(&o.Files, "inputs", "", "a .npz file with inputs by name, or a folder with input_0.pb and so on")
	o.Sizes.Register(f)
	o.Image.Register(f)
	f.Uint64Var(&o.Seed, "seed", 0, "seed of random values")
}

// spec is a VALUE that generates values.
type spec struct {
	kind   string // random, zeros, ones, range
	lo, hi *float64
	shape  []int // nil: not given
}

// parseSpec returns nil if the value is not a spec.
func parseSpec(value string) (*spec, error) {
	kind, rest, more := strings.Cut(value, ":")
	if !slices.Contains([]string{"random", "zeros", "ones", "range"}, kind) {
		return nil, nil
	}
	s := &spec{kind: kind}
	if kind == "random" && strings.Contains(rest, "..") {
		bounds, dims, _ := strings.Cut(rest, ":")
		lo, hi, _ := strings.Cut(bounds, "..")
		a, err1 := strconv.ParseFloat(lo, 64)
		b, err2 := strconv.ParseFloat(hi, 64)
		if err1 != nil || err2 != nil || !(a <= b) {
			return nil, cli.Usagef("value is %q, want random:LO..HI with numbers LO ≤ HI", value)
		}
		s.lo, s.hi = &a, &b
		rest, more = dims, strings.Count(value, ":") > 1
	}
	if !more {
		return s, nil
	}
	var err error
	s.shape, err = parseShape(rest)
	return s, err
}

func parseShape(dims string) ([]int, error) {
	shape := []int{}
	for _, d := range strings.Split(dims, "x") {
		n, err := strconv.Atoi(d)
		if err != nil || n < 0 {
			return nil, cli.Usagef("shape is %q, want sizes such as 1x3x224x224", dims)
		}
		shape = append(shape, n)
	}
	return shape, nil
}

// Options returns what the flags say.
func (o *Sizes) Options() (*fit.Options, error) {
	r := &fit.Options{Dimensions: map[string]int{}, Shapes: map[string][]int{}, Given: onward.Values{}}
	for _, s := range o.Shapes {
		name, dims, ok := cutLast(s)
		if !ok {
			return nil, cli.Usagef("--shape is %q, want NAME=1x3x224x224", s)
		}
		shape, err := parseShape(dims)
		if err != nil {
			return nil, err
		}
		r.Shapes[name] = shape
	}
	for _, s := range o.Dimensions {
		name, size, ok := cutLast(s)
		n, err := strconv.Atoi(size)
		if !ok || err != nil || n < 0 {
			return nil, cli.Usagef("--dimension is %q, want NAME=SIZE", s)
		}
		r.Dimensions[name] = n
	}
	return r, nil
}

// cutLast cuts at the last "=": names of dimensions can contain others.
func cutLast(s string) (name, value string, ok bool) {
	k := strings.LastIndexByte(s, '=')
	if k < 0 {
		return s, "", false
	}
	return s[:k], s[k+1:], true
}

// Feed returns the inputs of a model that the flags give, and with all set also random values for
// the other inputs. Where inference does not know all shapes, it runs the model to find sizes.
func (o *Flags) Feed(ctx context.Context, m *onnx.Model, all bool) (*Feed, error) {
	d, err := onward.Describe(m)
	if err != nil {
		return nil, err
	}
	opts, err := o.Sizes.Options()
	if err != nil {
		return nil, err
	}
	specs, err := o.given(d, opts)
	if err != nil {
		return nil, err
	}
	feed := &Feed{Values: opts.Given}
	missing := slices.ContainsFunc(d.Inputs, func(a onward.NodeArg) bool { return opts.Given[a.Name] == nil })
	if len(specs)+len(opts.Shapes)+len(opts.Dimensions) == 0 && !(all && missing) {
		return feed, nil
	}
	opts.Run = Run(ctx, m)
	f, err := fit.Of(m, *opts)
	if err != nil {
		return nil, err
	}
	feed.Dimensions, feed.free = f.Dimensions, f.Free
	rng := rand.New(rand.NewPCG(o.Seed, 2)) // the same values every time
	for _, a := range slices.Concat(d.Inputs, d.OverridableInitializers) {
		s := specs[a.Name]
		if s == nil && !(all && feed.Values[a.Name] == nil &&
			slices.ContainsFunc(d.Inputs, func(b onward.NodeArg) bool { return b.Name == a.Name })) {
			continue
		}
		if feed.Values[a.Name], err = s.generate(rng, f, a); err != nil {
			return nil, fmt.Errorf("input %s: %w", a.Name, err)
		}
	}
	return feed, nil
}

// generate generates a value for an input; the nil spec is random.
func (s *spec) generate(rng *rand.Rand, f *fit.Inputs, a onward.NodeArg) (tensor.Value, error) {
	switch {
	case s == nil || s.kind == "random" && s.lo == nil:
		return f.Draw(rng, a)
	case s.kind == "random":
		return f.Between(rng, a, *s.lo, *s.hi)
	case s.kind == "zeros":
		return f.Fill(a, func(int) float64 { return 0 })
	case s.kind == "ones":
		return f.Fill(a, func(int) float64 { return 1 })
	}
	return f.Fill(a, func(i int) float64 { return float64(i) })
}

// given reads the values that --inputs and --input give into opts.Given, and the shapes of
// generated ones into opts.Shapes.
func (o *Flags) given(d *onward.Description, opts *fit.Options) (map[string]*spec, error) {
	feed, specs := opts.Given, map[string]*spec{}
	if err := o.readFiles(d, feed); err != nil {
		return nil, err
	}
	known := slices.Concat(d.Inputs, d.OverridableInitializers)
	names := make([]string, len(known))
	for i, a := range known {
		names[i] = a.Name
	}
	for _, arg := range o.Values {
		n, value, ok := strings.Cut(arg, "=")
		if !ok {
			if len(d.Inputs) != 1 {
				return nil, cli.Usagef("--input %q has no name; the inputs are %s", arg, strings.Join(names, ", "))
			}
			n, value = d.Inputs[0].Name, arg
		}
		i := slices.Index(names, n)
		if i < 0 {
			return nil, cli.Usagef("the model has no input %q; it has %s", n, strings.Join(names, ", "))
		}
		s, err := parseSpec(value)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", n, err)
		}
		delete(feed, n)
		if s != nil {
			specs[n] = s
			if s.shape != nil {
				opts.Shapes[n] = s.shape
			}
			continue
		}
		v, err := o.parse(known[i], value)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", n, err)
		}
		feed[n] = v
	}
	return specs, nil
}

// readFiles reads the values of --inputs.
func (o *Flags) readFiles(d *onward.Description, feed onward.Values) error {
	if o.Files == "" {
		return nil
	}
	if info, err := os.Stat(o.Files); err == nil && info.IsDir() {
		read, err := ReadFolder(o.Files, d.Inputs)
		maps.Copy(feed, read)
		return err
	}
	z, err := tensor.ReadNPZFile(o.Files, MaxBytes)
	if err != nil {
		return err
	}
	for n, t := range z.Arrays {
		feed[n] = t
	}
	return nil
}

// ReadFolder reads the inputs input_0.pb and so on that are in a folder.
func ReadFolder(dir string, inputs []onward.NodeArg) (onward.Values, error) {
	feed := onward.Values{}
	for i, a := range inputs {
		v, err := Read(a, filepath.Join(dir, fmt.Sprintf("input_%d.pb", i)), nil)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", a.Name, err)
		}
		feed[a.Name] = v
	}
	if len(feed) == 0 && len(inputs) > 0 {
		return nil, fmt.Errorf("folder %s has no input_0.pb", dir)
	}
	return feed, nil
}

// Write writes the values as input_0.pb and so on to a folder, for --inputs.
func (f *Feed) Write(dir string, inputs []onward.NodeArg) error {
	for i, a := range inputs {
		v := f.Values[a.Name]
		if v == nil {
			continue
		}
		data, err := onnx.MarshalValue(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("input_%d.pb", i)), data, 0o600)
		}
		if err != nil {
			return fmt.Errorf("input %s: %w", a.Name, err)
		}
	}
	return nil
}
