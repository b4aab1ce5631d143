package hostile

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/cputime"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// tryModel opens a model on both providers with tight limits and runs it on generated
// inputs. Errors are allowed; panics, hangs and exceeding the memory limit are not.
func tryModel(t *testing.T, m *onnx.Model, rng *rand.Rand) {
	for _, p := range enginetest.Engines {
		opts := enginetest.On(p)
		opts.Threads = 1 // the fuzzer's processes share the machine; idle workers would spin
		opts.Limits = onward.Limits{MaxMemory: 16 << 20, MaxNodes: 10_000}
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		start := cputime.Now()
		s, err := onward.OpenModel(ctx, m, opts)
		if err == nil {
			if feed, ok := madeUp(s.Inputs(), rng); ok {
				for range 5 { // later runs use planned memory and replay
					_, _ = s.Run(ctx, feed, nil)
				}
			}
		}
		cancel()
		if d := start.Elapsed(); d > 8*time.Second {
			t.Fatalf("%s took %v", p, d)
		}
	}
}

// madeUp returns generated values for inputs. Dimensions that are not fixed are 2.
func madeUp(args []onward.NodeArg, rng *rand.Rand) (onward.Values, bool) {
	feed := onward.Values{}
	for _, a := range args {
		v, ok := madeUpValue(a.ElementType(), a, rng)
		if !ok {
			return nil, false
		}
		feed[a.Name] = v
	}
	return feed, true
}

func madeUpValue(t tensor.Type, a onward.NodeArg, rng *rand.Rand) (tensor.Value, bool) {
	switch t.Kind {
	case tensor.KindTensor:
		shape := []int{}
		for _, d := range a.Shape {
			n := 2
			if d.Value >= 0 {
				n = int(d.Value)
			}
			shape = append(shape, n)
		}
		if n, err := tensor.Elements(shape); err != nil || n > 1<<16 || !t.Elem.Valid() {
			return nil, false
		}
		x, err := tensor.Zeros(t.Elem, shape...)
		if err != nil {
			return nil, false
		}
		fill(x, rng)
		return x, true
	case tensor.KindSequence:
		item, ok := madeUpValue(*t.Of, onward.NodeArg{}, rng)
		if !ok {
			return nil, false
		}
		return &tensor.Sequence{Elem: *t.Of, Items: []tensor.Value{item, item}}, true
	case tensor.KindOptional:
		return &tensor.Optional{Elem: *t.Of}, true
	}
	return nil, false
}

// fill writes small numbers and some extreme ones.
func fill(x *tensor.Tensor, rng *rand.Rand) {
	switch x.DType() {
	case tensor.TypeFloat32:
		d := tensor.MustData[float32](x)
		for i := range d {
			d[i] = float32(rng.IntN(9) - 2)
			if rng.IntN(8) == 0 {
				d[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), 1e30, -1e-40, -0.5}[rng.IntN(5)]
			}
		}
	case tensor.TypeInt64:
		d := tensor.MustData[int64](x)
		for i := range d {
			d[i] = int64(rng.IntN(6) - 1)
			if rng.IntN(8) == 0 {
				d[i] = []int64{math.MinInt64, math.MaxInt64, 1 << 31, -1 << 31, 1 << 40}[rng.IntN(5)]
			}
		}
	case tensor.TypeString:
		d := tensor.MustData[string](x)
		for i := range d {
			d[i] = []string{"", "a", "\xff", "a b c", "(a*)*b"}[rng.IntN(5)]
		}
	case tensor.TypeBool:
		d := tensor.MustData[bool](x)
		for i := range d {
			d[i] = rng.IntN(2) == 0
		}
	default:
		d := x.Bytes()
		for i := range d {
			d[i] = byte(rng.IntN(5))
			if rng.IntN(8) == 0 {
				d[i] = byte(rng.Uint32())
			}
		}
	}
}

