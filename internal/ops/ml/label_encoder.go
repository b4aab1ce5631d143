package ml

import (
	"errors"
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// LabelEncoder maps each element to a value by a table, or to a default
// (https://onnx.ai/onnx/operators/onnx_aionnxml_LabelEncoder.html). NaN may be a key. Of
// equal keys the last takes effect.
//
// Version 1 and CategoryMapper have two tables, from strings to integers and back; the
// type of the input selects one.
type LabelEncoder struct{ tables []*labelTable }

// labelTable maps the i-th key to values[i]; the default is the last value.
type labelTable struct {
	key    tensor.DType
	values *tensor.Tensor // one element more than there are keys
	find   any            // map[K]int32 from key to index, where K is the keys' type, and int64 for all integers
	nan    int32          // the index of the key NaN
	// for dense integer keys: values of the integers from low on, and the default
	dense *tensor.Tensor
	low   int64
}

const labelTypes = "string int64 float int32 int16 double"

func newLabelTable(keys, values, def *tensor.Tensor) (*labelTable, error) {
	if keys.Rank() != 1 || values.Rank() != 1 || keys.Len() != values.Len() {
		return nil, fail.Errorf("keys and values have shapes %v and %v, want two lists of equal length",
			keys.Shape(), values.Shape())
	}
	if def.Len() != 1 || def.DType() != values.DType() {
		return nil, fail.Errorf("the default is %s, want one element of type %s", def, values.DType())
	}
	t := &labelTable{key: keys.DType(), nan: int32(keys.Len())}
	switch keys.DType() {
	case tensor.TypeString:
		t.find = labelIndex(tensor.MustData[string](keys), &t.nan)
	case tensor.TypeInt64, tensor.TypeInt32, tensor.TypeInt16:
		t.find = labelIndex(widen(make([]int64, keys.Len()), keys), &t.nan)
	case tensor.TypeFloat32:
		t.find = labelIndex(tensor.MustData[float32](keys), &t.nan)
	case tensor.TypeFloat64:
		t.find = labelIndex(tensor.MustData[float64](keys), &t.nan)
	default:
		return nil, fail.Errorf("keys are %s, want one of %s", keys.DType(), labelTypes)
	}
	var err error
	switch values.DType() {
	case tensor.TypeString:
		err = fillTable[string](t, values, def)
	case tensor.TypeInt64:
		err = fillTable[int64](t, values, def)
	case tensor.TypeInt32:
		err = fillTable[int32](t, values, def)
	case tensor.TypeInt16:
		err = fillTable[int16](t, values, def)
	case tensor.TypeFloat32:
		err = fillTable[float32](t, values, def)
	case tensor.TypeFloat64:
		err = fillTable[float64](t, values, def)
	default:
		err = fail.Errorf("values are %s, want one of %s", values.DType(), labelTypes)
	}
	return t, err
}

type labelKey interface {
	string | int64 | int32 | int16 | float32 | float64
}

func labelIndex[K labelKey](keys []K, nan *int32) map[K]int32 {
	m := make(map[K]int32, len(keys))
	for i, k := range keys {
		if k != k {
			*nan = int32(i)
		} else {
			m[k] = int32(i)
		}
	}
	return m
}

// widen returns the elements of t as int64, in dst if they have another type.
func widen(dst []int64, t *tensor.Tensor) []int64 {
	switch t.DType() {
	case tensor.TypeInt64:
		return tensor.MustData[int64](t)
	case tensor.TypeInt32:
		for i, v := range tensor.MustData[int32](t) {
			dst[i] = int64(v)
		}
	case tensor.TypeInt16:
		for i, v := range tensor.MustData[int16](t) {
			dst[i] = int64(v)
		}
	}
	return dst
}

// fillTable sets the values of t, and writes those of dense integer keys to a list.
func fillTable[V labelKey](t *labelTable, values, def *tensor.Tensor) (err error) {
	v := append(slices.Clone(tensor.MustData[V](values)), tensor.MustData[V](def)[0])
	if t.values, err = tensor.New(v, len(v)); err != nil {
		return err
	}
	if order := t.order(len(v) - 1); order != nil {
		dense := make([]V, len(order))
		for k, i := range order {
			dense[k] = v[i]
		}
		t.dense, err = tensor.New(dense, len(dense))
	}
	return err
}

// order sets the lowest of the integer keys. It returns the index of the value of each integer from
// it on, and of the default for those out of range. It returns nil if there are no such keys, or
// many fewer than integers between them.
func (t *labelTable) order(def int) []int32 {
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	keys, _ := t.find.(map[int64]int32)
	for k := range keys {
		low, high = min(low, k), max(high, k)
	}
	size := uint64(high - low)
	if high < low || size >= uint64(16*len(keys)+1024) {
		return nil
	}
	t.low = low
	order := make([]int32, size+2)
	kit.RepeatOf(order, int32(def))
	for k, i := range keys {
		order[k-low] = i
	}
	return order
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "LabelEncoder", Since: kit.Versions{1, 2, 4},
	In: "X:T1", Out: "Y:T2",
	Types: "T1: " + labelTypes + "; T2: " + labelTypes, Build: func(a *kit.Attrs, opset int) kit.Operator {
		if opset == 1 {
			s := a.Strings("classes_strings")
			n := make([]int64, len(s))
			for i := range n {
				n[i] = int64(i)
			}
			return buildCategories(a, s, n)
		}
		list := func(prefix string) (*tensor.Tensor, error) {
			var found []*tensor.Tensor
			if v := a.Floats(prefix + "_floats"); v != nil {
				found = append(found, tensor.Must(tensor.New(v, len(v))))
			}
			if v := a.Ints(prefix + "_int64s"); v != nil {
				found = append(found, tensor.Must(tensor.New(int64s(v), len(v))))
			}
			if v := a.Strings(prefix + "_strings"); v != nil {
				found = append(found, tensor.Must(tensor.New(v, len(v))))
			}
			if opset >= 4 {
				if t := a.Tensor(prefix + "_tensor"); t != nil {
					found = append(found, t)
				}
			}
			if len(found) != 1 {
				return nil, fail.Errorf("%d attributes %s_* are set, want exactly one", len(found), prefix)
			}
			return found[0], nil
		}
		keys, err := list("keys")
		values, err2 := list("values")
		f, i, s := a.Float("default_float", float32(math.Copysign(0, -1))), a.Int("default_int64", -1),
			a.String("default_string", "_Unused")
		var def *tensor.Tensor
		if opset >= 4 {
			def = a.Tensor("default_tensor")
		}
		if err != nil || err2 != nil {
			return a.Fail(errors.Join(err, err2))
		}
		if def == nil {
			switch values.DType() {
			case tensor.TypeString:
				def = tensor.Scalar(s)
			case tensor.TypeFloat32:
				def = tensor.Scalar(f)
			case tensor.TypeFloat64:
				def = tensor.Scalar(float64(f))
			case tensor.TypeInt32:
				def = tensor.Scalar(int32(i))
			case tensor.TypeInt16:
				def = tensor.Scalar(int16(i))
			default:
				def = tensor.Scalar(int64(i))
			}
		}
		t, err := newLabelTable(keys, values, def)
		if err != nil {
			return a.Fail(err)
		}
		return &LabelEncoder{[]*labelTable{t}}
	}})

