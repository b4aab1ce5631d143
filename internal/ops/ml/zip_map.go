package ml

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// ZipMap converts each row of X ([N,C], or [C] for one row) to a map from C keys, in the
// order of the attribute, to the row's elements
// (https://onnx.ai/onnx/operators/onnx_aionnxml_ZipMap.html).
type ZipMap struct{ keys *tensor.Tensor }

var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "ZipMap", Since: kit.Versions{1}, In: "X:float", Out: "Z:T",
	Types: "T: seq(map(string,float)) seq(map(int64,float))",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		l := readClassLabels(a, "classlabels_int64s", "classlabels_strings")
		op := &ZipMap{}
		if l.dtype() == tensor.TypeString {
			op.keys = tensor.Must(tensor.New(l.strs, len(l.strs)))
			rejectDuplicates(a, l.strs)
		} else {
			op.keys = tensor.Must(tensor.New(l.ints, len(l.ints)))
			rejectDuplicates(a, l.ints)
		}
		return op
	}})

func rejectDuplicates[K comparable](a *kit.Attrs, keys []K) {
	seen := make(map[K]bool, len(keys))
	for _, k := range keys {
		if seen[k] {
			a.Errorf("key %v appears twice among the class labels", k)
			return
		}
		seen[k] = true
	}
}

func (op *ZipMap) mapType() tensor.Type {
	return tensor.MapOf(op.keys.DType(), tensor.TensorType(tensor.TypeFloat32))
}

// Infer sets Z to a sequence of maps.
func (op *ZipMap) Infer(c *ir.InferContext) error {
	_, cols, err := mlRowDims(c, 0, "X")
	if err != nil {
		return err
	}
	if cols.Differs(ir.Known(op.keys.Len())) {
		return fail.Errorf("X has %s columns, but there are %d class labels", cols, op.keys.Len())
	}
	c.SetOut(0, ir.FromTensorType(tensor.SequenceOf(op.mapType())))
	return nil
}

// Copying implements [ir.Copying].
func (*ZipMap) Copying() {}

// Run creates the maps. All share one copy of the keys and one buffer of values.
func (op *ZipMap) Run(c *ir.Call) error {
	x := c.Tensor(0)
	n, cols, err := mlRows(x, "X")
	if err != nil {
		return err
	}
	if cols != op.keys.Len() {
		return fail.Errorf("X has %d columns, but there are %d class labels", cols, op.keys.Len())
	}
	if err := c.Reserve(int64(n) * int64(4*cols+192)); err != nil {
		return err
	}
	values := make([]float32, n*cols)
	copy(values, tensor.MustData[float32](x))
	keys := op.keys.Clone()
	items, rows, maps := make([]tensor.Value, n), make([]tensor.Tensor, n), make([]tensor.Map, n)
	shape := []int{cols}
	c.Serial(n, kit.GrainCostly, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			rows[i].Reset(tensor.TypeFloat32, memory.AsBytes(values[i*cols:(i+1)*cols:(i+1)*cols]), shape)
			maps[i] = tensor.Map{Keys: keys, Values: &rows[i]}
			items[i] = &maps[i]
		}
	})
	c.Set(0, &tensor.Sequence{Elem: op.mapType(), Items: items})
	return nil
}