// FuzzLoadRun loads and runs the fuzzed bytes as a model.
func FuzzLoadRun(f *testing.F) {
	for _, n := range datasets.Names() {
		data, err := datasets.Get(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, m := range seedModels() {
		data, err := m.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := onnx.Unmarshal(data, &onnx.ReadOptions{MaxMemory: 16 << 20})
		if err != nil {
			return
		}
		tryModel(t, m, rand.New(rand.NewPCG(1, uint64(len(data)))))
	})
}

// seedModels returns small models with control flow, functions, sequences and strings.
func seedModels() []*onnx.Model {
	var r []*onnx.Model
	body := loopBody(onnx.Float).Output("c", onnx.Bool).Output("w", onnx.Float, nil)
	body.Node("Add", []string{"v", "v"}, []string{"w"})
	l := loop(onnx.Float, body)
	r = append(r, l.Must())

	then := onnx.NewGraph("then").OutputType("a", nil)
	then.Node("Twice", []string{"x"}, []string{"a"}).Domain("my")
	otherwise := onnx.NewGraph("else").OutputType("b", nil)
	otherwise.Node("Reshape", []string{"x", "s"}, []string{"b"})
	b := onnx.NewModel("choice").Opset("", 21).Opset("my", 1)
	b.Input("cond", onnx.Bool).Input("x", onnx.Float, "N", 2).Output("y", onnx.Float, nil, nil)
	b.Initializer("s", []int64{2, -1})
	b.Node("If", []string{"cond"}, []string{"y"}, onnx.Attrs{"then_branch": then, "else_branch": otherwise})
	b.Function("my", "Twice").Opset("", 21).Inputs("v").Outputs("w").Node("Add", []string{"v", "v"}, []string{"w"})
	r = append(r, b.Must())

	b = onnx.NewModel("seq").Opset("", 21)
	b.Input("x", onnx.Float, "N", 4).Output("y", onnx.Float, nil, nil)
	b.Node("SplitToSequence", []string{"x"}, []string{"s"}, onnx.Attrs{"axis": 1})
	b.Node("ConcatFromSequence", []string{"s"}, []string{"y"}, onnx.Attrs{"axis": 0})
	r = append(r, b.Must())

	b = onnx.NewModel("shapes").Opset("", 21)
	b.Input("x", onnx.Float, "N", 3, 8, 8).Output("y", onnx.Float, nil, nil)
	b.Initializer("w", make([]float32, 2*3*3*3), 2, 3, 3, 3)
	b.Initializer("axes", []int64{0})
	b.Initializer("tail", []int64{-1})
	b.Initializer("zero", int64(0))
	b.Node("Conv", []string{"x", "w"}, []string{"c"},
		onnx.Attrs{"strides": []int64{2, 2}, "pads": []int64{1, 1, 1, 1}, "dilations": []int64{1, 1}})
	b.Node("MaxPool", []string{"c"}, []string{"p"}, onnx.Attrs{"kernel_shape": []int64{2, 2}})
	b.Node("Shape", []string{"p"}, []string{"sh"})
	b.Node("Gather", []string{"sh", "zero"}, []string{"n"})
	b.Node("Unsqueeze", []string{"n", "axes"}, []string{"n1"})
	b.Node("Concat", []string{"n1", "tail"}, []string{"to"}, onnx.Attrs{"axis": 0})
	b.Node("Reshape", []string{"p", "to"}, []string{"y"})
	r = append(r, b.Must())
	return r
}

// FuzzNode runs one-node models of every operator with hostile attributes and inputs. The
// fuzzed bytes select the operator, attributes and inputs.
func FuzzNode(f *testing.F) {
	all := kit.All()
	for i := 0; i < len(all); i += 10 { // go test runs all seeds before it mutates the first
		f.Add(uint16(i), uint64(i))
	}
	f.Fuzz(func(t *testing.T, which uint16, seed uint64) {
		tryModel(t, hostileNode(all[int(which)%len(all)], rand.New(rand.NewPCG(seed, uint64(which)))),
			rand.New(rand.NewPCG(seed, 7)))
	})
}

// TestEveryOperatorSurvivesHostileNodes does the same as FuzzNode with random choices.
func TestEveryOperatorSurvivesHostileNodes(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 5
	}
	for _, d := range kit.All() {
		t.Run(kit.QualifiedName(d.Domain, d.Name), func(t *testing.T) {
			for k := range rounds {
				rng := rand.New(rand.NewPCG(uint64(k), 3))
				tryModel(t, hostileNode(d, rng), rng)
			}
		})
	}
}

// hostileNode returns a model of one node from the operator's signature. It probes for
// the attributes: Build reports a wrong type for those that the operator has, and all
// others as unknown.
func hostileNode(d *kit.Def, rng *rand.Rand) *onnx.Model {
	sig := d.Signature()
	since := d.Since.List()
	opset := since[rng.IntN(len(since))]
	if rng.IntN(2) == 0 {
		opset = kit.MaxOpset[d.Domain]
		if d.Until != 0 {
			opset = d.Until
		}
	}
	b := onnx.NewModel("m").Opset("", 21).Opset(d.Domain, int64(opset))
	var in, out []string
	count := len(sig.In)
	if count > 0 && sig.In[count-1].Variadic {
		count += rng.IntN(3)
	}
	for i := range count {
		p := sig.In[min(i, len(sig.In)-1)]
		if p.Optional && rng.IntN(3) == 0 {
			in = append(in, "")
			continue
		}
		name := "i" + strconv.Itoa(i)
		types := sig.Types(p.Pattern)
		if len(types) == 0 {
			types = []tensor.Type{tensor.TensorType(tensor.TypeFloat32)}
		}
		typ := types[rng.IntN(len(types))]
		// Most inputs of one node have the same type.
		for _, x := range types {
			if x.Equal(tensor.TensorType(tensor.TypeFloat32)) && rng.IntN(4) != 0 {
				typ = x
			}
		}
		it := onnx.NewType(typ)
		if it.Tensor != nil {
			it.Tensor.Shape = &onnx.Shape{}
			for range rng.IntN(5) {
				it.Tensor.Shape.Dims = append(it.Tensor.Shape.Dims,
					onnx.Dim{Kind: onnx.DimValue, Value: int64([]int{1, 2, 2, 3, 3, 4, 0}[rng.IntN(7)])})
			}
		}
		if it.Tensor != nil && rng.IntN(3) == 0 {
			// Shape inference, folding and preparation read constant inputs.
			shape := make([]int, len(it.Tensor.Shape.Dims))
			for k, dim := range it.Tensor.Shape.Dims {
				shape[k] = int(dim.Value)
			}
			x, err := tensor.Zeros(typ.Elem, shape...)
			if err == nil {
				fill(x, rng)
				c := onnx.FromTensor(x)
				b.Initializer(name, c)
				in = append(in, name)
				continue
			}
		}
		b.InputType(name, it)
		in = append(in, name)
	}
	for i := range max(1, min(len(sig.Out), 1+rng.IntN(4))) {
		out = append(out, "o"+strconv.Itoa(i))
		b.OutputType("o"+strconv.Itoa(i), nil)
	}
	n := b.Node(d.Name, in, out).Domain(d.Domain)
	for name, v := range hostileAttributes(d, opset, rng, len(in), len(out)) {
		n.Attr(name, v)
	}
	m, err := b.Model()
	if err != nil {
		return &onnx.Model{}
	}
	return m
}

