package tree

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/testing/testkit"
	"pgregory.net/rapid"
)

type options struct {
	trees, depth, features, targets, terms int
	full, missing, double, oneTarget       bool
	modes                                  []Mode
}

// forest is a plain ensemble.
type forest struct {
	nodes  []Node
	leaves [][]Term
	roots  []int32
}

func (f *forest) source(targets int, aggregate Aggregate) Source {
	return Source{Roots: f.roots, Nodes: len(f.nodes), Node: func(i int32) Node { return f.nodes[i] },
		Leaves: len(f.leaves), Leaf: func(i int32) []Term { return f.leaves[i] }, Targets: targets, Aggregate: aggregate}
}

// grow returns random trees.
func grow(r *rand.Rand, o options) *forest {
	f := &forest{}
	target := 0
	var add func(d int) int32
	add = func(d int) int32 {
		if d == 0 || !o.full && r.IntN(4) == 0 {
			var terms []Term
			for range o.terms {
				if !o.oneTarget {
					target = r.IntN(o.targets)
				}
				w := r.NormFloat64()
				if !o.double {
					w = float64(float32(w))
				}
				terms = append(terms, Term{Target: int32(target), Weight: w})
			}
			f.leaves = append(f.leaves, terms)
			return ^int32(len(f.leaves) - 1)
		}
		i := len(f.nodes)
		f.nodes = append(f.nodes, Node{})
		n := Node{Mode: o.modes[r.IntN(len(o.modes))], Feature: int32(r.IntN(o.features)),
			Value: float32(r.IntN(7)-3) / 2, Missing: o.missing && r.IntN(2) == 0}
		n.Next[0] = add(d - 1)
		n.Next[1] = add(d - 1)
		f.nodes[i] = n
		return int32(i)
	}
	for range o.trees {
		target = r.IntN(o.targets)
		f.roots = append(f.roots, add(o.depth))
	}
	return f
}

// naive evaluates one row with branches.
func (f *forest) naive(targets int, aggregate Aggregate, x []float32) []float64 {
	out, seen := make([]float64, targets), make([]bool, targets)
	for _, i := range f.roots {
		for i >= 0 {
			n := &f.nodes[i]
			v := x[n.Feature]
			yes := map[Mode]bool{LEQ: v <= n.Value, LT: v < n.Value, GTE: v >= n.Value, GT: v > n.Value}[n.Mode]
			if v != v && n.Missing {
				yes = true
			}
			i = n.Next[0]
			if yes {
				i = n.Next[1]
			}
		}
		for _, w := range f.leaves[^i] {
			v := &out[w.Target]
			switch {
			case !seen[w.Target]:
				*v, seen[w.Target] = w.Weight, true
			case aggregate == Min:
				*v = min(*v, w.Weight)
			case aggregate == Max:
				*v = max(*v, w.Weight)
			default:
				*v += w.Weight
			}
		}
	}
	if aggregate == Average {
		for i := range out {
			out[i] /= float64(len(f.roots))
		}
	}
	return out
}

func check(t testing.TB, r *rand.Rand, o options, aggregate Aggregate, rows int) {
	t.Helper()
	f := grow(r, o)
	e, err := New(f.source(o.targets, aggregate))
	if err != nil {
		t.Fatal(err)
	}
	ldx := o.features + r.IntN(3)
	x := testkit.Guarded[float32](t, max(0, (rows-1)*ldx+o.features), testkit.High, 0)
	special := []float64{0, math.Copysign(0, -1), 0.5, -0.5, 1, math.NaN(), math.Inf(1), math.Inf(-1), -1.5}
	for i := range x {
		x[i] = float32(special[r.IntN(len(special))])
		if r.IntN(2) == 0 {
			x[i] = float32(r.NormFloat64())
		}
	}
	dst := testkit.Guarded[float32](t, rows*o.targets, testkit.High, 0)
	Run(e, func(n int, fn func(lo, hi int)) { fn(0, n/2); fn(n/2, n) }, dst, x, rows, ldx)
	for i := range rows {
		want := f.naive(o.targets, aggregate, x[i*ldx:])
		for j, w := range want {
			if got := float64(dst[i*o.targets+j]); math.Abs(got-w) > 1e-5*(1+float64(o.trees)) {
				t.Fatalf("%+v aggregate %d: row %d of %d, target %d: %g, want %g", o, aggregate, i, rows, j, got, w)
			}
		}
	}
	wide := make([]float64, rows*o.targets)
	Run(e, nil, wide, x, rows, ldx)
	for i := range rows {
		for j, w := range f.naive(o.targets, aggregate, x[i*ldx:]) { // weights of one leaf may be added first
			got := wide[i*o.targets+j]
			if math.Abs(got-w) > 1e-14*(1+float64(o.trees*o.terms)) || o.terms < 2 && got != w && w == w {
				t.Fatalf("%+v aggregate %d: row %d of %d, target %d: %g as float64, want %g", o, aggregate, i, rows, j,
					got, w)
			}
		}
	}
	one := make([]float32, o.targets)
	for i := range rows { // the order of the sums does not depend on the number of rows
		Run(e, nil, one, x[i*ldx:], 1, ldx)
		if !slices.EqualFunc(one, dst[i*o.targets:][:o.targets],
			func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
			t.Fatalf("%+v: row %d alone gives %v, with others %v", o, i, one, dst[i*o.targets:][:o.targets])
		}
	}
}

