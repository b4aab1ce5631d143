package conv

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

// planarTile holds the arguments of a planar kernel; the generator knows the field offsets.
// Distances are in bytes.
type planarTile struct {
	x, y, w, bias unsafe.Pointer
	planes        int
	h, outH       int
	row, outRow   int
	top           int
	start         int // offset from a plane to its first window, which begins in the padding
	// outputs for which a column of the kernel is inside the row; the last mask is that of all
	// outputs
	masks  [6]uint32
	lo, hi float32
}

// planarGeneric computes planes of depthwise convolutions by k×k, of rows up to 16 elements.
//
//	for p := range planes {
//		for o := range outH {
//			for i := range outputs {
//				s := bias[p]
//				for ky := range k { // in the plane
//					for kx := range k { // in the row
//						s += x[p][o-top+ky][i-left+kx] * w[p][ky][kx]
//					}
//				}
//				y[p][o][i] = min(max(s, lo), hi)
//			}
//		}
//	}
func planarGeneric(k int, t *planarTile) {
	for p := range t.planes {
		bias := f32at(t.bias, 4*p)
		for o := range t.outH {
			for i := range Lanes {
				if t.masks[5]>>i&1 == 0 {
					continue
				}
				s := bias
				for ky := range k {
					if r := o - t.top + ky; r < 0 || r >= t.h {
						continue
					}
					for kx := range k {
						if t.masks[kx]>>i&1 != 0 {
							s += f32at(t.x, p*t.h*t.row+t.start+(o+ky)*t.row+4*(i+kx)) * f32at(t.w, 4*((p*k+ky)*k+kx))
						}
					}
				}
				*(*float32)(unsafe.Add(t.y, (p*t.outH+o)*t.outRow+4*i)) = min(max(s, t.lo), t.hi)
			}
		}
	}
}

// planar is a depthwise convolution of planes whose rows fit in one vector.
type planar struct {
	k       int
	tile    planarTile
	w, bias []float32 // (C, K, K), and C
}

// newPlanar returns nil if the kernels do not support the shape.
func newPlanar(level cpu.Level, s *Shape, w, bias []float32) *planar {
	k := s.Kernel[0]
	if level != cpu.AVX512 || k != 3 && k != 5 || s.Kernel[1] != k || !allEqual(s.Stride, 1) ||
		!allEqual(s.Dilation, 1) || s.Out[1] > Lanes || s.Out[0] > 64 {
		return nil
	}
	p := &planar{k: k, w: w, bias: bias}
	if bias == nil {
		p.bias = make([]float32, s.Cin)
	}
	p.tile = planarTile{h: s.In[0], outH: s.Out[0], row: 4 * s.In[1], outRow: 4 * s.Out[1], top: s.PadBegin[0],
		start: -4 * (s.PadBegin[0]*s.In[1] + s.PadBegin[1])}
	for i := range s.Out[1] {
		p.tile.masks[5] |= 1 << i
		for kx := range k {
			if at := i + kx - s.PadBegin[1]; at >= 0 && at < s.In[1] {
				p.tile.masks[kx] |= 1 << i
			}
		}
	}
	return p
}

// run computes planes [c, c+n) of y from x, both of shape (C, H, W).
func (p *planar) run(level cpu.Level, y, x []float32, c, n int, ep *BlockedEpilogue) {
	t := p.tile
	in, out := t.h*t.row/4, t.outH*t.outRow/4
	_, _, _ = x[(c+n)*in-1], y[(c+n)*out-1], p.w[(c+n)*p.k*p.k-1]
	t.x, t.y, t.w, t.bias = at(ptr(x), c*in), at(ptr(y), c*out), at(ptr(p.w), c*p.k*p.k), at(ptr(p.bias), c)
	t.planes = n
	t.lo, t.hi = ep.bounds()
	runPlanar(level, p.k, &t)
}
