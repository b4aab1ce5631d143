package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

var (
	extremeInts = []int64{0, 1, 2, 3, -1, -2, 31, 64, 1 << 20, 1 << 31, 1<<31 - 1, -1 << 31, 1 << 32, 1 << 40,
		1<<62 + 1, math.MaxInt64, math.MinInt64}
	extremeFloats = []float32{0, 1, -1, 0.5, -2, 1e-3, 100, 1e6}
)

// tryExtreme draws a valid call of an operator, replaces one or two of its attributes, integers or
// dimensions by extreme ones, and compares both engines.
func tryExtreme(a *attack, name string, seed uint64) (*attempt, error) {
	rng := rand.New(rand.NewPCG(seed, hash(name)))
	c := a.draw(name, rng.Uint64()>>1, 1<<(4+rng.IntN(8)))
	if c == nil {
		return nil, nil
	}
	var text []string
	for range 1 + rng.IntN(2) {
		text = append(text, exaggerate(rng, c))
	}
	m, feed, err := c.Model()
	if err != nil {
		return nil, nil
	}
	return compareEngines(a, &attempt{model: m, feed: feed, text: strings.Join(text, "; ")}, true)
}

// exaggerate makes one change to a call, and says which.
func exaggerate(rng *rand.Rand, c *opfuzz.Case) string {
	if len(c.Attrs) > 0 && rng.IntN(2) == 0 {
		k := rng.IntN(len(c.Attrs))
		x := *c.Attrs[k]
		a := &x
		c.Attrs = slices.Clone(c.Attrs)
		c.Attrs[k] = a
		return exaggerateAttribute(rng, a)
	}
	if len(c.In) == 0 {
		return "nothing"
	}
	i := rng.IntN(len(c.In))
	t := c.Tensor(i)
	if t == nil {
		return "nothing"
	}
	c.In = slices.Clone(c.In)
	switch rng.IntN(4) {
	case 0, 1:
		if t.Len() > 0 {
			setExtreme(rng, c, i, t)
			return fmt.Sprintf("input %d has an extreme element", i)
		}
	case 2: // an empty input whose other dimensions have a product that overflows
		shape := slices.Clone(t.Shape())
		if len(shape) == 0 {
			return "nothing"
		}
		shape[rng.IntN(len(shape))] = 0
		for k := range shape {
			if shape[k] != 0 && rng.IntN(2) == 0 {
				shape[k] = []int{0, 1, 1 << 31, 1 << 32, 1 << 40, 1 << 62, math.MaxInt}[rng.IntN(7)]
			}
		}
		if x, err := tensor.Zeros(t.DType(), shape...); err == nil {
			c.In[i] = x
			return fmt.Sprintf("input %d has shape %v", i, shape)
		}
	case 3:
		shape := slices.Clone(t.Shape())
		switch rng.IntN(4) {
		case 0:
			shape = slices.Insert(shape, rng.IntN(len(shape)+1), 1)
		case 1:
			shape = []int{}
		case 2:
			shape = []int{t.Len()}
		default:
			if len(shape) > 0 {
				shape[rng.IntN(len(shape))] = []int{0, 1, 2, 3, 5}[rng.IntN(5)]
			}
		}
		if n, err := tensor.Elements(shape); err != nil || n > 1<<14 {
			return "nothing"
		}
		x, err := tensor.Zeros(t.DType(), shape...)
		if err != nil {
			return "nothing"
		}
		if t.DType() != tensor.TypeString {
			copy(x.Bytes(), t.Bytes())
		}
		c.In[i] = x
		return fmt.Sprintf("input %d has shape %v", i, shape)
	}
	return "nothing"
}

// exaggerateAttribute makes an attribute extreme, and says how.
func exaggerateAttribute(rng *rand.Rand, a *onnx.Attribute) string {
	switch a.Type {
	case onnx.AttrInt:
		a.I = extremeInts[rng.IntN(len(extremeInts))]
		return fmt.Sprintf("attribute %s is %d", a.Name, a.I)
	case onnx.AttrFloat:
		a.F = extremeFloats[rng.IntN(len(extremeFloats))]
		return fmt.Sprintf("attribute %s is %g", a.Name, a.F)
	case onnx.AttrInts:
		a.Ints = slices.Clone(a.Ints)
		switch n := len(a.Ints); {
		case n > 0 && rng.IntN(3) != 0:
			a.Ints[rng.IntN(n)] = extremeInts[rng.IntN(len(extremeInts))]
		case n > 0 && rng.IntN(2) == 0:
			a.Ints = a.Ints[:n-1]
		default:
			a.Ints = append(a.Ints, extremeInts[rng.IntN(len(extremeInts))])
		}
		return fmt.Sprintf("attribute %s is %v", a.Name, a.Ints)
	case onnx.AttrFloats:
		a.Floats = slices.Clone(a.Floats)
		switch n := len(a.Floats); {
		case n > 0 && rng.IntN(2) == 0:
			a.Floats[rng.IntN(n)] = extremeFloats[rng.IntN(len(extremeFloats))]
		case n > 0:
			a.Floats = a.Floats[:n-1]
		}
		return fmt.Sprintf("attribute %s is %v", a.Name, a.Floats)
	case onnx.AttrString:
		a.S = []string{"", "x", "\xff", strings.Repeat("a", 1<<12)}[rng.IntN(4)]
		return fmt.Sprintf("attribute %s is %.9q", a.Name, a.S)
	case onnx.AttrStrings:
		a.Strings = slices.Clone(a.Strings)
		if n := len(a.Strings); n > 0 && rng.IntN(2) == 0 {
			a.Strings = a.Strings[:n-1]
		} else if n > 0 {
			a.Strings[rng.IntN(n)] = ""
		}
		return fmt.Sprintf("attribute %s is %.40q", a.Name, a.Strings)
	}
	return "nothing"
}

// setExtreme replaces an element of input i.
func setExtreme(rng *rand.Rand, c *opfuzz.Case, i int, t *tensor.Tensor) {
	t = t.Clone()
	c.In[i] = t
	k := rng.IntN(t.Len())
	switch t.DType() {
	case tensor.TypeInt64:
		tensor.MustData[int64](t)[k] = extremeInts[rng.IntN(len(extremeInts))]
	case tensor.TypeInt32:
		tensor.MustData[int32](t)[k] = int32(extremeInts[rng.IntN(len(extremeInts))])
	case tensor.TypeFloat32: // engines round infinities and NaN differently in sums
		tensor.MustData[float32](t)[k] = float32(rng.IntN(5) - 2)
	case tensor.TypeString:
		tensor.MustData[string](t)[k] = []string{"", "\xff", strings.Repeat("b", 1<<12)}[rng.IntN(3)]
	case tensor.TypeBool:
		b := tensor.MustData[bool](t)
		b[k] = !b[k]
	default:
		if t.DType().IsFloat() {
			return
		}
		b := t.Bytes()
		b[rng.IntN(len(b))] = []byte{0, 1, 0x7f, 0x80, 0xff}[rng.IntN(5)]
	}
}