func TestForests(t *testing.T) {
	leq, all := []Mode{LEQ, LT}, []Mode{LEQ, LT, GTE, GT}
	r := rand.New(rand.NewPCG(1, 1))
	for _, o := range []options{
		{trees: 20, depth: 6, features: 5, targets: 1, terms: 1, full: true, modes: leq},
		{trees: 20, depth: 6, features: 5, targets: 1, terms: 1, full: true, modes: leq, missing: true},
		{trees: 70, depth: 3, features: 1000, targets: 3, terms: 1, full: true, modes: leq, oneTarget: true},
		{trees: 20, depth: 4, features: 200, targets: 40, terms: 1, modes: leq, oneTarget: true},
		{trees: 20, depth: 8, features: 5, targets: 2, terms: 2, full: true, modes: leq},
		{trees: 20, depth: 7, features: 5, targets: 2, terms: 2, full: true, modes: leq, double: true},
		{trees: 30, depth: 14, features: 9, targets: 1, terms: 1, modes: leq},
		{trees: 30, depth: 12, features: 9, targets: 3, terms: 2, modes: leq, missing: true},
		{trees: 30, depth: 12, features: 9, targets: 7, terms: 2, modes: leq, double: true},
		{trees: 11, depth: 5, features: 2, targets: 4, terms: 1, modes: all},
		{trees: 11, depth: 8, features: 2, targets: 1, terms: 1, modes: all, missing: true},
		{trees: 3, depth: 4, features: 2, targets: 70, terms: 50, modes: leq},
		{trees: 20, depth: 5, features: 5, targets: 3, terms: 1, modes: leq, double: true, oneTarget: true},
		{trees: 20, depth: 9, features: 5, targets: 1, terms: 1, modes: leq, double: true, oneTarget: true},
		{trees: 9, depth: 0, features: 1, targets: 1, terms: 1, modes: leq},
		{trees: 9, depth: 3, features: 1, targets: 2, terms: 0, modes: leq},
		{trees: 0, features: 1, targets: 2, modes: leq},
	} {
		for _, rows := range []int{0, 1, 3, 4, 8, 17, 31, 140} {
			for aggregate := Average; aggregate <= Max; aggregate++ {
				check(t, r, o, aggregate, rows)
			}
		}
	}
}

func TestRapidForests(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := func(lo, hi int, name string) int { return rapid.IntRange(lo, hi).Draw(rt, name) }
		o := options{trees: n(1, 25, "trees"), depth: n(0, 11, "depth"), features: n(1, 6, "features"),
			targets: n(1, 3, "targets"), terms: n(0, 2, "terms"),
			full: rapid.Bool().Draw(rt, "full"), missing: rapid.Bool().Draw(rt, "missing"), modes: rapid.SampledFrom([][]Mode{{LEQ}, {LT}, {LEQ, LT}, {LEQ, GTE}, {GT}}).Draw(rt, "modes"),
			double: rapid.Bool().Draw(rt, "double"), oneTarget: rapid.Bool().Draw(rt, "one target")}
		if o.full {
			o.depth = min(o.depth, 7)
		}
		r, aggregate, rows := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)),
			Aggregate(n(0, int(Max), "aggregate")), n(0, 20, "rows")
		testkit.Scope(t, func(t testing.TB) { check(t, r, o, aggregate, rows) })
	})
}

// TestLessThanMinusInfinity checks nodes whose threshold is −∞: no value is less, and NaN
// follows the flag of the node.
func TestLessThanMinusInfinity(t *testing.T) {
	inf := float32(math.Inf(-1))
	for _, missing := range []bool{false, true} {
		f := forest{[]Node{{Mode: LT, Value: inf, Next: [2]int32{^1, ^0}, Missing: missing}},
			[][]Term{{{0, 1}}, {{0, 2}}}, []int32{0}}
		e, err := New(f.source(1, Sum))
		if err != nil {
			t.Fatal(err)
		}
		x := []float32{inf, 0, float32(math.NaN()), 1, 2, 3, 4, inf, inf}
		dst := make([]float32, len(x))
		Run(e, nil, dst, x, len(x), 1)
		for i, v := range x {
			want := float32(2)
			if v != v && missing {
				want = 1
			}
			if dst[i] != want {
				t.Errorf("missing %v: %g leads to leaf %g, want %g", missing, v, dst[i], want)
			}
		}
	}
}

