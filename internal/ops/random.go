package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// randomSource is the Mersenne Twister MT19937 (Matsumoto and Nishimura, ACM TOMACS 8(1), 1998),
// seeded and used like NumPy's RandomState, so that a seeded operator returns the numbers of ONNX's
// reference implementation.
type randomSource struct {
	state    [624]uint32
	next     int
	spare    float64 // second normal number of a pair
	hasSpare bool
}

// newRandomSource returns a Mersenne Twister (MT19937) with the given seed.
func newRandomSource(seed uint32) *randomSource {
	r := &randomSource{next: len(randomSource{}.state)}
	for i := range r.state {
		r.state[i] = seed
		seed = 1812433253*(seed^seed>>30) + uint32(i) + 1
	}
	return r
}

func (r *randomSource) uint32() uint32 {
	if r.next == len(r.state) {
		r.twist()
	}
	y := r.state[r.next]
	r.next++
	return vec.Temper(y)
}

// twist computes the next states.
func (r *randomSource) twist() {
	const n, m = len(randomSource{}.state), 397
	l, s := cpu.Active(), r.state[:]
	last := [2]uint32{s[n-1]}
	vec.TwistU32(l, s[:n-m], s, s[1:], s[m:])
	vec.TwistU32(l, s[n-m:n-1], s[n-m:], s[n-m+1:], s)
	vec.TwistU32(l, s[n-1:], last[:], s, s[m-1:])
	r.next = 0
}

// Uniform returns a number in [0, 1) with 53 random bits.
func (r *randomSource) Uniform() float64 { return vec.UniformF64(r.uint32(), r.uint32()) }

// Uniforms stores the next results of Uniform.
func (r *randomSource) Uniforms(dst []float64) {
	for len(dst) > 0 {
		n := min(len(dst), (len(r.state)-r.next)/2)
		if n == 0 { // the last word of a state and the first one of the next
			dst[0], dst = r.Uniform(), dst[1:]
			continue
		}
		vec.UniformsF64(cpu.Active(), dst[:n], r.state[r.next:][:2*n])
		r.next += 2 * n
		dst = dst[n:]
	}
}

// Normal returns a number of the standard Normal distribution (Marsaglia's polar method).
func (r *randomSource) Normal() float64 {
	if r.hasSpare {
		r.hasSpare = false
		return r.spare
	}
	for {
		x, y := 2*r.Uniform()-1, 2*r.Uniform()-1
		if d := x*x + y*y; d < 1 && d != 0 {
			f := math.Sqrt(-2 * math.Log(d) / d)
			r.spare, r.hasSpare = f*x, true
			return f * y
		}
	}
}

// randomSeed is the attribute seed of the random operators.
type randomSeed struct {
	Seed  float64
	Given bool
}

// Nondeterministic implements [ir.Nondeterministic].
func (randomSeed) Nondeterministic() {}

// readRandomSeed reads the attribute seed; NaN counts as absent.
func readRandomSeed(a *kit.Attrs) randomSeed {
	v := a.Float("seed", 0)
	return randomSeed{Seed: float64(v), Given: a.Has("seed") && v == v}
}

// Source returns the generator of a call: seeded by the attribute, or else by the session.
func (s randomSeed) Source(c *ir.Call) *randomSource {
	if s.Given {
		return newRandomSource(uint32(int64(s.Seed)))
	}
	return unseededSource(c)
}

// unseededSource returns a generator that is seeded by the session.
func unseededSource(c *ir.Call) *randomSource {
	v := c.Seed()
	return newRandomSource(uint32(v) ^ uint32(v>>32))
}

// fillRandom stores next() in every element of output 0, of a floating-point type.
func fillRandom(c *ir.Call, d tensor.DType, shape []int, next func() float64) error {
	return fillRandoms(c, d, shape, func(dst []float64, _ int) {
		for i := range dst {
			dst[i] = next()
		}
	})
}

// fillUniform stores uniform numbers in [low, high) in output 0.
func fillUniform(c *ir.Call, d tensor.DType, shape []int, src *randomSource, low, high float64) error {
	return fillRandoms(c, d, shape, func(dst []float64, _ int) {
		src.Uniforms(dst)
		for i := range dst {
			dst[i] = dst[i]*(high-low) + low
		}
	})
}

// fillRandoms stores numbers in output 0: fill sets those of dst, which begin with element at.
func fillRandoms(c *ir.Call, d tensor.DType, shape []int, fill func(dst []float64, at int)) error {
	out, err := c.Output(0, d, shape...)
	if err != nil {
		return err
	}
	res := out
	if d != tensor.TypeFloat64 {
		if res, err = kit.ScratchTensor(c, tensor.TypeFloat64, shape); err != nil {
			return err
		}
	}
	x := tensor.MustData[float64](res)
	c.Serial(len(x), kit.GrainCostly, func(lo, hi int) {
		fill(x[lo:hi], lo)
	})
	if res == out {
		return nil
	}
	return kit.ConvertInto(c, out, res, tensor.ConvertOptions{Saturate: true})
}

// readRandomShape reads the attribute shape of the random operators.
func readRandomShape(a *kit.Attrs) []int {
	a.Require("shape")
	shape := a.Ints("shape")
	if _, err := tensor.Elements(shape); err != nil {
		a.Errorf("attribute shape: %v", err)
	}
	return shape
}

// randomDType reads the attribute dtype, which must be a floating-point type.
func randomDType(a *kit.Attrs, def tensor.DType) tensor.DType {
	d := a.DType("dtype", def)
	switch d {
	case tensor.TypeFloat16, tensor.TypeBFloat16, tensor.TypeFloat32, tensor.TypeFloat64, def:
		return d
	}
	a.Errorf("attribute dtype is %s, want float16, bfloat16, float or double", d)
	return tensor.TypeFloat32
}

// likeInput infers an output of the shape of the input, and of its type unless the attribute dtype
// is set.
type likeInput struct{ DType tensor.DType }

// Elem returns the attribute dtype, or else the type of the input.
func (l likeInput) Elem(in tensor.DType) tensor.DType {
	if l.DType != tensor.Undefined {
		return l.DType
	}
	return in
}

// Infer infers the shape of the input.
func (l likeInput) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: l.Elem(c.Elem(0)), Shape: c.Shape(0)})
	return nil
}
