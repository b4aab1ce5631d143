package blocked_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// shuffled shuffles channels with plain operators: groups become columns.
func shuffled(t *testing.T, x *tensor.Tensor, groups int) *tensor.Tensor {
	t.Helper()
	n, c := x.Dim(0), x.Dim(1)
	rest := 1
	for _, d := range x.Shape()[2:] {
		rest *= d
	}
	y := plain(t, "Transpose", 13, optest.Attrs{"perm": []int{0, 2, 1, 3}},
		tensor.Must(x.Reshape(n, groups, c/groups, rest)))
	return tensor.Must(y.Reshape(x.Shape()...))
}

func TestShuffle(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for _, c := range []struct{ channels, groups int }{{6, 2}, {6, 3}, {16, 4}, {20, 5}, {40, 8}, {7, 1}, {7, 7}} {
		s := &blocked.ChannelShuffle{Groups: c.groups}
		x := normal(rng, 2, c.channels, 3, 5)
		want := shuffled(t, x, c.groups)
		if got := ran(t, s, x); !near(got, want, 0) {
			t.Errorf("%v: got %s, want %s", c, optest.Show(got), optest.Show(want))
		}
		for i, in := range borders(c.channels, 3, 5) {
			out := borders(c.channels, 3, 5)[1-i]
			checkBlocked(t, fmt.Sprint(c), blocked.NewShuffle(s, in, out), out, want, 0, toBlocked(t, in, x))
		}
	}
	for _, shape := range [][]int{{2, 6}, {1, 6, 4}, {0, 6, 2, 2}} {
		x := normal(rng, shape...)
		if got, want := ran(t, &blocked.ChannelShuffle{Groups: 3}, x), shuffled(t, x, 3); !near(got, want, 0) {
			t.Errorf("%v: got %s, want %s", shape, optest.Show(got), optest.Show(want))
		}
	}
	fails(t, "want channels divisible by 4", &blocked.ChannelShuffle{Groups: 4}, normal(rng, 1, 6, 2))
	fails(t, "want channels divisible by 4", &blocked.ChannelShuffle{Groups: 4}, normal(rng, 8))
}

func TestLRN(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for _, c := range tails {
		for i, attrs := range []optest.Attrs{{"size": 5}, {"size": 4, "alpha": 0.3, "beta": 0.5, "bias": 2.0},
			{"size": 99, "alpha": 1.0}, {"size": 1}} {
			x, in, out := normal(rng, 2, c, 3, 2), borders(c, 3, 2)[i%2], borders(c, 3, 2)[1]
			op := &blocked.LRN{LRN: *built[*ops.LRN](t, "LRN", 13, attrs, 1), In: in, Out: out}
			checkBlocked(t, fmt.Sprint(c, attrs), op, out, plain(t, "LRN", 13, attrs, x), 1e-5, toBlocked(t, in, x))
		}
	}
	l := blocked.NewLayout(3, 2, 2, 0, 0, 0, 0)
	fails(t, "want [N", &blocked.LRN{LRN: *built[*ops.LRN](t, "LRN", 13, optest.Attrs{"size": 3}, 1), In: l, Out: l},
		normal(rng, 12))
}

func TestConcat(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	for _, c := range []struct {
		channels []int
		from, to int // channels of the concatenation
	}{
		{[]int{16, 32}, 0, 48}, {[]int{16, 16, 5}, 0, 37}, {[]int{4, 8}, 0, 12}, {[]int{20, 12, 7}, 0,
			39}, {[]int{4, 3}, 0, 7},
		{[]int{48}, 16, 48}, {[]int{48}, 0, 16}, {[]int{32, 20}, 4, 52}, {[]int{32}, 20, 32}, {[]int{8, 24, 9}, 12, 30},
	} {
		for i := range 2 {
			var in []blocked.Layout
			var xs []*tensor.Tensor
			var all []tensor.Value
			for k, n := range c.channels {
				x, l := normal(rng, 2, n, 3, 5), borders(n, 3, 5)[(i*k)%2]
				in, xs, all = append(in, l), append(xs, toBlocked(t, l, x)), append(all, x)
			}
			out := borders(c.to-c.from, 3, 5)[i]
			want := plain(t, "Concat", 13, optest.Attrs{"axis": 1}, all...)
			want = plain(t, "Slice", 13, nil, want, optest.Int64s(int64(c.from)), optest.Int64s(int64(c.to)),
				optest.Int64s(1))
			checkBlocked(t, fmt.Sprint(c, i), &blocked.Concat{In: in, Out: out, From: c.from}, out, want, 0, xs...)
		}
	}
	l, out := blocked.NewLayout(4, 2, 2, 0, 0, 0, 0), blocked.NewLayout(8, 2, 2, 0, 0, 0, 0)
	fails(t, "input 1 has 1 images, want 2", &blocked.Concat{In: []blocked.Layout{l, l}, Out: out},
		normal(rng, 2, l.Len()), normal(rng, 1, l.Len()))
	fails(t, "input 1 has shape", &blocked.Concat{In: []blocked.Layout{l, l}, Out: out}, normal(rng, 2, l.Len()),
		normal(rng, 2, 4))
}

func TestByteMap(t *testing.T) {
	m := &blocked.ByteMap{Elem: tensor.TypeInt8}
	for i := range m.Table {
		m.Table[i] = byte(255 - i*3)
	}
	for _, n := range []int{0, 1, 15, 64, 1000} {
		x, want := make([]uint8, n), make([]int8, n)
		for i := range x {
			x[i] = uint8(i * 7)
			want[i] = int8(255 - x[i]*3)
		}
		if got := ran(t, m, optest.Tensor(x, n, 1)); !optest.Same(got, optest.Tensor(want, n, 1), 0) {
			t.Errorf("%d bytes: got %s", n, optest.Show(got))
		}
	}
}
