package blocked_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func TestLinear(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 1))
	for _, c := range []struct {
		x    []int
		n    int
		tran bool
	}{{[]int{5}, 3, false}, {[]int{1, 17}, 40, true}, {[]int{7, 33}, 16, false}, {[]int{2, 3, 8}, 5,
		true}, {[]int{0, 4}, 3, false}, {[]int{6, 40}, 70, false}} {
		k := c.x[len(c.x)-1]
		x, w, bias := normal(rng, c.x...), normal(rng, k, c.n), normal(rng, c.n)
		weights := w
		if c.tran {
			weights = plain(t, "Transpose", 13, nil, w)
		}
		l, err := blocked.NewLinear(weights, c.tran, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		check := func(what string, l *blocked.Linear, want *tensor.Tensor, in ...*tensor.Tensor) {
			t.Helper()
			if got := ran(t, l, in...); !near(got, want, 1e-4) {
				t.Errorf("%v, %s: got %s, want %s", c, what, optest.Show(got), optest.Show(want))
			}
		}
		product := plain(t, "MatMul", 13, nil, x, w)
		check("product", l, product, x)
		b := l.WithBias(bias)
		sum := plain(t, "Add", 13, nil, product, bias)
		check("bias", b, sum, x)
		check("two biases", b.WithBias(bias), plain(t, "Add", 13, nil, sum, bias), x)
		full := *b
		full.Alpha, full.Act, full.HasAdd, full.Then = 0.5, kit.Activation{Kind: kit.ActRelu}, true, vec.ExpF32
		z := normal(rng, product.Shape()...)
		want := plain(t, "Add", 13, nil, plain(t, "Mul", 13, nil, product, tensor.Scalar(float32(0.5))), bias)
		want = plain(t, "Exp", 13, nil, plain(t, "Relu", 13, nil, plain(t, "Add", 13, nil, want, z)))
		check("all", &full, want, x, z)
		if z.Len() > 0 {
			fails(t, "input Z has shape", &full, x, normal(rng, c.n+1))
		}
		fails(t, fmt.Sprintf("want %d columns", k), l, normal(rng, 2, k+1))
		fails(t, fmt.Sprintf("want %d columns", k), l, tensor.Scalar(float32(1)))
		if l.WithBias(normal(rng, c.n+1)) != nil {
			t.Errorf("%v: a longer bias is added", c)
		}
	}
	for what, w := range map[string]*tensor.Tensor{"rank 3": normal(rng, 2, 3, 4),
		"int32": tensor.Must(tensor.Zeros(tensor.TypeInt32, 2, 3))} {
		if _, err := blocked.NewLinear(w, false, false, nil); err == nil {
			t.Errorf("weights of %s: no error", what)
		}
	}
}

// stored returns a tensor of which Transpose by perm has the given shape.
func stored(rng *rand.Rand, perm []int, shape ...int) *tensor.Tensor {
	dims := make([]int, len(shape))
	for i, k := range perm {
		dims[k] = shape[i]
	}
	return normal(rng, dims...)
}

func transposed(t *testing.T, x *tensor.Tensor, perm []int) *tensor.Tensor {
	t.Helper()
	return plain(t, "Transpose", 13, optest.Attrs{"perm": perm}, x)
}

func TestStridedMatMul(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 1))
	same, rows, heads, keys := []int{0, 1, 2}, []int{0, 2, 1}, []int{0, 2, 1, 3}, []int{0, 2, 3, 1}
	for _, c := range []struct {
		a, b, y []int
		batch   []int
		m, k, n int
	}{
		{same, same, same, []int{2}, 3, 4, 5}, {rows, rows, same, []int{3}, 17, 1, 2}, {same, rows, []int{1, 0, 2},
			[]int{4}, 1, 8, 1},
		{heads, keys, []int{0, 1, 2, 3}, []int{2, 3}, 5, 16, 7}, {[]int{0, 1, 2, 3}, heads, heads, []int{1, 4}, 6, 33,
			9}, {same, same, same, []int{2}, 3, 0, 5}, {same, same, same, []int{0}, 3, 2, 5},
	} {
		if !blocked.CanStride(c.a, c.b, c.y) {
			t.Fatalf("%v: CanStride is false", c)
		}
		a := stored(rng, c.a, append(append([]int{}, c.batch...), c.m, c.k)...)
		b := stored(rng, c.b, append(append([]int{}, c.batch...), c.k, c.n)...)
		want := plain(t, "MatMul", 13, nil, transposed(t, a, c.a), transposed(t, b, c.b))
		want = transposed(t, plain(t, "Mul", 13, nil, want, tensor.Scalar(float32(0.25))), c.y)
		op := &blocked.StridedMatMul{PermA: c.a, PermB: c.b, PermY: c.y, Alpha: 0.25}
		if got := ran(t, op, a, b); !near(got, want, 1e-5) {
			t.Errorf("%v: got %s, want %s", c, optest.Show(got), optest.Show(want))
		}
	}
	op := &blocked.StridedMatMul{PermA: same, PermB: same, PermY: same, Alpha: 1}
	fails(t, "want rank 3", op, normal(rng, 2, 3), normal(rng, 2, 3, 4))
	fails(t, "want equal batch and inner dimensions", op, normal(rng, 2, 3, 4), normal(rng, 2, 3, 4))
	fails(t, "want equal batch and inner dimensions", op, normal(rng, 2, 3, 4), normal(rng, 1, 4, 4))
	for _, p := range [][3][]int{{same, same, rows}, {{1, 2, 0}, {2, 0, 1}, same}, {{0, 1}, {0, 1}, {0, 1}},
		{{2, 0, 1}, same, same}} {
		if p[0][0] != 2 && blocked.CanStride(p[0], p[1], p[2]) {
			t.Errorf("%v: CanStride is true", p)
		}
	}
}