func TestNewErrors(t *testing.T) {
	leaves := [][]Term{{{0, 1}}, {{3, 1}}, {{0, math.Inf(1)}}}
	nan := float32(math.NaN())
	for _, c := range []struct {
		nodes     []Node
		roots     []int32
		targets   int
		aggregate Aggregate
		want      string
	}{
		{nil, []int32{^0}, 0, Sum, "0 targets"},
		{nil, []int32{0}, 1, Sum, "tree 0: got node 0, the number of nodes is 0"},
		{nil, []int32{^0, ^3}, 1, Sum, "tree 1: got leaf 3, the number of leaves is 3"},
		{[]Node{{Next: [2]int32{^0, ^0}}}, []int32{0, 0}, 1, Sum, "tree 1: node 0 is reached a second time"},
		{[]Node{{Next: [2]int32{0, ^0}}}, []int32{0}, 1, Sum, "tree 0: node 0 is reached a second time"},
		{[]Node{{Next: [2]int32{1, 1}}, {Next: [2]int32{^0, ^0}}}, []int32{0}, 1, Sum, "tree 0: node 1 is reached a second time"},
		{[]Node{{Feature: -1, Next: [2]int32{^0, ^0}}}, []int32{0}, 1, Sum, "node 0 has feature -1"},
		{[]Node{{Mode: 9, Next: [2]int32{^0, ^0}}}, []int32{0}, 1, Sum, "node 0 compares by mode 9 with 0"},
		{[]Node{{Mode: GT, Value: nan, Next: [2]int32{^0, ^0}}}, []int32{0}, 1, Sum, "node 0 compares by mode 3 with NaN"},
		{nil, []int32{^1}, 2, Sum, "leaf 1 adds to target 3 of 2"},
		{[]Node{{Feature: 1 << 30, Next: [2]int32{^0, 1}}, {Next: [2]int32{^0, ^0}}}, []int32{0}, 1, Sum,
			"tree 0: a child is 2 nodes after its parent, want less than 2 with 1073741825 features"},
		{nil, []int32{^2}, 1, Min, "leaf 2 has the weight +Inf, want a finite one"},
	} {
		f := forest{c.nodes, leaves, c.roots}
		if _, err := New(f.source(c.targets, c.aggregate)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	leq := []Mode{LEQ}
	for _, o := range []options{
		{trees: 100, depth: 6, features: 30, targets: 1, terms: 1, full: true, modes: leq},
		{trees: 500, depth: 8, features: 30, targets: 1, terms: 1, full: true, modes: leq},
		{trees: 100, depth: 10, features: 30, targets: 10, terms: 30, full: true, modes: leq},
		{trees: 100, depth: 14, features: 30, targets: 1, terms: 1, modes: leq},
	} {
		f := grow(r, o)
		for i := range f.nodes {
			f.nodes[i].Value = float32(r.NormFloat64())
		}
		e, err := New(f.source(o.targets, Sum))
		if err != nil {
			b.Fatal(err)
		}
		x, dst := make([]float32, 1000*30), make([]float32, 1000*o.targets)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		for _, rows := range []int{1, 10, 100, 1000} {
			b.Run(fmt.Sprintf("depth%d/rows%d", o.depth, rows), func(b *testing.B) {
				for b.Loop() {
					Run(e, nil, dst, x, rows, 30)
				}
			})
		}
	}
}

func TestHeaps(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	special := testkit.Special32()
	for n := 1; n < 20; n++ {
		features, targets := 1+r.IntN(40), 1+r.IntN(3)
		keys := testkit.Guarded[uint32](t, heapLanes*features, testkit.Side(n&1 == 0), 0)
		number := func() uint32 {
			if r.IntN(2) == 0 {
				return vec.Order(special[r.IntN(len(special))])
			}
			return vec.Order(float32(r.NormFloat64()))
		}
		for i := range keys {
			keys[i] = number()
		}
		tables := testkit.Guarded[uint32](t, n*heapTable, testkit.High, 0)
		for i := range n {
			tables[i*heapTable], tables[i*heapTable+heapTable/2] = uint32(1+r.IntN(heapLevels)),
				uint32(heapLanes*r.IntN(targets))
			for k := 1; k < heapTable/2; k++ {
				tables[i*heapTable+k], tables[i*heapTable+heapTable/2+k] = number(), heapLanes*uint32(r.IntN(features))
			}
		}
		weights := testkit.Guarded[float32](t, n*heapSlots, testkit.High, 0)
		for i := range weights {
			weights[i] = float32(r.NormFloat64())
		}
		got, want := testkit.Guarded[uint32](t, n*heapLanes, testkit.High, 0), make([]uint32, n*heapLanes)
		gotSums, wantSums := testkit.Guarded[float64](t, targets*heapLanes, testkit.High, 0),
			make([]float64, targets*heapLanes)
		for i := range wantSums {
			gotSums[i], wantSums[i] = float64(i), float64(i)
		}
		heapsGeneric(want, nil, nil, tables, keys, n)
		heapsGeneric(nil, wantSums, weights, tables, keys, n)
		if cpu.Detected() != cpu.AVX512 {
			continue
		}
		if heaps(got, nil, nil, tables, keys, n); !slices.Equal(got, want) {
			t.Fatalf("%d heaps: %v, want %v", n, got, want)
		}
		if heaps(nil, gotSums, weights, tables, keys, n); !slices.Equal(gotSums, wantSums) {
			t.Fatalf("%d heaps add up to %v, want %v", n, gotSums, wantSums)
		}
	}
}

// TestWalkSteps compares the kernel with its twin after each number of steps.
func TestWalkSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	special := testkit.Special32()
	for range 50 {
		features := 1 + r.IntN(40)
		ldx := features + r.IntN(5)
		f := grow(r, options{trees: 1 + r.IntN(atOnce), depth: 1 + r.IntN(10), features: features, targets: 1, terms: 1,
			modes: []Mode{LEQ, LT, GTE}})
		for i := range f.nodes {
			if n := &f.nodes[i]; n.Mode != GTE && r.IntN(2) == 0 {
				n.Value = special[r.IntN(len(special))]
			}
		}
		e, err := New(f.source(1, Sum))
		if err != nil {
			t.Fatal(err)
		}
		rows := 1 + r.IntN(9)
		keys := testkit.Guarded[uint32](t, (rows-1)*ldx+features, testkit.High, 0)
		x := make([]float32, len(keys))
		for i := range x {
			if x[i] = float32(r.NormFloat64()); r.IntN(2) == 0 {
				x[i] = special[r.IntN(len(special))]
			}
		}
		vec.OrderF32(cpu.Active(), keys, x)
		nodes := testkit.Guarded[uint64](t, len(e.nodes), testkit.High, 0)
		copy(nodes, e.nodes)
		groups := (len(e.roots) + lanes - 1) / lanes
		for steps := range 20 {
			var g traversals
			for k := range groups * lanes {
				g.node[k], g.row[k] = e.roots[k%len(e.roots)], uint32(k%rows*ldx)
			}
			want := g
			walkGeneric(&want, nodes, keys, e.bits, steps, groups)
			if walkSteps(&g, nodes, keys, e.bits, steps, groups); g != want {
				t.Fatalf("%d steps lead to %v, want %v", steps, g.node, want.node)
			}
		}
	}
}

func TestEveryAssemblyFunctionIsTested(t *testing.T) {
	testkit.CheckAsmTested(t, ".", []string{"heapsAVX512", "walkAVX2", "walkNEON"}) // TestHeaps, TestWalkSteps
}

func TestPauses(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 10))
	f := grow(r, options{trees: 100, depth: 6, features: 5, targets: 1, terms: 1, full: true, modes: []Mode{LEQ}})
	e, err := New(f.source(1, Sum))
	if err != nil {
		t.Fatal(err)
	}
	x, y := make([]float32, 64*5), make([]float32, 64)
	testkit.CheckPauses(t, func() { Run(e, nil, y, x, 64, 5) })
}

// TestDeepTree checks a tree that is too deep for the kernel.
func TestDeepTree(t *testing.T) {
	f := forest{roots: []int32{0}}
	for i := range int32(3 * maxSteps) {
		f.leaves = append(f.leaves, []Term{{0, float64(i)}})
		f.nodes = append(f.nodes, Node{Value: float32(i), Next: [2]int32{i + 1, ^i}})
	}
	last := len(f.nodes) - 1
	f.nodes[last].Next[0] = ^int32(len(f.leaves))
	f.leaves = append(f.leaves, []Term{{0, -1}})
	e, err := New(f.source(1, Sum))
	if err != nil {
		t.Fatal(err)
	}
	x := []float32{0.5, float32(last) - 0.5, 1e6, float32(maxSteps), -1}
	dst := make([]float32, len(x))
	Run(e, nil, dst, x, len(x), 1)
	if want := []float32{1, float32(last), -1, maxSteps, 0}; !slices.Equal(dst, want) {
		t.Errorf("got %v, want %v", dst, want)
	}
}
