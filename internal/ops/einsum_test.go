package ops

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func TestEinsum(t *testing.T) {
	eq := func(s string) map[string]any { return map[string]any{"equation": s} }
	m, n := iota32(2, 3), iota32(3, 2)
	mm := optest.Tensor([]float32{22, 28, 49, 64}, 2, 2)
	for _, e := range []string{"ij,jk->ik", "ij , jk", "...ij,...jk->...ik", "Ab,bc->Ac"} {
		optest.Want(t, "Einsum", 12, eq(e), mm, m, n)
	}
	optest.Want(t, "Einsum", 12, eq("ij,jk->ki"), optest.Tensor([]float32{22, 49, 28, 64}, 2, 2), m, n)
	optest.Want(t, "Einsum", 12, eq("ij->ji"), optest.Tensor([]int8{1, 4, 2, 5, 3, 6}, 3, 2),
		optest.Tensor([]int8{1, 2, 3, 4, 5, 6}, 2, 3))
	optest.Want(t, "Einsum", 12, eq("ba"), optest.Tensor([]uint16{1, 3, 2, 4}, 2, 2),
		optest.Tensor([]uint16{1, 2, 3, 4}, 2, 2))
	optest.Want(t, "Einsum", 12, eq("ii->i"), optest.Tensor([]int64{1, 4}, 2), optest.Tensor([]int64{1, 2, 3, 4}, 2, 2))
	optest.Want(t, "Einsum", 12, eq("ii"), optest.Tensor([]float64{5}), optest.Tensor([]float64{1, 2, 3, 4}, 2, 2))
	optest.Want(t, "Einsum", 12, eq("...ii->...i"), optest.Tensor([]float32{1, 4, 5, 8}, 2, 2), iota32(2, 2, 2))
	optest.Want(t, "Einsum", 12, eq("i,i->"), optest.Tensor(half16(14)), optest.Tensor(half16(1, 2, 3), 3),
		optest.Tensor(half16(1, 2, 3), 3))
	optest.Want(t, "Einsum", 12, eq(",->"), optest.Tensor([]uint32{6}), optest.Tensor([]uint32{2}),
		optest.Tensor([]uint32{3}))
	optest.Want(t, "Einsum", 12, eq("i,j,k->kij"), optest.Tensor([]int32{6, 9, 12, 18}, 1, 2, 2),
		optest.Tensor([]int32{1, 2}, 2), optest.Tensor([]int32{2, 3}, 2), optest.Tensor([]int32{3}, 1))
	optest.Want(t, "Einsum", 12, eq("ij,ij->i"), optest.Tensor([]float32{6, 15}, 2), m,
		optest.Tensor([]float32{1, 1, 1, 1, 1, 1}, 2, 3))
	// a size of 1 repeats
	optest.Want(t, "Einsum", 12, eq("ij,ij->ij"), optest.Tensor([]float32{1, 4, 9, 4, 10, 18}, 2, 3), m, iota32(1, 3))
	optest.Want(t, "Einsum", 12, eq("...,..."), optest.Tensor([]float32{1, 2, 3, 8, 10, 12}, 2, 3), m, iota32(2, 1))
	optest.Want(t, "Einsum", 12, eq("a...,...b->a...b"), optest.Tensor([]float32{1, 2, 2, 4}, 2, 1, 2),
		iota32(2, 1), iota32(1, 2))
	optest.Want(t, "Einsum", 12, eq("ij->i"), optest.Tensor([]float32{0, 0}, 2), optest.Tensor([]float32{}, 2, 0))
	optest.Want(t, "Einsum", 12, eq("ij,jk"), optest.Tensor([]float32{0}, 1, 1), optest.Tensor([]float32{}, 1, 0),
		optest.Tensor([]float32{}, 0, 1))
	optest.Want(t, "Einsum", 12, eq("ij,jk"), optest.Tensor([]float32{}, 0, 2), optest.Tensor([]float32{}, 0, 3), n)
	optest.Want(t, "Einsum", 12, eq("i->i"), optest.Tensor([]uint64{math.MaxUint64}, 1),
		optest.Tensor([]uint64{math.MaxUint64}, 1))
	for _, e := range []string{"bhqd,bhkd->bhqk", "bhqd,bhkd->bqhk", "abcd,ebcd->ea", "abcd,abcd->", "abcd,abcd->dcba",
		"abcd,bacd->bd"} {
		a, b := iota32(4, 4, 5, 6), iota32(4, 4, 5, 6)
		if _, err := optest.Run(t, "Einsum", 12, eq(e), a, b); err != nil {
			t.Error(e, err)
		}
	}
	if _, err := optest.Run(t, "Einsum", 12, eq("ab,bc,cd,d->a"), iota32(3, 4), iota32(4, 5), iota32(5, 6),
		iota32(6)); err != nil {
		t.Error(err)
	}
	optest.Fail(t, "Einsum", 12, nil, "equation is missing", m)
	optest.Fail(t, "Einsum", 12, eq("ij,jk"), "2 terms, want 1", m)
	optest.Fail(t, "Einsum", 12, eq("ij,kl"), "2 terms", m)
	optest.Fail(t, "Einsum", 12, eq("ij->k"), "occurs in no input", m)
	optest.Fail(t, "Einsum", 12, eq("ij->ii"), "twice", m)
	optest.Fail(t, "Einsum", 12, eq("i1"), "unexpected", m)
	optest.Fail(t, "Einsum", 12, eq("i.j"), "unexpected", m)
	optest.Fail(t, "Einsum", 12, eq("......"), "unexpected", m)
	optest.Fail(t, "Einsum", 12, eq("i->i->i"), "unexpected", m)
	optest.Fail(t, "Einsum", 12, eq("ijk"), "rank 2", m)
	optest.Fail(t, "Einsum", 12, eq("...ijk"), "rank 2", m)
	optest.Fail(t, "Einsum", 12, eq("...->"), "drops the dimensions", m)
	optest.Fail(t, "Einsum", 12, eq("ii"), "label", m)
	optest.Fail(t, "Einsum", 12, eq(strings.Repeat("i", 5000)), "at most 4096", m)
	big := optest.Tensor(make([]tensor.Float16, 1000), 1000)
	optest.Fail(t, "Einsum", 12, eq("a,b,c,d->abcd"), "memory limit", big, big, big, big)
}

