package operators

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
)

// TestTextGeneration compares the text generation operators of com.microsoft with
// results of ONNX Runtime, which internal/ops/all/testdata/record_generation.py records.
func TestTextGeneration(t *testing.T) {
	const dir = "../../ops/all/testdata/generation"
	b, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	type value struct {
		T string
		S []int
		D []float64
	}
	var cases []struct {
		Model  string
		Inputs map[string]value
		Want   map[string]value
	}
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatal("there are no cases")
	}
	for _, c := range cases {
		for _, provider := range []string{"reference", "cpu"} {
			t.Run(c.Model+"/"+provider, func(t *testing.T) {
				s, err := onward.Open(t.Context(), filepath.Join(dir, c.Model+".onnx"),
					&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: provider}}})
				if err != nil {
					t.Fatal(err)
				}
				feed := onward.Values{}
				for name, v := range c.Inputs {
					if v.T == "float32" {
						data := make([]float32, len(v.D))
						for i, x := range v.D {
							data[i] = float32(x)
						}
						feed[name] = tensor.Must(tensor.New(data, v.S...))
						continue
					}
					feed[name] = tensor.Must(tensor.New(int32s(v.D), v.S...))
				}
				for range 2 { // the second run uses planned memory
					out, err := s.Run(context.Background(), feed, nil)
					if err != nil {
						t.Fatal(err)
					}
					for name, want := range c.Want {
						got := out[name].(*tensor.Tensor)
						if !slices.Equal(got.Shape(), want.S) {
							t.Fatalf("%s has shape %v, want %v", name, got.Shape(), want.S)
						}
						if want.T == "int32" {
							if got, want := tensor.MustData[int32](got), int32s(want.D); !slices.Equal(got, want) {
								t.Errorf("%s are %v, want %v", name, got, want)
							}
							continue
						}
						for i, v := range tensor.MustData[float32](got) {
							if d := math.Abs(float64(v) - want.D[i]); d > 1e-5*math.Max(1, math.Abs(want.D[i])) {
								t.Fatalf("%s[%d] is %v, want %v", name, i, v, want.D[i])
							}
						}
					}
				}
			})
		}
	}
}

func int32s(v []float64) []int32 {
	r := make([]int32, len(v))
	for i, x := range v {
		r[i] = int32(x)
	}
	return r
}