// Queries that see no key, and those with a NaN, have the result 0.
func TestAttentionZeroNaN(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 2))
	same := []int{0, 1, 2}
	for _, queries := range []int{1, 5, 40, 90} {
		const length, size = 33, 16
		q, k, v := normal(rng, 2, queries, size), normal(rng, 2, length, size), normal(rng, 2, length, size)
		mask := normal(rng, 2, queries, length)
		x, m := tensor.MustData[float32](q), tensor.MustData[float32](mask)
		for row := range 2 * queries {
			switch row % 4 {
			case 0:
				for j := range length {
					m[row*length+j] = float32(math.Inf(-1))
				}
			case 1:
				x[row*size+3] = float32(math.NaN())
			}
		}
		keys := []int{0, 2, 1}
		scores := plain(t, "Add", 13, nil, plain(t, "MatMul", 13, nil, q, transposed(t, k, keys)), mask)
		p := plain(t, "Softmax", 13, optest.Attrs{"axis": -1}, scores)
		p = plain(t, "Where", 16, nil, plain(t, "IsNaN", 13, nil, p), tensor.Scalar(float32(0)), p)
		want := plain(t, "MatMul", 13, nil, p, v)
		op := &blocked.Attention{PermQ: same, PermK: keys, PermV: same, PermY: same, Alpha: 1, ZeroNaN: true}
		if got := ran(t, op, q, k, v, mask); !near(got, want, 1e-4) {
			t.Errorf("%d queries: got %s, want %s", queries, optest.Show(got), optest.Show(want))
		}
	}
}

func TestAttention(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 1))
	three, heads, keys := []int{0, 1, 2}, []int{0, 2, 1, 3}, []int{0, 2, 3, 1}
	for _, c := range []struct {
		q, k, v, y                    []int
		batch                         []int
		queries, length, size, values int
		mask                          []int
	}{
		{three, []int{0, 2, 1}, three, three, []int{2}, 5, 7, 8, 8, nil},
		{heads, keys, heads, heads, []int{2, 3}, 40, 33, 16, 5, []int{33}},
		{heads, keys, heads, heads, []int{1, 2}, 1, 1, 3, 4, []int{1, 2, 1, 1}},
		{heads, keys, heads, []int{0, 1, 2, 3}, []int{2, 1}, 17, 300, 20, 20, []int{2, 1, 17, 300}},
		{heads, keys, heads, []int{1, 2, 0, 3}, []int{2, 3}, 4, 6, 8, 5, nil},
		{three, []int{0, 2, 1}, three, three, []int{3}, 9, 12, 4, 6, []int{3, 1, 12}},
		{three, []int{0, 2, 1}, three, three, []int{0}, 9, 12, 4, 6, nil},
	} {
		if !blocked.CanAttend(c.q, c.k, c.v, c.y) {
			t.Fatalf("%v: CanAttend is false", c)
		}
		q := stored(rng, c.q, append(append([]int{}, c.batch...), c.queries, c.size)...)
		k := stored(rng, c.k, append(append([]int{}, c.batch...), c.size, c.length)...)
		v := stored(rng, c.v, append(append([]int{}, c.batch...), c.length, c.values)...)
		alpha := float32(1 / math.Sqrt(float64(c.size)))
		scores := plain(t, "Mul", 13, nil, plain(t, "MatMul", 13, nil, transposed(t, q, c.q), transposed(t, k, c.k)),
			tensor.Scalar(alpha))
		in := []*tensor.Tensor{q, k, v, nil}
		if c.mask != nil {
			in[3] = normal(rng, c.mask...)
			scores = plain(t, "Add", 13, nil, scores, in[3])
		}
		want := plain(t, "MatMul", 13, nil, plain(t, "Softmax", 13, optest.Attrs{"axis": -1}, scores),
			transposed(t, v, c.v))
		want = transposed(t, want, c.y)
		op := &blocked.Attention{PermQ: c.q, PermK: c.k, PermV: c.v, PermY: c.y, Alpha: alpha}
		if got := ran(t, op, in...); !near(got, want, 1e-4) {
			t.Errorf("%v: got %s, want %s", c, optest.Show(got), optest.Show(want))
		}
	}
	op := &blocked.Attention{PermQ: three, PermK: []int{0, 2, 1}, PermV: three, PermY: three, Alpha: 1}
	x := normal(rng, 2, 5, 4)
	fails(t, "input 2 has shape [5 4], want rank 3", op, x, x, normal(rng, 5, 4), nil)
	fails(t, "want equal batch and inner dimensions", op, x, x, normal(rng, 2, 6, 4), nil)
	fails(t, "want equal batch and inner dimensions", op, x, normal(rng, 1, 5, 4), x, nil)
	fails(t, "want one that broadcasts to [2 5 5]", op, x, x, x, normal(rng, 4))
	fails(t, "want one that broadcasts to [2 5 5]", op, x, x, x, normal(rng, 1, 2, 5, 5))
}
