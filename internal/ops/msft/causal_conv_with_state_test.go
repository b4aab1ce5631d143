package msft

import (
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestCausalConvForms compares convolutions of both layouts with the definition. The values are
// small integers, whose sums are exact at every instruction-set level.
func TestCausalConvForms(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 7))
	for i := range 200 {
		batch, channels, n, k, dilation := 1+r.IntN(2), 1+r.IntN(5), 1+r.IntN(70), 1+r.IntN(6), 1+r.IntN(3)
		last, past := i%2 == 1, (k-1)*dilation
		numbers := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(r.IntN(9) - 4)
			}
			return x
		}
		x, state := numbers(batch*channels*n), numbers(batch*channels*past)
		w, b := numbers(channels*k), numbers(channels)
		shape := func(n int) []int {
			if last {
				return []int{batch, n, channels}
			}
			return []int{batch, channels, n}
		}
		index := func(image, ch, at, n int) int {
			if last {
				return (image*n+at)*channels + ch
			}
			return (image*channels+ch)*n + at
		}
		value := func(image, ch, at int) float32 { // element at of the state and the input
			if at < past {
				return state[index(image, ch, at, past)]
			}
			return x[index(image, ch, at-past, n)]
		}
		wantY, wantState := make([]float32, len(x)), make([]float32, len(state))
		for image := range batch {
			for ch := range channels {
				for at := range n {
					sum := b[ch]
					for j := range k {
						sum += w[ch*k+j] * value(image, ch, at+j*dilation)
					}
					wantY[index(image, ch, at, n)] = sum
				}
				for at := range past {
					wantState[index(image, ch, at, past)] = value(image, ch, n+at)
				}
			}
		}
		attrs := optest.Attrs{"dilation": dilation, "channels_last": last}
		optest.WantAll(t, "com.microsoft.CausalConvWithState", 1, attrs,
			[]tensor.Value{optest.Tensor(wantY, shape(n)...), optest.Tensor(wantState, shape(past)...)},
			optest.Tensor(x, shape(n)...), optest.Tensor(w, channels, 1, k), optest.Tensor(b, channels),
			optest.Tensor(state, shape(past)...))
	}
}
