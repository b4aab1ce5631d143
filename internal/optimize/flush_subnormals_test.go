package optimize

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func init() { moreCases = append(moreCases, flushSubnormalsCases) }

func flushSubnormalsCases() []passCase {
	weights := constant("w", []float32{1, 1e-40, 2, 3, 1e-42, 0, 5, 6}, 2, 4, 1, 1)
	return []passCase{
		{pass: "flush-subnormals", name: "subnormal weights", build: steps(pixels, weights, node("Conv", "x w", "y")), want: "Conv"},
	}
}

func TestFlushSubnormals(t *testing.T) {
	const subnormal, least = 1e-40, 0x1p-126
	weights := []float32{1, subnormal, -2, -subnormal, least, -least, 0x1p-149, 0, 3, 4, 5, 6}
	tiny := []float32{subnormal, 0x1p-61, -subnormal, 0}
	for _, c := range []struct {
		name      string
		options   Options
		w, b      []float32
		wantW     []float32
		wantB     []float32
		wantEdits bool
	}{
		{"weights", Options{}, weights, []float32{1, 2, 3}, []float32{1, 0, -2, 0, least, -least, 0, 0, 3, 4, 5, 6}, []float32{1, 2, 3}, true},
		{"a bias", Options{}, weights[8:], []float32{2, subnormal, 3, 4}, weights[8:], []float32{2, 0, 3, 4}, true},
		{"all small", Options{}, tiny, []float32{subnormal}, tiny, []float32{subnormal}, false},
		{"the least that counts", Options{}, []float32{subnormal, 0x1p-60}, []float32{1}, []float32{0, 0x1p-60}, []float32{1}, true},
		{"a plan for one shape", Options{Packs: ir.NewPacks().Fork()}, weights, []float32{1, 2, 3}, weights, []float32{1, 2, 3}, false},
		{"a model to be written", Options{Opset: 21}, weights, []float32{1, 2, 3}, weights, []float32{1, 2, 3}, false},
	} {
		channels := int64(len(c.b))
		depth := int64(len(c.w)) / channels
		b := onnx.NewModel("m").Opset("", 21)
		for _, step := range steps(input("x", 1, depth, 4, 4),
			constant("w", slices.Clone(c.w), channels, depth, 1, 1), constant("b", slices.Clone(c.b), channels),
			node("Conv", "x w b", "c"), node("Conv", "x w b", "d"), node("Sub", "c d", "y")) {
			step(b)
		}
		b.OutputType("y", &onnx.Type{Tensor: &onnx.TensorType{ElemType: onnx.Float}})
		g, err := frontend.Convert(b.Must(), frontend.Options{})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		c.options.ctx, c.options.MaxFolded = t.Context(), 1<<20
		edits, err := flushSubnormals(&c.options, g)
		if err != nil || edits > 0 != c.wantEdits {
			t.Errorf("%s: %d edits, %v", c.name, edits, err)
		}
		for _, n := range g.Nodes[:2] {
			for i, want := range [][]float32{c.wantW, c.wantB} {
				if got := tensor.MustData[float32](constTensor(g, n, 1+i)); !slices.Equal(got, want) {
					t.Errorf("%s: input %d of a node is %g, want %g", c.name, 1+i, got, want)
				}
			}
		}
		for i := 1; i < 3; i++ {
			if g.Nodes[0].In[i] != g.Nodes[1].In[i] {
				t.Errorf("%s: the nodes share no input %d", c.name, i)
			}
		}
	}
}

// TestExactOperatorsKeepSubnormals checks that products and sums with a subnormal constant are
// exact: 1e-40 times 1e38 is 0.01.
func TestExactOperatorsKeepSubnormals(t *testing.T) {
	for _, op := range []string{"Mul", "Add"} {
		b := onnx.NewModel("m").Opset("", 21)
		for _, step := range steps(input("x", 2), constant("w", []float32{1, 1e-40}, 2), node(op, "x w", "y")) {
			step(b)
		}
		b.OutputType("y", &onnx.Type{Tensor: &onnx.TensorType{ElemType: onnx.Float}})
		g, err := frontend.Convert(b.Must(), frontend.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if edits, err := flushSubnormals(&Options{ctx: t.Context(), MaxFolded: 1 << 20}, g); edits != 0 || err != nil {
			t.Errorf("%s: %d edits, %v", op, edits, err)
		}
	}
}

// TestHasSubnormal looks at each place of slices whose lengths are no multiples of a block.
func TestHasSubnormal(t *testing.T) {
	for n := range 35 {
		bits := make([]uint32, n)
		for i := range bits {
			bits[i] = []uint32{0x3f800000, 0x80000000, 0, 0x7f800000, 0xffc00000, 0x00800000, 0x80800000}[i%7]
		}
		if hasSubnormal(bits) {
			t.Errorf("%d elements without subnormal ones have some", n)
		}
		for i, b := range bits {
			for _, s := range []uint32{1, 0x80000001, 0x007fffff, 0x807fffff} {
				bits[i] = s
				if !hasSubnormal(bits) {
					t.Errorf("%#x at %d of %d is not found", s, i, n)
				}
			}
			bits[i] = b
		}
	}
}

func BenchmarkHasSubnormal(b *testing.B) {
	bits := make([]uint32, 1<<20)
	for i := range bits {
		bits[i] = 0x3f800000
	}
	b.SetBytes(int64(4 * len(bits)))
	for b.Loop() {
		hasSubnormal(bits)
	}
}

// Mapped weights can be larger than the memory: the copy without subnormal elements is bounded,
// and a context ends the search for them.
func TestFlushSubnormalsBounds(t *testing.T) {
	w, err := tensor.New([]float32{1, 1e-40}, 2)
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		o     Options
		found bool
		err   error
	}{
		"enough":    {Options{ctx: t.Context(), MaxFolded: tensor.SizeOf(w)}, true, nil},
		"too large": {Options{ctx: t.Context(), MaxFolded: tensor.SizeOf(w) - 1}, false, nil},
		"spent":     {Options{ctx: t.Context(), MaxFolded: tensor.SizeOf(w), folded: 1}, false, nil},
		"constants": {Options{ctx: t.Context(), constants: tensor.SizeOf(w)}, true, nil},
		"cancelled": {Options{ctx: cancelled, MaxFolded: 1 << 20}, false, context.Canceled},
	} {
		before := c.o.folded
		got, err := c.o.withoutSubnormals(w)
		if !errors.Is(err, c.err) || (got != nil) != c.found {
			t.Errorf("%s: copy %v, error %v, want a copy %t, error %v", name, got, err, c.found, c.err)
		}
		if c.found && c.o.folded != before+tensor.SizeOf(w) {
			t.Errorf("%s: the copy counts %d bytes, want %d", name, c.o.folded-before, tensor.SizeOf(w))
		}
	}
}
