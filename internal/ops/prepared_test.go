package ops

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

// checkPreparedOp compares the prepared form of a node, whose inputs are constant except the first
// one, with the plain engine, on one thread and on two. It reports whether the node has a prepared
// form. Elements may differ by tol and tol times themselves. Preparing it, the shapes of the
// unranked inputs are unknown.
func checkPreparedOp(t *testing.T, rt *rapid.T, node *ir.Node, numOut int, tol float64, inputs []tensor.Value,
	unranked []int) bool {
	node.In = make([]ir.ValueID, len(inputs))
	types := make([]ir.Type, len(inputs))
	for i, v := range inputs {
		if node.In[i] = ir.ValueID(i); v == nil {
			node.In[i] = ir.None
			continue
		}
		types[i] = ir.TypeOf(v)
	}
	for _, i := range unranked {
		types[i] = ir.UnrankedTensor(types[i].Elem)
	}
	run := func(op kit.Operator, in []tensor.Value, generic, two bool) ([]tensor.Value, error) {
		c := &ir.Call{Node: node, Env: &optest.Env{Ctx: t.Context(), Two: two, Limit: optest.MemoryLimit},
			Generic: generic, In: in, Out: make([]tensor.Value, numOut)}
		err := optest.RunCaught(op, c)
		return c.Out, err
	}
	constant := append([]tensor.Value{nil}, inputs[1:]...)
	packed, drop, err := node.Op.(ir.Preparer).Prepare(constant, types)
	if err != nil {
		rt.Fatal(err)
	}
	if packed == nil {
		return false
	}
	kept := append([]tensor.Value(nil), inputs...)
	for _, i := range drop {
		kept[i] = nil
	}
	want, err := run(node.Op, inputs, true, false)
	if err != nil {
		rt.Fatal(err)
	}
	one, err := run(packed, kept, false, false)
	if err != nil {
		rt.Fatal(err)
	}
	two, err := run(packed, kept, false, true)
	if err != nil {
		rt.Fatal(err)
	}
	for i := range want {
		w := optest.Floats(want[i].(*tensor.Tensor))
		got := optest.Floats(one[i].(*tensor.Tensor))
		if len(got) != len(w) {
			rt.Fatalf("output %d is %s, want %s", i, optest.Show(one[i]), optest.Show(want[i]))
		}
		for k, v := range got {
			if !(math.Abs(v-w[k]) <= tol*max(1, math.Abs(w[k]))) {
				rt.Fatalf("element %d of output %d is %g, want %g", k, i, v, w[k])
			}
		}
		if !optest.Same(two[i], one[i], 0) {
			rt.Fatalf("output %d is %s on two threads, %s on one", i, optest.Show(two[i]), optest.Show(one[i]))
		}
	}
	return true
}

// uniformTensor returns numbers from −scale to scale.
func uniformTensor(r *rand.Rand, scale float32, shape ...int) *tensor.Tensor {
	d := make([]float32, kit.Product(shape))
	for i := range d {
		d[i] = (r.Float32()*2 - 1) * scale
	}
	return optest.Tensor(d, shape...)
}

