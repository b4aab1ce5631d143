package tensor

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"sort"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/memory"
)

// Difference is the error that [Equal] and [AllClose] return for tensors of the same type and shape
// with different elements.
type Difference struct {
	Path   string  // path within the value: "", "[2]" for an item of a sequence, "{key}" for an entry of a map
	Count  int     // number of elements outside of the tolerance
	Total  int     // number of elements compared
	Index  []int   // index of the worst element
	Got    string  // value of the worst element
	Want   string  // expected value of the worst element
	MaxAbs float64 // largest |got − want|; NaN if only one of the two is NaN
	MaxRel float64 // largest |got − want| / |want|; NaN as in MaxAbs
	Rtol   float64
	Atol   float64
}

// Error returns how many elements differ, and index, values and differences of the worst one.
func (d *Difference) Error() string {
	where := ""
	if d.Path != "" {
		where = " at " + d.Path
	}
	s := fmt.Sprintf("tensor: %d of %d elements differ%s, the worst at %v: got %s, want %s", d.Count, d.Total, where,
		d.Index, d.Got, d.Want)
	if d.MaxAbs != 0 {
		s += fmt.Sprintf("; max_abs %.4g, max_rel %.4g, rtol %.4g, atol %.4g", d.MaxAbs, d.MaxRel, d.Rtol, d.Atol)
	}
	return s
}

// Equal returns an error if got differs from want in type, shape, keys or elements. NaN equals NaN,
// and negative zero equals zero.
func Equal(got, want Value) error { return AllClose(got, want, 0, 0) }

// AllClose returns an error if got differs from want in types, shapes or keys, or if an element
// differs by more than atol + rtol·|want|. The error is a [*Difference] if only elements differ.
//
// NaN equals NaN. Infinities, strings and bools must be equal, and integers too if the tolerance is
// 0. Floating-point types of every width compare by value, sequences item by item, maps key by key
// in any order, and sparse tensors as dense ones.
func AllClose(got, want Value, rtol, atol float64) error {
	c := comparison{rtol: rtol, atol: atol}
	return c.values("", got, want)
}

// Distance returns the largest absolute and relative difference between the elements of two
// tensors, by the rules of [AllClose]. It fails if the tensors cannot be compared.
func Distance(got, want *Tensor) (maxAbs, maxRel float64, err error) {
	var c comparison
	if err := c.shapes("", got, want); err != nil {
		return 0, 0, err
	}
	d := Difference{}
	c.elements(&d, got, want)
	return d.MaxAbs, d.MaxRel, nil
}

type comparison struct{ rtol, atol float64 }

func at(path string) string {
	if path == "" {
		return ""
	}
	return " at " + path
}

func (c *comparison) values(path string, got, want Value) error {
	if IsNil(got) || IsNil(want) {
		if IsNil(got) && IsNil(want) {
			return nil
		}
		return fail.Errorf("tensor: got %s%s, want %s", typeName(got), at(path), typeName(want))
	}
	switch w := want.(type) {
	case *Tensor:
		if g, ok := got.(*Tensor); ok {
			return c.tensors(path, g, w)
		}
	case *Sequence:
		if g, ok := got.(*Sequence); ok {
			if len(g.Items) != len(w.Items) {
				return fail.Errorf("tensor: got a sequence of %d items%s, want %d", len(g.Items),
					at(path), len(w.Items))
			}
			for i := range g.Items {
				if err := c.values(fmt.Sprintf("%s[%d]", path, i), g.Items[i], w.Items[i]); err != nil {
					return err
				}
			}
			return nil
		}
	case *Map:
		if g, ok := got.(*Map); ok {
			return c.maps(path, g, w)
		}
	case *Optional:
		if g, ok := got.(*Optional); ok {
			return c.values(path, g.Value, w.Value)
		}
	case *Sparse:
		if g, ok := got.(*Sparse); ok {
			return c.sparse(path, g, w)
		}
	}
	return fail.Errorf("tensor: got %s%s, want %s", typeName(got), at(path), typeName(want))
}