func int64s(v []int) []int64 {
	r := make([]int64, len(v))
	for i, x := range v {
		r[i] = int64(x)
	}
	return r
}

// buildCategories returns a LabelEncoder with the tables between strings s and integers
// n.
func buildCategories(a *kit.Attrs, s []string, n []int64) kit.Operator {
	ints, strs := tensor.Must(tensor.New(n, len(n))), tensor.Must(tensor.New(s, len(s)))
	i, d := a.Int("default_int64", -1), a.String("default_string", "_Unused")
	toInt, err := newLabelTable(strs, ints, tensor.Scalar(int64(i)))
	toString, err2 := newLabelTable(ints, strs, tensor.Scalar(d))
	if err := errors.Join(err, err2); err != nil {
		return a.Fail(err)
	}
	return &LabelEncoder{[]*labelTable{toInt, toString}}
}

func (op *LabelEncoder) table(key tensor.DType) (*labelTable, error) {
	for _, t := range op.tables {
		if t.key == key {
			return t, nil
		}
	}
	return nil, fail.Errorf("X has type %s, but the keys have type %s", key, op.tables[0].key)
}

// Infer sets Y to the shape of X and the type of the values.
func (op *LabelEncoder) Infer(c *ir.InferContext) error {
	t, err := op.table(c.Elem(0))
	if err != nil {
		return err
	}
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: t.values.DType(), Shape: c.Shape(0)})
	return nil
}

