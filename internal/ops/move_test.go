package ops

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

// moveIota returns 0, 1, … as a float tensor.
func moveIota(shape ...int) *tensor.Tensor {
	v := make([]float32, kit.Product(shape))
	for i := range v {
		v[i] = float32(i)
	}
	return optest.Tensor(v, shape...)
}

// symbolic returns a graph input of the given shape. Strings are symbols.
func symbolic(d tensor.DType, dims ...any) *ir.Value {
	shape := make([]ir.Dim, len(dims))
	for i, x := range dims {
		switch x := x.(type) {
		case int:
			shape[i] = ir.Known(x)
		case string:
			shape[i] = ir.Symbol(x)
		}
	}
	return &ir.Value{Type: ir.TensorType(d, shape...)}
}

func constValue(v tensor.Value) *ir.Value { return &ir.Value{Type: ir.TypeOf(v), Const: v} }

// wantShape infers an operator with one output and compares the shape.
func wantShape(t *testing.T, want, name string, opset int, a optest.Attrs, in ...*ir.Value) *ir.Value {
	t.Helper()
	out, err := optest.Infer(t, name, opset, a, in...)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return symbolic(tensor.TypeInt64)
	}
	if got := fmt.Sprint(out[0].Type.Shape); got != want {
		t.Errorf("%s: shape %s, want %s", name, got, want)
	}
	return &out[0]
}

// TestMoveStrided compares random boxes with a plain loop, for every width.
func TestMoveStrided(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rank := rapid.IntRange(0, 5).Draw(r, "rank")
		shape := make([]int, rank)
		for i := range shape {
			shape[i] = rapid.IntRange(0, 5).Draw(r, "dim")
		}
		if rapid.Bool().Draw(r, "wide") && rank >= 2 {
			shape[rank-1], shape[rank-2] = rapid.IntRange(30, 70).Draw(r, "w"), rapid.IntRange(30, 70).Draw(r, "h")
		}
		perm := rapid.Permutation(kit.Ints(tensor.Must(tensor.New(seq64(rank), rank)))).Draw(r, "perm")
		srcShape := make([]int, rank)
		for i, p := range perm {
			srcShape[p] = shape[i]
		}
		s := kit.Strides(srcShape)
		from := make([]int, rank)
		off := 0
		for i, p := range perm {
			switch from[i] = s[p]; rapid.IntRange(0, 3).Draw(r, "kind") {
			case 0:
				from[i] = 0
			case 1:
				if shape[i] > 0 {
					off += (shape[i] - 1) * from[i]
				}
				from[i] = -from[i]
			}
		}
		n := kit.Product(shape)
		c := &ir.Call{Env: &optest.Env{Ctx: context.Background(), Two: true, Limit: optest.MemoryLimit}}
		for _, width := range []int{0, 1, 2, 4, 8, 16} {
			src, dst := testBuf(width, n), testBuf(width, n)
			move.Clear(c, dst)
			move.Strided(c, dst, src, shape, kit.Strides(shape), 0, from, off)
			pos := make([]int, rank)
			for i := range n {
				p := off
				for k := range pos {
					p += pos[k] * from[k]
				}
				if width == 0 && dst.Strs[i] != src.Strs[p] || width != 0 && string(dst.Raw[i*width:(i+1)*width]) !=
					string(src.Raw[p*width:(p+1)*width]) {
					r.Fatalf("width %d, shape %v, strides %v: element %d differs from element %d of the source",
						width, shape, from, i, p)
				}
				for k := rank - 1; k >= 0; k-- {
					if pos[k]++; pos[k] < shape[k] {
						break
					}
					pos[k] = 0
				}
			}
		}
	})
}

func seq64(n int) []int64 {
	v := make([]int64, n)
	for i := range v {
		v[i] = int64(i)
	}
	return v
}

func testBuf(width, n int) move.Buf {
	b := move.Buf{Width: width}
	if width == 0 {
		b.Strs = make([]string, n)
		for i := range b.Strs {
			b.Strs[i] = fmt.Sprint(i)
		}
		return b
	}
	b.Raw = make([]byte, width*n)
	for i := range b.Raw {
		b.Raw[i] = byte(i*7 + i>>8)
	}
	return b
}

