package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

const (
	limit  = 512 << 20 // memory limit of the models
	excess = 64 << 20  // what a process may need beyond it
)

// multipliers lists small models whose values take gigabytes.
var multipliers = map[string]func(b *onnx.ModelBuilder){
	"one value as many outputs": func(b *onnx.ModelBuilder) {
		large(b, "v", 8<<20)
		for i := range 100 {
			b.Node("Identity", []string{"v"}, []string{output(b, i)})
		}
	},
	"an input as many outputs": func(b *onnx.ModelBuilder) {
		b.Input("in", onnx.Float, 8<<20)
		for i := range 100 {
			b.Node("Identity", []string{"in"}, []string{output(b, i)})
		}
	},
	"many views as outputs": func(b *onnx.ModelBuilder) {
		large(b, "v", 8<<20)
		b.Initializer("rows", []int64{1 << 10, -1})
		for i := range 100 {
			b.Node("Reshape", []string{"v", "rows"}, []string{output(b, i)})
		}
	},
	"chains of views": func(b *onnx.ModelBuilder) {
		b.Initializer("rows", []int64{1 << 10, -1}).Initializer("flat", []int64{-1})
		sum := []string{}
		for i := range 60 {
			large(b, fmt.Sprint("v", i), 8<<20)
			b.Node("Reshape", []string{fmt.Sprint("v", i), "rows"}, []string{fmt.Sprint("r", i)})
			b.Node("Reshape", []string{fmt.Sprint("r", i), "flat"}, []string{fmt.Sprint("s", i)})
			sum = append(sum, fmt.Sprint("s", i))
		}
		b.Node("Sum", sum, []string{output(b, 0)})
	},
	"a sequence of many values": func(b *onnx.ModelBuilder) {
		var of []string
		for i := range 60 {
			large(b, fmt.Sprint("v", i), 8<<20)
			of = append(of, fmt.Sprint("v", i))
		}
		b.Node("SequenceConstruct", of, []string{"s"})
		b.Initializer("axis", []int64{0})
		b.Node("ConcatFromSequence", []string{"s"}, []string{output(b, 0)}, onnx.Attrs{"axis": 0})
	},
	"a sequence of one value": func(b *onnx.ModelBuilder) {
		large(b, "v", 8<<20)
		b.Node("SequenceConstruct", slices.Repeat([]string{"v"}, 100), []string{"s"})
		for i := range 20 {
			b.Node("SequenceInsert", []string{"s", "v"}, []string{"s" + fmt.Sprint(i)})
		}
		b.Node("ConcatFromSequence", []string{"s"}, []string{output(b, 0)}, onnx.Attrs{"axis": 0})
	},
	"a sequence as many outputs": func(b *onnx.ModelBuilder) {
		large(b, "v", 8<<20)
		b.Node("SequenceConstruct", []string{"v", "v"}, []string{"s"})
		for i := range 50 {
			name := fmt.Sprint("q", i)
			b.OutputType(name, onnx.NewType(tensor.SequenceOf(tensor.TensorType(tensor.TypeFloat32))))
			b.Node("SequenceInsert", []string{"s", "v"}, []string{name})
		}
	},
	"folding of a chain": func(b *onnx.ModelBuilder) {
		constant(b, "v", 16<<20)
		prev := "v"
		for i := range 40 {
			b.Node("Exp", []string{prev}, []string{fmt.Sprint("w", i)})
			prev = fmt.Sprint("w", i)
		}
		b.Node("Add", []string{prev, "x"}, []string{output(b, 0)})
	},
	"folding of a fan": func(b *onnx.ModelBuilder) {
		constant(b, "v", 4<<20)
		for i := range 200 {
			w := fmt.Sprint("w", i)
			b.Initializer(fmt.Sprint("k", i), []float32{float32(i)})
			b.Node("Mul", []string{"v", fmt.Sprint("k", i)}, []string{w})
			b.Node("Add", []string{w, "x"}, []string{fmt.Sprint("a", i)})
			b.Node("ReduceSum", []string{fmt.Sprint("a", i)}, []string{output(b, i)}, onnx.Attrs{"keepdims": 0})
		}
	},
	"deformable convolution of constants": func(b *onnx.ModelBuilder) {
		b.Initializer("n1", []int64{1, 64, 128, 128}).Initializer("n2", []int64{64, 64, 7, 7}).
			Initializer("n3", []int64{1, 98, 122, 122})
		b.Node("ConstantOfShape", []string{"n1"}, []string{"i"})
		b.Node("ConstantOfShape", []string{"n2"}, []string{"w"})
		b.Node("ConstantOfShape", []string{"n3"}, []string{"o"})
		b.Node("DeformConv", []string{"i", "w", "o"}, []string{output(b, 0)})
	},
	"doubled strings": func(b *onnx.ModelBuilder) {
		b.Initializer("s", []string{"0123456789abcdef"})
		prev := "s"
		for i := range 40 {
			next := fmt.Sprint("t", i)
			b.Node("StringConcat", []string{prev, prev}, []string{next})
			prev = next
		}
		b.OutputType("y", nil)
		b.Node("Identity", []string{prev}, []string{"y"})
	},
	"doubled strings of an input": func(b *onnx.ModelBuilder) {
		b.Input("in", onnx.String, 1)
		prev := "in"
		for i := range 40 {
			next := fmt.Sprint("t", i)
			b.Node("StringConcat", []string{prev, prev}, []string{next})
			prev = next
		}
		b.OutputType("y", nil)
		b.Node("Identity", []string{prev}, []string{"y"})
	},
	"repeated strings": func(b *onnx.ModelBuilder) {
		b.Input("in", onnx.String, 1)
		b.Initializer("n", []int64{1 << 22})
		b.Node("Expand", []string{"in", "n"}, []string{"e"})
		b.Node("StringConcat", []string{"e", "e"}, []string{"f"})
		b.Node("StringConcat", []string{"f", "f"}, []string{"g"})
		b.OutputType("y", nil)
		b.Node("StringConcat", []string{"g", "g"}, []string{"y"})
	},
	"a sparse constant": func(b *onnx.ModelBuilder) {
		b.SparseInitializer("v", &onnx.SparseTensor{Values: onnx.FromTensor(tensor.Must(tensor.New([]float32{1}, 1))),
			Indices: onnx.FromTensor(ints(5)), Dims: []int64{1 << 30}})
		b.Node("Add", []string{"v", "x"}, []string{output(b, 0)})
	},
	"a growing loop": func(b *onnx.ModelBuilder) {
		body := onnx.NewGraph("body").Input("i", onnx.Int64).Input("c", onnx.Bool).Input("v", onnx.Float, nil).
			Output("c", onnx.Bool).Output("w", onnx.Float, nil).Output("z", onnx.Float, nil)
		body.Node("Concat", []string{"v", "v"}, []string{"w"}, onnx.Attrs{"axis": 0})
		body.Node("Neg", []string{"v"}, []string{"z"})
		b.Initializer("n", int64(1<<40)).Initializer("true", true)
		b.Output("y", onnx.Float, nil).Output("zs", onnx.Float, nil, nil)
		b.Node("Loop", []string{"n", "true", "x"}, []string{"y", "zs"}, onnx.Attrs{"body": body})
	},
}

