package calibration

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backendtest"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
	_ "github.com/onward-ml/onward/provider/ort"
	"github.com/onward-ml/onward/tensor"
)

// suiteCase reads the model of a case and the inputs of its first data set. The feed is nil
// if an input is not a tensor.
func suiteCase(c backendtest.TestCase) (*onnx.Model, onward.Values, error) {
	m, err := onnx.ReadFile(filepath.Join(c.ModelDir, "model.onnx"), nil)
	if err != nil {
		return nil, nil, err
	}
	feed := onward.Values{}
	for i, in := range m.Graph.Inputs {
		path := filepath.Join(c.ModelDir, "test_data_set_0", fmt.Sprintf("input_%d.pb", i))
		data, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // has an initializer
		}
		if err != nil {
			return nil, nil, err
		}
		v, err := onnx.UnmarshalValue(data, in.Type, nil, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		feed[in.Name] = v
	}
	return m, feed, nil
}

// fixed returns a model whose inputs other than one are initializers with the values of the
// feed, so that they are weights, and the remaining feed. The result is nil if the model has
// no such inputs.
func fixed(m *onnx.Model, feed onward.Values, keep int) (*onnx.Model, onward.Values) {
	if keep >= len(m.Graph.Inputs) {
		return nil, nil
	}
	c, g := *m, *m.Graph
	c.IRVersion = max(4, m.IRVersion)
	c.Graph = &g
	g.Inputs, g.Initializers = nil, slices.Clone(g.Initializers)
	rest := onward.Values{}
	for i, in := range m.Graph.Inputs {
		v, ok := feed[in.Name].(*tensor.Tensor)
		if i != keep && ok {
			w := onnx.FromTensor(v)
			w.Name = in.Name
			g.Initializers = append(slices.DeleteFunc(g.Initializers, func(t *onnx.Tensor) bool {
				return t.Name == in.Name
			}), w)
			continue
		}
		g.Inputs = append(g.Inputs, in)
		if feed[in.Name] != nil {
			rest[in.Name] = feed[in.Name]
		}
	}
	if len(g.Inputs) == len(m.Graph.Inputs) {
		return nil, nil
	}
	return &c, rest
}

// single are the session options of a provider on one thread, since many sessions run at the
// same time.
func single(p onward.ProviderConfig) *onward.SessionOptions {
	return &onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{p}}
}

// runModel opens a model with a provider and runs it once.
func runModel(ctx context.Context, m *onnx.Model, p onward.ProviderConfig, feed onward.Values) (onward.Values, error) {
	s, err := onward.OpenModel(ctx, m, single(p))
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer s.Close()
	out, err := s.Run(ctx, feed, nil)
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	for k, v := range out {
		out[k] = tensor.Clone(v)
	}
	return out, nil
}

// refused matches the errors of models that are not to be quantized.
var refused = regexp.MustCompile("convert it first|computes a gradient|nor for any other of the chosen operators")

// ortFaults matches an error of ONNX Runtime 1.30's optimizer, which without optimization loads
// the model: it moves a QuantizeLinear of int8 with an output_dtype of its own, then changes the
// zero point to uint8.
var ortFaults = regexp.MustCompile("output_dtype INT8 does not match y_zero_point type UINT8")

// TestQuantizeSuite quantizes the models of the ONNX suite, each as it is and with its inputs
// as weights: in one of the ways each, or in all of them if ONWARD_LONG is set. ONWARD_CASES
// selects cases by a regular expression.
func TestQuantizeSuite(t *testing.T) {
	dir := suite.Dir(t)
	kinds, err := backendtest.Kinds(dir)
	if err != nil {
		t.Fatal(err)
	}
	include, err := regexp.Compile(os.Getenv("ONWARD_CASES"))
	if err != nil {
		t.Fatal(err)
	}
	lib, err := ortlib.Find()
	if err != nil {
		t.Run("ort", func(t *testing.T) { ortlib.Path(t) }) // counts as skipped
	}
	for _, kind := range kinds {
		cases, err := backendtest.LoadModelTests(dir, kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			if c.ModelDir == "" || !include.MatchString(c.Name) {
				continue
			}
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				m, feed, err := suiteCase(c)
				if err != nil {
					t.Fatal(err)
				}
				r := roundTrip{lib: lib, first: crc32.ChecksumIEEE([]byte(c.Name))}
				r.run(t, m, feed)
				for keep := range 2 {
					if f, rest := fixed(m, feed, keep); f != nil {
						t.Run(fmt.Sprintf("all but input %d fixed", keep), func(t *testing.T) { r.run(t, f, rest) })
					}
				}
			})
		}
	}
}

// roundTrip quantizes models.
type roundTrip struct {
	lib   string // of ONNX Runtime; may be empty
	first uint32 // modulo the number of ways, the one to begin with
}

// run quantizes a model. The results must be valid, run, and have outputs of the types and
// shapes of the original, finite where its are. What ONNX Runtime runs, it must run quantized.
func (r *roundTrip) run(t *testing.T, m *onnx.Model, feed onward.Values) {
	cpu, ort := onward.ProviderConfig{Name: "cpu"},
		onward.ProviderConfig{Name: "ort", Options: map[string]string{"library": r.lib}}
	want, err := runModel(t.Context(), m, cpu, feed)
	if err != nil {
		return // backendtest tests the model itself; some have inputs that must not be weights
	}
	table, err := Calibrate(t.Context(), m, Batches(feed), &Options{Session: single(cpu)})
	if err != nil {
		return // no floats
	}
	all := ways()
	n := 1
	if os.Getenv("ONWARD_LONG") != "" {
		n = len(all)
	}
	for range n {
		w := all[r.first%uint32(len(all))]
		r.first += 4 // all ways in turn, since their number is odd
		q, err := w.quantize(m, table)
		if err != nil {
			if !refused.MatchString(err.Error()) {
				t.Errorf("%s: %v", w.name, err)
			}
			continue
		}
		q = checkModel(t, q)
		got, err := runModel(t.Context(), q, cpu, feed)
		if err != nil {
			t.Errorf("%s: %v", w.name, err)
			continue
		}
		for name, v := range want {
			if err := alike(got[name], v); err != nil {
				t.Errorf("%s: output %q: %v", w.name, name, err)
			}
		}
		if r.lib == "" {
			continue
		}
		if _, err := runModel(t.Context(), q, ort, feed); err != nil && !ortFaults.MatchString(err.Error()) {
			if _, e := runModel(t.Context(), m, ort, feed); e == nil {
				t.Errorf("%s: ONNX Runtime: %v", w.name, err)
			}
		}
	}
}

// alike returns an error unless two values have the same type and shape, and the first is
// finite where the second is.
func alike(got, want tensor.Value) error {
	w, ok := want.(*tensor.Tensor)
	if !ok {
		return nil
	}
	g, ok := got.(*tensor.Tensor)
	if !ok || g.DType() != w.DType() || !slices.Equal(g.Shape(), w.Shape()) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	if w.DType() != tensor.TypeFloat32 {
		return nil
	}
	v := tensor.MustData[float32](g)
	for i, x := range tensor.MustData[float32](w) {
		if y := v[i]; x-x == 0 && y-y != 0 {
			return fmt.Errorf("element %d is %g, want about %g", i, y, x)
		}
	}
	return nil
}
