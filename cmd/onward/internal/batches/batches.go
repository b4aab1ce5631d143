// Package batches reads the batches of inputs that --data names.
package batches

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/calibration"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/fit"
	"github.com/onward-ml/onward/cmd/onward/internal/inputs"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Flags holds the flags --data, --batch and --max-batches.
type Flags struct {
	Paths      []string     // files, folders or random:N
	Rows       int          // of a batch; 0: as the arrays are
	MaxBatches int          // 0: all
	Sizes      inputs.Sizes // of random batches
	Image      inputs.Image
}

// Help describes DATA for the help of a verb.
const Help = `DATA is one of
  a .npz file                  arrays by input name
  a .npy, .pb or image file    the input of a model with one input
  a folder                     such files in the order of their names, or folders with
                               input_0.pb and so on, as in ONNX test data
  random:N                     N batches of random values that fit the model; --dimension and
                               --shape set the sizes of free dimensions
An array with more rows than the input's fixed first dimension, or than --batch, is split
into several batches.`

// Register adds the flags.
func (o *Flags) Register(f *pflag.FlagSet) {
	f.StringArrayVar(&o.Paths, "data", nil, "the inputs, DATA; repeat for more")
	f.IntVar(&o.Rows, "batch", 0, "rows per batch (default whole arrays)")
	o.Sizes.Register(f)
	o.Image.Register(f)
	f.IntVar(&o.MaxBatches, "max-batches", 0, "largest number of batches (default all)")
}

// Read returns the batches. Files are read when their batches are requested.
func (o *Flags) Read(m *onnx.Model) (calibration.Data, error) {
	d, err := onward.Describe(m)
	if err != nil {
		return nil, err
	}
	args := d.Inputs
	if len(o.Paths) == 0 {
		return nil, cli.Usagef("--data is missing; want a .npz file, a folder or random:8")
	}
	if o.Rows < 0 || o.MaxBatches < 0 {
		return nil, cli.Usagef("--batch is %d and --max-batches %d, want 0 or more", o.Rows, o.MaxBatches)
	}
	var sources []func(yield func(onward.Values, error) bool) bool
	for _, path := range o.Paths {
		source, err := o.dataSource(path, m, args)
		if err != nil {
			return nil, err
		}
		sources = append(sources, source)
	}
	return func(yield func(onward.Values, error) bool) {
		for _, s := range sources {
			more := s(func(v onward.Values, err error) bool {
				if err != nil {
					return yield(nil, err)
				}
				return cutBatches(v, args, o.Rows, yield)
			})
			if !more {
				return
			}
		}
	}, nil
}