func TestReshape(t *testing.T) {
	x := moveIota(2, 3, 4)
	optest.Want(t, "Reshape", 25, nil, moveIota(4, 6), x, optest.Int64s(4, -1))
	optest.Want(t, "Reshape", 25, nil, moveIota(2, 12), x, optest.Int64s(0, -1))
	optest.Want(t, "Reshape", 4, optest.Attrs{"shape": []int{6, 4}, "consumed_inputs": []int{0}}, moveIota(6, 4), x)
	optest.Want(t, "Reshape", 13, nil, moveIota(), moveIota(1, 1), optest.Int64s())
	optest.Want(t, "Reshape", 14, optest.Attrs{"allowzero": 1}, moveIota(3, 0, 5), moveIota(0, 7),
		optest.Int64s(3, 0, 5))
	optest.Want(t, "Reshape", 14, nil, moveIota(0, 2), moveIota(0, 4, 3), optest.Int64s(0, 2))
	packed := tensor.Must(tensor.Pack(tensor.TypeInt4, []int8{1, -2, 3, 4, -5, 6}, 2, 3))
	optest.Want(t, "Reshape", 21, nil, tensor.Must(packed.Reshape(3, 2)), packed, optest.Int64s(3, 2))
	optest.Fail(t, "Reshape", 14, nil, "multiple", x, optest.Int64s(5, -1))
	optest.Fail(t, "Reshape", 14, nil, "elements", x, optest.Int64s(5, 5))
	optest.Fail(t, "Reshape", 14, nil, "more than one", x, optest.Int64s(-1, -1))
	optest.Fail(t, "Reshape", 14, nil, "at position 0", x, optest.Int64s(-7, 2))
	optest.Fail(t, "Reshape", 14, nil, "rank 3", x, optest.Int64s(2, 3, 4, 0))
	optest.Fail(t, "Reshape", 14, nil, "", x, optest.Int64s(1<<62, 1<<62, 2))
	optest.Fail(t, "Reshape", 14, optest.Attrs{"alowzero": 1}, "unknown attribute", x, optest.Int64s(24))
}

// TestReshapeOfEmptyInputWithAllowZero resolves −1 beside 0 like ONNX Runtime, whose results these
// are.
func TestReshapeOfEmptyInputWithAllowZero(t *testing.T) {
	a := optest.Attrs{"allowzero": 1}
	for _, c := range []struct {
		in    []int
		shape []int64
		want  []int
	}{
		{[]int{0, 3}, []int64{0, -1}, []int{0, 3}},
		{[]int{0, 3}, []int64{-1, 0}, []int{3, 0}},
		{[]int{0, 3}, []int64{0, -1, 3}, []int{0, 1, 3}},
		{[]int{0}, []int64{0, -1}, []int{0, 1}},
		{[]int{4, 0}, []int64{0, -1}, []int{0, 4}},
		{[]int{0, 0, 3}, []int64{0, 0, -1}, []int{0, 0, 3}},
		{[]int{3, 0, 5}, []int64{0, -1, 5}, []int{0, 3, 5}},
	} {
		optest.Want(t, "Reshape", 21, a, moveIota(c.want...), moveIota(c.in...), optest.Int64s(c.shape...))
	}
	optest.Fail(t, "Reshape", 21, a, "multiple of 2", moveIota(0, 3), optest.Int64s(0, -1, 2))
	optest.Fail(t, "Reshape", 21, a, "multiple of 0", moveIota(2, 3), optest.Int64s(0, -1))
}

// TestReshapeOfEmptyInputToHugeShape resolves −1 beside dimensions whose product overflows to 0.
func TestReshapeOfEmptyInputToHugeShape(t *testing.T) {
	for z := range 2 {
		a := optest.Attrs{"allowzero": z}
		optest.Fail(t, "Reshape", 21, a, "above the limit", moveIota(0, 5), optest.Int64s(0, -1, 1<<32, 1<<32))
	}
}

