package ops

import (
	"math"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

// This test checks that operators over windows, matrices and regions return, for invalid
// attributes and shapes, an error or a result on which both engines agree.
func TestInvalidWindows(t *testing.T) {
	sense := []int{1, 2, 3, 1, 2, 1, -1, 0, 1 << 30, 1 << 31, math.MinInt64, math.MaxInt64}
	value := func(rt *rapid.T, name string) int {
		if rapid.IntRange(0, 9).Draw(rt, name+" is odd") == 0 {
			return rapid.SampledFrom(sense).Draw(rt, name)
		}
		return rapid.IntRange(1, 2).Draw(rt, name)
	}
	list := func(rt *rapid.T, name string, n int) []int {
		if rapid.IntRange(0, 19).Draw(rt, name+" is long") == 0 {
			n++
		}
		r := make([]int, n)
		for i := range r {
			r[i] = value(rt, name)
		}
		return r
	}
	shape := func(rt *rapid.T, rank int) []int {
		if rapid.IntRange(0, 19).Draw(rt, "other rank") == 0 {
			rank = rapid.IntRange(0, 5).Draw(rt, "rank")
		}
		r := make([]int, rank)
		for i := range r {
			r[i] = rapid.SampledFrom([]int{1, 2, 2, 3, 4, 4, 0}).Draw(rt, "dim")
		}
		return r
	}
	type op struct {
		name           string
		inputs         []int // ranks, 9 for the rank of the drawn spatial axes
		lists, singles []string
		bytes          bool
	}
	windows := []string{"kernel_shape", "strides", "dilations"}
	ops := []op{
		{name: "MaxPool", inputs: []int{9}, lists: windows, singles: []string{"ceil_mode", "storage_order"}},
		{name: "AveragePool", inputs: []int{9}, lists: windows, singles: []string{"ceil_mode", "count_include_pad"}},
		{name: "LpPool", inputs: []int{9}, lists: windows, singles: []string{"ceil_mode", "p"}},
		{name: "Conv", inputs: []int{9, 9, 1}, lists: windows, singles: []string{"group"}},
		{name: "ConvTranspose", inputs: []int{9, 9, 1}, lists: append([]string{"output_padding", "output_shape"}, windows...), singles: []string{"group"}},
		{name: "ConvInteger", inputs: []int{9, 9, 0, 0}, lists: windows, singles: []string{"group"}, bytes: true},
		{name: "DeformConv", inputs: []int{9, 9, 9, 1, 9}, lists: windows, singles: []string{"group", "offset_group"}},
		{name: "MaxUnpool", inputs: []int{9}, lists: windows[:2]},
		{name: "MatMul", inputs: []int{9, 9}},
		{name: "Gemm", inputs: []int{2, 2, 2}, singles: []string{"transA", "transB"}},
		{name: "MatMulInteger", inputs: []int{9, 9, 1, 1}, bytes: true},
		{name: "LayerNormalization", inputs: []int{9, 1, 1}, singles: []string{"axis"}},
		{name: "GroupNormalization", inputs: []int{9, 1, 1}, singles: []string{"num_groups"}},
		{name: "InstanceNormalization", inputs: []int{9, 1, 1}},
		{name: "BatchNormalization", inputs: []int{9, 1, 1, 1, 1}, singles: []string{"training_mode"}},
		{name: "LpNormalization", inputs: []int{9}, singles: []string{"axis", "p"}},
		{name: "MeanVarianceNormalization", inputs: []int{9}, lists: []string{"axes"}},
		{name: "LRN", inputs: []int{9}, singles: []string{"size"}},
		{name: "GlobalAveragePool", inputs: []int{9}},
		{name: "GridSample", inputs: []int{9, 9}, singles: []string{"align_corners"}},
		{name: "MaxRoiPool", inputs: []int{4, 2}, lists: []string{"pooled_shape"}},
		{name: "Det", inputs: []int{9}},
	}
	rapid.Check(t, func(rt *rapid.T) {
		t := optest.Drawn(t, rt)
		o := rapid.SampledFrom(ops).Draw(rt, "op")
		n := rapid.IntRange(1, 3).Draw(rt, "axes")
		attrs := map[string]any{}
		for _, name := range o.lists {
			if rapid.Bool().Draw(rt, name+"?") || name == "pooled_shape" {
				attrs[name] = list(rt, name, n)
			}
		}
		for _, name := range o.singles {
			if rapid.Bool().Draw(rt, name+"?") {
				attrs[name] = value(rt, name)
			}
		}
		if len(o.lists) >= 2 && rapid.Bool().Draw(rt, "pads?") {
			attrs["pads"] = list(rt, "pads", 2*n)
		} else if len(o.lists) >= 3 && o.name != "DeformConv" {
			attrs["auto_pad"] = rapid.SampledFrom([]string{"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", ""}).Draw(rt,
				"auto_pad")
		}
		var in []tensor.Value
		for i, rank := range o.inputs {
			if rank == 9 {
				rank = n + 2
			}
			s := shape(rt, rank)
			if i == 1 && rapid.Bool().Draw(rt, "channels fit") && len(in[0].(*tensor.Tensor).Shape()) > 1 &&
				len(s) > 1 {
				s[1] = in[0].(*tensor.Tensor).Dim(1)
			}
			x := iota32(s...)
			if o.bytes {
				b := make([]uint8, x.Len())
				for k := range b {
					b[k] = uint8(k)
				}
				in = append(in, optest.Tensor(b, s...))
				continue
			}
			in = append(in, x)
		}
		if o.name == "MaxUnpool" {
			at := make([]int64, in[0].(*tensor.Tensor).Len())
			for i := range at {
				at[i] = int64(i)
			}
			in = append(in, optest.Tensor(at, in[0].(*tensor.Tensor).Shape()...))
		}
		_, err := optest.RunN(t, 1, o.name, 23, attrs, in...)
		if err != nil && strings.Contains(err.Error(), "PANIC") {
			rt.Fatalf("%s %v: %v", o.name, attrs, err)
		}
	})
}