// dataSource returns the batches of one --data.
func (o *Flags) dataSource(path string, m *onnx.Model,
	args []onward.NodeArg) (func(yield func(onward.Values, error) bool) bool, error) {
	if count, ok := strings.CutPrefix(path, "random"); ok && (count == "" || count[0] == ':') {
		n := 10
		if count != "" {
			var err error
			if n, err = strconv.Atoi(count[1:]); err != nil || n < 1 {
				return nil, cli.Usagef("--data is %q, want random:N with at least one batch", path)
			}
		}
		opts, err := o.Sizes.Options()
		if err != nil {
			return nil, err
		}
		opts.Run = inputs.Run(context.Background(), m)
		drawn, err := fit.Of(m, *opts)
		if err != nil {
			return nil, err
		}
		return func(yield func(onward.Values, error) bool) bool {
			rng := rand.New(rand.NewPCG(1, 2)) // the same batches every time
			for range n {
				feed := onward.Values{}
				for _, a := range args {
					v, err := drawn.Draw(rng, a)
					if err != nil {
						return yield(nil, fmt.Errorf("input %s: %w", a.Name, err))
					}
					feed[a.Name] = v
				}
				if !yield(feed, nil) {
					return false
				}
			}
			return true
		}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := []string{path}
	if info.IsDir() {
		entries, err := os.ReadDir(path) // sorted by name
		if err != nil {
			return nil, err
		}
		files = files[:0]
		for _, e := range entries {
			if name := filepath.Join(path, e.Name()); e.IsDir() || isData(name) {
				files = append(files, name)
			}
		}
		if slices.ContainsFunc(files, func(f string) bool { return filepath.Base(f) == "input_0.pb" }) {
			files = []string{path} // one set of test data
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s holds no .npz, .npy, .pb or image file and no folder", path)
		}
	}
	return func(yield func(onward.Values, error) bool) bool {
		for _, f := range files {
			v, err := o.readBatch(f, args)
			if err != nil {
				err = fmt.Errorf("%s: %w", f, err)
			}
			if !yield(v, err) {
				return false
			}
		}
		return true
	}, nil
}

func isData(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return ext == ".npz" || slices.Contains(inputs.Extensions, ext)
}

// readBatch reads the inputs of a run from a file or a folder of ONNX test data.
func (o *Flags) readBatch(path string, args []onward.NodeArg) (onward.Values, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	feed := onward.Values{}
	if info.IsDir() {
		for i, a := range args {
			file := filepath.Join(path, fmt.Sprintf("input_%d.pb", i))
			if feed[a.Name], err = inputs.Read(a, file, &o.Image); err != nil {
				return nil, err
			}
		}
		return feed, nil
	}
	if strings.EqualFold(filepath.Ext(path), ".npz") {
		z, err := tensor.ReadNPZFile(path, inputs.MaxBytes)
		if err != nil {
			return nil, err
		}
		for _, a := range args {
			t := z.Arrays[a.Name]
			if t == nil {
				return nil, fmt.Errorf("array %q is missing; the file has %s", a.Name, strings.Join(z.Names, ", "))
			}
			feed[a.Name] = t
		}
		return feed, nil
	}
	if len(args) != 1 {
		return nil, fmt.Errorf("the model has %d inputs; give them by name in a .npz file", len(args))
	}
	v, err := inputs.Read(args[0], path, &o.Image)
	if err != nil {
		return nil, err
	}
	feed[args[0].Name] = v
	return feed, nil
}

// cutBatches splits arrays along the first axis into batches of the given number of rows,
// or of the inputs' fixed first dimension.
func cutBatches(feed onward.Values, args []onward.NodeArg, batch int, yield func(onward.Values, error) bool) bool {
	total, rows := 0, batch
	for _, a := range args {
		t, ok := feed[a.Name].(*tensor.Tensor)
		if !ok || t.Rank() == 0 {
			return yield(feed, nil)
		}
		if total != 0 && t.Dim(0) != total {
			return yield(feed, nil) // the first axis is not a batch axis
		}
		total = t.Dim(0)
		if len(a.Shape) > 0 && a.Shape[0].Value > 0 {
			rows = int(a.Shape[0].Value)
		}
	}
	if rows == 0 || total <= rows {
		return yield(feed, nil)
	}
	for lo := 0; lo < total; lo += rows {
		hi := min(lo+rows, total)
		part := onward.Values{}
		for _, a := range args {
			if len(a.Shape) > 0 && a.Shape[0].Value > 0 && int64(hi-lo) != a.Shape[0].Value {
				return true // drop the rest, which is too small for a fixed dimension
			}
			t := feed[a.Name].(*tensor.Tensor)
			if t.DType() == tensor.TypeString || t.DType().Packed() {
				return yield(nil, fmt.Errorf("input %s: arrays of %s cannot be split into batches", a.Name, t.DType()))
			}
			size := len(t.Bytes()) / total
			shape := append([]int{hi - lo}, t.Shape()[1:]...)
			p, err := tensor.FromBytes(t.DType(), t.Bytes()[lo*size:hi*size], shape...)
			if err != nil {
				return yield(nil, fmt.Errorf("input %s: %w", a.Name, err))
			}
			part[a.Name] = p
		}
		if !yield(part, nil) {
			return false
		}
	}
	return true
}
