package hostile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestEnginesAcceptTheSameShapes runs the models of the ONNX suite with drawn shapes of their
// inputs, and drawn values of inputs that may be sizes, also negative ones. Without optimizations
// cpu accepts what reference accepts; with them it may accept more, because it drops nodes.
func TestEnginesAcceptTheSameShapes(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(suite.Dir(t), "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	draws := 2
	if testing.Short() {
		draws = 1
	}
	accepted, refused := 0, 0
	for i, dir := range dirs {
		if info, err := os.Stat(filepath.Join(dir, "model.onnx")); err != nil || info.Size() > 1<<17 {
			continue
		}
		for draw := range draws {
			r := rand.New(rand.NewPCG(uint64(i), uint64(draw)))
			m, feed, text, err := drawnShapes(r, dir)
			if err != nil {
				t.Fatalf("%s: %v", dir, err)
			}
			if text == "" {
				continue
			}
			reference := accepts(t, m, feed,
				onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: "reference"}}})
			plain := accepts(t, m, feed, onward.SessionOptions{OptimizationLevel: onward.OptimizeNone})
			optimized := accepts(t, m, feed, onward.SessionOptions{})
			if slices.ContainsFunc([]error{reference, plain, optimized}, func(err error) bool {
				return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, onward.ErrMemoryLimit)
			}) {
				continue
			}
			if (reference == nil) != (plain == nil) || reference == nil && optimized != nil {
				t.Errorf("%s, draw %d, %s:\nreference: %v\ncpu without optimizations: %v\ncpu: %v",
					filepath.Base(dir), draw, text, reference, plain, optimized)
			}
			if reference == nil {
				accepted++
			} else {
				refused++
			}
		}
	}
	t.Logf("%d draws are accepted, %d refused", accepted, refused)
	if accepted < refused/10 || refused < accepted/10 {
		t.Error("want both often")
	}
}

// accepts opens and runs a model, and returns the error.
func accepts(t *testing.T, m *onnx.Model, feed onward.Values, o onward.SessionOptions) error {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	o.Threads, o.Limits.MaxMemory = 1, 64<<20
	s, err := onward.OpenModel(ctx, m, &o)
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.Run(ctx, feed, nil)
	return err
}

// drawnShapes reads a model of the suite, removes its declared shapes, and changes shapes and
// values of its inputs. text says what it changed; it is empty for a model without tensors as
// inputs.
func drawnShapes(r *rand.Rand, dir string) (m *onnx.Model, feed onward.Values, text string, err error) {
	if m, err = onnx.ReadFile(filepath.Join(dir, "model.onnx"), nil); err != nil {
		return nil, nil, "", err
	}
	feed = onward.Values{}
	m.Graph.ValueInfo = nil
	for i, in := range m.Graph.Inputs {
		b, err := os.ReadFile(filepath.Join(dir, "test_data_set_0", fmt.Sprintf("input_%d.pb", i)))
		if err != nil {
			return nil, nil, "", nil // the file has no data for it
		}
		v, err := onnx.UnmarshalValue(b, in.Type, nil, nil)
		if err != nil {
			return nil, nil, "", err
		}
		feed[in.Name] = v
		x, ok := v.(*tensor.Tensor)
		if !ok {
			continue
		}
		if r.IntN(2) == 0 {
			if x, err = drawnShape(r, x); err != nil {
				return nil, nil, "", err
			}
			text += fmt.Sprintf("%s has shape %v; ", in.Name, x.Shape())
		}
		if d, err := tensor.Data[int64](x); err == nil && x.Rank() <= 1 && x.Len() > 0 && r.IntN(2) == 0 {
			d = slices.Clone(d)
			d[r.IntN(len(d))] = int64(r.IntN(12) - 4)
			x = tensor.Must(tensor.New(d, x.Shape()...))
			text += fmt.Sprintf("%s is %v; ", in.Name, d)
		}
		feed[in.Name] = x
		if in.Type = onnx.NewType(x.Type()); r.IntN(2) == 0 {
			dims := make([]any, x.Rank())
			for k := range dims {
				dims[k] = fmt.Sprintf("d%d_%d", i, k)
			}
			if in.Type, err = onnx.NewTensorType(onnx.DataType(x.DType()), dims...); err != nil {
				return nil, nil, "", err
			}
		}
	}
	for _, out := range m.Graph.Outputs {
		if out.Type != nil && out.Type.Tensor != nil {
			out.Type.Tensor.Shape = nil
		}
	}
	return m, feed, text, nil
}

// drawnShape returns a tensor of another shape with elements of x, repeated.
func drawnShape(r *rand.Rand, x *tensor.Tensor) (*tensor.Tensor, error) {
	shape := slices.Clone(x.Shape())
	switch k := r.IntN(max(1, len(shape))); {
	case len(shape) == 0 || r.IntN(8) == 0:
		shape = append(shape, 1+r.IntN(2))
	case r.IntN(8) == 0:
		shape = slices.Delete(shape, k, k+1)
	default:
		shape[k] = max(0, []int{0, 1, shape[k] - 1, shape[k] + 1, 2 * shape[k]}[r.IntN(5)])
	}
	y, err := tensor.Zeros(x.DType(), shape...)
	if err != nil || x.DType() == tensor.TypeString || x.Len() == 0 {
		return y, err
	}
	for b := y.Bytes(); len(b) > 0; {
		b = b[copy(b, x.Bytes()):]
	}
	return y, nil
}
