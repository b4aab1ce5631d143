package msft

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
	"github.com/onward-ml/onward/tensor"
)

// slidingCache is a cache that keeps only the last keys or values. After T tokens it
// holds the last L(T), in order, from its first row on,
//
//	L(T) = T if T ≤ capacity, else T − G·⌈(T − capacity)/G⌉ with G = capacity − window + 1
//
// so that G tokens are evicted at once (sliding_window_cache of
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GroupQueryAttention).
type slidingCache struct {
	capacity, n int   // n is the number of new tokens
	held        []int // number of cached tokens of each batch item before the new ones
	base        []int // position of the first cached token in the whole sequence
	from, kept  []int // first row and number of rows that stay, counted over cached and new tokens
	length      int   // greatest number of cached and new tokens of an item
}

// newSlidingCache returns the state for n new tokens after past[b] tokens; item b has
// last[b]+1 valid tokens in total.
func newSlidingCache(capacity, window, n int, past, last []int) *slidingCache {
	s := &slidingCache{capacity: capacity, n: n}
	step := capacity - window + 1
	resident := func(t int) int {
		if t > capacity {
			t -= step * ((t - capacity + step - 1) / step)
		}
		return t
	}
	for b, p := range past {
		held, kept := resident(p), resident(last[b]+1)
		s.held, s.base = append(s.held, held), append(s.base, p-held)
		s.kept, s.from = append(s.kept, kept), append(s.from, last[b]+1-kept-(p-held))
		s.length = max(s.length, held+n)
	}
	return s
}

// push returns the cached vectors followed by src and stores the last ones in output out.
// scale is the index of the input that holds the scales of a quantized cache.
func (s *slidingCache) push(c *ir.Call, q kvQuant, out, scale int, old *tensor.Tensor, src attention.HeadView[float32],
	heads, dim int) (attention.HeadView[float32], kit.RealOutput[float32], error) {
	var none kit.RealOutput[float32]
	batch, width := len(s.held), q.width(dim)
	n, err := tensor.Elements([]int{batch, heads, s.length, dim})
	if err != nil {
		return src, none, err
	}
	data, err := ir.ScratchOf[float32](c, n)
	if err != nil {
		return src, none, err
	}
	ir.Clear(c, data)
	dst := attention.HeadsFirst(data, heads, s.length, dim)
	if !q.on() {
		past, err := kit.RealIn[float32](c, old)
		if err != nil {
			return src, none, err
		}
		y, err := kit.RealMaybe[float32](c, out, c.Tensor(0).DType(), batch, heads, s.capacity, dim)
		if err != nil {
			return src, none, err
		}
		for b := range batch {
			for h := range heads {
				row := (b*heads + h) * s.capacity * dim
				copy(dst.At(b, h, 0)[:s.held[b]*dim], past[row:])
				for t := range s.n {
					copy(dst.At(b, h, s.held[b]+t)[:dim], src.At(b, h, t))
				}
				used := copy(y.Data[row:][:s.kept[b]*dim], dst.At(b, h, s.from[b]))
				clear(y.Data[row:][used : s.capacity*dim])
			}
		}
		return dst, y, nil
	}
	scales, err := q.scales(c, scale, heads, dim)
	if err != nil {
		return src, none, err
	}
	codes, err := c.Scratch(s.length * width)
	if err != nil {
		return src, none, err
	}
	var present []byte
	if c.Wants(out) {
		y, err := c.Output(out, q.elem(0), batch, heads, s.capacity, width)
		if err != nil {
			return src, none, err
		}
		present = y.Bytes()
		ir.Clear(c, present)
	}
	for b := range batch {
		for h := range heads {
			if err := c.Err(); err != nil {
				return src, none, err
			}
			row := (b*heads + h) * s.capacity * width
			copy(codes[:s.held[b]*width], old.Bytes()[row:])
			for t := range s.held[b] + s.n {
				code := codes[t*width:][:width]
				if t >= s.held[b] {
					q.encode(code, src.At(b, h, t-s.held[b])[:dim], scales[h])
				}
				q.decode(dst.At(b, h, t)[:dim], code, scales[h])
			}
			if present != nil {
				copy(present[row:][:s.kept[b]*width], codes[s.from[b]*width:])
			}
		}
	}
	return dst, none, nil
}
