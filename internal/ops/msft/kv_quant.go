package msft

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
	"github.com/onward-ml/onward/tensor"
)

// kvQuant is the format in which GroupQueryAttention caches keys or values: unquantized,
// int8, or pairs of 4-bit codes in uint8, low bits first, with an offset of 8. An element
// is its quantized value times its scale.
type kvQuant struct {
	Kind string // NONE, PER_TENSOR, or PER_CHANNEL (one scale per head and channel)
	Bits int
}

func readKVQuant(a *kit.Attrs, name string) kvQuant {
	q := kvQuant{Kind: a.Enum(name, "NONE", "NONE", "PER_TENSOR", "PER_CHANNEL"), Bits: a.Int("kv_cache_bit_width", 0)}
	if q.on() && q.Bits != 8 && q.Bits != 4 {
		a.Errorf("kv_cache_bit_width is %d with %s %s, want 8 or 4", q.Bits, name, q.Kind)
	}
	return q
}

func (q kvQuant) on() bool { return q.Kind != "NONE" }

// elem returns the element type of a cache of vectors of type t.
func (q kvQuant) elem(t tensor.DType) tensor.DType {
	switch {
	case !q.on():
		return t
	case q.Bits == 8:
		return tensor.TypeInt8
	}
	return tensor.TypeUint8
}

// width returns the number of cache elements that hold a vector of dim elements.
func (q kvQuant) width(dim int) int {
	if q.on() && q.Bits == 4 {
		return (dim + 1) / 2
	}
	return dim
}

// scales reads input i, the scales of a quantized cache, and returns one scale per
// channel for each head.
func (q kvQuant) scales(c *ir.Call, i, heads, dim int) ([][]float32, error) {
	t := c.Tensor(i)
	if t == nil {
		return nil, fail.Errorf("input %d, the scales of a quantized cache, is missing", i)
	}
	want := 1
	if q.Kind == "PER_CHANNEL" {
		want = heads * dim
	}
	if t.Len() != want {
		return nil, fail.Errorf("the scales, input %d, have shape %v, want %d for %s of %d heads of size %d", i,
			t.Shape(), want, q.Kind, heads, dim)
	}
	v, err := kit.RealIn[float32](c, t)
	if err != nil {
		return nil, err
	}
	r := make([][]float32, heads)
	for h := range r {
		if want > 1 {
			r[h] = v[h*dim:][:dim]
			continue
		}
		r[h] = make([]float32, dim)
		kit.RepeatOf(r[h], v[0])
	}
	return r, nil
}

// encode quantizes vector x to dst. NaN becomes 0.
func (q kvQuant) encode(dst []byte, x, scales []float32) {
	bound := float64(int(1) << (q.Bits - 1))
	for i, v := range x {
		s := math.RoundToEven(float64(v / scales[i]))
		if s != s {
			s = 0
		}
		n := int(min(max(s, -bound), bound-1))
		switch {
		case q.Bits == 8:
			dst[i] = byte(int8(n))
		case i%2 == 0:
			dst[i/2] = byte(n + 8)
		default:
			dst[i/2] |= byte(n+8) << 4
		}
	}
}

// decode is the inverse of encode.
func (q kvQuant) decode(dst []float32, x []byte, scales []float32) {
	for i := range dst {
		var n int
		if q.Bits == 8 {
			n = int(int8(x[i]))
		} else {
			n = int(x[i/2]>>(i%2*4)&15) - 8
		}
		dst[i] = float32(n) * scales[i]
	}
}

// cache appends n vectors of each head to a quantized cache: src follows the first
// past[b] vectors of old, in a cache of length vectors. It returns the dequantized result
// and stores the cache in output out.
func (q kvQuant) cache(c *ir.Call, out, scale int, old *tensor.Tensor, src attention.HeadView[float32], past []int,
	heads, n, capacity, length, dim int) (attention.HeadView[float32], error) {
	batch, width := len(past), q.width(dim)
	scales, err := q.scales(c, scale, heads, dim)
	if err != nil {
		return src, err
	}
	var bytes []byte
	if c.Wants(out) {
		y, err := c.Output(out, q.elem(0), batch, heads, length, width)
		if err != nil {
			return src, err
		}
		bytes = y.Bytes()
		ir.Clear(c, bytes)
	}
	data, err := ir.ScratchOf[float32](c, batch*heads*length*dim)
	if err != nil {
		return src, err
	}
	ir.Clear(c, data)
	dst, row := attention.HeadsFirst(data, heads, length, dim), make([]byte, width)
	for b := range batch {
		for h := range heads {
			if err := c.Err(); err != nil {
				return src, err
			}
			for t := range past[b] + n {
				code := row
				if bytes != nil {
					code = bytes[((b*heads+h)*length+t)*width:][:width]
				}
				if t < past[b] {
					copy(code, old.Bytes()[((b*heads+h)*capacity+t)*width:])
				} else {
					q.encode(code, src.At(b, h, t-past[b])[:dim], scales[h])
				}
				q.decode(dst.At(b, h, t)[:dim], code, scales[h])
			}
		}
	}
	return dst, nil
}