// TestShapeArithmetic follows shapes through the chains that exporters write.
func TestShapeArithmetic(t *testing.T) {
	x := symbolic(tensor.TypeFloat32, "N", "S", 768)
	shape := wantShape(t, "[3]", "Shape", 25, nil, x)
	if fmt.Sprint(shape.Contents) != "[N S 768]" {
		t.Errorf("Shape gives %v", shape.Contents)
	}
	n := wantShape(t, "[]", "Gather", 13, nil, shape, constValue(tensor.Scalar[int64](0)))
	s := wantShape(t, "[1]", "Slice", 13, nil, shape, constValue(optest.Int64s(1)), constValue(optest.Int64s(2)))
	n1 := wantShape(t, "[1]", "Unsqueeze", 13, nil, n, constValue(optest.Int64s(0)))
	heads := constValue(optest.Int64s(12, -1))
	want := wantShape(t, "[4]", "Concat", 13, optest.Attrs{"axis": 0}, n1, s, heads)
	r := wantShape(t, "[N S 12 64]", "Reshape", 25, nil, x, want)
	r = wantShape(t, "[N 12 S 64]", "Transpose", 25, optest.Attrs{"perm": []int{0, 2, 1, 3}}, r)
	back := wantShape(t, "[3]", "Concat", 13, optest.Attrs{"axis": 0}, n1, s, constValue(optest.Int64s(-1)))
	wantShape(t, "[N S 768]", "Reshape", 25, nil,
		wantShape(t, "[N S 12 64]", "Transpose", 25, optest.Attrs{"perm": []int{0, 2, 1, 3}}, r), back)
	wantShape(t, "[S 1 N]", "Expand", 13, nil, symbolic(tensor.TypeFloat32, 1, 1, 1),
		wantShape(t, "[3]", "Concat", 13, optest.Attrs{"axis": 0}, s, constValue(optest.Int64s(1)), n1))
	wantShape(t, "[N S-1 768]", "Slice", 13, nil, x, constValue(optest.Int64s(1)), constValue(optest.Int64s(1<<62)),
		constValue(optest.Int64s(1)))
	wantShape(t, "[N S 768]", "Slice", 13, nil, x, constValue(optest.Int64s(0, 0)), constValue(optest.Int64s(1e9, 1e9)),
		constValue(optest.Int64s(0, 1))) // as tf2onnx writes
	wantShape(t, "[N (512&S)]", "Slice", 13, nil, symbolic(tensor.TypeInt64, "N", 512), constValue(optest.Int64s(0)), s,
		constValue(optest.Int64s(1)))
	wantShape(t, "[2*N S 768]", "Concat", 13, optest.Attrs{"axis": 0}, x, x)
	wantShape(t, "[N 3*S 768]", "Tile", 13, nil, x, constValue(optest.Int64s(1, 3, 1)))
	wantShape(t, "[N S+3 768]", "Pad", 25, nil, x, constValue(optest.Int64s(0, 1, 0, 0, 2, 0)))
	wantShape(t, "[(N*S) 768]", "Reshape", 25, nil, x, constValue(optest.Int64s(-1, 768)))
	wantShape(t, "[N 768*S]", "Flatten", 25, nil, x)
	wantShape(t, "[N S]", "ConstantOfShape", 25, nil,
		wantShape(t, "[2]", "Slice", 13, nil, shape, constValue(optest.Int64s(0)), constValue(optest.Int64s(2))))
	size := wantShape(t, "[]", "Size", 25, nil, x)
	if fmt.Sprint(size.Contents) != "[768*(N*S)]" {
		t.Errorf("Size gives %v", size.Contents)
	}
	sp, err := optest.InferN(t, 3, "Split", 18, optest.Attrs{"num_outputs": 3}, shape)
	if err != nil || fmt.Sprint(sp[1].Contents) != "[S]" {
		t.Errorf("Split of a shape: %v, %v", sp, err)
	}
	wantShape(t, "[2 3]", "Squeeze", 13, nil, symbolic(tensor.TypeFloat32, 2, 1, 3))
	wantShape(t, "[N 3]", "Squeeze", 13, nil, symbolic(tensor.TypeFloat32, "N", 1, 3), constValue(optest.Int64s(1)))
}

func TestSqueezeUnsqueezeFlatten(t *testing.T) {
	optest.Want(t, "Squeeze", 13, nil, moveIota(2, 3), moveIota(1, 2, 1, 3))
	optest.Want(t, "Squeeze", 11, optest.Attrs{"axes": []int{-2}}, moveIota(1, 2, 3), moveIota(1, 2, 1, 3))
	optest.Want(t, "Squeeze", 1, nil, moveIota(), moveIota(1, 1))
	optest.Want(t, "Squeeze", 13, nil, moveIota(1, 2), moveIota(1, 2), optest.Int64s())
	optest.Fail(t, "Squeeze", 13, nil, "want 1", moveIota(2, 3), optest.Int64s(0))
	optest.Fail(t, "Squeeze", 13, nil, "out of range", moveIota(2, 3), optest.Int64s(-1<<63))
	optest.Want(t, "Squeeze", 13, nil, moveIota(2), moveIota(1, 2), optest.Int64s(0, -2))
	optest.Want(t, "Unsqueeze", 13, nil, moveIota(1, 2, 1), moveIota(2), optest.Int64s(2, 0))
	optest.Want(t, "Unsqueeze", 1, optest.Attrs{"axes": []int{0}}, moveIota(1, 2), moveIota(2))
	optest.Fail(t, "Unsqueeze", 11, nil, "axes is missing", moveIota(2))
	optest.Fail(t, "Unsqueeze", 13, nil, "out of range", moveIota(2), optest.Int64s(1<<63-1))
	optest.Want(t, "Flatten", 25, optest.Attrs{"axis": -1}, moveIota(6, 4), moveIota(2, 3, 4))
	optest.Want(t, "Flatten", 1, nil, moveIota(2, 12), moveIota(2, 3, 4))
	optest.Want(t, "Flatten", 25, optest.Attrs{"axis": 0}, moveIota(1, 1), moveIota())
	optest.Fail(t, "Flatten", 25, optest.Attrs{"axis": 4}, "out of range", moveIota(2, 3, 4))
}

