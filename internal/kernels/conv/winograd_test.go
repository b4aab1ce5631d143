package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

func TestWinograd(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(2, 2))
		for i, s := range []*Shape{
			shape2(1, 32, 32, 1, 8, 8, 3, 1, 1, 1), shape2(1, 20, 50, 1, 7, 7, 3, 1, 1, 1), shape2(1, 16, 16, 1, 13, 18, 3, 1, 1, 0), shape2(1, 40, 33, 1, 1, 3, 3, 1, 1, 1),
			shape2(1, 160, 130, 1, 9, 10, 3, 1, 1, 1), shape2(1, 17, 32, 1, 30, 23, 3, 1, 1, 2), shape2(1, 4112, 16, 1, 4, 3, 3, 1, 1, 1),
			shape2(1, 32, 32, 1, 13, 11, 3, 1, 2, 2), shape2(1, 20, 50, 1, 33, 30, 3, 1, 6, 6), shape2(1, 16, 16, 1, 12, 7, 3, 1, 3, 1), shape2(1, 16, 40, 1, 5, 20, 3, 1, 8, 15), shape2(1, 16, 16, 1, 9, 11, 3, 1, 2, 0),
		} {
			for _, m := range []int{2, 4} {
				for _, e := range []int{0, 3, 7, 11} {
					if l == cpu.Generic && e != 7 || s.Cin > 4000 && (e > 0 || l == cpu.Generic) {
						continue
					}
					b := newBlocked(r, s, e)
					var want []float32
					for cut, par := range []gemm.Par{nil, twoWays, twoWays, oneByOne} {
						tol := map[int]float64{2: 1e-5, 4: 3e-5}[m] * max(1, math.Sqrt(float64(s.Cin))/16)
						b.run(t, fmt.Sprintf("F(%d,3) %v %+v", m, l, *s), l, i&1 == 0, i%3 == 0, tol,
							func(in, out Layout, y, x []float32, ep *BlockedEpilogue) {
								d := &Winograd{In: in, Out: out, Top: s.PadBegin[0], Left: s.PadBegin[1],
									Dilation: s.Dilation[0], Weights: PackWinograd(l, m, b.w, b.ep.Bias, s.Cin, s.Cout)}
								if err := d.Check(); err != nil {
									t.Fatal(err)
								}
								ep.Threads = 1 << (2 * cut) // 64 threads share blocks
								d.Run(l, par, y, x, ep)
								if want == nil {
									want = slices.Clone(y)
								}
								if ep.Channels == 0 && !slices.Equal(y, want) {
									t.Fatalf("F(%d,3) %v %+v: the results depend on how the work is split", m, l, *s)
								}
							})
					}
				}
			}
		}
	})
}

// TestWinogradError checks the documented error bounds on a layer of 64 channels.
func TestWinogradError(t *testing.T) {
	s := shape2(1, 64, 32, 1, 28, 28, 3, 1, 1, 1)
	b := newBlocked(rand.New(rand.NewPCG(3, 3)), s, 0)
	for m, bound := range map[int]float64{2: 5e-6, 4: 1.5e-5} {
		testkit.Levels(t, func(t *testing.T, l cpu.Level) {
			b.run(t, fmt.Sprintf("F(%d,3)", m), l, testkit.Low, true, bound,
				func(in, out Layout, y, x []float32, ep *BlockedEpilogue) {
					d := &Winograd{In: in, Out: out, Top: 1, Left: 1, Dilation: 1,
						Weights: PackWinograd(l, m, b.w, nil, s.Cin, s.Cout)}
					d.Run(l, nil, y, x, ep)
				})
		})
	}
}

// TestWinogradTwins compares the transforms of every level with the generic ones, for tile
// counts from 1 to 5.
func TestWinogradTwins(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(8, 8))
		for _, m := range []int{2, 4} {
			side := m + 2
			for n := 1; n < 6; n++ {
				filters := testkit.GuardedCopy(t, random(r, n*9*Lanes), testkit.High, 0)
				wide := (n*2 + 1) * Lanes
				gotF := testkit.Guarded[float32](t, (side*side-1)*wide+(2*n-1)*Lanes, testkit.High, 0)
				wantF := slices.Clone(gotF)
				winogradFilter(l, m, &filters[0], &gotF[0], wide*4, n)
				winogradFilterGeneric(m, &filters[0], &wantF[0], wide*4, n)
				close32(t, fmt.Sprintf("filters F(%d,3) %d", m, n), gotF, to64(wantF), 1e-7)

				row, xi := (n*m+2+n)*Lanes, (n+1)*Lanes
				src := testkit.GuardedCopy(t, random(r, (side-1)*row+(n*m+2)*Lanes), testkit.High, 0)
				got := testkit.Guarded[float32](t, (side*side-1)*xi+n*Lanes, testkit.High, 0)
				want := make([]float32, len(got))
				winogradInput(l, m, &src[0], &got[0], row*4, xi*4, n)
				winogradInputGeneric(m, &src[0], &want[0], row*4, xi*4, n)
				close32(t, fmt.Sprintf("input F(%d,3) %d tiles", m, n), got, to64(want), 2e-6)

				out := testkit.Guarded[float32](t, (m-1)*row+n*m*Lanes, testkit.High, 0)
				wout := make([]float32, len(out))
				bias, add := random(r, Lanes), testkit.GuardedCopy(t, random(r, len(out)), testkit.High, 0)
				for _, a := range []*float32{nil, &add[0]} {
					winogradOutput(l, m, &got[0], &out[0], &bias[0], a, row*4, row*4, xi*4, n, -1, 3)
					winogradOutputGeneric(m, &got[0], &wout[0], &bias[0], a, row*4, row*4, xi*4, n, -1, 3)
					close32(t, fmt.Sprintf("output F(%d,3) %d tiles", m, n), out, to64(wout), 3e-5)
				}
			}
		}
	})
}
