package tree

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	testkit "github.com/onward-ml/onward/internal/testing"
	"pgregory.net/rapid"
)

type options struct {
	trees, depth, features, targets, terms int
	full, missing                          bool
	modes                                  []Mode
}

// forest returns random trees.
func forest[T Float](r *rand.Rand, o options) (nodes []Node[T], roots []int) {
	var grow func(d int) int
	grow = func(d int) int {
		i := len(nodes)
		nodes = append(nodes, Node[T]{})
		if d == 0 || !o.full && r.IntN(4) == 0 {
			for range o.terms {
				nodes[i].Weights = append(nodes[i].Weights, Term{Target: r.IntN(o.targets), Weight: r.NormFloat64()})
			}
			return i
		}
		n := Node[T]{Mode: o.modes[r.IntN(len(o.modes))], Feature: r.IntN(o.features), Value: T(r.IntN(7)-3) / 2, MissingTrue: o.missing && r.IntN(2) == 0}
		n.False = grow(d - 1)
		n.True = grow(d - 1)
		nodes[i] = n
		return i
	}
	for range o.trees {
		roots = append(roots, grow(o.depth))
	}
	return nodes, roots
}

// naive evaluates one row with branches.
func naive[T Float](nodes []Node[T], roots []int, targets int, agg Aggregate, x []T) []float64 {
	out, set := make([]float64, targets), make([]bool, targets)
	for _, i := range roots {
		for nodes[i].Mode != Leaf {
			n := &nodes[i]
			v := x[n.Feature]
			yes := map[Mode]bool{LEQ: v <= n.Value, LT: v < n.Value, GTE: v >= n.Value, GT: v > n.Value, EQ: v == n.Value, NEQ: v != n.Value}[n.Mode]
			if v != v && n.MissingTrue {
				yes = true
			}
			if yes {
				i = n.True
			} else {
				i = n.False
			}
		}
		for _, w := range nodes[i].Weights {
			o := &out[w.Target]
			switch {
			case agg == Min && set[w.Target]:
				*o = min(*o, w.Weight)
			case agg == Max && set[w.Target]:
				*o = max(*o, w.Weight)
			case agg >= Min:
				*o = w.Weight
			default:
				*o += w.Weight
			}
			set[w.Target] = true
		}
	}
	if agg == Average {
		for i := range out {
			out[i] /= float64(len(roots))
		}
	}
	return out
}

func check[T Float](t testing.TB, r *rand.Rand, o options, agg Aggregate, rows int) {
	t.Helper()
	nodes, roots := forest[T](r, o)
	e, err := New(nodes, roots, o.targets, agg)
	if err != nil {
		t.Fatal(err)
	}
	ldx := o.features + r.IntN(3)
	x := testkit.Guarded[T](t, max(0, (rows-1)*ldx+o.features), testkit.High, 0)
	special := []float64{0, math.Copysign(0, -1), 0.5, -0.5, 1, math.NaN(), math.Inf(1), math.Inf(-1), -1.5}
	for i := range x {
		x[i] = T(special[r.IntN(len(special))])
		if r.IntN(2) == 0 {
			x[i] = T(r.NormFloat64())
		}
	}
	dst := testkit.Guarded[T](t, rows*o.targets, testkit.High, 0)
	e.Run(func(n int, fn func(lo, hi int)) { fn(0, n/2); fn(n/2, n) }, dst, x, rows, ldx)
	for i := range rows {
		want := naive(nodes, roots, o.targets, agg, x[i*ldx:])
		for j, w := range want {
			if got := float64(dst[i*o.targets+j]); math.Abs(got-w) > 1e-5*(1+float64(o.trees)) {
				t.Fatalf("%+v aggregate %d: row %d of %d, target %d: %g, want %g", o, agg, i, rows, j, got, w)
			}
		}
	}
}

func TestForests(t *testing.T) {
	leq, all := []Mode{LEQ, LT}, []Mode{LEQ, LT, GTE, GT, EQ, NEQ}
	r := rand.New(rand.NewPCG(1, 1))
	for _, o := range []options{
		{trees: 20, depth: 6, features: 5, targets: 1, terms: 1, full: true, modes: leq},
		{trees: 20, depth: 6, features: 5, targets: 1, terms: 1, full: true, modes: leq, missing: true},
		{trees: 30, depth: 14, features: 9, targets: 1, terms: 1, modes: leq},
		{trees: 30, depth: 12, features: 9, targets: 3, terms: 2, modes: leq, missing: true},
		{trees: 11, depth: 5, features: 2, targets: 4, terms: 1, modes: all},
		{trees: 11, depth: 8, features: 2, targets: 1, terms: 1, modes: all, missing: true},
		{trees: 9, depth: 0, features: 1, targets: 1, terms: 1, modes: leq},
		{trees: 9, depth: 3, features: 1, targets: 2, terms: 0, modes: leq},
		{trees: 0, features: 1, targets: 2, modes: leq},
	} {
		for agg := Sum; agg <= Max; agg++ {
			for _, rows := range []int{0, 1, 7, 8, 9, 31, 40} {
				check[float32](t, r, o, agg, rows)
				check[float64](t, r, o, agg, rows)
			}
		}
	}
}

func TestRapidForests(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := func(lo, hi int, name string) int { return rapid.IntRange(lo, hi).Draw(rt, name) }
		o := options{trees: n(1, 25, "trees"), depth: n(0, 11, "depth"), features: n(1, 6, "features"), targets: n(1, 3, "targets"), terms: n(0, 2, "terms"),
			full: rapid.Bool().Draw(rt, "full"), missing: rapid.Bool().Draw(rt, "missing"), modes: rapid.SampledFrom([][]Mode{{LEQ}, {LT}, {LEQ, LT}, {LEQ, GTE, EQ}, {GT, NEQ}}).Draw(rt, "modes")}
		if o.full {
			o.depth = min(o.depth, 7)
		}
		r, agg, rows := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)), Aggregate(n(0, 3, "aggregate")), n(0, 20, "rows")
		testkit.Scope(t, func(t testing.TB) { check[float32](t, r, o, agg, rows) })
	})
}

