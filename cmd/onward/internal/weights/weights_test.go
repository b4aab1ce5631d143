package weights

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onward-ml/onward/tensor"
)

func TestSummarize(t *testing.T) {
	bins := func(counts map[int]int64) []int64 {
		h := make([]int64, Bins)
		for i, n := range counts {
			h[i] = n
		}
		return h
	}
	nan, inf := math.NaN(), math.Inf(1)
	for name, c := range map[string]struct {
		elements any
		want     *Summary
	}{
		"floats":     {[]float32{0, 4, 0, 4, float32(inf), float32(nan)}, &Summary{Count: 6, Zeros: 2, NotFinite: 2, Max: 4, Mean: 2, StdDev: 2, Histogram: bins(map[int]int64{0: 2, 31: 2})}},
		"equal":      {[]float64{7, 7}, &Summary{Count: 2, Min: 7, Max: 7, Mean: 7}},
		"empty":      {[]float32{}, &Summary{}},
		"not finite": {[]float64{nan, -inf}, &Summary{Count: 2, NotFinite: 2}},
		"bytes":      {[]int8{-128, 127, 0, 0}, &Summary{Count: 4, Zeros: 2, Min: -128, Max: 127, Mean: -0.25, StdDev: math.Sqrt(8128.1875), Histogram: bins(map[int]int64{0: 1, 16: 2, 31: 1})}},
		"bool":       {[]bool{true, false}, &Summary{Count: 2, Zeros: 1, Max: 1, Mean: 0.5, StdDev: 0.5, Histogram: bins(map[int]int64{0: 1, 31: 1})}},
		"uint32":     {[]uint32{4294967295, 4294967295}, &Summary{Count: 2, Min: 4294967295, Max: 4294967295, Mean: 4294967295}},
		"int64":      {[]int64{1 << 40, 1 << 40}, &Summary{Count: 2, Min: 1 << 40, Max: 1 << 40, Mean: 1 << 40}},
		"float16":    {[]tensor.Float16{0x3c00, 0x3c00}, &Summary{Count: 2, Min: 1, Max: 1, Mean: 1}},
	} {
		x := tensorOf(t, c.elements)
		got, err := Summarize(x)
		if d := cmp.Diff(c.want, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, d)
		}
	}
	if s, err := Summarize(tensorOf(t, []float64{-math.MaxFloat64, math.MaxFloat64})); err != nil ||
		s.Histogram[0] != 1 || s.Histogram[Bins-1] != 1 {
		t.Errorf("the largest numbers are %+v, %v", s, err)
	}
	for _, list := range []any{[]string{"a"}, []complex64{1}} {
		if _, err := Summarize(tensorOf(t, list)); err == nil {
			t.Errorf("no error for %T", list)
		}
	}
}

func tensorOf(t *testing.T, list any) *tensor.Tensor {
	t.Helper()
	var x *tensor.Tensor
	var err error
	switch l := list.(type) {
	case []float32:
		x, err = tensor.New(l, len(l))
	case []float64:
		x, err = tensor.New(l, len(l))
	case []int8:
		x, err = tensor.New(l, len(l))
	case []bool:
		x, err = tensor.New(l, len(l))
	case []uint32:
		x, err = tensor.New(l, len(l))
	case []int64:
		x, err = tensor.New(l, len(l))
	case []tensor.Float16:
		x, err = tensor.New(l, len(l))
	case []string:
		x, err = tensor.New(l, len(l))
	case []complex64:
		x, err = tensor.New(l, len(l))
	default:
		t.Fatalf("no case for %T", list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return x
}
