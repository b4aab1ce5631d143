package chains

import (
	"runtime"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// appends adds a Loop that appends value n times to sequence from.
func appends(b *onnx.ModelBuilder, name, from, value string, n int64) {
	seq := onnx.NewType(tensor.SequenceOf(tensor.TensorType(tensor.TypeFloat32)))
	body := onnx.NewGraph("body").Input("i", onnx.Int64).Input("c", onnx.Bool).InputType("s", seq).
		Output("c", onnx.Bool).OutputType("t", seq)
	body.Node("SequenceInsert", []string{"s", value}, []string{"t"})
	b.Initializer("n of "+name, n)
	b.Node("Loop", []string{"n of " + name, "", from}, []string{name}, onnx.Attrs{"body": body})
}

// TestAppendingInALoopTakesLinearMemory appends 4,000 items. Copies of the sequence in each
// iteration would allocate 128 MB.
func TestAppendingInALoopTakesLinearMemory(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, 1).Output("length", onnx.Int64)
	b.Node("SequenceEmpty", nil, []string{"empty"})
	appends(b, "s", "empty", "x", 4000)
	b.Node("SequenceLength", []string{"s"}, []string{"length"})
	for _, p := range enginetest.Engines {
		s := enginetest.Open(t, b.Must(), enginetest.On(p))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, err := s.Run(t.Context(), onward.Values{"x": rampOf(1)}, nil)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		if n := tensor.MustData[int64](out["length"].(*tensor.Tensor))[0]; n != 4000 {
			t.Errorf("%s: the sequence has %d items, want 4000", p, n)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
			t.Errorf("%s: the run allocated %d bytes, want at most %d", p, n, 32<<20)
		}
	}
}

// TestLoopsThatAppendToTheSameSequence appends different items to the result of a Loop, which has
// unused memory after its items. All results must keep their items.
func TestLoopsThatAppendToTheSameSequence(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, 1).Input("y", onnx.Float, 1).Input("z", onnx.Float, 1)
	b.Node("SequenceEmpty", nil, []string{"empty"})
	appends(b, "s", "empty", "x", 37)
	appends(b, "t", "s", "y", 2)
	appends(b, "u", "s", "z", 3)
	b.Node("SequenceInsert", []string{"s", "y"}, []string{"v"})
	for _, name := range []string{"s", "t", "u", "v"} {
		b.Node("ConcatFromSequence", []string{name}, []string{"all of " + name}, onnx.Attrs{"axis": 0})
		b.Output("all of "+name, onnx.Float, nil)
	}
	one := func(v float32) *tensor.Tensor { return tensor.Must(tensor.New([]float32{v}, 1)) }
	for _, p := range enginetest.Engines {
		s := enginetest.Open(t, b.Must(), enginetest.On(p))
		for range 3 {
			out, err := s.Run(t.Context(), onward.Values{"x": one(1), "y": one(2), "z": one(3)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, last := range map[string][]float32{"s": nil, "t": {2, 2}, "u": {3, 3, 3}, "v": {2}} {
				got := enginetest.Floats(t, out["all of "+name])
				for i, v := range got {
					want := float32(1)
					if i >= 37 {
						want = last[i-37]
					}
					if v != want || len(got) != 37+len(last) {
						t.Fatalf("%s: item %d of %d of %s is %g, want %g of %d", p, i, len(got), name, v, want,
							37+len(last))
					}
				}
			}
		}
	}
}