func TestTranspose(t *testing.T) {
	optest.Want(t, "Transpose", 25, nil, optest.Tensor([]string{"a", "c", "b", "d"}, 2, 2),
		optest.Tensor([]string{"a", "b", "c", "d"}, 2, 2))
	optest.Want(t, "Transpose", 25, nil, tensor.Must(tensor.Pack(tensor.TypeUint4, []uint8{1, 4, 2, 5, 3, 6}, 3, 2)),
		tensor.Must(tensor.Pack(tensor.TypeUint4, []uint8{1, 2, 3, 4, 5, 6}, 2, 3)))
	optest.Want(t, "Transpose", 1, optest.Attrs{"perm": []int{1, 0, 2}}, moveIota(0, 2, 3), moveIota(2, 0, 3))
	optest.Want(t, "Transpose", 13, nil, moveIota(), moveIota())
	optest.Fail(t, "Transpose", 13, optest.Attrs{"perm": []int{0, 0}}, "twice", moveIota(2, 2))
	optest.Fail(t, "Transpose", 13, optest.Attrs{"perm": []int{0}}, "rank 2", moveIota(2, 2))
	optest.Fail(t, "Transpose", 13, optest.Attrs{"perm": []int{-1 << 63, 0}}, "want 0 to 1", moveIota(2, 2))
}

func TestConcatSplit(t *testing.T) {
	a, b := moveIota(2, 1), optest.Tensor([]float32{7, 8, 9, 10}, 2, 2)
	optest.Want(t, "Concat", 1, nil, optest.Tensor([]float32{0, 7, 8, 1, 9, 10}, 2, 3), a, b)
	optest.Want(t, "Concat", 13, optest.Attrs{"axis": -2}, moveIota(2, 1), a, moveIota(0, 1))
	optest.Fail(t, "Concat", 13, nil, "axis is missing", a)
	optest.Fail(t, "Concat", 13, optest.Attrs{"axis": 0}, "dimension 1", a, b)
	optest.Fail(t, "Concat", 13, optest.Attrs{"axis": 0}, "rank", a, moveIota(2))
	// Inputs without elements may have other dimensions of 0.
	optest.Want(t, "Concat", 13, optest.Attrs{"axis": 0}, moveIota(2, 1), moveIota(0, 0), a)
	optest.Want(t, "Concat", 13, optest.Attrs{"axis": 0}, a, moveIota(3, 0), a)
	optest.Fail(t, "Concat", 13, optest.Attrs{"axis": 1}, "dimension 0", moveIota(2, 3), moveIota(3, 0))
	optest.Fail(t, "Concat", 13, optest.Attrs{"axis": 0}, "dimension 1", moveIota(0, 3), moveIota(0, 4))
	x := moveIota(7)
	optest.WantAll(t, "Split", 18, optest.Attrs{"num_outputs": 3},
		[]tensor.Value{optest.Tensor([]float32{0, 1, 2}), optest.Tensor([]float32{3, 4, 5}),
			optest.Tensor([]float32{6}, 1)}, x)
	optest.WantAll(t, "Split", 13, nil,
		[]tensor.Value{optest.Tensor([]float32{0, 1}), optest.Tensor([]float32{2, 3, 4, 5, 6})}, x, optest.Int64s(2, 5))
	optest.WantAll(t, "Split", 2, optest.Attrs{"split": []int{7, 0}}, []tensor.Value{x, moveIota(0)}, x)
	optest.WantAll(t, "Split", 1, nil, []tensor.Value{moveIota(3), optest.Tensor([]float32{3, 4, 5, 6})}, x,
		optest.Tensor([]float32{3, 4}))
	optest.Fail(t, "Split", 13, nil, "add up", x, optest.Int64s(3))
	optest.Fail(t, "Split", 13, nil, "add up", x, optest.Int64s(-3))
	optest.Fail(t, "Split", 18, optest.Attrs{"num_outputs": 0}, "num_outputs", x)
	if _, err := optest.RunN(t, 2, "Split", 13, nil, x); err == nil {
		t.Error("Split-13 of 7 elements into 2 equal parts: no error")
	}
}