// large adds a value of n floats that is computed at run time.
func large(b *onnx.ModelBuilder, name string, n int) {
	b.Initializer("n of "+name, []int64{int64(n)})
	b.Node("Expand", []string{"x", "n of " + name}, []string{name})
}

// constant adds a value of n floats that can be computed while opening.
func constant(b *onnx.ModelBuilder, name string, n int) {
	b.Initializer("n of "+name, []int64{int64(n)})
	b.Node("ConstantOfShape", []string{"n of " + name}, []string{name})
}

func output(b *onnx.ModelBuilder, i int) string {
	name := fmt.Sprint("y", i)
	b.OutputType(name, nil)
	return name
}

var self = os.Getpid()

func limitTargets(a *attack) []string {
	return slices.Concat(slices.Sorted(maps.Keys(multipliers)), slices.Sorted(maps.Keys(heavy)), operators(a))
}

// tryLimit opens and runs a model with a memory limit, and measures the peak
// of the resident memory.
func tryLimit(a *attack, name string, seed uint64) (*attempt, error) {
	rng := rand.New(rand.NewPCG(seed, hash(name)))
	var m *onnx.Model
	var feed map[string]tensor.Value
	var err error
	if f := multipliers[name]; f != nil {
		b := onnx.NewModel("m").Opset("", 22)
		b.Input("x", onnx.Float, 1)
		f(b)
		if m, err = b.Model(); err != nil {
			return nil, err
		}
		feed = map[string]tensor.Value{"x": tensor.Must(tensor.New([]float32{1}, 1))}
		for _, in := range m.Graph.Inputs {
			switch {
			case in.Name == "x":
			case in.Type.Tensor.ElemType == onnx.String:
				feed[in.Name] = tensor.Must(tensor.New([]string{"0123456789abcdef"}, 1))
			default:
				feed[in.Name] = tensor.Must(tensor.Zeros(tensor.TypeFloat32, 8<<20))
			}
		}
	} else {
		var c *opfuzz.Case
		if h := heavy[name]; h != nil {
			c = h(rng)
		} else if c = a.draw(name, rng.Uint64()>>1, 1<<(10+rng.IntN(14))); c == nil {
			return nil, nil
		}
		if m, feed, err = c.Model(); err != nil {
			return nil, nil
		}
	}
	at := &attempt{model: m, feed: feed}
	for _, p := range []string{"cpu", "reference"} {
		debug.FreeOSMemory()
		resetPeak(self)
		before := peak(self)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		start := time.Now()
		s, err := onward.OpenModel(ctx, m, &onward.SessionOptions{Limits: onward.Limits{MaxMemory: limit},
			Providers: []onward.ProviderConfig{{Name: p}}})
		opened := peak(self)
		if err == nil {
			_, err = s.Run(ctx, feed, nil)
			s.Close()
		}
		cancel()
		took := time.Since(start)
		grown := peak(self) - before
		if *verbose {
			fmt.Printf("%s on %s: %d MiB while opening, %d MiB at most, %v, %.150v\n", name, p, (opened-before)>>20,
				grown>>20, took.Round(time.Millisecond), err)
		}
		if grown > limit+excess {
			return at, fmt.Errorf("on %s: %d MiB of memory with a limit of %d MiB (%d MiB while opening): %.200v", p,
				grown>>20, limit>>20, (opened-before)>>20, err)
		}
		if took > 4*time.Second {
			return at, fmt.Errorf("on %s: ended after %v with a deadline of 2s: %.200v", p, took, err)
		}
	}
	return at, nil
}
