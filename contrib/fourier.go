package contrib

import (
	"context"
	"math"
)

// fourier computes discrete Fourier transforms of one size.
type fourier struct {
	ctx     context.Context
	roots   []complex128 // e^(−2πi·k/n)
	factors []int
	tmp     []complex128
	steps   int
}

func newFourier(ctx context.Context, n int) *fourier {
	f := &fourier{ctx: ctx, roots: make([]complex128, n), tmp: make([]complex128, n)}
	for k := range f.roots {
		sin, cos := math.Sincos(-2 * math.Pi * float64(k) / float64(n))
		f.roots[k] = complex(cos, sin)
	}
	for p := 2; n > 1; p++ {
		for ; n%p == 0; n /= p {
			f.factors = append(f.factors, p)
		}
		if p*p > n && n > 1 {
			f.factors = append(f.factors, n)
			break
		}
	}
	return f
}

// transform replaces x by its transform, by the algorithm of Cooley and Tukey.
func (f *fourier) transform(x []complex128) error {
	return f.part(x, f.tmp, f.factors)
}

// part transforms x, whose size is the product of the factors.
func (f *fourier) part(x, tmp []complex128, factors []int) error {
	n := len(x)
	if len(factors) == 0 {
		return nil
	}
	p := factors[0]
	m := n / p // size of each of p transforms
	for i := range p {
		for k := range m {
			tmp[i*m+k] = x[k*p+i]
		}
	}
	for i := range p {
		if err := f.part(tmp[i*m:(i+1)*m], x[i*m:(i+1)*m], factors[1:]); err != nil {
			return err
		}
	}
	stride := len(f.roots) / n
	for k := range n {
		if f.steps += p; f.steps > 1<<20 {
			f.steps = 0
			if err := f.ctx.Err(); err != nil {
				return err
			}
		}
		sum, at := complex128(0), 0
		for i := range p {
			sum += tmp[i*m+k%m] * f.roots[at*stride]
			if at += k; at >= n {
				at -= n
			}
		}
		x[k] = sum
	}
	return nil
}
