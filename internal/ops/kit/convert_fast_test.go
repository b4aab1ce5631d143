package kit

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/testing/testkit"
	"github.com/onward-ml/onward/tensor"
)

type castPair struct{ from, to tensor.DType }

func castPairs() map[castPair]castKernel {
	m := map[castPair]castKernel{}
	for from := range castKernels {
		for to, f := range castKernels[from] {
			if f != nil {
				m[castPair{tensor.DType(from), tensor.DType(to)}] = f
			}
		}
	}
	return m
}

// TestCastKernels compares every vector kernel with tensor.ConvertInto, byte by byte.
func TestCastKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const n = 5003
	raw := make([]byte, 8*n)
	for i := range raw {
		raw[i] = byte(r.Uint32())
	}
	testkit.Levels(t, func(t *testing.T, _ cpu.Level) {
		for pair, f := range castPairs() {
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
					memory.FromRaw[float64](src)[i] = math.Copysign(math.Nextafter(tie, tie+float64(r.IntN(3)-1)),
						float64(r.IntN(2))-0.5)
				}
			}
			var x, want tensor.Tensor
			x.Reset(pair.from, src, []int{n})
			want.Reset(pair.to, make([]byte, (n*pair.to.Bits()+7)/8), []int{n})
			if err := tensor.ConvertInto(&want, &x, &tensor.ConvertOptions{Saturate: true}); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(want.Bytes()))
			f(got, src)
			if i := firstDifference(got, want.Bytes()); i >= 0 {
				e := i * 8 / pair.to.Bits()
				a, b := pair.from.Bits()/8, max(1, pair.to.Bits()/8)
				t.Errorf("%v to %v: element %d, bytes %x, is %x, want %x", pair.from, pair.to, e, src[e*a:(e+1)*a],
					got[i/b*b:][:b], want.Bytes()[i/b*b:][:b])
			}
		}
	})
}

// TestByteTable compares the conversions of 8-bit floats and of packed elements with
// tensor.ConvertInto, with a last byte that is not full.
func TestByteTable(t *testing.T) {
	raw := make([]byte, 512)
	for i := range raw {
		raw[i] = byte(i * 7)
	}
	for _, from := range []tensor.DType{tensor.TypeFloat8E4M3FN, tensor.TypeFloat8E4M3FNUZ, tensor.TypeFloat8E5M2,
		tensor.TypeFloat8E5M2FNUZ, tensor.TypeFloat8E8M0,
		tensor.TypeInt4, tensor.TypeUint4, tensor.TypeFloat4E2M1, tensor.TypeInt2, tensor.TypeUint2} {
		for _, to := range []tensor.DType{tensor.TypeFloat16, tensor.TypeBFloat16, tensor.TypeFloat32,
			tensor.TypeFloat64, tensor.TypeInt8, tensor.TypeInt16, tensor.TypeInt32,
			tensor.TypeUint32, tensor.TypeInt64} {
			f := byteTable(to, from, tensor.ConvertOptions{})
			if f == nil {
				t.Fatalf("%v to %v: no table", from, to)
			}
			n := len(raw)*8/from.Bits() - (8/from.Bits() - 1)
			var x, want tensor.Tensor
			x.Reset(from, raw, []int{n})
			want.Reset(to, make([]byte, n*to.Size()), []int{n})
			if err := tensor.ConvertInto(&want, &x, nil); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(want.Bytes()))
			if f(got, raw); firstDifference(got, want.Bytes()) >= 0 {
				t.Errorf("%v to %v: %x, want %x", from, to, got, want.Bytes())
			}
		}
	}
	for _, to := range []tensor.DType{tensor.TypeString, tensor.TypeInt4} {
		if byteTable(to, tensor.TypeFloat8E5M2, tensor.ConvertOptions{}) != nil {
			t.Errorf("a table for %v", to)
		}
	}
	if byteTable(tensor.TypeFloat32, tensor.TypeFloat6E2M3, tensor.ConvertOptions{}) != nil {
		t.Error("a table for 6-bit floats, which bytes do not hold whole")
	}
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}
