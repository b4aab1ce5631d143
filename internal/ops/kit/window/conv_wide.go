package window

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
)

// wideGeom is the geometry of a convolution of padded planes in which an output is computed at
// every element, those between the rows of the output too. A tap then reads one range of a plane.
type wideGeom struct {
	height, pitch int // of a padded plane
	out           int // outputs per plane
}

// wide returns the geometry for [convWide]. It reports whether that is faster: copies of rows take
// longer than the additional multiplications if there are few output channels.
func (s *ConvShape) wide() (g wideGeom, ok bool) {
	if len(s.In) != 2 || s.Taps() < 2 || kit.Product(s.Out) == 0 || s.Out[1] > 64 || s.Mg >= shareRows {
		return g, false
	}
	for d := range 2 {
		if s.Stride[d] != 1 || s.Before[d] < 0 || s.After[d] < 0 || s.Kernel[d] > Limit/s.Dilation[d] {
			return g, false
		}
	}
	g.height, g.pitch = s.Out[0]+(s.Kernel[0]-1)*s.Dilation[0], s.Out[1]+(s.Kernel[1]-1)*s.Dilation[1]
	g.out = (s.Out[0]-1)*g.pitch + s.Out[1]
	return g, g.pitch <= 2*s.Out[1]+8 && g.height <= 4*s.In[0]+8 && (g.pitch-s.Out[1])*s.Mg <= 1<<10
}

// convWide is convGemm for short rows. The rows of B are ranges of padded planes, and some columns
// of the result are not outputs.
func convWide(c *ir.Call, s *ConvShape, g wideGeom, x, w, bias, y []float32) error {
	in, out, depth := kit.Product(s.In), kit.Product(s.Out), s.Depth()
	plane := g.height * g.pitch
	if plane != in {
		padded, err := ir.ScratchOf[float32](c, s.N*s.C*plane)
		if err != nil {
			return err
		}
		c.Parallel(s.N*s.C, kit.GrainFor(plane), func(lo, hi int) {
			for p := lo; p < hi && c.Err() == nil; p++ {
				to := padded[p*plane:][:plane]
				clear(to)
				for i := range s.In[0] {
					copy(to[(s.Before[0]+i)*g.pitch+s.Before[1]:], x[p*in+i*s.In[1]:][:s.In[1]])
				}
			}
		})
		x = padded
	}
	tile := convTile(depth, g.out)
	tiles := (g.out + tile - 1) / tile
	items := s.N * s.Group * tiles
	each := (depth + s.Mg) * tile
	scratch, err := ir.ScratchOf[float32](c, kit.WorkspaceCount(c, items)*each)
	if err != nil {
		return err
	}
	return kit.InWorkspaces(c, items, func(ws, i int) error {
		t, i := i%tiles, i/tiles
		group, img := i%s.Group, i/s.Group
		p0 := t * tile
		n := min(tile, g.out-p0)
		b, sums := scratch[ws*each:][:depth*tile], scratch[ws*each+depth*tile:][:s.Mg*tile]
		to, dx := b, s.Dilation[1]
		for ch := range s.Cg {
			for ky := range s.Kernel[0] {
				from := x[(img*s.C+group*s.Cg+ch)*plane+ky*s.Dilation[0]*g.pitch+p0:]
				for range s.Kernel[1] {
					copy(to[:n], from)
					to, from = to[n:], from[min(dx, len(from)):]
				}
			}
		}
		m := group * s.Mg
		a := gemm.Args[float32]{M: s.Mg, N: n, K: depth, A: w[m*depth:][:s.Mg*depth], LdA: depth, B: b,
			LdB: n, C: sums, LdC: tile}
		if bias != nil {
			a.BiasRow = bias[m:][:s.Mg]
		}
		matmul.GemmHere(c, &a)
		for k := range s.Mg {
			to, from := y[(img*s.M+m+k)*out:][:out], sums[k*tile:][:n]
			for row := p0 / g.pitch; row*g.pitch < p0+n; row++ {
				lo, hi := max(row*g.pitch, p0), min(row*g.pitch+s.Out[1], p0+n)
				if lo < hi {
					copy(to[row*s.Out[1]+lo-row*g.pitch:], from[lo-p0:hi-p0])
				}
			}
		}
		return c.Err()
	})
}