func TestVolumeConv(t *testing.T) {
	checkPacked(t, func(rt *rapid.T) bool {
		ints := func(name string, n, lo, hi int) []int {
			return rapid.SliceOfN(rapid.IntRange(lo, hi), n, n).Draw(rt, name)
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		cin, cout, batch := rapid.IntRange(1, 40).Draw(rt, "cin"), rapid.IntRange(1, 40).Draw(rt, "cout"),
			rapid.IntRange(0, 2).Draw(rt, "batch")
		in, kernel := ints("in", 3, 3, 9), ints("kernel", 3, 1, 3)
		if rapid.Bool().Draw(rt, "winograd") {
			kernel[1], kernel[2] = 3, 3
			in[1] += 15
		}
		attrs := map[string]any{"strides": ints("strides", 3, 1, 2),
			"dilations": append([]int{1}, ints("dilations", 2, 1, 2)...), "pads": ints("pads", 6, 0, 2)}
		if rapid.Bool().Draw(rt, "plain") {
			attrs["strides"], attrs["dilations"] = []int{1, 1, 1}, []int{1, 1, 1}
		}
		x := uniformTensor(r, 1, append([]int{batch, cin}, in...)...)
		w := uniformTensor(r, 1/float32(math.Sqrt(float64(cin*kit.Product(kernel)))),
			append([]int{cout, cin}, kernel...)...)
		var bias tensor.Value
		if rapid.Bool().Draw(rt, "bias") {
			bias = uniformTensor(r, 1, cout)
		}
		b, err := optest.Build("Conv", 22, attrs, 3, 1)
		if err != nil {
			rt.Fatal(err)
		}
		if _, err := window.NewConvShape(&b.Node.Op.(*Conv).Window, 1, x.Shape(), w.Shape()); err != nil {
			return false
		}
		inputs := []tensor.Value{x, w, bias}
		if rapid.Bool().Draw(rt, "fused") {
			b.Node.Op = &FusedConv{Conv: *b.Node.Op.(*Conv), Act: kit.Activation{Kind: kit.ActClip, Lo: -.5, Hi: .4}}
			if rapid.Bool().Draw(rt, "add") {
				s, err := window.NewConvShape(&b.Node.Op.(*FusedConv).Window, 1, x.Shape(), w.Shape())
				if err != nil {
					return false
				}
				inputs = append(inputs, uniformTensor(r, 1, s.Shape...))
			}
		}
		return checkPreparedOp(t, rt, b.Node, 1, 2e-5, inputs, nil)
	})
}

func TestConvTransposePacked(t *testing.T) {
	checkPacked(t, func(rt *rapid.T) bool {
		ints := func(name string, n, lo, hi int) []int {
			return rapid.SliceOfN(rapid.IntRange(lo, hi), n, n).Draw(rt, name)
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		cin, cout, batch := rapid.IntRange(7, 40).Draw(rt, "cin"), rapid.IntRange(1, 40).Draw(rt, "cout"),
			rapid.IntRange(0, 2).Draw(rt, "batch")
		in, kernel := ints("in", 2, 1, 24), ints("kernel", 2, 1, 6)
		attrs := map[string]any{"strides": ints("strides", 2, 1, 3)}
		if rapid.Bool().Draw(rt, "auto") {
			attrs["auto_pad"] = rapid.SampledFrom([]string{"SAME_UPPER", "SAME_LOWER", "VALID"}).Draw(rt, "auto_pad")
		} else {
			attrs["pads"], attrs["output_padding"] = ints("pads", 4, 0, 3), ints("more", 2, 0, 2)
		}
		x := uniformTensor(r, 1, append([]int{batch, cin}, in...)...)
		w := uniformTensor(r, 1/float32(math.Sqrt(float64(cin*kit.Product(kernel)))),
			append([]int{cin, cout}, kernel...)...)
		var bias tensor.Value
		if rapid.Bool().Draw(rt, "bias") {
			bias = uniformTensor(r, 1, cout)
		}
		b, err := optest.Build("ConvTranspose", 22, attrs, 3, 1)
		if err != nil {
			rt.Fatal(err)
		}
		if _, err := b.Node.Op.(*ConvTranspose).convShape(x.Shape(), w.Shape()); err != nil {
			return false
		}
		return checkPreparedOp(t, rt, b.Node, 1, 2e-5, []tensor.Value{x, w, bias}, nil)
	})
}

func TestDepthwiseConvPacked(t *testing.T) {
	checkPacked(t, func(rt *rapid.T) bool {
		ints := func(name string, n, lo, hi int) []int {
			return rapid.SliceOfN(rapid.IntRange(lo, hi), n, n).Draw(rt, name)
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		ch, batch := rapid.IntRange(2, 50).Draw(rt, "channels"), rapid.IntRange(0, 3).Draw(rt, "batch")
		in, kernel := ints("in", 2, 4, 20), ints("kernel", 2, 1, 5)
		attrs := map[string]any{"strides": ints("strides", 2, 1, 2), "dilations": ints("dilations", 2, 1, 2),
			"pads": ints("pads", 4, 0, 2), "group": ch}
		x := uniformTensor(r, 1, append([]int{batch, ch}, in...)...)
		filters := rapid.SampledFrom([]int{1, 1, 2, 3, 4}).Draw(rt, "filters")
		w := uniformTensor(r, 1/float32(kit.Product(kernel)), append([]int{ch * filters, 1}, kernel...)...)
		var bias tensor.Value
		if rapid.Bool().Draw(rt, "bias") {
			bias = uniformTensor(r, 1, ch*filters)
		}
		b, err := optest.Build("Conv", 22, attrs, 3, 1)
		if err != nil {
			rt.Fatal(err)
		}
		s, err := window.NewConvShape(&b.Node.Op.(*Conv).Window, ch, x.Shape(), w.Shape())
		if err != nil {
			return false
		}
		inputs := []tensor.Value{x, w, bias}
		if rapid.Bool().Draw(rt, "fused") {
			b.Node.Op = &FusedConv{Conv: *b.Node.Op.(*Conv), Act: kit.Activation{Kind: kit.ActClip, Lo: -.5, Hi: .4}}
			if rapid.Bool().Draw(rt, "add") {
				inputs = append(inputs, uniformTensor(r, 1, s.Shape...))
			}
		}
		return checkPreparedOp(t, rt, b.Node, 1, 2e-5, inputs, nil)
	})
}

// checkPacked checks drawn nodes with f, which reports whether the node is packed. Some nodes of
// fixed seeds must be packed for any random ones.
func checkPacked(t *testing.T, f func(rt *rapid.T) bool) {
	rapid.Check(t, func(rt *rapid.T) { f(rt) })
	const seeds, want = 60, 10
	packed := 0
	for seed := range seeds {
		if rapid.Custom(f).Example(seed) {
			packed++
		}
	}
	if packed < want {
		t.Errorf("%d of the nodes of %d seeds are packed, want at least %d", packed, seeds, want)
	}
}