func TestSlice(t *testing.T) {
	x := moveIota(3, 4)
	optest.Want(t, "Slice", 1, optest.Attrs{"starts": []int{1, -3}, "ends": []int{1 << 62, 3}},
		optest.Tensor([]float32{5, 6, 9, 10}, 2, 2), x)
	optest.Want(t, "Slice", 13, nil, optest.Tensor([]float32{11, 9, 7, 5}, 2, 2),
		x, optest.Int64s(-1, 3), optest.Int64s(0, -1<<63), optest.Int64s(0, 1), optest.Int64s(-1, -2))
	optest.Want(t, "Slice", 10, nil, moveIota(0, 4), x, optest.Tensor([]int32{5}, 1), optest.Tensor([]int32{9}, 1))
	optest.Want(t, "Slice", 13, nil, optest.Tensor([]float32{3}, 1), moveIota(4), optest.Int64s(-1),
		optest.Int64s(-1<<63), optest.Int64s(0), optest.Int64s(-1<<63))
	optest.Want(t, "Slice", 13, nil, optest.Tensor([]float32{0}, 1), moveIota(4), optest.Int64s(0),
		optest.Int64s(1<<63-1), optest.Int64s(0), optest.Int64s(1<<63-1))
	optest.Want(t, "Slice", 13, nil, moveIota(0), moveIota(0), optest.Int64s(-1), optest.Int64s(-5), optest.Int64s(0),
		optest.Int64s(-1))
	optest.Fail(t, "Slice", 13, nil, "must not be 0", x, optest.Int64s(0), optest.Int64s(1),
		optest.Int64s(0), optest.Int64s(0))
	optest.Fail(t, "Slice", 13, nil, "twice", x, optest.Int64s(0, 0), optest.Int64s(1, 1), optest.Int64s(0, -2))
	optest.Fail(t, "Slice", 13, nil, "out of range", x, optest.Int64s(0), optest.Int64s(1), optest.Int64s(-1<<63))
	optest.Fail(t, "Slice", 13, nil, "rank 2", x, optest.Int64s(0, 0, 0), optest.Int64s(1, 1, 1))
	optest.Fail(t, "Slice", 13, nil, "ends 2", x, optest.Int64s(0), optest.Int64s(1, 1))
}

func TestGathers(t *testing.T) {
	x := moveIota(3, 2)
	optest.Want(t, "Gather", 1, nil, optest.Tensor([]float32{4, 5, 0, 1}, 2, 2), x, optest.Tensor([]int32{-1, 0}))
	optest.Want(t, "Gather", 13, optest.Attrs{"axis": 1}, optest.Tensor([]float32{1, 3, 5}), x, tensor.Scalar[int64](1))
	optest.Want(t, "Gather", 13, nil, moveIota(0, 2), x, optest.Int64s())
	optest.Fail(t, "Gather", 13, nil, "want -3 to 2", x, optest.Int64s(3))
	optest.Fail(t, "Gather", 13, nil, "want -3 to 2", x, optest.Int64s(-1<<63))
	optest.Fail(t, "Gather", 13, nil, "want 0 to -1", moveIota(0, 2), optest.Int64s(0))
	optest.Fail(t, "Gather", 13, nil, "axis 0", moveIota(), optest.Int64s(0))
	optest.Want(t, "GatherElements", 11, optest.Attrs{"axis": 1}, optest.Tensor([]string{"b", "a"}, 2, 1),
		optest.Tensor([]string{"a", "b", "a", "b"}, 2, 2), optest.Tensor([]int64{1, 0}, 2, 1))
	optest.Want(t, "GatherElements", 13, nil, optest.Tensor([]float32{4, 1, 4, 5, 0, 5}, 3, 2), x,
		optest.Tensor([]int64{2, 0, -1, 2, 0, 2}, 3, 2))
	optest.Fail(t, "GatherElements", 13, nil, "rank", x, optest.Int64s(0))
	optest.Fail(t, "GatherElements", 13, nil, "exceed", x, optest.Tensor([]int64{0, 0, 0}, 1, 3))
	optest.Want(t, "GatherND", 11, nil, optest.Tensor([]float32{4, 5, 0, 1}, 2, 2), x,
		optest.Tensor([]int64{2, 0}, 2, 1))
	optest.Want(t, "GatherND", 12, optest.Attrs{"batch_dims": 1}, optest.Tensor([]float32{1, 2, 5}), x,
		optest.Tensor([]int64{1, 0, -1}, 3, 1))
	optest.Want(t, "GatherND", 13, nil, optest.Tensor([]float32{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}, 2, 3, 2), x,
		optest.Tensor([]int64{}, 2, 0))
	optest.Fail(t, "GatherND", 13, nil, "coordinates", x, optest.Tensor([]int64{0, 0, 0}, 1, 3))
	optest.Fail(t, "GatherND", 13, optest.Attrs{"batch_dims": -1}, "batch_dims", x, optest.Tensor([]int64{0}, 1, 1))
	optest.Fail(t, "GatherND", 13, nil, "outside", x, optest.Tensor([]int64{3}, 1, 1))
}

