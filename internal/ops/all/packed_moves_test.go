package all

import (
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// packedTwin returns a value with each of its uint8 tensors converted to type d. The elements
// have the low bits of the bytes. d may be uint8 with the bits to keep.
func packedTwin(v any, d tensor.DType, bits int) any {
	switch v := v.(type) {
	case *tensor.Tensor:
		if v == nil || v.DType() != tensor.TypeUint8 {
			return v
		}
		t := tensor.Must(tensor.Zeros(d, v.Shape()...))
		if d.Packed() {
			memory.PackUint(t.Bytes(), v.Bytes(), d.Bits())
			return t
		}
		for i, b := range v.Bytes() {
			t.Bytes()[i] = b & (1<<bits - 1)
		}
		return t
	case *tensor.Sequence:
		s := &tensor.Sequence{Elem: v.Elem}
		if v.Elem.Elem == tensor.TypeUint8 {
			s.Elem = tensor.TensorType(d)
		}
		for _, x := range v.Items {
			s.Items = append(s.Items, packedTwin(x, d, bits).(tensor.Value))
		}
		return s
	case *tensor.Optional:
		o := &tensor.Optional{Elem: tensor.TensorType(d)}
		if v.Value != nil {
			o.Value = packedTwin(v.Value, d, bits).(tensor.Value)
		}
		return o
	case func(d tensor.DType, bits int) any: // an attribute that depends on the type
		return v(d, bits)
	}
	return v
}

// codes returns a uint8 tensor whose bytes have all kinds of low bits.
func codes(shape ...int) *tensor.Tensor {
	v := make([]uint8, kit.Product(shape))
	for i := range v {
		v[i] = uint8(i*37 + i>>3 + 11)
	}
	return optest.Tensor(v, shape...)
}

// packedMoves lists calls of every operator that moves elements of all types. The uint8 tensors
// are data, with 5 or 7 elements per row, so that elements of packed types cross bytes and rows
// begin within bytes.
func packedMoves(t *testing.T) []packedMove {
	none, yes := (*tensor.Tensor)(nil), tensor.Scalar(true)
	seq := func(items ...tensor.Value) tensor.Value {
		return &tensor.Sequence{Elem: tensor.TensorType(tensor.TypeUint8), Items: items}
	}
	typed := func(f func(d tensor.DType, bits int) any) any { return f }
	graph := func(build func(b *optest.Graph, elem ir.Type) *ir.Graph) any {
		return typed(func(d tensor.DType, _ int) any { return build(optest.NewGraph(t), ir.UnrankedTensor(d)) })
	}
	constants := func(shapes ...[]int) any {
		return typed(func(d tensor.DType, bits int) any {
			b := optest.NewGraph(t)
			var parts []ir.ValueID
			for _, s := range shapes {
				parts = append(parts, b.Constant(packedTwin(codes(s...), d, bits).(tensor.Value)))
			}
			return b.Returns(b.Node("Concat", optest.Attrs{"axis": 0}, parts...))
		})
	}
	x := codes(3, 5, 7)
	return []packedMove{
		{"Concat", 13, -1, optest.Attrs{"axis": -1}, []tensor.Value{codes(2, 5), codes(2, 3), codes(2, 1)}},
		{"Concat", 13, -1, optest.Attrs{"axis": 0}, []tensor.Value{codes(1, 5), codes(2, 5)}},
		{"ConcatFromSequence", 11, -1, optest.Attrs{"axis": 0}, []tensor.Value{seq(codes(1, 5), codes(3, 5))}},
		{"ConcatFromSequence", 11, -1, optest.Attrs{"axis": 1, "new_axis": 1}, []tensor.Value{seq(codes(7), codes(7))}},
		{"Constant", 25, -1, optest.Attrs{"value": codes(7)}, nil},
		{"ConstantOfShape", 25, -1, optest.Attrs{"value": codes(1)}, []tensor.Value{optest.Int64s(3, 3)}},
		{"Expand", 13, -1, nil, []tensor.Value{codes(3, 1, 5), optest.Int64s(2, 3, 3, 5)}},
		{"Flatten", 25, -1, optest.Attrs{"axis": 2}, []tensor.Value{x}},
		{"Gather", 13, -1, optest.Attrs{"axis": 1}, []tensor.Value{x, optest.Int64s(4, -5, 2)}},
		{"Gather", 13, -1, optest.Attrs{"axis": 2}, []tensor.Value{x, optest.Int64s(6, 0, 3, 3)}},
		{"Identity", 25, -1, nil, []tensor.Value{x}},
		{"Identity", 25, -1, nil, []tensor.Value{seq(codes(5))}},
		{"Optional", 28, -1, nil, []tensor.Value{codes(5)}},
		{"OptionalGetElement", 28, -1, nil, []tensor.Value{&tensor.Optional{Elem: tensor.TensorType(tensor.TypeUint8), Value: codes(5)}}},
		{"OptionalHasElement", 28, -1, nil, []tensor.Value{&tensor.Optional{Elem: tensor.TensorType(tensor.TypeUint8), Value: codes(5)}}},
		{"Pad", 25, -1, nil, []tensor.Value{codes(3, 5), optest.Int64s(1, 0, 0, 2), codes()}},
		{"Pad", 25, -1, optest.Attrs{"mode": "reflect"}, []tensor.Value{codes(3, 5), optest.Int64s(0, 2, 1, 3)}},
		{"Pad", 25, -1, optest.Attrs{"mode": "edge"}, []tensor.Value{codes(3, 5), optest.Int64s(0, -1, 1, 3)}},
		{"Reshape", 25, -1, nil, []tensor.Value{x, optest.Int64s(7, -1)}},
		{"SequenceAt", 11, -1, nil, []tensor.Value{seq(codes(3), codes(5)), tensor.Scalar[int64](1)}},
		{"SequenceConstruct", 11, -1, nil, []tensor.Value{codes(3), codes(5)}},
		{"SequenceEmpty", 11, -1, optest.Attrs{"dtype": typed(func(d tensor.DType, _ int) any { return d })}, nil},
		{"SequenceErase", 11, -1, nil, []tensor.Value{seq(codes(3), codes(5)), tensor.Scalar[int64](0)}},
		{"SequenceInsert", 11, -1, nil, []tensor.Value{seq(codes(3)), codes(5), tensor.Scalar[int64](0)}},
		{"SequenceLength", 11, -1, nil, []tensor.Value{seq(codes(3), codes(5))}},
		{"SequenceMap", 17, -1, optest.Attrs{"body": graph(func(b *optest.Graph, elem ir.Type) *ir.Graph {
			return b.Returns(b.Node("Transpose", nil, b.Input(elem)))
		})}, []tensor.Value{seq(codes(3, 5), codes(5, 1))}},
		{"Shape", 25, -1, nil, []tensor.Value{x}},
		{"Size", 25, -1, nil, []tensor.Value{x}},
		{"Slice", 13, -1, nil, []tensor.Value{x, optest.Int64s(4, 6), optest.Int64s(0, 0), optest.Int64s(1, 2), optest.Int64s(-1, -2)}},
		{"Slice", 13, -1, nil, []tensor.Value{codes(21), optest.Int64s(3), optest.Int64s(17)}},
		{"Split", 18, 3, optest.Attrs{"axis": 1}, []tensor.Value{x, optest.Int64s(1, 3, 1)}},
		{"SplitToSequence", 24, -1, optest.Attrs{"axis": 2}, []tensor.Value{x, optest.Int64s(3, 4)}},
		{"SplitToSequence", 24, -1, optest.Attrs{"axis": 0, "keepdims": 0}, []tensor.Value{x}},
		{"Squeeze", 25, -1, nil, []tensor.Value{codes(1, 5, 1), optest.Int64s(0)}},
		{"TensorScatter", 24, -1, optest.Attrs{"mode": "circular"}, []tensor.Value{codes(2, 3, 5), codes(2, 2, 5), optest.Int64s(2, 0)}},
		{"Tile", 13, -1, nil, []tensor.Value{codes(3, 5), optest.Int64s(2, 3)}},
		{"Transpose", 25, -1, nil, []tensor.Value{x}},
		{"Transpose", 25, -1, optest.Attrs{"perm": []int{1, 0, 2}}, []tensor.Value{x}},
		{"Unsqueeze", 25, -1, nil, []tensor.Value{codes(5), optest.Int64s(0, 2)}},
		{"com.microsoft.UnfoldTensor", 1, -1, optest.Attrs{"dim": 0, "size": 3, "step": 2}, []tensor.Value{codes(7)}},
		{"If", 25, 1, optest.Attrs{"then_branch": constants([]int{5}, []int{2}), "else_branch": constants([]int{3})}, []tensor.Value{yes}},
		// carries x transposed, scans it
		{"Loop", 25, 2, optest.Attrs{"body": graph(func(b *optest.Graph, elem ir.Type) *ir.Graph {
			b.Input(ir.TensorType(tensor.TypeInt64))
			on, x := b.Input(ir.TensorType(tensor.TypeBool)), b.Input(elem)
			y := b.Node("Transpose", nil, x)
			return b.Returns(b.Node("Identity", nil, on), y, b.Node("Reshape", nil, y, b.Constant(optest.Int64s(-1))))
		})}, []tensor.Value{tensor.Scalar[int64](3), none, codes(3, 5)}},
		{"Scan", 25, 2, optest.Attrs{"num_scan_inputs": 1, "scan_input_axes": []int{1}, "scan_input_directions": []int{1}, "scan_output_axes": []int{-1},
			"body": graph(func(b *optest.Graph, elem ir.Type) *ir.Graph { // the state is the previous item
				b.Input(elem)
				x := b.Input(elem)
				return b.Returns(b.Node("Identity", nil, x), b.Node("Concat", optest.Attrs{"axis": 0}, x, x))
			})}, []tensor.Value{codes(3), codes(3, 5)}},
	}
}

type packedMove struct {
	op      string
	opset   int
	outputs int // -1: those of the signature
	attrs   optest.Attrs
	in      []tensor.Value
}

// TestMovesOfPackedTypes runs each move on bytes and on each packed type with the low bits of
// the bytes. The elements must be equal, and the padding bits zero.
func TestMovesOfPackedTypes(t *testing.T) {
	for d := tensor.TypeFloat32; d.Valid(); d++ {
		if !d.Packed() {
			continue
		}
		covered := map[string]bool{"Cast": true, "CastLike": true} // convert
		for _, m := range packedMoves(t) {
			covered[m.op] = true
			run := func(d, to tensor.DType) []tensor.Value {
				a := optest.Attrs{}
				for name, v := range m.attrs {
					a[name] = packedTwin(v, to, d.Bits())
				}
				in := make([]tensor.Value, len(m.in))
				for i, v := range m.in {
					in[i] = packedTwin(v, to, d.Bits()).(tensor.Value)
				}
				out, err := optest.RunN(t, m.outputs, m.op, m.opset, a, in...)
				if err != nil {
					t.Fatalf("%s of %s: %v", m.op, to, err)
				}
				return out
			}
			want := run(d, tensor.TypeUint8)
			for i, got := range run(d, d) {
				if w := packedTwin(want[i], d, d.Bits()).(tensor.Value); !optest.Same(got, w, 0) ||
					!got.Type().Equal(w.Type()) {
					t.Errorf("%s of %s: output %d is %s, want %s", m.op, d, i, optest.Show(got), optest.Show(w))
				}
			}
		}
		for _, def := range kit.All() {
			if def.Domain == kit.DomainInternal || covered[kit.QualifiedName(def.Domain, def.Name)] {
				continue
			}
			for name, types := range def.Signature().Vars {
				has := func(e tensor.DType) bool {
					return slices.ContainsFunc(types, func(t tensor.Type) bool {
						return t.Equal(tensor.TensorType(e)) || t.Equal(tensor.SequenceOf(tensor.TensorType(e)))
					})
				}
				if has(d) && has(tensor.TypeString) { // an operator that accepts both computes nothing
					t.Errorf("%s accepts %s as %s, but no call tests it", def.Name, d, name)
				}
			}
		}
	}
}
