package fit

import (
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

const maxElements = 1 << 30 // of a value that is drawn

// Draw draws a value for an input that fits the nodes that read it.
func (f *Inputs) Draw(rng *rand.Rand, a onward.NodeArg) (tensor.Value, error) {
	if err := f.ranked(a); err != nil {
		return nil, err
	}
	n := f.needs[a.Name]
	if n == nil {
		n = new(need)
	}
	own := *n
	if t := a.ElementType(); t.Kind == tensor.KindTensor && maskName(a.Name) && !own.bounded && own.exact == nil &&
		(t.Elem == tensor.TypeBool || t.Elem.IsInteger()) {
		own.mask = true
	}
	return own.value(rng, a.ElementType(), f.input(a).Type, f.Shapes[a.Name])
}

// Between draws a value for an input with elements from lo to hi, for integers including hi.
func (f *Inputs) Between(rng *rand.Rand, a onward.NodeArg, lo, hi float64) (tensor.Value, error) {
	if err := f.ranked(a); err != nil {
		return nil, err
	}
	n := between(lo, hi)
	return n.value(rng, a.ElementType(), f.input(a).Type, f.Shapes[a.Name])
}

// Fill returns a tensor for an input whose element i is value(i).
func (f *Inputs) Fill(a onward.NodeArg, value func(i int) float64) (tensor.Value, error) {
	t := a.ElementType()
	if t.Kind != tensor.KindTensor || t.Elem == tensor.TypeString {
		return nil, fmt.Errorf("values of type %s cannot be zeros, ones or a range; give the value as @file.pb", a.Type)
	}
	if err := f.ranked(a); err != nil {
		return nil, err
	}
	shape := f.Shapes[a.Name]
	n, err := tensor.Elements(shape)
	if err == nil && n > maxElements {
		err = fmt.Errorf("shape %v has %d elements, want at most %d", shape, n, maxElements)
	}
	if err != nil {
		return nil, err
	}
	data := make([]float64, n)
	for i := range data {
		data[i] = value(i)
	}
	return convertTo(data, t.Elem, shape)
}

// ranked returns an error if the shape of a tensor is neither declared nor given.
func (f *Inputs) ranked(a onward.NodeArg) error {
	if a.ElementType().Kind == tensor.KindTensor && a.Shape == nil && !f.shaped[a.Name] {
		return cli.Usagef("shape is unknown; give one, such as --shape %s=1x3x224x224", a.Name)
	}
	return nil
}

// value draws a value of a type. shape is that of a tensor; typ is the type with the shapes of
// items, as far as it is known.
func (n *need) value(rng *rand.Rand, t tensor.Type, typ ir.Type, shape []int) (tensor.Value, error) {
	switch t.Kind {
	case tensor.KindTensor:
		return n.tensor(rng, t.Elem, shape)
	case tensor.KindSequence:
		s := &tensor.Sequence{Elem: *t.Of}
		for range 3 {
			v, err := n.value(rng, *t.Of, of(typ), itemShape(of(typ)))
			if err != nil {
				return nil, err
			}
			s.Items = append(s.Items, v)
		}
		return s, nil
	case tensor.KindOptional:
		v, err := n.value(rng, *t.Of, of(typ), itemShape(of(typ)))
		if err != nil {
			return nil, err
		}
		return &tensor.Optional{Elem: *t.Of, Value: v}, nil
	case tensor.KindMap:
		return n.mapping(rng, t)
	case tensor.KindSparse:
		size, err := tensor.Elements(shape)
		if err != nil {
			return nil, err
		}
		count := (size + 1) / 2
		values, err := n.tensor(rng, t.Elem, []int{count})
		if err != nil {
			return nil, err
		}
		at := make([]int64, count)
		for i := range at {
			at[i] = int64(2 * i)
		}
		return tensor.NewSparse(values, tensor.Must(tensor.New(at, count)), shape...)
	}
	return nil, fmt.Errorf("values of type %s cannot be drawn; give the value as @file.pb", t)
}

func of(t ir.Type) ir.Type {
	if t.Of == nil {
		return ir.Type{}
	}
	return *t.Of
}

// itemShape returns the shape of the items of a sequence. Unknown sizes are 2; if the rank is
// unknown, the shape is [2].
func itemShape(t ir.Type) []int {
	if !t.Ranked() {
		return []int{2}
	}
	s := known(t)
	for i := range s {
		if s[i] < 0 {
			s[i] = 2
		}
	}
	return s
}

// mapping draws a map whose keys are those of the model's vocabulary, if it has one.
func (n *need) mapping(rng *rand.Rand, t tensor.Type) (tensor.Value, error) {
	keys, err := (&need{words: n.words, distinct: true, bounded: true, hi: 2}).tensor(rng, t.Elem, []int{3})
	if err != nil {
		return nil, err
	}
	if t.Elem == tensor.TypeString && len(n.words) > 0 {
		keys = tensor.Must(tensor.New(n.words, len(n.words)))
	}
	if t.Of.Kind != tensor.KindTensor {
		return nil, fmt.Errorf("values of type %s cannot be drawn; give the value as @file.pb", t)
	}
	values, err := new(need).tensor(rng, t.Of.Elem, []int{keys.Len()})
	if err != nil {
		return nil, err
	}
	return tensor.NewMap(keys, values)
}

// tensor draws a tensor. Without requirements, floats are uniform in [0, 1), and integers
// from 0 to 9.
func (n *need) tensor(rng *rand.Rand, dtype tensor.DType, shape []int) (*tensor.Tensor, error) {
	size, err := tensor.Elements(shape)
	if err != nil {
		return nil, err
	}
	if size > maxElements {
		return nil, fmt.Errorf("shape %v has %d elements, want at most %d", shape, size, maxElements)
	}
	switch {
	case dtype == tensor.TypeString:
		words := n.words
		if len(words) == 0 {
			words = []string{"a", "b", "c", "word"}
		}
		data := make([]string, size)
		for i := range data {
			data[i] = words[rng.IntN(len(words))]
		}
		t, err := tensor.New(data, append([]int{}, shape...)...)
		if err == nil && t.Rank() != len(shape) {
			t, err = t.Reshape(shape...)
		}
		return t, err
	case n.image && dtype == tensor.TypeUint8 && len(shape) == 1:
		data := make([]byte, size)
		copy(data, encoded())
		return tensor.New(data, size)
	case n.exact != nil:
		return numbers(n.exact, dtype, shape)
	}
	data := make([]float64, size)
	n.fill(rng, data, dtype, shape)
	return convertTo(data, dtype, shape)
}

// fill draws the elements.
func (n *need) fill(rng *rand.Rand, data []float64, dtype tensor.DType, shape []int) {
	last := 1
	if len(shape) > 0 {
		last = shape[len(shape)-1]
	}
	real := dtype.IsFloat() || dtype == tensor.TypeComplex64 || dtype == tensor.TypeComplex128
	switch {
	case len(data) == 0:
	case len(n.limits) > 0 && last == len(n.limits):
		n.tuples(rng, data, last)
	case n.mask:
		for row := 0; row < len(data); row += last {
			ones := last - rng.IntN(last/2+1)
			for i := range last {
				if i < ones {
					data[row+i] = 1
				}
			}
		}
	case n.distinct && !real:
		n.fillDistinct(rng, data, shape)
	case n.bounded && real:
		for i := range data {
			data[i] = n.lo + rng.Float64()*(n.hi-n.lo)
		}
	case n.bounded:
		for i := range data {
			data[i] = n.lo + float64(rng.Int64N(int64(min(n.hi-n.lo, 1<<52))+1))
		}
	default:
		for i := range data {
			switch {
			case real:
				data[i] = rng.Float64()
			case dtype == tensor.TypeBool || dtype.Packed():
				data[i] = float64(rng.IntN(2))
			default:
				data[i] = float64(rng.IntN(10))
			}
		}
	}
}

// tuples draws index tuples. With distinct, they differ until all tuples have been used.
func (n *need) tuples(rng *rand.Rand, data []float64, last int) {
	const most = 1 << min(40, bits.UintSize-2)
	total := 1
	for _, d := range n.limits {
		if d = max(d, 1); total > most/d {
			total = most
			break
		}
		total *= d
	}
	step, at := 1, rng.IntN(total)
	for i := 0; i < len(data); i += last {
		k := at
		for j := last - 1; j >= 0; j-- {
			d := max(n.limits[j], 1)
			data[i+j] = float64(k % d)
			k /= d
		}
		if at = (at + step) % total; !n.distinct {
			at = rng.IntN(total)
		}
	}
}

// fillDistinct draws indices that differ along an axis, as long as the bounds allow it; axis -1 is
// all elements.
func (n *need) fillDistinct(rng *rand.Rand, data []float64, shape []int) {
	count := max(int(n.hi-n.lo)+1, 1)
	axis, inner, length := n.axis, 1, len(data)
	if axis < 0 && axis != -1 {
		axis += len(shape)
	}
	if axis >= 0 && axis < len(shape) {
		for _, d := range shape[axis+1:] {
			inner *= d
		}
		length = shape[axis]
	}
	start := rng.IntN(count)
	for i := range data {
		data[i] = n.lo + float64((start+i/inner%length)%count)
	}
}

// encoded returns a small image as a raw PPM file (https://netpbm.sourceforge.net/doc/ppm.html).
func encoded() []byte {
	b := []byte("P6 8 8 255\n")
	for y := range byte(8) {
		for x := range byte(8) {
			b = append(b, 32*x, 32*y, 128)
		}
	}
	return b
}