func (c *comparison) shapes(path string, got, want *Tensor) error {
	if got.dtype != want.dtype {
		return fail.Errorf("tensor: got elements of type %s%s, want %s", got.dtype, at(path), want.dtype)
	}
	if !slices.Equal(got.shape, want.shape) {
		return fail.Errorf("tensor: got shape %v%s, want %v", got.shape, at(path), want.shape)
	}
	return nil
}

func (c *comparison) tensors(path string, got, want *Tensor) error {
	if err := c.shapes(path, got, want); err != nil {
		return err
	}
	if want.dtype != TypeString && !want.dtype.IsFloat() && !isComplex(want.dtype) && bytes.Equal(got.data, want.data) {
		return nil
	}
	d := &Difference{Path: path, Total: want.Len(), Rtol: c.rtol, Atol: c.atol}
	worst := c.elements(d, got, want)
	if d.Count == 0 {
		return nil
	}
	d.Index = make([]int, want.Rank())
	for i, p := want.Rank()-1, worst; i >= 0; i-- {
		d.Index[i] = p % want.shape[i]
		p /= want.shape[i]
	}
	d.Got, d.Want = elementString(got, worst), elementString(want, worst)
	return d
}

// elements counts the differing elements in d and returns the index of the worst one.
func (c *comparison) elements(d *Difference, got, want *Tensor) (worst int) {
	over := math.Inf(-1) // excess of the worst element over its tolerance
	note := func(i int, diff, ref, tolerance float64) {
		d.MaxAbs = nanMax(d.MaxAbs, diff)
		rel := diff / ref
		if diff == 0 {
			rel = 0
		}
		d.MaxRel = nanMax(d.MaxRel, rel)
		if diff <= tolerance {
			return
		}
		d.Count++
		excess := diff - tolerance
		if excess != excess {
			excess = math.Inf(1)
		}
		if excess > over {
			over, worst = excess, i
		}
	}
	switch {
	case want.dtype == TypeString:
		for i, s := range want.strs {
			if got.strs[i] != s {
				if d.Count == 0 {
					worst = i
				}
				d.Count++
			}
		}
	case isComplex(want.dtype):
		g, w := complexes(got), complexes(want)
		for i := range w {
			if diff := math.Hypot(partDiff(real(g[i]), real(w[i])), partDiff(imag(g[i]), imag(w[i]))); diff != 0 {
				note(i, diff, cmplx.Abs(w[i]), c.tolerance(cmplx.Abs(w[i])))
			}
		}
	case want.dtype == TypeInt64:
		g, w := MustData[int64](got), MustData[int64](want)
		for i := range w {
			if g[i] != w[i] {
				note(i, float64(uint64(max(g[i], w[i]))-uint64(min(g[i], w[i]))), math.Abs(float64(w[i])),
					c.tolerance(math.Abs(float64(w[i]))))
			}
		}
	case want.dtype == TypeUint64:
		g, w := MustData[uint64](got), MustData[uint64](want)
		for i := range w {
			if g[i] != w[i] {
				note(i, float64(max(g[i], w[i])-min(g[i], w[i])), float64(w[i]), c.tolerance(float64(w[i])))
			}
		}
	case want.dtype == TypeBool:
		for i, b := range want.data {
			if got.data[i] != b {
				note(i, 1, float64(b), 0)
			}
		}
	default:
		n := want.Len()
		gs, ws := span{got.dtype, got.data, n}, span{want.dtype, want.data, n}
		var g, w [blockLen]float64
		for at := 0; at < n; at += blockLen {
			m := min(blockLen, n-at)
			convertElements(span{TypeFloat64, memory.AsBytes(g[:]), m}, gs.at(at, m), ConvertOptions{})
			convertElements(span{TypeFloat64, memory.AsBytes(w[:]), m}, ws.at(at, m), ConvertOptions{})
			for i, want := range w[:m] {
				if sameOrNaN(g[i], want) {
					continue
				}
				note(at+i, math.Abs(g[i]-want), math.Abs(want), c.tolerance(want))
			}
		}
	}
	return worst
}

// tolerance returns the allowed difference from want. It is 0 for an infinite want, since any
// number would lie within an infinite tolerance.
func (c *comparison) tolerance(want float64) float64 {
	if math.IsInf(want, 0) || want != want {
		return c.atol
	}
	return c.atol + c.rtol*math.Abs(want)
}

