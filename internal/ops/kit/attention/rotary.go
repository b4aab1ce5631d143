package attention

import (
	"slices"
	"sync"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// RotateHead rotates the vector of a head by angles given by their cosines and sines, one per pair
// of elements. The pairs are (i, i+half), or (2i, 2i+1) if interleaved is set. Elements after the
// pairs are unchanged (https://arxiv.org/abs/2104.09864).
func RotateHead(dst, src, cos, sin []float32, interleaved bool) {
	half := len(cos)
	if interleaved {
		sin = sin[:half]
		for i, c := range cos {
			s, x, y := sin[i], src[2*i], src[2*i+1]
			dst[2*i] = c*x - s*y
			dst[2*i+1] = s*x + c*y
		}
	} else {
		vec.RotateF32(cpu.Active(), dst, src, len(dst), half, cos, sin, half, 1)
	}
	if len(dst) > 2*half {
		copy(dst[2*half:], src[2*half:])
	}
}

// RotaryRun rotates input 0 and multiplies it by scale. Inputs iCos and iSin are the caches, input
// iPos the positions with contents pos.
func RotaryRun(c *ir.Call, in Input, dim int, interleaved bool, scale float32, pos []int, iCos, iSin, iPos int) error {
	if dim == 0 {
		dim = in.Size
	}
	cosT, sinT := c.Tensor(iCos), c.Tensor(iSin)
	cs, ss := cosT.Shape(), sinT.Shape()
	rows := 0
	switch {
	case dim > in.Size || dim%2 != 0:
		return fail.Errorf("rotary dimension is %d for heads of size %d, want an even number up to the size",
			dim, in.Size)
	case len(cs) != len(ss) || cosT.Len() != sinT.Len() || len(cs) < 2 || cs[len(cs)-1] != dim/2 ||
		ss[len(ss)-1] != dim/2:
		return fail.Errorf("caches have shapes %v and %v, want [..., %d]", cs, ss, dim/2)
	case pos == nil && (len(cs) != 3 || cs[0] != in.Batch || cs[1] != in.Length):
		return fail.Errorf("caches have shape %v without position_ids, want [%d %d %d]", cs, in.Batch, in.Length, dim/2)
	case pos != nil && len(cs) != 2:
		return fail.Errorf("caches have shape %v with position_ids, want [positions %d]", cs, dim/2)
	case pos != nil:
		rows = cs[0]
	}
	if pos != nil && len(pos) != in.Batch*in.Length {
		return fail.Errorf("position_ids has shape %v, want [%d %d]", c.Tensor(iPos).Shape(), in.Batch, in.Length)
	}
	from, to := 0, cosT.Len()/max(1, dim/2) // rows of the caches that are read
	if len(pos) > 0 {
		from, to = slices.Min(pos), slices.Max(pos)+1
	}
	for i, p := range pos {
		if p < 0 || p >= rows {
			return fail.Errorf("position_ids[%d] is %d, want 0 to %d", i, p, rows-1)
		}
	}
	x := c.Tensor(0)
	cos, err := kit.RealRange[float32](c, cosT, from*dim/2, to*dim/2)
	if err != nil {
		return err
	}
	sin, err := kit.RealRange[float32](c, sinT, from*dim/2, to*dim/2)
	if err != nil {
		return err
	}
	// Half-precision heads are widened for the rotation only, while they are in the first-level
	// cache.
	wide := kit.IsHalf(x.DType()) && !c.Generic && in.Size <= len(rotaryBuffer{})
	var (
		xd []float32
		y  kit.RealOutput[float32]
	)
	if wide {
		y.T, err = c.Output(0, x.DType(), x.Shape()...)
	} else if xd, err = kit.RealIn[float32](c, x); err == nil {
		y, err = kit.RealOut[float32](c, 0, x.DType(), x.Shape()...)
	}
	if err != nil {
		return err
	}
	half := dim / 2
	c.Parallel(in.Batch*in.Heads*in.Length, kit.GrainFor(in.Size), func(lo, hi int) {
		// In the order of the memory. Adjacent heads often have the same angles, or adjacent ones.
		angle := func(i int) int {
			t := i/in.Heads/in.Length*in.Length + i%in.Length
			if in.Last {
				t = i / in.Heads
			}
			if pos != nil {
				t = pos[t]
			}
			return (t - from) * half
		}
		most := hi - lo
		var b *rotaryBuffer
		if wide {
			b = rotaryBuffers.Get().(*rotaryBuffer)
			defer rotaryBuffers.Put(b)
			most = len(b) / max(in.Size, 1)
		}
		for i := lo; i < hi; {
			at, n, step := angle(i), 1, 0
			end := min(hi, i+most)
			if i+1 < end {
				step = angle(i+1) - at
			}
			for step >= 0 && i+n < end && angle(i+n) == at+n*step {
				n++
			}
			var out, src []float32
			if wide {
				out = b[:n*in.Size]
				src = out
				kit.WidenHalfFast(out, x.Bytes()[2*i*in.Size:][:2*len(out)], x.DType())
			} else {
				out, src = y.Data[i*in.Size:][:n*in.Size], xd[i*in.Size:][:n*in.Size]
				if dim < in.Size {
					copy(out, src)
				}
			}
			if interleaved {
				for k := range n {
					RotateHead(out[k*in.Size:][:dim], src[k*in.Size:][:dim], cos[at+k*step:][:half],
						sin[at+k*step:][:half], true)
				}
			} else {
				vec.RotateF32(cpu.Active(), out, src, in.Size, half, cos[at:], sin[at:], max(step, 0), n)
			}
			if scale != 1 {
				for k := range out {
					out[k] *= scale
				}
			}
			if wide {
				kit.NarrowHalfFast(y.T.Bytes()[2*i*in.Size:][:2*len(out)], out, x.DType())
			}
			i += n
		}
	})
	if !wide {
		y.Store()
	}
	return nil
}

// rotaryBuffer holds some heads.
type rotaryBuffer [4096]float32

var rotaryBuffers = sync.Pool{New: func() any { return new(rotaryBuffer) }}
