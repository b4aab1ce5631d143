package ml

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// DictVectorizer writes the values of a map to [1, vocabulary], each at the index of its
// key in the vocabulary. Elements whose key the map lacks are 0 or "". Keys that the
// vocabulary lacks are ignored
// (https://onnx.ai/onnx/operators/onnx_aionnxml_DictVectorizer.html).
type DictVectorizer struct {
	vocabulary classLabels
	ints       map[int64]int32 // last index of each key in the vocabulary
	strs       map[string]int32
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "DictVectorizer", Since: kit.Versions{1},
	In: "X:T1", Out: "Y:T2",
	Types: "T1: map(string,int64) map(int64,string) map(int64,float) map(int64,double) map(string,float) " +
		"map(string,double); T2: int64 float double string", Build: func(a *kit.Attrs, opset int) kit.Operator {
		v := readClassLabels(a, "int64_vocabulary", "string_vocabulary")
		return &DictVectorizer{v, lastIndices(v.ints), lastIndices(v.strs)}
	}})

// Infer sets Y to [1, vocabulary].
func (op *DictVectorizer) Infer(c *ir.InferContext) error {
	t := c.Type(0)
	if t.Kind != tensor.KindMap || t.Of == nil || t.Elem != op.vocabulary.dtype() {
		return fail.Errorf("X has type %s, but the vocabulary has type %s", t, op.vocabulary.dtype())
	}
	c.SetOut(0, ir.TensorType(t.Of.Elem, ir.Known(1), ir.Known(op.vocabulary.len())))
	return nil
}

// mapParts returns the keys and values of a map of tensors.
func mapParts(v tensor.Value) (keys, values *tensor.Tensor, err error) {
	m, ok := v.(*tensor.Map)
	if !ok {
		return nil, nil, fail.Errorf("X is %s, want a map", v.Type())
	}
	values, ok = m.Values.(*tensor.Tensor)
	if !ok {
		return nil, nil, fail.Errorf("X is %s, want a map to numbers or strings", v.Type())
	}
	return m.Keys, values, nil
}

// Run looks up every key of the map.
func (op *DictVectorizer) Run(c *ir.Call) error {
	keys, values, err := mapParts(c.In[0])
	if err != nil {
		return err
	}
	y, err := c.Output(0, values.DType(), 1, op.vocabulary.len())
	if err != nil {
		return err
	}
	index, err := ir.ScratchOf[int32](c, op.vocabulary.len())
	if err != nil {
		return err
	}
	for i := range index {
		index[i] = -1
	}
	// The caller's map may have many more keys than the vocabulary: nothing is allocated for them.
	if keys.DType() == tensor.TypeString {
		dictIndices(c, index, op.strs, op.vocabulary.strs, tensor.MustData[string](keys))
	} else {
		dictIndices(c, index, op.ints, op.vocabulary.ints, tensor.MustData[int64](keys))
	}
	switch values.DType() {
	case tensor.TypeString:
		dictFill[string](y, values, index)
	case tensor.TypeInt64:
		dictFill[int64](y, values, index)
	case tensor.TypeFloat32:
		dictFill[float32](y, values, index)
	case tensor.TypeFloat64:
		dictFill[float64](y, values, index)
	default:
		return fail.Errorf("the values of X have unsupported type %s", values.DType())
	}
	return nil
}

// lastIndices maps elements to their last index.
func lastIndices[K comparable](of []K) map[K]int32 {
	m := make(map[K]int32, len(of))
	for i, k := range of {
		m[k] = int32(i)
	}
	return m
}

// dictIndices stores the index in keys of each element of the vocabulary that occurs there.
func dictIndices[K comparable](c *ir.Call, index []int32, last map[K]int32, vocabulary, keys []K) {
	for lo, hi := range ir.Steps(c, len(keys)) {
		for i, k := range keys[lo:hi] {
			if at, ok := last[k]; ok {
				index[at] = int32(lo + i)
			}
		}
	}
	for i, k := range vocabulary { // elements may occur twice
		index[i] = index[last[k]]
	}
}

func dictFill[V labelKey](y, values *tensor.Tensor, index []int32) {
	var zero V
	d, v := tensor.MustData[V](y), tensor.MustData[V](values)
	for i, j := range index {
		d[i] = zero
		if j >= 0 {
			d[i] = v[j]
		}
	}
}