// TestElementOffsets compares with the formula for random shapes and axes.
func TestElementOffsets(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rank := rapid.IntRange(1, 4).Draw(r, "rank")
		axis := rapid.IntRange(0, rank-1).Draw(r, "axis")
		shape, box := make([]int, rank), make([]int, rank)
		for i := range shape {
			shape[i] = rapid.IntRange(1, 4).Draw(r, "dim")
			box[i] = rapid.IntRange(0, shape[i]).Draw(r, "box")
		}
		box[axis] = rapid.IntRange(0, 5).Draw(r, "along")
		idx := make([]int64, kit.Product(box))
		for i := range idx {
			idx[i] = int64(rapid.IntRange(-shape[axis], shape[axis]-1).Draw(r, "index"))
		}
		c := &ir.Call{Env: &optest.Env{Ctx: context.Background(), Limit: optest.MemoryLimit}}
		at, err := move.ElementOffsets(c, shape, optest.Tensor(idx, box...), axis)
		if err != nil {
			r.Fatal(err)
		}
		s, bs := kit.Strides(shape), kit.Strides(box)
		for i := range idx {
			want := 0
			for k := range shape {
				p := i / bs[k] % box[k]
				if k == axis {
					p = (int(idx[i]) + shape[axis]) % shape[axis]
				}
				want += p * s[k]
			}
			if at[i] != want {
				r.Fatalf("shape %v, box %v, axis %d: place %d is %d, want %d", shape, box, axis, i, at[i], want)
			}
		}
	})
}

func TestShapeSizeConstants(t *testing.T) {
	x := moveIota(2, 3, 4)
	optest.Want(t, "Shape", 1, nil, optest.Int64s(2, 3, 4), x)
	optest.Want(t, "Shape", 15, optest.Attrs{"start": -2, "end": 1 << 40}, optest.Int64s(3, 4), x)
	optest.Want(t, "Shape", 15, optest.Attrs{"start": 2, "end": 0}, optest.Int64s(), x)
	optest.Want(t, "Shape", 13, nil, optest.Int64s(), moveIota())
	optest.Want(t, "Size", 13, nil, tensor.Scalar[int64](24), x)
	optest.Want(t, "Size", 13, nil, tensor.Scalar[int64](0), moveIota(0, 5))
	optest.Want(t, "ConstantOfShape", 9, optest.Attrs{"value": optest.Int64s(7)}, optest.Tensor([]int64{7, 7}),
		optest.Int64s(2))
	optest.Want(t, "ConstantOfShape", 9, nil, optest.Tensor([]float32{0}, 1, 1), optest.Int64s(1, 1))
	optest.Want(t, "ConstantOfShape", 21,
		optest.Attrs{"value": tensor.Must(tensor.Pack(tensor.TypeInt4, []int8{-3}, 1))},
		tensor.Must(tensor.Pack(tensor.TypeInt4, []int8{-3, -3, -3}, 3)), optest.Int64s(3))
	optest.Fail(t, "ConstantOfShape", 9, nil, "memory limit", optest.Int64s(1<<40))
	optest.Fail(t, "ConstantOfShape", 9, nil, "is -1", optest.Int64s(-1))
	optest.Fail(t, "ConstantOfShape", 9, optest.Attrs{"value": optest.Int64s(1, 2)}, "one element", optest.Int64s(1))
	optest.Want(t, "Constant", 1, optest.Attrs{"value": x}, x)
	optest.Want(t, "Constant", 12, optest.Attrs{"value_ints": []int{3}}, optest.Int64s(3))
	optest.Want(t, "Constant", 12, optest.Attrs{"value_float": 1.5}, tensor.Scalar[float32](1.5))
	optest.Want(t, "Constant", 13, optest.Attrs{"value_strings": []string{"a", "b"}}, optest.Tensor([]string{"a", "b"}))
	optest.Want(t, "Constant", 13, optest.Attrs{"value_string": "a"}, tensor.Scalar("a"))
	sp := tensor.Sparse{Values: optest.Tensor([]float32{5, 6}), Indices: optest.Int64s(1, 3), Shape: []int{2, 2}}
	optest.Want(t, "Constant", 11, optest.Attrs{"sparse_value": &sp}, optest.Tensor([]float32{0, 5, 0, 6}, 2, 2))
	sp2 := tensor.Sparse{Values: optest.Tensor([]float32{5, 6}), Indices: optest.Tensor([]int64{0, 1, 1, 1}, 2, 2),
		Shape: []int{2, 2}}
	optest.Want(t, "Constant", 11, optest.Attrs{"sparse_value": &sp2}, optest.Tensor([]float32{0, 5, 0, 6}, 2, 2))
	optest.Fail(t, "Constant", 11, nil, "exactly one")
	optest.Fail(t, "Constant", 11, optest.Attrs{"value_int": 1}, "exactly one")
	optest.Fail(t, "Constant", 13, optest.Attrs{"value_int": 1, "value_float": 1.0}, "exactly one")
}