// TestLessThanMinusInfinity checks nodes whose threshold is −∞: no value is less, and NaN
// follows the flag of the node.
func TestLessThanMinusInfinity(t *testing.T) {
	inf := float32(math.Inf(-1))
	for _, missing := range []bool{false, true} {
		nodes := []Node[float32]{{Mode: LT, Value: inf, True: 1, False: 2, MissingTrue: missing}, {Weights: []Term{{0, 1}}}, {Weights: []Term{{0, 2}}}}
		e, err := New(nodes, []int{0}, 1, Sum)
		if err != nil {
			t.Fatal(err)
		}
		x := []float32{inf, 0, float32(math.NaN()), 1, 2, 3, 4, inf, inf}
		dst := make([]float32, len(x))
		e.Run(nil, dst, x, len(x), 1)
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
	leaf := Node[float32]{Weights: []Term{{0, 1}}}
	for _, c := range []struct {
		nodes   []Node[float32]
		roots   []int
		targets int
		want    string
	}{
		{[]Node[float32]{leaf}, []int{0}, 0, "0 targets"},
		{[]Node[float32]{leaf}, []int{1}, 1, "has child 1"},
		{[]Node[float32]{leaf}, []int{0, 0}, 1, "tree 1: node 0 is reached a second time"},
		{[]Node[float32]{{Mode: LEQ, True: 0, False: 1}, leaf}, []int{0}, 1, "node 0 is reached a second time"},
		{[]Node[float32]{{Mode: LEQ, True: -1, False: 1}, leaf}, []int{0}, 1, "has child -1"},
		{[]Node[float32]{{Mode: LEQ, True: 1, False: 1}, leaf}, []int{0}, 1, "node 1 is reached a second time"},
		{[]Node[float32]{{Mode: LEQ, Feature: -1, True: 1, False: 2}, leaf, leaf}, []int{0}, 1, "feature -1"},
		{[]Node[float32]{{Mode: 9, True: 1, False: 2}, leaf, leaf}, []int{0}, 1, "unknown mode 9"},
		{[]Node[float32]{{Weights: []Term{{3, 1}}}}, []int{0}, 2, "target 3 of 2"},
	} {
		if _, err := New(c.nodes, c.roots, c.targets, Sum); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, o := range []options{{trees: 100, depth: 6, features: 30, targets: 1, terms: 1, full: true, modes: []Mode{LEQ}}, {trees: 100, depth: 14, features: 30, targets: 1, terms: 1, modes: []Mode{LEQ}}} {
		nodes, roots := forest[float32](r, o)
		for i := range nodes {
			nodes[i].Value = float32(r.NormFloat64())
		}
		e, err := New(nodes, roots, 1, Sum)
		if err != nil {
			b.Fatal(err)
		}
		x, dst := make([]float32, 1000*30), make([]float32, 1000)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		for _, rows := range []int{1, 10, 100, 1000} {
			b.Run(fmt.Sprintf("depth%d/rows%d", o.depth, rows), func(b *testing.B) {
				for b.Loop() {
					e.Run(nil, dst, x, rows, 30)
				}
			})
		}
	}
}

func TestHeaps(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	special := testkit.Special32()
	for n := 1; n < 20; n++ {
		features, ldx := 1+r.IntN(40), 41+r.IntN(5)
		x := testkit.Guarded[float32](t, 15*ldx+features, testkit.Side(n&1 == 0), n%3)
		number := func() float32 {
			if r.IntN(2) == 0 {
				return special[r.IntN(len(special))]
			}
			return float32(r.NormFloat64())
		}
		for i := range x {
			x[i] = number()
		}
		tables := testkit.Guarded[uint32](t, n*heapTable, testkit.High, 0)
		for i := range n {
			tables[i*heapTable+heapTable/2] = uint32(1 + r.IntN(heapLevels))
			for k := 1; k < heapTable/2; k++ {
				tables[i*heapTable+k], tables[i*heapTable+heapTable/2+k] = math.Float32bits(number()), uint32(r.IntN(features))
			}
		}
		var offsets [heapLanes]uint32
		for i := range offsets {
			offsets[i] = uint32(i * ldx)
		}
		got, want := testkit.Guarded[uint32](t, n*heapLanes, testkit.High, 0), make([]uint32, n*heapLanes)
		heapsGeneric(want, tables, unsafe.Pointer(&x[0]), &offsets, n)
		if cpu.Detected() == cpu.AVX512 {
			heaps(got, tables, unsafe.Pointer(&x[0]), &offsets, n)
			if !slices.Equal(got, want) {
				t.Fatalf("%d heaps: %v, want %v", n, got, want)
			}
		}
	}
}

func TestEveryAssemblyFunctionIsTested(t *testing.T) {
	testkit.CheckAsmTested(t, ".", []string{"heapsAVX512"}) // TestHeaps
}

func TestPauses(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 10))
	nodes, roots := forest[float32](r, options{trees: 100, depth: 6, features: 5, targets: 1, terms: 1, full: true, modes: []Mode{LEQ}})
	e, err := New(nodes, roots, 1, Sum)
	if err != nil {
		t.Fatal(err)
	}
	x, y := make([]float32, 64*5), make([]float32, 64)
	testkit.CheckPauses(t, func() { e.Run(nil, y, x, 64, 5) })
}
