package ops

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestConvTransposeForms compares transposed convolutions, whose taps are added as ranges, row by
// row or as rows of kernels that are wider than the input, with the definition.
func TestConvTransposeForms(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 600 {
		group, n, mg, cg := 1+r.IntN(2), 1+r.IntN(2), 1+r.IntN(3), 1+r.IntN(5)
		var in, kernel, dilation, stride, before, after, more, out [2]int
		for d := range 2 {
			in[d], kernel[d], dilation[d], stride[d] = 1+r.IntN(12), 1+r.IntN(5), 1+r.IntN(2), 1+r.IntN(3)
			if r.IntN(8) == 0 {
				kernel[d] += 12
			}
			more[d] = r.IntN(max(stride[d], dilation[d]))
			if i%16 == 0 { // one pixel
				in[d], dilation[d], more[d] = 1, 1, 0
			}
			full := (in[d]-1)*stride[d] + 1 + (kernel[d]-1)*dilation[d] + more[d]
			before[d] = r.IntN(full)
			after[d] = r.IntN(full - before[d])
			if i%32 == 0 {
				before[d], after[d] = 0, 0
			}
			out[d] = full - before[d] - after[d]
		}
		numbers := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(r.IntN(9) - 4)
			}
			return x
		}
		m, c := mg*group, cg*group
		x, w, b := numbers(n*m*in[0]*in[1]), numbers(m*cg*kernel[0]*kernel[1]), numbers(c)
		want := make([]float32, n*c*out[0]*out[1])
		for i := range want {
			want[i] = b[i/(out[0]*out[1])%c]
		}
		for i, v := range x {
			col, row, ch, img := i%in[1], i/in[1]%in[0], i/(in[0]*in[1])%m, i/(in[0]*in[1]*m)
			for o := range cg {
				for ky := range kernel[0] {
					for kx := range kernel[1] {
						oy, ox := row*stride[0]+ky*dilation[0]-before[0], col*stride[1]+kx*dilation[1]-before[1]
						if oy >= 0 && oy < out[0] && ox >= 0 && ox < out[1] {
							want[((img*c+ch/mg*cg+o)*out[0]+oy)*out[1]+ox] +=
								v * w[((ch*cg+o)*kernel[0]+ky)*kernel[1]+kx]
						}
					}
				}
			}
		}
		got, err := optest.Run(t, "ConvTranspose", 11, map[string]any{"group": group, "dilations": dilation[:],
			"strides": stride[:], "output_padding": more[:], "pads": []int{before[0], before[1], after[0], after[1]}},
			optest.Tensor(x, n, m, in[0], in[1]), optest.Tensor(w, m, cg, kernel[0], kernel[1]), optest.Tensor(b, c))
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range tensor.MustData[float32](got[0].(*tensor.Tensor)) {
			if math.Float32bits(v+0) != math.Float32bits(want[i]+0) {
				t.Fatalf("input %v, kernel %v, dilation %v, strides %v, pads %v %v: element %d is %g, want %g", in,
					kernel, dilation, stride, before, after, i, v, want[i])
			}
		}
	}
}
