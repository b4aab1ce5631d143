package quant

import (
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

// TestAddRows compares the kernels with sums of integers, for matrices packed with and without
// AMX. Inaccessible pages follow their memory.
func TestAddRows(t *testing.T) {
	testkit.ByteLevels(t, func(t *testing.T, l cpu.Level) {
		for _, k := range []int{1, 3, 4, 15, 16, 17, 64, 260, 1030} {
			for _, m := range []int{0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 35} {
				for _, amx := range []bool{false, true} {
					checkAddRows[int8](t, l, amx, m, k, 32, m%2 == 0)
					checkAddRows[uint8](t, l, amx, m, k, 96, m%2 != 0)
				}
			}
		}
		for _, amx := range []bool{false, true} {
			checkAddRows[int8](t, l, amx, 5, 1024, 512, false) // several calls
		}
	})
}

func checkAddRows[B Byte](t *testing.T, l cpu.Level, amx bool, m, k, n int, store bool) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(k), uint64(n)))
	b := make([]B, k*n)
	for i := range b {
		b[i] = B(r.Uint32())
	}
	p := pack(&Packed{K: k, N: n, dot: dotProduct(l)}, nil, amx && cpu.AMX(l), b, n, false)
	ldx, ldy := k+1, n+3
	x := testkit.Guarded[uint8](t, max(0, (m-1)*ldx+p.RowLen()), testkit.High, 0)
	g := &Rows{M: m, X: x, LdX: ldx, LdY: ldy, XZero: r.Int32N(256), B: p, BZero: int32(B(r.Uint32())),
		Factor: r.Float32(), Store: store}
	for i := range g.X {
		g.X[i] = uint8(r.Uint32())
	}
	floats := func(n int) []float32 {
		x := testkit.Guarded[float32](t, n, testkit.High, 0)
		for i := range x {
			x[i] = r.Float32() - .5
		}
		return x
	}
	g.Less = testkit.Guarded[int32](t, n, testkit.High, 0)
	copy(g.Less, p.Less(g.BZero))
	g.Scale, g.Bias, g.Y = floats(n), floats(n), floats(max(0, (m-1)*ldy+n))
	want := append([]float32{}, g.Y...)
	for i := range m {
		for j := range n {
			s := int32(0)
			for q := range k {
				s += (int32(g.X[i*ldx+q]) - g.XZero) * (int32(b[q*n+j]) - g.BZero)
			}
			y := &want[i*ldy+j]
			if store {
				*y = 0
			}
			*y = float32(*y+float32(float32(s)*float32(g.Scale[j]*g.Factor))) + g.Bias[j]
		}
	}
	panels := n / PanelWidth
	done := AddRows(l, g, 0, 1)
	if done != (cpu.VNNI(l) || l == cpu.AVX2) || AddRows(l, g, 1, panels) != done {
		t.Fatalf("%v: AddRows returns %v", l, done)
	}
	for j, v := range g.Y {
		if done && v != want[j] {
			t.Fatalf("%v %T %d×%d×%d: element %d is %g, want %g", l, b, m, k, n, j, v, want[j])
		}
	}
}

// TestAddRowsRefuses checks that columns that do not fill panels are left alone.
func TestAddRowsRefuses(t *testing.T) {
	p := Pack(nil, cpu.Active(), make([]int8, 4*33), 33, false, 4, 33)
	if AddRows(cpu.Active(), &Rows{M: 1, B: p, Y: make([]float32, 33)}, 0, 2) {
		t.Error("AddRows computes 33 columns")
	}
}

var _ = testkit.Tested("widenBytes*")

// TestCopyWords compares the kernel with a loop, for rows up to several vectors.
func TestCopyWords(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		for n := range 100 {
			for _, signed := range []bool{false, true} {
				src := testkit.Guarded[uint8](t, n, testkit.Side(n&1 == 0), 0)
				for i := range src {
					src[i] = uint8(37*i + n)
				}
				dst := testkit.Guarded[uint8](t, 2*(n+3), testkit.High, 0)
				copyWords(l, dst, src, signed, int32(-2*n))
				for i, v := range memory.FromRaw[int16](dst) {
					want := 0
					switch {
					case i < n && signed:
						want = int(int8(src[i])) - 2*n
					case i < n:
						want = int(src[i]) - 2*n
					}
					if int(v) != want {
						t.Fatalf("%v: element %d of %d is %d, want %d", l, i, n, v, want)
					}
				}
			}
		}
	})
}
