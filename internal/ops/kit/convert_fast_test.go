package kit

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/testing"
	"github.com/onward-ml/onward/tensor"
)

// TestCastKernels compares every vector kernel with tensor.ConvertInto, byte by byte.
func TestCastKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const n = 5003
	raw := make([]byte, 8*n)
	for i := range raw {
		raw[i] = byte(r.Uint32())
	}
	testkit.Levels(t, func(t *testing.T, _ cpu.Level) {
		for pair, f := range castKernels {
			src := bytes.Clone(raw[:n*pair.from.Bits()/8])
			switch pair.from {
			case tensor.TypeBool:
				for i := range src {
					src[i] &= 1
				}
			case tensor.TypeFloat16, tensor.TypeBFloat16: // without signalling NaN, which a kernel may make quiet
				quiet, infinite := uint16(0x200), uint16(0x7c00)
				if pair.from == tensor.TypeBFloat16 {
					quiet, infinite = 0x40, 0x7f80
				}
				for i, v := range memory.FromRaw[uint16](src) {
					if v&0x7fff > infinite {
						memory.FromRaw[uint16](src)[i] = v | quiet
					}
				}
			case tensor.TypeInt32:
				for i, v := range memory.FromRaw[int32](src) {
					memory.FromRaw[int32](src)[i] = v >> (i % 32)
				}
			case tensor.TypeInt64:
				for i, v := range memory.FromRaw[int64](src) {
					memory.FromRaw[int64](src)[i] = v >> (i % 64)
				}
			case tensor.TypeFloat32:
				for i := range n / 2 {
					memory.FromRaw[float32](src)[i] = float32(r.NormFloat64() * math.Exp2(float64(i%40)))
				}
			case tensor.TypeFloat64:
				for i := range n / 2 {
					memory.FromRaw[float64](src)[i] = r.NormFloat64() * math.Exp2(float64(i%70))
				}
				for i := n / 2; i < n*3/4; i++ { // at and next to ties of 16-bit numbers
					half := math.Exp2(float64(r.IntN(30) - 24))
					tie := (1 + float64(r.IntN(1<<11))/(1<<11)) * half
					memory.FromRaw[float64](src)[i] = math.Copysign(math.Nextafter(tie, tie+float64(r.IntN(3)-1)), float64(r.IntN(2))-0.5)
				}
			}
			var x, want tensor.Tensor
			x.Reset(pair.from, src, []int{n})
			want.Reset(pair.to, make([]byte, n*pair.to.Bits()/8), []int{n})
			if err := tensor.ConvertInto(&want, &x, tensor.ConvertOptions{Saturate: true}); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(want.Bytes()))
			f(got, src)
			if i := firstDifference(got, want.Bytes()); i >= 0 {
				e := i * 8 / pair.to.Bits()
				a, b := pair.from.Bits()/8, pair.to.Bits()/8
				t.Errorf("%v to %v: element %d, bytes %x, is %x, want %x", pair.from, pair.to, e, src[e*a:(e+1)*a], got[e*b:(e+1)*b], want.Bytes()[e*b:(e+1)*b])
			}
		}
	})
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}
