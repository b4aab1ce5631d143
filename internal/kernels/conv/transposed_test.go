package conv

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

// TestTransposed compares transposed convolutions of small integers, whose sums are exact but for
// Winograd's transforms, with the definition.
func TestTransposed(t *testing.T) {
	var together, apart int
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(4, 4))
		for range 150 {
			cin, cout := 1+r.IntN(40), 1+r.IntN(40)
			var kernel, in, out, stride, pad [2]int
			for i := range 2 {
				stride[i] = 1 + r.IntN(4)
				kernel[i] = stride[i] + r.IntN(4)
				in[i] = 1 + r.IntN(9)
				pad[i] = r.IntN(kernel[i])
				out[i] = max(1, (in[i]-1)*stride[i]+kernel[i]-pad[i]-r.IntN(kernel[i])+r.IntN(2))
			}
			if r.IntN(4) == 0 { // one axis
				kernel[0], in[0], out[0], stride[0], pad[0] = 1, 1, 1, 1, 0
			}
			numbers := func(n int) []float32 {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(r.IntN(9) - 4)
				}
				return x
			}
			x, w, bias := numbers(cin*in[0]*in[1]), numbers(cin*cout*kernel[0]*kernel[1]), numbers(cout)
			d, err := NewTransposed(l, w, bias, cin, cout, kernel, in, out, stride, pad)
			if err != nil {
				continue // outputs beyond the kernels
			}
			if len(d.convs) == 1 {
				together++
			} else {
				apart++
			}
			want := make([]float32, cout*out[0]*out[1])
			for i := range want {
				c, oy, ox := i/(out[0]*out[1]), i/out[1]%out[0], i%out[1]
				want[i] = bias[c]
				for iy := range in[0] {
					for ix := range in[1] {
						ky, kx := oy+pad[0]-iy*stride[0], ox+pad[1]-ix*stride[1]
						if ky < 0 || ky >= kernel[0] || kx < 0 || kx >= kernel[1] {
							continue
						}
						for k := range cin {
							want[i] += x[(k*in[0]+iy)*in[1]+ix] * w[((k*cout+c)*kernel[0]+ky)*kernel[1]+kx]
						}
					}
				}
			}
			for _, par := range []gemm.Par{nil, twoWays} {
				y := testkit.Guarded[float32](t, len(want), testkit.High, 0)
				scratch := make([]float32, d.Scratch())
				for i := range scratch {
					scratch[i] = float32(math.NaN())
				}
				d.Run(l, par, y, x, scratch)
				for i, v := range y {
					if !(math.Abs(float64(v-want[i])) < 2e-2) {
						t.Fatalf("%d→%d channels, kernel %v, stride %v, padding %v, %v to %v: element %d "+
							"is %g, want %g", cin, cout, kernel, stride, pad, in, out, i, v, want[i])
					}
				}
			}
		}
	})
	if together == 0 || apart == 0 {
		t.Errorf("%d cases with one convolution, %d with one for each phase", together, apart)
	}
}