func TestExpandTile(t *testing.T) {
	x := moveIota(2, 1)
	optest.Want(t, "Expand", 8, nil, optest.Tensor([]float32{0, 0, 1, 1, 0, 0, 1, 1}, 2, 2, 2), x,
		optest.Int64s(2, 1, 2))
	optest.Want(t, "Expand", 13, nil, moveIota(2, 0), x, optest.Int64s(0))
	optest.Fail(t, "Expand", 13, nil, "memory limit", x, optest.Int64s(1<<40))
	optest.Fail(t, "Expand", 13, nil, "overflows", x, optest.Int64s(1<<40, 1<<40, 1, 1))
	optest.Fail(t, "Expand", 13, nil, "broadcast", x, optest.Int64s(3, 3))
	optest.Fail(t, "Expand", 13, nil, "is -1", x, optest.Int64s(-1, 3))
	optest.Want(t, "Tile", 6, nil, optest.Tensor([]float32{0, 0, 1, 1, 0, 0, 1, 1}, 4, 2), x, optest.Int64s(2, 2))
	optest.Want(t, "Tile", 1, nil, optest.Tensor([]float32{0, 0, 1, 1}, 2, 2), x, tensor.Scalar[float32](2),
		tensor.Scalar[float32](1))
	optest.Want(t, "Tile", 13, nil, moveIota(2, 0), x, optest.Int64s(1, 0))
	optest.Want(t, "Tile", 13, nil, moveIota(), moveIota(), optest.Int64s())
	optest.Fail(t, "Tile", 13, nil, "memory limit", x, optest.Int64s(1<<20, 1<<20))
	optest.Fail(t, "Tile", 13, nil, "", x, optest.Int64s(1<<62, 1<<62))
	optest.Fail(t, "Tile", 13, nil, "position 0", x, optest.Int64s(-1, 1))
	optest.Fail(t, "Tile", 13, nil, "rank 2", x, optest.Int64s(1))
}

func TestPad(t *testing.T) {
	x := moveIota(3)
	for mode, want := range map[string][]float32{
		"constant": {0, 0, 0, 0, 1, 2, 0, 0, 0, 0},
		"edge":     {0, 0, 0, 0, 1, 2, 2, 2, 2, 2},
		"reflect":  {1, 2, 1, 0, 1, 2, 1, 0, 1, 2},
		"wrap":     {0, 1, 2, 0, 1, 2, 0, 1, 2, 0},
	} {
		optest.Want(t, "Pad", 19, optest.Attrs{"mode": mode}, optest.Tensor(want), x, optest.Int64s(3, 4))
	}
	optest.Want(t, "Pad", 1, optest.Attrs{"paddings": []int{0, 1, 0, 0}, "value": 9.0},
		optest.Tensor([]float32{9, 0, 1}, 1, 3), moveIota(1, 2))
	optest.Want(t, "Pad", 2, optest.Attrs{"pads": []int{-1, 2}, "value": 5.0},
		optest.Tensor([]tensor.Float16{tensor.NewFloat16(2), tensor.NewFloat16(5), tensor.NewFloat16(5)}),
		optest.Tensor([]tensor.Float16{tensor.NewFloat16(1), tensor.NewFloat16(2)}))
	optest.Want(t, "Pad", 13, nil, optest.Tensor([]string{"z", "a"}), optest.Tensor([]string{"a"}, 1),
		optest.Int64s(1, 0), tensor.Scalar("z"))
	optest.Want(t, "Pad", 18, nil, optest.Tensor([]float32{0, 7, 1, 7}, 2, 2), moveIota(2, 1), optest.Int64s(0, 1),
		tensor.Scalar[float32](7), optest.Int64s(-1))
	optest.Want(t, "Pad", 13, optest.Attrs{"mode": "reflect"}, optest.Tensor([]float32{1, 2, 1}),
		x, optest.Int64s(-1, 1))
	optest.Want(t, "Pad", 13, nil, moveIota(0), x, optest.Int64s(-3, 0))
	optest.Want(t, "Pad", 13, nil, optest.Tensor([]float32{0, 0}), x, optest.Int64s(-4, 3))
	optest.Want(t, "Pad", 13, nil, optest.Tensor([]float32{0, 0, 0}), moveIota(0), optest.Int64s(1, 2))
	optest.Fail(t, "Pad", 13, optest.Attrs{"mode": "edge"}, "empty after cropping", moveIota(0), optest.Int64s(1, 2))
	optest.Fail(t, "Pad", 13, nil, "pads has 1", x, optest.Int64s(1))
	optest.Fail(t, "Pad", 13, nil, "with pads", x, optest.Int64s(-1<<63, 1<<62))
	optest.Fail(t, "Pad", 13, nil, "memory limit", x, optest.Int64s(1<<40, 0))
	optest.Fail(t, "Pad", 13, optest.Attrs{"mode": "mirror"}, "want one of", x, optest.Int64s(0, 0))
}

