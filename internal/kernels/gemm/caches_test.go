package gemm

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

var (
	zen4     = cacheSizes{span: 4 << 10, ways: 8, second: 1 << 20}
	sapphire = cacheSizes{span: 4 << 10, ways: 12, second: 2 << 20}
	appleM1  = cacheSizes{span: 16 << 10, ways: 8, second: 12 << 20}
)

func TestConflict(t *testing.T) {
	for _, c := range []struct {
		s      cacheSizes
		k      int
		rows   int
		expect bool
	}{
		{zen4, 3072, 14, true}, {zen4, 1024, 14, true}, {zen4, 1024, 4, false}, {zen4, 512, 14, false}, {zen4, 512, 9, true}, {zen4, 512, 8, false}, {zen4, 768, 14, false}, {zen4, 3071, 14, false}, {zen4, 100, 14, false},
		{sapphire, 3072, 14, false}, {sapphire, 3072, 6, false}, {sapphire, 512, 14, false}, {sapphire, 256, 14, false}, {sapphire, 0, 14, false},
		{appleM1, 4096, 6, true}, {appleM1, 1024, 6, false}, {appleM1, 4096 + 16, 6, false},
	} {
		if got := c.s.conflict(c.k*4, c.rows); got != c.expect {
			t.Errorf("%+v: %d rows at a stride of %d elements: conflict %v, want %v", c.s, c.rows, c.k, got, c.expect)
		}
		if c.s.conflict(copyStride(c.k)*4, c.rows) || copyStride(c.k) < c.k {
			t.Errorf("%+v: copied rows of %d elements have the stride %d", c.s, c.k, copyStride(c.k))
		}
	}
}

func TestBlockRows(t *testing.T) {
	for _, c := range []struct {
		s        cacheSizes
		kc, want int
	}{{zen4, 1024, 126}, {zen4, 768, 168}, {sapphire, 1024, blockM}, {appleM1, 1024, blockM}, {zen4, 0, blockM},
		{cacheSizes{second: 1 << 15}, 1024, 4 * tileRows}} {
		if got := c.s.blockRows(c.kc); got != c.want {
			t.Errorf("%+v: %d rows of %d elements, want %d", c.s, got, c.kc, c.want)
		}
	}
}

// TestCachesDoNotChangeResults compares bits: copies and block sizes of any machine give the same
// sums.
func TestCachesDoNotChangeResults(t *testing.T) {
	old := machine
	defer func() { machine = old }()
	r := rand.New(rand.NewPCG(3, 9))
	next := floats[float32](r)
	some := func(n int) []float32 {
		s := make([]float32, n)
		for i := range s {
			s[i] = next()
		}
		return s
	}
	const n = 4*PanelWidth - 5
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		for _, k := range []int{64, 1024, 1500} {
			b := some(PackedLen(k, n))
			for _, m := range []int{3, 7, 16, 61} {
				a := some(m*k + 3)
				var want []float32
				for i, s := range []cacheSizes{{span: 4096, ways: 1 << 20, second: 2 << 20}, zen4,
					{span: 4096, second: 1 << 15}} {
					machine = func() cacheSizes { return s }
					g := &Args[float32]{M: m, N: n, K: k, A: a[3:], LdA: k, B: b, Packed: true,
						C: make([]float32, m*n), LdC: n}
					if i == 2 && !g.copyA(m) {
						t.Fatalf("%d rows of %d elements are not copied", m, k)
					}
					for j := range g.C {
						g.C[j] = 1e30
					}
					Parallel(nil, l, g)
					if i == 0 {
						want = g.C
					} else if !slices.Equal(g.C, want) {
						t.Fatalf("%d rows of %d elements: results depend on the caches %+v", m, k, s)
					}
				}
			}
		}
	})
}

func TestAhead(t *testing.T) {
	old := machine
	defer func() { machine = old }()
	weights := memory.Slice[float32](1 << 16)
	for last, want := range map[int]uintptr{1 << 10: 5, 1 << 50: 0} {
		machine = func() cacheSizes { return cacheSizes{last: last} }
		if got := Ahead(5); got != want {
			t.Errorf("distance %d with a cache of %d bytes, want %d", got, last, want)
		}
	}
	runtime.KeepAlive(weights)
}
