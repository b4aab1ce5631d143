package ops

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/tensor"
)

// recordedCase is one node with what ONNX Runtime or ONNX's reference evaluator
// made of it; testdata/record.py writes these.
type recordedCase struct {
	Op    string
	Opset int
	Attrs map[string]recordedAttr
	In    []*recordedValue
	Out   []*recordedValue
	Tol   float64 // relative tolerance, 1e-3 by default
	Note  string
}

type recordedAttr struct {
	Int     *int64
	Float   *recordedNumber
	String  *string
	Ints    []int64
	Floats  []recordedNumber
	Strings []string
	Tensor  *recordedValue
}

type recordedValue struct {
	T   string
	S   []int
	D   []json.RawMessage
	Seq []*recordedValue
	Map []*recordedValue
}

// recordedNumber is a number, or "nan", "inf" or "-inf".
type recordedNumber float64

func (n *recordedNumber) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case `"nan"`:
		*n = recordedNumber(math.NaN())
	case `"inf"`:
		*n = recordedNumber(math.Inf(1))
	case `"-inf"`:
		*n = recordedNumber(math.Inf(-1))
	default:
		return json.Unmarshal(b, (*float64)(n))
	}
	return nil
}

func recordedData[T tensor.Element, D any](v *recordedValue, f func(D) T) *tensor.Tensor {
	r := make([]T, len(v.D))
	for i, b := range v.D {
		var d D
		if err := json.Unmarshal(b, &d); err != nil {
			panic(err)
		}
		r[i] = f(d)
	}
	n := 1
	for _, d := range v.S {
		n *= d
	}
	if n != len(r) {
		panic(fmt.Sprintf("%d values for %v", len(r), v.S))
	}
	t, err := tensor.Must(tensor.New(r, len(r))).Reshape(v.S...)
	return tensor.Must(t, err)
}

func (v *recordedValue) value() tensor.Value {
	if v == nil {
		return nil
	}
	if v.Map != nil {
		return &tensor.Map{Keys: v.Map[0].tensor(), Values: v.Map[1].tensor()}
	}
	if v.T == "" {
		s := &tensor.Sequence{}
		for _, it := range v.Seq {
			s.Items = append(s.Items, it.value())
			s.Elem = s.Items[0].Type()
		}
		return s
	}
	return v.tensor()
}

func (v *recordedValue) tensor() *tensor.Tensor {
	switch v.T {
	case "float":
		return recordedData(v, func(n recordedNumber) float32 { return float32(n) })
	case "double":
		return recordedData(v, func(n recordedNumber) float64 { return float64(n) })
	case "float16":
		return recordedData(v, func(n recordedNumber) tensor.Float16 { return tensor.NewFloat16(float32(n)) })
	case "bfloat16":
		return recordedData(v, func(n recordedNumber) tensor.BFloat16 { return tensor.NewBFloat16(float32(n)) })
	case "int64":
		return recordedData(v, func(n int64) int64 { return n })
	case "int32":
		return recordedData(v, func(n int32) int32 { return n })
	case "int16":
		return recordedData(v, func(n int16) int16 { return n })
	case "int8":
		return recordedData(v, func(n int8) int8 { return n })
	case "uint64":
		return recordedData(v, func(n uint64) uint64 { return n })
	case "uint32":
		return recordedData(v, func(n uint32) uint32 { return n })
	case "uint16":
		return recordedData(v, func(n uint16) uint16 { return n })
	case "uint8":
		return recordedData(v, func(n uint16) uint8 { return uint8(n) })
	case "bool":
		return recordedData(v, func(n int) bool { return n != 0 })
	case "string":
		return recordedData(v, func(s string) string { return s })
	}
	panic("unknown element type " + v.T)
}

func (a recordedAttr) value() any {
	switch {
	case a.Int != nil:
		return *a.Int
	case a.Float != nil:
		return float32(*a.Float)
	case a.String != nil:
		return *a.String
	case a.Strings != nil:
		return a.Strings
	case a.Tensor != nil:
		return a.Tensor.tensor()
	case a.Floats != nil:
		r := make([]float32, len(a.Floats))
		for i, f := range a.Floats {
			r[i] = float32(f)
		}
		return r
	}
	return a.Ints
}

// TestRecorded replays every recorded case.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/recorded/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded cases: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var cases []recordedCase
		if err := json.Unmarshal(b, &cases); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(cases) == 0 {
			t.Errorf("%s holds no cases", file)
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			for i, c := range cases {
				t.Run(fmt.Sprintf("%d_%s", i, c.Op), func(t *testing.T) { c.replay(t) })
			}
		})
	}
}

func (c *recordedCase) replay(t *testing.T) {
	attrs := map[string]any{}
	for name, a := range c.Attrs {
		attrs[name] = a.value()
	}
	in := make([]tensor.Value, len(c.In))
	for i, v := range c.In {
		in[i] = v.value()
	}
	got, err := runOpN(t, len(c.Out), c.Op, c.Opset, attrs, in...)
	if err != nil {
		t.Fatal(err)
	}
	tol := c.Tol
	if tol == 0 {
		tol = 1e-3
	}
	for i, v := range c.Out {
		if want := v.value(); want != nil && !sameValue(got[i], want, tol) {
			t.Errorf("%v: output %d is %s, want %s %s", attrs, i, show(got[i]), show(want), c.Note)
		}
	}
}