// TestPadLongRows pads and crops rows whose middle is copied as one piece.
func TestPadLongRows(t *testing.T) {
	for mode, source := range map[string]func(i, n int) int{
		"edge":    func(i, n int) int { return min(max(i, 0), n-1) },
		"wrap":    func(i, n int) int { return (i + n) % n },
		"reflect": func(i, n int) int { return min(max(i, -i), 2*(n-1)-i) },
	} {
		for _, n := range []int{14, 15, 16, 17, 40} {
			for _, pads := range [][2]int{{0, 0}, {3, 0}, {0, 5}, {4, 7}, {-2, 3}, {3, -1}, {-1, -2}} {
				crop, size := max(0, -pads[0]), n+min(pads[0], 0)+min(pads[1], 0)
				var want []float32
				for row := range 2 {
					for i := range n + pads[0] + pads[1] {
						want = append(want, float32(row*n+crop+source(i-max(pads[0], 0), size)))
					}
				}
				optest.Want(t, "Pad", 19, optest.Attrs{"mode": mode}, optest.Tensor(want, 2, len(want)/2),
					moveIota(2, n), optest.Int64s(0, int64(pads[0]), 0, int64(pads[1])))
			}
		}
	}
}

// TestTransposeOfPowersOfTwo uses the path through a square on the stack.
func TestTransposeOfPowersOfTwo(t *testing.T) {
	for _, shape := range [][2]int{{70, 1024}, {33, 512}, {1, 512}, {64, 2048}} {
		x := moveIota(shape[0], shape[1])
		got, err := optest.Run(t, "Transpose", 25, nil, x)
		if err != nil {
			t.Fatal(err)
		}
		out := tensor.MustData[float32](got[0].(*tensor.Tensor))
		for i, v := range out {
			if want := float32(i%shape[0]*shape[1] + i/shape[0]); v != want {
				t.Fatalf("%v: element %d is %v, want %v", shape, i, v, want)
			}
		}
	}
}

// TestTileByDefinition compares repetitions of short and long rows, of elements of several sizes,
// with the definition.
func TestTileByDefinition(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rank := rapid.IntRange(1, 5).Draw(rt, "rank")
		dims, rep := rapid.SliceOfN(rapid.IntRange(0, 6), rank, rank).Draw(rt, "dims"),
			rapid.SliceOfN(rapid.IntRange(0, 4), rank, rank).Draw(rt, "repeats")
		if rapid.Bool().Draw(rt, "long rows") {
			dims[rank-1] *= 30
		}
		switch rapid.IntRange(0, 4).Draw(rt, "type") {
		case 0:
			checkTile(t, dims, rep, func(i int) uint8 { return uint8(i) })
		case 1:
			checkTile(t, dims, rep, func(i int) int16 { return int16(i) })
		case 2:
			checkTile(t, dims, rep, func(i int) float32 { return float32(i) })
		case 3:
			checkTile(t, dims, rep, func(i int) complex128 { return complex(float64(i), -float64(i)) })
		default:
			checkTile(t, dims, rep, func(i int) string { return strconv.Itoa(i) })
		}
	})
}

func checkTile[T tensor.Element](t *testing.T, dims, rep []int, element func(i int) T) {
	t.Helper()
	shape, repeats := make([]int, len(dims)), make([]int64, len(dims))
	for i, d := range dims {
		shape[i], repeats[i] = d*rep[i], int64(rep[i])
	}
	x, want := make([]T, kit.Product(dims)), make([]T, kit.Product(shape))
	for i := range x {
		x[i] = element(i)
	}
	in, out := kit.Strides(dims), kit.Strides(shape)
	for i := range want {
		at := 0
		for k, s := range out {
			at += i / s % shape[k] % dims[k] * in[k]
		}
		want[i] = x[at]
	}
	optest.Want(t, "Tile", 13, nil, optest.Tensor(want, shape...), optest.Tensor(x, dims...), optest.Int64s(repeats...))
}
