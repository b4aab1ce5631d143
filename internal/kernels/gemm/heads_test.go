package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

// headMatrix returns n rows of random numbers in a format, in guarded memory, and the numbers.
func headMatrix(t testing.TB, r *rand.Rand, f HeadFormat, side testkit.Side, n, cols, ld int) (HeadRows, []float64) {
	count := max(0, (n-1)*ld+cols)
	f32 := make([]float32, count)
	for i := range f32 {
		f32[i] = float32(r.NormFloat64())
	}
	x := HeadRows{Format: f, Ld: ld, Data: testkit.Guarded[byte](t, count*(&HeadRows{Format: f}).size(), side, 0)}
	switch f {
	case HeadF32:
		copy(memory.FromRaw[float32](x.Data), f32)
	case HeadF16:
		vec.F32ToF16(cpu.Generic, memory.FromRaw[uint16](x.Data), f32)
		vec.F16ToF32(cpu.Generic, f32, memory.FromRaw[uint16](x.Data))
	case HeadBF16:
		vec.F32ToBF16(cpu.Generic, memory.FromRaw[uint16](x.Data), f32)
		vec.BF16ToF32(cpu.Generic, f32, memory.FromRaw[uint16](x.Data))
	}
	wide := make([]float64, count)
	for i, v := range f32 {
		wide[i] = float64(v)
	}
	return x, wide
}

var _ = testkit.Tested("dotHeads*", "addHeads*")

// Results of heads are within the error bound of a sum, and the same bits for each head alone and
// for parts of the rows. NaN stays in its row or column.
func TestHeads(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		if !HasHeads(l, 64) {
			return
		}
		for f := HeadF32; f <= HeadBF16; f++ {
			for heads := 1; heads <= 9; heads++ {
				for _, cols := range []int{16, 32, 48, 64, 80, 128, 144} {
					for _, n := range []int{0, 1, 2, 3, 4, 5, 8, 31, 70} {
						testkit.Scope(t, func(t testing.TB) { checkHeads(t, r, l, f, heads, cols, n) })
					}
				}
			}
		}
		testkit.Scope(t, func(t testing.TB) { checkHeads(t, r, l, HeadF32, 5, 256, 1100) }) // several calls
	})
}

func checkHeads(t testing.TB, r *rand.Rand, l cpu.Level, f HeadFormat, heads, cols, n int) {
	side := testkit.Side(r.IntN(2) > 0)
	b, wide := headMatrix(t, r, f, side, n, cols, cols+16*r.IntN(2))
	rows := func(heads, cols, ld int) []float32 {
		s := testkit.Guarded[float32](t, (heads-1)*ld+cols, side, 0)
		for i := range s {
			s[i] = float32(r.NormFloat64())
		}
		return s
	}
	ldq, ldp := cols+r.IntN(3), n+r.IntN(3)
	q, p := rows(heads, cols, ldq), rows(heads, n, ldp)
	if n > 2 {
		q[0], p[2] = float32(math.NaN()), float32(math.Inf(1))
	}
	scores, y := rows(heads, n, ldp), rows(heads, cols, ldq)
	first := append([]float32{}, y...)
	DotHeads(l, heads, scores, ldp, q, ldq, b, cols, n)
	AddHeads(l, heads, y, ldq, p, ldp, b, cols, n)
	near := func(what string, h, i, k int, got float32, want, size float64) {
		if d := math.Abs(float64(got) - want); d > float64(k+3)*0x1p-24*size || want != want && got == got ||
			math.IsInf(want, 0) && float64(got) != want {
			t.Fatalf("%v, format %d, %d heads, %d columns, %d rows: %s %d of head %d is %g, want %g", l, f, heads, cols,
				n, what, i, h, got, want)
		}
	}
	for h := range heads {
		for i := range n {
			want, size := 0.0, 0.0
			for j := range cols {
				v := float64(q[h*ldq+j]) * wide[i*b.Ld+j]
				want, size = want+v, size+math.Abs(v)
			}
			near("score", h, i, cols, scores[h*ldp+i], want, size)
		}
		for j := range cols {
			want := float64(first[h*ldq+j])
			size := math.Abs(want)
			for i := range n {
				v := float64(p[h*ldp+i]) * wide[i*b.Ld+j]
				want, size = want+v, size+math.Abs(v)
			}
			near("column", h, j, n, y[h*ldq+j], want, size)
		}
		s, c := make([]float32, n), append([]float32{}, first[h*ldq:][:cols]...)
		half := n / 2
		DotHeads(l, 1, s, n, q[h*ldq:], cols, b, cols, half)
		AddHeads(l, 1, c, cols, p[h*ldp:], n, b, cols, half)
		if half < n {
			DotHeads(l, 1, s[half:], n, q[h*ldq:], cols, b.From(half), cols, n-half)
			AddHeads(l, 1, c, cols, p[h*ldp+half:], n, b.From(half), cols, n-half)
		}
		same := func(what string, a, b []float32) {
			for i, v := range a {
				if math.Float32bits(v) != math.Float32bits(b[i]) {
					t.Fatalf("%v, format %d, %d heads, %d columns, %d rows: %s %d of head %d is %g, alone %g", l, f,
						heads, cols, n, what, i, h, v, b[i])
				}
			}
		}
		same("score", scores[h*ldp:][:n], s)
		same("column", y[h*ldq:][:cols], c)
	}
}

// The heads of a group read keys or values from memory in turn.
func BenchmarkHeads(b *testing.B) {
	const cols, part, total = 64, 1 << 22, 1 << 28
	raw := memory.Lasting(memory.Aligned(total))
	for i := range raw {
		raw[i] = byte(i%3) | 0x38
	}
	for f, name := range []string{"float32", "float16", "bfloat16"} {
		for _, heads := range []int{1, 2, 4, 7, 8} {
			x, at := HeadRows{Format: HeadFormat(f), Ld: cols}, 0
			n := part / (cols * x.size())
			q, s := make([]float32, heads*cols), make([]float32, heads*n)
			for op, do := range map[string]func(){
				"dot": func() { DotHeads(cpu.Active(), heads, s, n, q, cols, x, cols, n) },
				"add": func() { AddHeads(cpu.Active(), heads, q, cols, s, n, x, cols, n) },
			} {
				b.Run(fmt.Sprintf("%s/%s/%d", op, name, heads), func(b *testing.B) {
					b.SetBytes(part)
					for b.Loop() {
						x.Data = raw[at:][:part]
						do()
						at = (at + part) % total
					}
				})
			}
		}
	}
}
