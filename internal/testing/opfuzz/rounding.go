package opfuzz

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
)

// units are the relative distances of adjacent numbers of the types that are nudged.
var units = map[tensor.DType]float64{tensor.TypeFloat64: 0x1p-52, tensor.TypeFloat32: 0x1p-23,
	tensor.TypeFloat16: 0x1p-10, tensor.TypeBFloat16: 0x1p-7}

// withinRounding reports whether the case is too ill-conditioned for its tolerance: reference's
// output i moves as far as got is away from want, up to a factor, if inputs and attributes are
// replaced by their neighbours. Two engines that round differently are backward stable, but terms
// that cancel and exponents of large numbers multiply their errors without a bound.
func withinRounding(c *Case, i int, got, want tensor.Value) bool {
	g, ok := got.(*tensor.Tensor)
	w, ok2 := want.(*tensor.Tensor)
	if !ok || !ok2 || !slices.Equal(g.Shape(), w.Shape()) || g.DType() != w.DType() {
		return false
	}
	rtol, atol := Tolerance(c, w)
	if rtol+atol == 0 {
		return false
	}
	a, err := Floats(g)
	b, err2 := Floats(w)
	if err != nil || err2 != nil {
		return false
	}
	const draws, factor = 8, 4
	var low, high []float64
	rng := rand.New(rand.NewPCG(1, 2))
	for range draws {
		out, err := Run(c.nudged(rng), onward.ProviderConfig{Name: "reference"}, 1)
		if err != nil {
			return false
		}
		t, ok := out[fmt.Sprintf("o%d", i)].(*tensor.Tensor)
		if !ok || !slices.Equal(t.Shape(), w.Shape()) {
			return false
		}
		f, err := Floats(t)
		if err != nil {
			return false
		}
		if low == nil {
			low, high = slices.Clone(f), slices.Clone(f)
		}
		for k, v := range f {
			low[k], high[k] = min(low[k], v), max(high[k], v)
		}
	}
	for k, v := range b {
		moved := high[k] - low[k]
		if math.IsNaN(moved) || math.IsInf(moved, 0) {
			moved = 0
		}
		d := math.Abs(a[k] - v) // an infinity is near itself only
		near := d <= atol+rtol*math.Abs(v)+factor*moved && !math.IsInf(d, 0)
		if !near && a[k] != v && !(math.IsNaN(a[k]) && math.IsNaN(v)) {
			return false
		}
	}
	return true
}

// quantizedLogits returns a bound of the logits of a QAttention, which rounds them to float32:
// nudges of its inputs, which are mostly integers, do not show what exponents make of that.
func quantizedLogits(c *Case) float64 {
	most := func(i, zero int) (r float64) {
		z := append(numbers(c, zero), 0)[0]
		for _, v := range numbers(c, i) {
			r = max(r, math.Abs(v-z))
		}
		return r
	}
	w := c.Tensor(1)
	if w == nil || w.Rank() != 2 {
		return 0
	}
	const none = -1
	q := most(0, 6)*most(1, 7)*float64(w.Dim(0))*most(3, none)*most(4, none) + most(2, none)
	return q * q * math.Sqrt(float64(w.Dim(1))/3/float64(max(c.Int("num_heads", 1), 1)))
}

// roundingOfWeights returns the largest error of a Resize whose weights are rounded to float32. A
// large cubic_coeff_a makes weights of that size, which cancel, along each axis that is resized.
func roundingOfWeights(c *Case, want *tensor.Tensor) (worst float64) {
	a, x := c.Attr("cubic_coeff_a"), c.Tensor(0)
	if a == nil || x == nil || x.Rank() != want.Rank() || c.Text("mode", "nearest") != "cubic" {
		return 0
	}
	for _, v := range numbers(c, 0) {
		worst = max(worst, math.Abs(v)/(1<<22))
	}
	for axis, n := range x.Shape() {
		if n != want.Dim(axis) {
			worst *= 1.25 + math.Abs(float64(a.F))
		}
	}
	return worst
}

// nudged returns a case whose floats are neighbours of c's, or the same.
func (c *Case) nudged(rng *rand.Rand) *Case {
	d := c.clone()
	if c.Name() == "com.microsoft.QEmbedLayerNormalization" {
		d = c.realEmbeddings()
	}
	for k, old := range d.Attrs {
		a := *old
		a.F *= 1 + float32(rng.IntN(3)-1)*0x1p-23
		a.Floats = slices.Clone(a.Floats)
		for i := range a.Floats {
			a.Floats[i] *= 1 + float32(rng.IntN(3)-1)*0x1p-23
		}
		d.Attrs[k] = &a
	}
	for k, v := range d.In {
		t, ok := v.(*tensor.Tensor)
		if !ok || units[t.DType()] == 0 {
			continue
		}
		f, err := Floats(t)
		if err != nil {
			continue
		}
		for i := range f {
			f[i] *= 1 + float64(rng.IntN(3)-1)*units[t.DType()]
		}
		n, err := tensor.Zeros(t.DType(), t.Shape()...)
		if err != nil {
			continue
		}
		if tensor.ConvertInto(n, tensor.Must(tensor.New(f, t.Shape()...)), nil) == nil {
			d.In[k] = n
		}
	}
	return d
}

// realEmbeddings returns the case with the numbers that its quantized tables stand for: nudges of
// scales multiply all elements of a row, and do not show what rounding makes of those that are
// close.
func (c *Case) realEmbeddings() *Case {
	const tables, scales, zeros, last = 2, 8, 13, 8
	d := c.clone()
	d.Op, d.In, d.Constant = "EmbedLayerNormalization", d.In[:last], d.Constant[:last]
	for k := range zeros - scales {
		t, scale, zero := c.Tensor(tables+k), numbers(c, scales+k), numbers(c, zeros+k)
		if t == nil || len(scale) == 0 {
			continue
		}
		f := make([]float32, t.Len())
		for i, v := range numbers(c, tables+k) {
			f[i] = float32((v - append(zero, 0)[0]) * scale[0])
		}
		d.In[tables+k] = tensor.Must(tensor.New(f, t.Shape()...))
	}
	return d
}
