package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/tensor"
)

// convWeights are weights of 8-bit integers, m×c/group×K1…Kk, packed as one
// matrix per group whose rows are taps, channel by channel within a tap, and
// whose columns are output channels.
type convWeights struct {
	level  cpu.Level
	shape  []int
	groups []*quant.Packed
}

// convWorthPacking reports whether the kernels for matrices suit the weights:
// those of depthwise convolutions would be mostly padding.
func convWorthPacking(shape []int, group int) bool {
	if len(shape) < 3 || shape[0]%group != 0 {
		return false
	}
	mg := shape[0] / group
	return product(shape) > 0 && (shape[1] > 1 || mg > 4)
}

// packConv packs weights for which convWorthPacking holds.
func packConv(w *tensor.Tensor, group int) *convWeights {
	if w.DType() == tensor.TypeInt8 {
		return packConvOf(w, tensor.Of[int8](w), group)
	}
	return packConvOf(w, tensor.Of[uint8](w), group)
}

func packConvOf[T int8 | uint8](t *tensor.Tensor, w []T, group int) *convWeights {
	s := t.Shape()
	p := &convWeights{level: cpu.Active(), shape: s}
	mg, cg, taps := s[0]/group, s[1], product(s[2:])
	m := make([]T, mg*cg*taps)
	for g := range group {
		for o := range mg {
			for c := range cg {
				for k, v := range w[((g*mg+o)*cg+c)*taps:][:taps] {
					m[o*cg*taps+k*cg+c] = v
				}
			}
		}
		p.groups = append(p.groups, quant.Pack(p.level, m, cg*taps, true, cg*taps, mg))
	}
	return p
}

// convBytesTile is about how many bytes of the unfolded input are multiplied at a
// time.
const convBytesTile = 1 << 17

// convBytes convolves 8-bit integers less their zero points, one for x and one or
// one per output channel for w. For every piece of the output it calls done with
// int32 sums of rows outputs by mg channels, of group g, from output p0 on.
func convBytes[T int8 | uint8](c *ir.Call, s *convShape, x []T, w *convWeights, xz T, wz, bias []int32,
	done func(img, g, p0, rows int, sums []int32, buf []byte)) error {
	in, out, depth := product(s.in), product(s.out), s.depth()
	// Channels last: what a tap reads is a run of bytes.
	last, err := ir.ScratchOf[T](c, len(x))
	if err != nil {
		return err
	}
	c.Parallel(s.n, 1, func(lo, hi int) {
		for img := lo; img < hi && c.Err() == nil; img++ {
			transposeBytes(last[img*s.c*in:][:s.c*in], x[img*s.c*in:][:s.c*in], s.c, in)
		}
	})
	tile := min(max(16, convBytesTile/depth), (out+15)&^15)
	tiles := (out + tile - 1) / tile
	items := s.n * s.group * tiles
	direct := s.pointwise()
	unfolded := tile * depth
	if direct {
		unfolded = 0
	}
	cols, err := ir.ScratchOf[T](c, slotCount(items)*unfolded)
	if err != nil {
		return err
	}
	sums, err := ir.ScratchOf[int32](c, slotCount(items)*tile*s.mg)
	if err != nil {
		return err
	}
	bufs, err := c.Scratch(slotCount(items) * tile * s.mg)
	if err != nil {
		return err
	}
	return inSlots(c, items, func(slot, item int) error {
		t, item := item%tiles, item/tiles
		g, img := item%s.group, item/s.group
		p0 := t * tile
		rows := min(tile, out-p0)
		a := quant.Args[T]{M: rows, AZero: []int32{int32(xz)}, B: w.groups[g], BZero: wz,
			C: sums[slot*tile*s.mg:][:rows*s.mg], LdC: s.mg}
		if len(wz) > 1 {
			a.BZero = wz[g*s.mg:][:s.mg]
		}
		if bias != nil {
			a.Bias = bias[g*s.mg:][:s.mg]
		}
		from := last[img*s.c*in:][:s.c*in]
		if direct {
			a.A, a.LdA = from[p0*s.c+g*s.cg:], s.c
		} else {
			a.A, a.LdA = cols[slot*unfolded:][:unfolded], depth
			im2row(&s.windowGeom, a.A, from, s.c, g*s.cg, s.cg, p0, p0+rows, xz)
		}
		quant.Parallel(nil, w.level, &a)
		done(img, g, p0, rows, a.C, bufs[slot*tile*s.mg:][:rows*s.mg])
		return nil
	})
}

// transposeBytes writes the rows×cols matrix src with rows last.
func transposeBytes[T int8 | uint8](dst, src []T, rows, cols int) {
	const block = 64
	for c0 := 0; c0 < cols; c0 += block {
		c1 := min(c0+block, cols)
		for r := range rows {
			for i, v := range src[r*cols+c0 : r*cols+c1] {
				dst[(c0+i)*rows+r] = v
			}
		}
	}
}

// im2row writes, for each of the outputs [p0, p1) of a plane, the channels [c0,
// c0+cg) of what every tap reads of x, whose channels are last; pad in the padding.
func im2row[T int8 | uint8](g *windowGeom, dst, x []T, channels, c0, cg, p0, p1 int, pad T) {
	n := len(g.in)
	taps := g.taps()
	pos, tap := make([]int, n), make([]int, n)
	for d, i := n-1, p0; d >= 0; d-- {
		pos[d], i = i%g.out[d], i/g.out[d]
	}
	for p := p0; p < p1; p++ {
		row := dst[(p-p0)*taps*cg:][:taps*cg]
		for t := range taps {
			at, ok := 0, true
			for d := range n {
				i := pos[d]*g.stride[d] - g.before[d] + tap[d]*g.dilation[d]
				ok = ok && i >= 0 && i < g.in[d]
				at = at*g.in[d] + i
			}
			windowStep(tap, g.kernel)
			to := row[t*cg:][:cg]
			if ok {
				copy(to, x[at*channels+c0:])
				continue
			}
			for i := range to {
				to[i] = pad
			}
		}
		windowStep(pos, g.out)
	}
}

// convBytesRun convolves x with packed weights; see convBytes.
func convBytesRun(c *ir.Call, s *convShape, x *tensor.Tensor, w *convWeights, xz, wz *tensor.Tensor, bias []int32,
	done func(img, g, p0, rows int, sums []int32, buf []byte)) error {
	if err := checkConvZeros(s, xz, wz); err != nil {
		return err
	}
	wzs, err := zeroPoints(c, wz)
	if err != nil {
		return err
	}
	if x.DType() == tensor.TypeInt8 {
		var z int8
		if xz != nil {
			z = tensor.Of[int8](xz)[0]
		}
		return convBytes(c, s, tensor.Of[int8](x), w, z, wzs, bias, done)
	}
	var z uint8
	if xz != nil {
		z = tensor.Of[uint8](xz)[0]
	}
	return convBytes(c, s, tensor.Of[uint8](x), w, z, wzs, bias, done)
}