// TestEinsumPlain compares sums of one operand and products of two with the plain engine.
func TestEinsumPlain(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for equation, shapes := range map[string][][]int{
		"ijk->j": {{4, 5, 6}}, "ijk->ki": {{4, 5, 6}}, "ijk->": {{4, 5, 6}}, "iij->j": {{4, 4, 6}}, "iji->": {{4, 5, 4}},
		"iij->ji": {{4, 4, 6}}, "ijk->k": {{40, 50, 6}}, "ij,ij->ij": {{7, 8}, {7, 8}}, "ij,ji->ij": {{7, 8}, {8, 7}},
		"ij,jk->j": {{7, 8}, {8, 3}}, "ij,j->i": {{40, 30}, {30}}, "ijk,jl->il": {{1, 8, 3}, {1, 5}}, "ij,ik->": {{1, 3}, {4, 5}}, "ij,ij,ij->i": {{3, 40}, {3, 40}, {1, 40}},
	} {
		for _, kind := range []string{"f32", "i32"} {
			var in []tensor.Value
			for _, s := range shapes {
				n, err := tensor.Elements(s)
				if err != nil {
					t.Fatal(err)
				}
				f, i := make([]float32, n), make([]int32, n)
				for k := range f {
					f[k], i[k] = float32(r.NormFloat64()), r.Int32N(100)-50
				}
				if kind == "f32" {
					in = append(in, optest.Tensor(f, s...))
				} else {
					in = append(in, optest.Tensor(i, s...))
				}
			}
			if _, err := optest.Run(t, "Einsum", 12, map[string]any{"equation": equation}, in...); err != nil {
				// compares them
				t.Errorf("%s: %v", equation, err)
			}
		}
	}
}

// TestEinsumRowsByColumns multiplies a row by a column per batch element, with labels of size 1
// that only one input has.
func TestEinsumRowsByColumns(t *testing.T) {
	for _, e := range []struct {
		equation  string
		a, b, out []int
		want      []float32
	}{
		{"bij,bjk->bik", []int{4, 1, 2}, []int{4, 2, 1}, []int{4, 1, 1}, []float32{5, 25, 61, 113}},
		{"bj,bjk->bk", []int{4, 2}, []int{4, 2, 1}, []int{4, 1}, []float32{5, 25, 61, 113}},
		{"bj,bjkl->bkl", []int{2, 4}, []int{2, 4, 1, 1}, []int{2, 1, 1}, []float32{30, 174}},
		{"bij,bklj->bikl", []int{8, 1, 1}, []int{8, 1, 1, 1}, []int{8, 1, 1, 1}, []float32{1, 4, 9, 16, 25, 36, 49, 64}},
		{"bi,bkl->bikl", []int{8, 1}, []int{8, 1, 1}, []int{8, 1, 1, 1}, []float32{1, 4, 9, 16, 25, 36, 49, 64}},
	} {
		optest.Want(t, "Einsum", 12, map[string]any{"equation": e.equation}, optest.Tensor(e.want, e.out...),
			iota32(e.a...), iota32(e.b...))
	}
}
