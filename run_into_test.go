package onward_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestRunInto runs a model whose outputs are given memory, on both Go engines.
func TestRunInto(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, "N", 3).Output("y", onnx.Float, "N", 3).Output("z", onnx.Float, "N", 3).Output("n", onnx.Int64, 2)
	b.Node("Neg", []string{"x"}, []string{"y"})
	b.Node("Exp", []string{"y"}, []string{"z"})
	b.Node("Shape", []string{"x"}, []string{"n"})
	for _, provider := range []string{"cpu", "reference"} {
		s, err := onward.OpenModel(t.Context(), b.Must(), &onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: provider}}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		feed := onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2, 3, 4, 5, 6}, 2, 3))}
		y := tensor.Must(tensor.Zeros(tensor.TypeFloat32, 2, 3))
		for range 3 { // the memory is written again
			clear(tensor.Of[float32](y))
			r, err := s.Run(t.Context(), feed, &onward.RunOptions{Into: map[string]*tensor.Tensor{"y": y}})
			if err != nil {
				t.Fatal(err)
			}
			if r["y"] != tensor.Value(y) || !slices.Equal(tensor.Of[float32](y), []float32{-1, -2, -3, -4, -5, -6}) || len(r) != 3 {
				t.Errorf("%s: got %v, y is %v", provider, r, tensor.Of[float32](y))
			}
			if n, err := tensor.Data[int64](r["n"]); err != nil || !slices.Equal(n, []int64{2, 3}) {
				t.Errorf("%s: n is %v, %v", provider, n, err)
			}
		}
		r, err := s.Run(t.Context(), feed, &onward.RunOptions{Outputs: []string{"y"}, Into: map[string]*tensor.Tensor{"y": y}})
		if err != nil || len(r) != 1 {
			t.Errorf("%s: got %v, %v", provider, r, err)
		}
		small := tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1, 3))
		for want, o := range map[string]*onward.RunOptions{
			"Invalid output name:q":       {Into: map[string]*tensor.Tensor{"q": y}},
			"Invalid output name:y":       {Outputs: []string{"z"}, Into: map[string]*tensor.Tensor{"y": y}},
			"Unexpected output data type": {Into: map[string]*tensor.Tensor{"n": y}},
			"Invalid rank for output":     {Into: map[string]*tensor.Tensor{"y": tensor.Scalar(float32(1))}},
			"shape":                       {Into: map[string]*tensor.Tensor{"y": small}},
			`RunOptions.Into["y"] is nil`: {Into: map[string]*tensor.Tensor{"y": nil}},
			"At least one output":         {Outputs: []string{}, Into: map[string]*tensor.Tensor{"z": y}},
		} {
			_, err := s.Run(t.Context(), feed, o)
			if !errors.Is(err, onward.ErrInvalidArgument) && !errors.Is(err, onward.ErrFail) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", provider, err, want)
			}
		}
		if _, err := s.Run(t.Context(), onward.Values{"x": nil}, &onward.RunOptions{Into: map[string]*tensor.Tensor{"y": y}}); !errors.Is(err, onward.ErrInvalidArgument) {
			t.Errorf("%s: a nil input: got %v", provider, err)
		}
		bound, err := s.NewBinding()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.RunBinding(t.Context(), bound, &onward.RunOptions{Into: map[string]*tensor.Tensor{"y": y}}); err == nil || !strings.Contains(err.Error(), "Into must be nil") {
			t.Errorf("%s: got %v", provider, err)
		}
	}
}