func hostileAttributes(d *kit.Def, opset int, rng *rand.Rand, numIn, numOut int) map[string]any {
	ints := []int64{0, 1, 2, -1, 3, 10, math.MinInt64, math.MaxInt64, 1 << 31, 1 << 40, -2}
	floats := []float32{0, 1, -1, 0.5, float32(math.NaN()), float32(math.Inf(1)), 1e30, -1e-40}
	words := []string{"", "SAME_UPPER", "VALID", "linear", "nearest", "constant", "reflect", "sum", "mean", "NOTSET",
		"\xff", "forward", "bidirectional", "ij,jk->ik", "...i->", "(a*)*"}
	r := map[string]any{}
	kinds := d.Attributes(opset, numIn, numOut)
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		if rng.IntN(3) == 0 {
			continue
		}
		kind := kinds[name]
		if rng.IntN(16) == 0 {
			kind = []string{"an int", "a float", "a string", "a list of ints", "a list of floats", "a list of strings",
				"a tensor"}[rng.IntN(7)]
		}
		// Mostly small numbers, since extreme ones make most nodes fail at once.
		number := func() int64 {
			if rng.IntN(2) == 0 {
				return int64(rng.IntN(4))
			}
			return ints[rng.IntN(len(ints))]
		}
		switch kind {
		case "", "an int":
			r[name] = number()
		case "a float":
			r[name] = floats[rng.IntN(len(floats))]
		case "a string":
			r[name] = words[rng.IntN(len(words))]
		case "a list of ints":
			v := make([]int64, rng.IntN(5))
			for i := range v {
				v[i] = number()
			}
			r[name] = v
		case "a list of floats":
			v := make([]float32, rng.IntN(4))
			for i := range v {
				v[i] = floats[rng.IntN(len(floats))]
			}
			r[name] = v
		case "a list of strings":
			v := make([]string, rng.IntN(4))
			for i := range v {
				v[i] = words[rng.IntN(len(words))]
			}
			r[name] = v
		case "a tensor":
			x := tensor.Must(tensor.Zeros([]tensor.DType{tensor.TypeFloat32, tensor.TypeInt64,
				tensor.TypeString}[rng.IntN(3)], rng.IntN(4)))
			fill(x, rng)
			r[name] = onnx.FromTensor(x)
		case "a graph":
			g := onnx.NewGraph("g").OutputType("r", nil)
			g.Node("Neg", []string{"i0"}, []string{"r"})
			r[name] = g
		}
	}
	return r
}

// This test checks that a hostile model that opens is either optimized to a model that can
// be written, read and opened again, or fails with an error.
func TestHostileNodesAreWritten(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 2
	}
	written := 0
	for _, d := range kit.All() {
		for k := range rounds {
			rng := rand.New(rand.NewPCG(uint64(k), 5))
			m := hostileNode(d, rng)
			opts := enginetest.On("reference")
			opts.Limits = onward.Limits{MaxMemory: 16 << 20, MaxNodes: 10_000}
			ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
			r, _, err := onward.OptimizeModel(ctx, m, opts)
			cancel()
			if err != nil {
				continue
			}
			data, err := r.Marshal()
			if err != nil {
				t.Errorf("%s, round %d: %v", d.Name, k, err)
				continue
			}
			s, err := onward.OpenBytes(t.Context(), data, opts)
			if err != nil {
				t.Errorf("%s, round %d: the written model does not open: %v", d.Name, k, err)
				continue
			}
			s.Close()
			written++
		}
	}
	if written < rounds*50 {
		t.Errorf("only %d models were written", written)
	}
}