// Run looks up every element.
func (op *LabelEncoder) Run(c *ir.Call) error {
	x := c.Tensor(0)
	t, err := op.table(x.DType())
	if err != nil {
		return err
	}
	y, err := c.Output(0, t.values.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	switch y.DType() {
	case tensor.TypeString:
		return encode[string](c, t, x, y)
	case tensor.TypeInt64:
		return encode[int64](c, t, x, y)
	case tensor.TypeInt32:
		return encode[int32](c, t, x, y)
	case tensor.TypeInt16:
		return encode[int16](c, t, x, y)
	case tensor.TypeFloat32:
		return encode[float32](c, t, x, y)
	}
	return encode[float64](c, t, x, y)
}

// encode writes the values of x to y.
func encode[V labelKey](c *ir.Call, t *labelTable, x, y *tensor.Tensor) error {
	dst := tensor.MustData[V](y)
	if t.dense != nil {
		keys, err := wideKeys(c, x)
		if err == nil {
			v, low := tensor.MustData[V](t.dense), t.low
			c.Parallel(len(keys), kit.GrainCheap, func(lo, hi int) {
				to := dst[lo:hi]
				for i, k := range keys[lo:hi] {
					to[i] = v[min(uint64(k-low), uint64(len(v)-1))]
				}
			})
		}
		return err
	}
	at, err := t.indices(c, x)
	if err != nil {
		return err
	}
	v := tensor.MustData[V](t.values)
	c.Parallel(len(at), kit.GrainCheap, func(lo, hi int) {
		for i, j := range at[lo:hi] {
			dst[lo+i] = v[j]
		}
	})
	return nil
}

// wideKeys returns the elements of x as int64.
func wideKeys(c *ir.Call, x *tensor.Tensor) ([]int64, error) {
	var wide []int64
	if x.DType() != tensor.TypeInt64 {
		var err error
		if wide, err = ir.ScratchOf[int64](c, x.Len()); err != nil {
			return nil, err
		}
	}
	return widen(wide, x), nil
}

// indices returns the indices of the elements of x.
func (t *labelTable) indices(c *ir.Call, x *tensor.Tensor) ([]int32, error) {
	at, err := ir.ScratchOf[int32](c, x.Len())
	if err != nil {
		return nil, err
	}
	switch x.DType() {
	case tensor.TypeString:
		lookUp(c, t, tensor.MustData[string](x), at, func(_ cpu.Level, dst []bool, a, b []string) {
			for i := range dst {
				dst[i] = a[i] == b[i]
			}
		})
	case tensor.TypeFloat32:
		lookUp(c, t, tensor.MustData[float32](x), at, vec.EqualF32)
	case tensor.TypeFloat64:
		lookUp(c, t, tensor.MustData[float64](x), at, vec.EqualF64)
	default:
		keys, err := wideKeys(c, x)
		if err != nil {
			return nil, err
		}
		lookUp(c, t, keys, at, vec.EqualI64)
	}
	return at, nil
}

// lookUp writes the indices of the keys in a table. equal compares the elements of two lists.
func lookUp[K string | int64 | float32 | float64](c *ir.Call, t *labelTable, keys []K, at []int32,
	equal func(l cpu.Level, dst []bool, a, b []K)) {
	m, none := t.find.(map[K]int32), int32(t.values.Len()-1)
	const few = 8 // keys that are compared one after another in less time than a hash takes
	if len(m) <= few && !c.Generic {
		repeated, index, count := make([]K, few*lookUpBlock), make([]int32, few+1), 0
		for k, j := range m {
			index[count] = j
			for i := range lookUpBlock {
				repeated[count*lookUpBlock+i] = k
			}
			count++
		}
		lookUpFew(c, t, len(keys), index[:count], at, func(dst []bool, lo, k int) {
			part := keys[lo:][:len(dst)]
			with := part
			if k < len(m) {
				with = repeated[k*lookUpBlock:][:len(dst)]
			}
			equal(cpu.Active(), dst, part, with)
		})
		return
	}
	c.Parallel(len(keys), kit.GrainCostly, func(lo, hi int) {
		for i, k := range keys[lo:hi] {
			j, ok := m[k]
			if !ok {
				j = none
			}
			if k != k {
				j = t.nan
			}
			at[lo+i] = j
		}
	})
}

const lookUpBlock = 256

// lookUpFew is lookUp for n keys and a table of few, which have these indices. equal compares the
// keys from lo on with key k of the table, or with themselves if k is the number of those.
func lookUpFew(c *ir.Call, t *labelTable, n int, index, at []int32, equal func(dst []bool, lo, k int)) {
	l, none := cpu.Active(), uint32(t.values.Len()-1)
	indices := make([]uint32, (len(index)+1)*lookUpBlock)
	for k, v := range append(index, t.nan) {
		kit.RepeatOf(indices[k*lookUpBlock:][:lookUpBlock], uint32(v))
	}
	found := memory.FromRaw[uint32](memory.AsBytes(at))
	c.Parallel(n, kit.GrainCheap, func(lo, hi int) {
		block := make([]bool, lookUpBlock)
		for ; lo < hi; lo += lookUpBlock {
			to := found[lo:min(hi, lo+lookUpBlock)]
			which := block[:len(to)]
			kit.RepeatOf(to, none)
			for k := range index {
				equal(which, lo, k)
				vec.SelectU32(l, to, indices[k*lookUpBlock:][:len(to)], to, which)
			}
			if uint32(t.nan) != none {
				equal(which, lo, len(index))
				vec.SelectU32(l, to, to, indices[len(index)*lookUpBlock:][:len(to)], which)
			}
		}
	})
}
