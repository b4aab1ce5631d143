// Package fourier computes discrete Fourier transforms of any length. DFT and STFT of ai.onnx and
// Rfft and Irfft of com.microsoft import it.
package fourier

import (
	"math"
	"math/bits"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Line describes how lines of a tensor are read and written.
type Line struct {
	N                  int // length of the transform
	In, Out            int // elements along the axis
	InParts, OutParts  int
	Inner              int // product of the dimensions between the axis and the last dimension
	Inverse, Hermitian bool
}

// DFT transforms the lines of input 0 into output 0, which has the given shape.
func DFT[T kit.RealFloat](c *ir.Call, l Line, outer int, shape []int) error {
	y, err := kit.RealOut[T](c, 0, c.Tensor(0).DType(), shape...)
	if err != nil {
		return err
	}
	x, err := kit.RealIn[T](c, c.Tensor(0))
	if err != nil {
		return err
	}
	if l.N == 0 {
		ir.Clear(c, y.Data)
		y.Store()
		return nil
	}
	lines := outer * l.Inner
	if len(y.Data) == 0 || lines == 0 {
		return nil
	}
	if err := c.Reserve(Bytes(l.N)); err != nil {
		return err
	}
	p := NewPlan(c, l.N)
	per := 2*l.N + p.ScratchLen()
	scratch, err := ir.ScratchOf[complex128](c, kit.WorkspaceCount(c, lines)*per)
	if err != nil {
		return err
	}
	err = kit.InWorkspaces(c, lines, func(ws, i int) error {
		buf := scratch[ws*per:][:per]
		src, dst, rest := buf[:l.N], buf[l.N:2*l.N], buf[2*l.N:]
		o, k := i/l.Inner, i%l.Inner
		at := func(t, length, parts int) int { return ((o*length+t)*l.Inner + k) * parts }
		used := min(l.In, l.N)
		if l.Hermitian {
			used = min(l.In, l.N/2+1)
		}
		m := ir.Meter{C: c}
		for t := range used {
			m.Check(4)
			q := at(t, l.In, l.InParts)
			im := T(0)
			if l.InParts == 2 {
				im = x[q+1]
			}
			src[t] = complex(float64(x[q]), float64(im))
		}
		ir.Clear(c, src[used:])
		if l.Hermitian {
			// The other half is the complex conjugate. The imaginary parts of frequencies that are
			// their own conjugate are ignored.
			src[0] = complex(real(src[0]), 0)
			if l.N%2 == 0 {
				src[l.N/2] = complex(real(src[l.N/2]), 0)
			}
			for t := l.N/2 + 1; t < l.N; t++ {
				m.Check(4)
				src[t] = conj(src[l.N-t])
			}
		}
		if l.Inverse {
			p.inverse(dst, src, rest)
		} else {
			p.Forward(dst, src, rest)
		}
		for t := range l.Out {
			m.Check(4)
			q := at(t, l.Out, l.OutParts)
			y.Data[q] = T(real(dst[t]))
			if l.OutParts == 2 {
				y.Data[q+1] = T(imag(dst[t]))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	y.Store()
	return nil
}

// Plan computes discrete Fourier transforms of one length: with mixed-radix Cooley-Tukey if
// all prime factors are small, otherwise with Bluestein's algorithm
// (https://doi.org/10.1109/TAU.1970.1162132), a convolution whose length is a power of two.
type Plan struct {
	n       int
	factors []int
	roots   []complex128 // exp(−2πik/n)

	chirp    []complex128 // exp(−πik²/n), for Bluestein
	spectrum []complex128 // transform of the conjugate chirp
	conv     *Plan
	call     *ir.Call // for checks of the context
}

// largestRadix is the largest prime factor for which a direct sum is efficient.
const largestRadix = 31

// Bytes returns a bound of the memory of a plan of length n and one transform.
func Bytes(n int) int64 {
	if int64(n) > 1<<40 {
		return math.MaxInt64
	}
	return 16 * 20 * int64(n+largestRadix)
}

// NewPlan returns a plan for transforms of length n in a call. It does not return if the run must
// stop.
func NewPlan(call *ir.Call, n int) *Plan {
	p := &Plan{n: n, call: call}
	rest := n
	if bits.TrailingZeros(uint(n))&1 == 1 && n > 0 { // the innermost factor takes least time if it is 4
		p.factors = append(p.factors, 2)
		rest /= 2
	}
	for _, r := range []int{3, 5, 4} {
		for rest%r == 0 && rest > 0 {
			p.factors = append(p.factors, r)
			rest /= r
		}
	}
	for r := 7; r <= largestRadix && rest > 1; r += 2 {
		for rest%r == 0 {
			p.factors = append(p.factors, r)
			rest /= r
		}
	}
	if rest <= 1 {
		p.roots = complexes(n)
		call.Serial(n, kit.GrainCostly, func(lo, hi int) {
			for k := lo; k < hi; k++ {
				s, c := math.Sincos(2 * math.Pi * float64(k) / float64(n))
				p.roots[k] = complex(c, -s)
			}
		})
		return p
	}
	p.factors = nil
	m := 1 << bits.Len(uint(2*n-2))
	p.conv = NewPlan(call, m)
	p.chirp = complexes(n)
	b := complexes(m)
	ir.Clear(call, b[n:])
	call.Serial(n, kit.GrainCostly, func(from, to int) {
		for k := from; k < to; k++ {
			// k² mod 2n keeps the angle exact for long transforms.
			hi, lo := bits.Mul64(uint64(k), uint64(k))
			s, c := math.Sincos(math.Pi * float64(bits.Rem64(hi, lo, uint64(2*n))) / float64(n))
			p.chirp[k] = complex(c, -s)
			b[k] = complex(c, s)
			if k > 0 {
				b[m-k] = b[k]
			}
		}
	})
	p.spectrum = complexes(m)
	p.conv.Forward(p.spectrum, b, nil)
	return p
}

// complexes returns n numbers with undefined contents: clearing many takes long.
func complexes(n int) []complex128 { return memory.FromRaw[complex128](memory.Uninitialized(16 * n)) }

// ScratchLen returns the number of scratch elements that forward and inverse need.
func (p *Plan) ScratchLen() int {
	if p.conv == nil {
		return 0
	}
	return 2 * p.conv.n
}

// Forward writes the transform of src to dst. They must not overlap. src is unchanged. If the
// context of the call ends, dst is incomplete.
func (p *Plan) Forward(dst, src, scratch []complex128) {
	if p.conv == nil {
		p.step(dst, src, p.n, 1, 0)
		return
	}
	m := p.conv.n
	a, f := scratch[:m], scratch[m:2*m]
	for lo, hi := range ir.Steps(p.call, p.n) {
		for k := lo; k < hi; k++ {
			a[k] = src[k] * p.chirp[k]
		}
	}
	ir.Clear(p.call, a[p.n:m])
	p.conv.Forward(f, a, nil)
	for lo, hi := range ir.Steps(p.call, m) {
		for k := lo; k < hi; k++ {
			f[k] = conj(f[k] * p.spectrum[k])
		}
	}
	p.conv.Forward(a, f, nil)
	scale := complex(1/float64(m), 0)
	for lo, hi := range ir.Steps(p.call, p.n) {
		for k := lo; k < hi; k++ {
			dst[k] = conj(a[k]) * scale * p.chirp[k]
		}
	}
}

// inverse writes the inverse transform of src, divided by the length, to dst. It conjugates src.
func (p *Plan) inverse(dst, src, scratch []complex128) {
	for lo, hi := range ir.Steps(p.call, p.n) {
		for k, x := range src[lo:hi] {
			src[lo+k] = conj(x)
		}
	}
	p.Forward(dst, src, scratch)
	scale := 1 / float64(p.n)
	for lo, hi := range ir.Steps(p.call, p.n) {
		for k, x := range dst[lo:hi] {
			dst[lo+k] = complex(real(x)*scale, -imag(x)*scale)
		}
	}
}

func conj(x complex128) complex128 { return complex(real(x), -imag(x)) }

// step transforms n elements of src with the given stride, using the factors from f on.
func (p *Plan) step(dst, src []complex128, n, stride, f int) {
	if n <= 1 {
		if n == 1 {
			dst[0] = src[0]
		}
		return
	}
	r := p.factors[f]
	m := n / r
	if n == 4 && r == 4 {
		a, b, c, d := src[0], src[stride], src[2*stride], src[3*stride]
		s, t, u, v := a+c, a-c, b+d, b-d
		v = complex(imag(v), -real(v)) // −i·v
		dst[0], dst[1], dst[2], dst[3] = s+u, t+v, s-u, t-v
		return
	}
	for q := range r {
		p.step(dst[q*m:][:m], src[q*stride:], m, stride*r, f+1)
	}
	for lo := 0; lo < m && (n < kit.GrainCostly || p.call.Err() == nil); lo += ir.GrainWatch / largestRadix {
		p.combine(dst, r, m, stride, lo, min(m, lo+ir.GrainWatch/largestRadix))
	}
}

// combine combines the elements [lo, hi) of r transforms of length m in place.
func (p *Plan) combine(dst []complex128, r, m, stride, lo, hi int) {
	switch r {
	case 2:
		a, b := dst[:m], dst[m:2*m]
		for k := lo; k < hi; k++ {
			x, y := a[k], b[k]*p.roots[k*stride]
			a[k], b[k] = x+y, x-y
		}
	case 4:
		a, b, c, d := dst[:m], dst[m:2*m], dst[2*m:3*m], dst[3*m:4*m]
		for k := lo; k < hi; k++ {
			x, y, z, w := a[k], b[k]*p.roots[k*stride], c[k]*p.roots[2*k*stride], d[k]*p.roots[3*k*stride]
			s, t := x+z, x-z
			u, v := y+w, y-w
			v = complex(imag(v), -real(v)) // −i·v
			a[k], b[k], c[k], d[k] = s+u, t+v, s-u, t-v
		}
	default:
		var t [largestRadix]complex128
		for k := lo; k < hi; k++ {
			for q := range r {
				t[q] = dst[q*m+k] * p.roots[q*k*stride]
			}
			for j := range r {
				s := t[0]
				for q := 1; q < r; q++ {
					s += t[q] * p.roots[q*j%r*(p.n/r)]
				}
				dst[j*m+k] = s
			}
		}
	}
}
