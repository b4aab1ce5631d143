package ops

import (
	"math"
	"math/bits"
)

// fourierPlan computes discrete Fourier transforms of one length: by mixed-radix
// Cooley-Tukey where all prime factors are small, else by Bluestein's chirp
// (https://doi.org/10.1109/TAU.1970.1162132), which is a convolution whose
// length is a power of two.
type fourierPlan struct {
	n       int
	factors []int
	roots   []complex128 // exp(−2πik/n)

	chirp    []complex128 // exp(−πik²/n), for Bluestein
	spectrum []complex128 // transform of the conjugate chirp
	conv     *fourierPlan
}

// largestRadix is the largest prime factor that is worth a direct sum.
const largestRadix = 31

// fourierBytes bounds the memory that a plan of length n and one transform take.
func fourierBytes(n int) int64 {
	if n > 1<<40 {
		return math.MaxInt64
	}
	return 16 * 20 * int64(n+largestRadix)
}

func newFourierPlan(n int) *fourierPlan {
	p := &fourierPlan{n: n}
	rest := n
	for _, r := range []int{4, 2, 3, 5} {
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
		p.roots = unitRoots(n, 1)
		return p
	}
	p.factors = nil
	m := 1 << bits.Len(uint(2*n-2))
	p.conv = newFourierPlan(m)
	p.chirp = make([]complex128, n)
	b := make([]complex128, m)
	for k := range n {
		// k² mod 2n keeps the angle exact for long transforms.
		hi, lo := bits.Mul64(uint64(k), uint64(k))
		s, c := math.Sincos(math.Pi * float64(bits.Rem64(hi, lo, uint64(2*n))) / float64(n))
		p.chirp[k] = complex(c, -s)
		b[k] = complex(c, s)
		if k > 0 {
			b[m-k] = b[k]
		}
	}
	p.spectrum = make([]complex128, m)
	p.conv.forward(p.spectrum, b, nil)
	return p
}

func unitRoots(n, sign int) []complex128 {
	r := make([]complex128, n)
	for k := range r {
		s, c := math.Sincos(2 * math.Pi * float64(k) / float64(n))
		r[k] = complex(c, -float64(sign)*s)
	}
	return r
}

// scratchLen returns how many numbers of scratch forward and inverse need.
func (p *fourierPlan) scratchLen() int {
	if p.conv == nil {
		return 0
	}
	return 2 * p.conv.n
}

// forward writes the transform of src to dst, which is other memory. src is
// left as it is.
func (p *fourierPlan) forward(dst, src, scratch []complex128) {
	if p.conv == nil {
		p.step(dst, src, p.n, 1, 0)
		return
	}
	m := p.conv.n
	a, f := scratch[:m], scratch[m:2*m]
	for k, x := range src[:p.n] {
		a[k] = x * p.chirp[k]
	}
	clear(a[p.n:])
	p.conv.forward(f, a, nil)
	for k, x := range f {
		f[k] = conj(x * p.spectrum[k])
	}
	p.conv.forward(a, f, nil)
	scale := complex(1/float64(m), 0)
	for k := range p.n {
		dst[k] = conj(a[k]) * scale * p.chirp[k]
	}
}

// inverse writes the inverse transform of src, divided by the length, to dst. It
// conjugates src.
func (p *fourierPlan) inverse(dst, src, scratch []complex128) {
	for k, x := range src[:p.n] {
		src[k] = conj(x)
	}
	p.forward(dst, src, scratch)
	scale := 1 / float64(p.n)
	for k, x := range dst[:p.n] {
		dst[k] = complex(real(x)*scale, -imag(x)*scale)
	}
}

func conj(x complex128) complex128 { return complex(real(x), -imag(x)) }

// step transforms n elements of src, stride apart, by the factors from f on.
func (p *fourierPlan) step(dst, src []complex128, n, stride, f int) {
	if n <= 1 {
		if n == 1 {
			dst[0] = src[0]
		}
		return
	}
	r := p.factors[f]
	m := n / r
	for q := range r {
		p.step(dst[q*m:][:m], src[q*stride:], m, stride*r, f+1)
	}
	switch r {
	case 2:
		a, b := dst[:m], dst[m:2*m]
		for k, x := range a {
			y := b[k] * p.roots[k*stride]
			a[k], b[k] = x+y, x-y
		}
	case 4:
		a, b, c, d := dst[:m], dst[m:2*m], dst[2*m:3*m], dst[3*m:4*m]
		for k, x := range a {
			y, z, w := b[k]*p.roots[k*stride], c[k]*p.roots[2*k*stride], d[k]*p.roots[3*k*stride]
			s, t := x+z, x-z
			u, v := y+w, y-w
			v = complex(imag(v), -real(v)) // −i·v
			a[k], b[k], c[k], d[k] = s+u, t+v, s-u, t-v
		}
	default:
		var t [largestRadix]complex128
		for k := range m {
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