// partDiff returns the distance of two parts of complex numbers: 0 if both are NaN.
func partDiff(a, b float64) float64 {
	if sameOrNaN(a, b) {
		return 0
	}
	return math.Abs(a - b)
}

func sameOrNaN(a, b float64) bool { return a == b || a != a && b != b }

// nanMax returns the larger of two numbers, or NaN if one is NaN.
func nanMax(a, b float64) float64 {
	if a != a || b != b {
		return math.NaN()
	}
	return max(a, b)
}

func complexes(t *Tensor) []complex128 {
	if t.dtype == TypeComplex128 {
		return MustData[complex128](t)
	}
	return MustData[complex128](Must(Convert(t, TypeComplex128, nil)))
}

func (c *comparison) maps(path string, got, want *Map) error {
	if got.Keys.dtype != want.Keys.dtype {
		return fail.Errorf("tensor: got keys of type %s%s, want %s", got.Keys.dtype, at(path), want.Keys.dtype)
	}
	if got.Len() != want.Len() {
		return fail.Errorf("tensor: got a map of %d keys%s, want %d", got.Len(), at(path), want.Len())
	}
	gk, wk := keyOrder(got.Keys), keyOrder(want.Keys)
	for i := range wk {
		if gk[i].name != wk[i].name {
			return fail.Errorf("tensor: the map%s lacks key %s", at(path), min(gk[i].name, wk[i].name))
		}
	}
	for i, k := range wk {
		g, err := mapValue(got, gk[i].at)
		if err != nil {
			return err
		}
		w, err := mapValue(want, k.at)
		if err != nil {
			return err
		}
		if err := c.values(fmt.Sprintf("%s{%s}", path, k.name), g, w); err != nil {
			return err
		}
	}
	return nil
}

type keyAt struct {
	name string
	at   int
}

// keyOrder returns the keys as text, sorted, with their indices.
func keyOrder(keys *Tensor) []keyAt {
	ks := make([]keyAt, keys.Len())
	for i := range ks {
		ks[i] = keyAt{elementString(keys, i), i}
	}
	sort.Slice(ks, func(i, k int) bool { return ks[i].name < ks[k].name })
	return ks
}

// mapValue returns the value of entry i, as a scalar if the map's values are one tensor.
func mapValue(m *Map, i int) (Value, error) {
	switch v := m.Values.(type) {
	case *Sequence:
		return v.Items[i], nil
	case *Tensor:
		return elementTensor(v, i), nil
	}
	return nil, fail.Errorf("tensor: values of a map are %s, want a tensor or a sequence", typeName(m.Values))
}

// elementTensor returns element i as a scalar.
func elementTensor(t *Tensor, i int) *Tensor {
	if t.dtype == TypeString {
		return &Tensor{dtype: t.dtype, shape: []int{}, strs: t.strs[i : i+1]}
	}
	w := t.dtype.Bits()
	if w < 8 {
		return &Tensor{dtype: t.dtype, shape: []int{}, data: []byte{memory.PackedAt(t.data, i, w)}}
	}
	return &Tensor{dtype: t.dtype, shape: []int{}, data: t.data[i*w/8 : (i+1)*w/8]}
}

func (c *comparison) sparse(path string, got, want *Sparse) error {
	var err error
	if got, err = got.COO(); err != nil {
		return err
	}
	if want, err = want.COO(); err != nil {
		return err
	}
	if !slices.Equal(got.Shape, want.Shape) {
		return fail.Errorf("tensor: got shape %v%s, want %v", got.Shape, at(path), want.Shape)
	}
	if got.Values.dtype != want.Values.dtype {
		return fail.Errorf("tensor: got elements of type %s%s, want %s", got.Values.dtype, at(path), want.Values.dtype)
	}
	// Compare at the union of both index sets only, so that the cost does not depend on the shape.
	gp, wp := got.positions(), want.positions()
	all := slices.Clone(gp)
	all = append(all, wp...)
	slices.SortFunc(all, cmp.Compare)
	all = slices.Compact(all)
	return c.tensors(path, pick(got.Values, gp, all), pick(want.Values, wp, all))
}
