package ops

import (
	"math"
	"strings"
	"testing"

	"github.com/onward-ml/onward/tensor"
)

func TestEinsum(t *testing.T) {
	eq := func(s string) map[string]any { return map[string]any{"equation": s} }
	m, n := iota32(2, 3), iota32(3, 2)
	mm := tt([]float32{22, 28, 49, 64}, 2, 2)
	for _, e := range []string{"ij,jk->ik", "ij , jk", "...ij,...jk->...ik", "Ab,bc->Ac"} {
		wantOp(t, "Einsum", 12, eq(e), mm, m, n)
	}
	wantOp(t, "Einsum", 12, eq("ij,jk->ki"), tt([]float32{22, 49, 28, 64}, 2, 2), m, n)
	wantOp(t, "Einsum", 12, eq("ij->ji"), tt([]int8{1, 4, 2, 5, 3, 6}, 3, 2), tt([]int8{1, 2, 3, 4, 5, 6}, 2, 3))
	wantOp(t, "Einsum", 12, eq("ba"), tt([]uint16{1, 3, 2, 4}, 2, 2), tt([]uint16{1, 2, 3, 4}, 2, 2))
	wantOp(t, "Einsum", 12, eq("ii->i"), tt([]int64{1, 4}, 2), tt([]int64{1, 2, 3, 4}, 2, 2))
	wantOp(t, "Einsum", 12, eq("ii"), tt([]float64{5}), tt([]float64{1, 2, 3, 4}, 2, 2))
	wantOp(t, "Einsum", 12, eq("...ii->...i"), tt([]float32{1, 4, 5, 8}, 2, 2), iota32(2, 2, 2))
	wantOp(t, "Einsum", 12, eq("i,i->"), tt(half16(14)), tt(half16(1, 2, 3), 3), tt(half16(1, 2, 3), 3))
	wantOp(t, "Einsum", 12, eq(",->"), tt([]uint32{6}), tt([]uint32{2}), tt([]uint32{3}))
	wantOp(t, "Einsum", 12, eq("i,j,k->kij"), tt([]int32{6, 9, 12, 18}, 1, 2, 2), tt([]int32{1, 2}, 2), tt([]int32{2, 3}, 2), tt([]int32{3}, 1))
	wantOp(t, "Einsum", 12, eq("ij,ij->i"), tt([]float32{6, 15}, 2), m, tt([]float32{1, 1, 1, 1, 1, 1}, 2, 3))
	wantOp(t, "Einsum", 12, eq("ij,ij->ij"), tt([]float32{1, 4, 9, 4, 10, 18}, 2, 3), m, iota32(1, 3)) // a size of 1 repeats
	wantOp(t, "Einsum", 12, eq("...,..."), tt([]float32{1, 2, 3, 8, 10, 12}, 2, 3), m, iota32(2, 1))
	wantOp(t, "Einsum", 12, eq("a...,...b->a...b"), tt([]float32{1, 2, 2, 4}, 2, 1, 2), iota32(2, 1), iota32(1, 2))
	wantOp(t, "Einsum", 12, eq("ij->i"), tt([]float32{0, 0}, 2), tt([]float32{}, 2, 0))
	wantOp(t, "Einsum", 12, eq("ij,jk"), tt([]float32{0}, 1, 1), tt([]float32{}, 1, 0), tt([]float32{}, 0, 1))
	wantOp(t, "Einsum", 12, eq("ij,jk"), tt([]float32{}, 0, 2), tt([]float32{}, 0, 3), n)
	wantOp(t, "Einsum", 12, eq("i->i"), tt([]uint64{math.MaxUint64}, 1), tt([]uint64{math.MaxUint64}, 1))
	for _, e := range []string{"bhqd,bhkd->bhqk", "bhqd,bhkd->bqhk", "abcd,ebcd->ea", "abcd,abcd->", "abcd,abcd->dcba", "abcd,bacd->bd"} {
		a, b := iota32(4, 4, 5, 6), iota32(4, 4, 5, 6)
		if _, err := runOp(t, "Einsum", 12, eq(e), a, b); err != nil {
			t.Error(e, err)
		}
	}
	if _, err := runOp(t, "Einsum", 12, eq("ab,bc,cd,d->a"), iota32(3, 4), iota32(4, 5), iota32(5, 6), iota32(6)); err != nil {
		t.Error(err)
	}
	failOp(t, "Einsum", 12, nil, "equation is missing", m)
	failOp(t, "Einsum", 12, eq("ij,jk"), "2 terms for 1 inputs", m)
	failOp(t, "Einsum", 12, eq("ij,kl"), "2 terms", m)
	failOp(t, "Einsum", 12, eq("ij->k"), "occurs in no input", m)
	failOp(t, "Einsum", 12, eq("ij->ii"), "twice", m)
	failOp(t, "Einsum", 12, eq("i1"), "unexpected", m)
	failOp(t, "Einsum", 12, eq("i.j"), "unexpected", m)
	failOp(t, "Einsum", 12, eq("......"), "unexpected", m)
	failOp(t, "Einsum", 12, eq("i->i->i"), "unexpected", m)
	failOp(t, "Einsum", 12, eq("ijk"), "rank 2", m)
	failOp(t, "Einsum", 12, eq("...ijk"), "rank 2", m)
	failOp(t, "Einsum", 12, eq("...->"), "drops the dimensions", m)
	failOp(t, "Einsum", 12, eq("ii"), "label", m)
	failOp(t, "Einsum", 12, eq(strings.Repeat("i", 5000)), "at most 4096", m)
	big := tt(make([]tensor.Float16, 1000), 1000)
	failOp(t, "Einsum", 12, eq("a,b,c,d->abcd"), "memory limit", big, big, big, big)
}
