package ops

import (
	"context"
	"fmt"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

// moveIota returns 0, 1, … as a float tensor.
func moveIota(shape ...int) *tensor.Tensor {
	v := make([]float32, product(shape))
	for i := range v {
		v[i] = float32(i)
	}
	return tt(v, shape...)
}

func i64s(v ...int64) *tensor.Tensor { return tt(v, len(v)) }

type attrs = map[string]any

// symbolic is a graph input of the given shape; strings are symbols.
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
func wantShape(t *testing.T, want, name string, opset int, a attrs, in ...*ir.Value) *ir.Value {
	t.Helper()
	out, err := inferOp(t, name, opset, a, in...)
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
		perm := rapid.Permutation(ints(tensor.Must(tensor.New(seq64(rank), rank)))).Draw(r, "perm")
		srcShape := make([]int, rank)
		for i, p := range perm {
			srcShape[p] = shape[i]
		}
		s := strides(srcShape)
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
		n := product(shape)
		c := &ir.Call{Env: &testEnv{ctx: context.Background(), two: true, limit: testMemoryLimit}}
		for _, width := range []int{0, 1, 2, 4, 8, 16} {
			src, dst := testBuf(width, n), testBuf(width, n)
			moveClear(dst)
			moveStrided(c, dst, src, shape, strides(shape), 0, from, off)
			pos := make([]int, rank)
			for i := range n {
				p := off
				for k := range pos {
					p += pos[k] * from[k]
				}
				if width == 0 && dst.strs[i] != src.strs[p] || width != 0 && string(dst.raw[i*width:(i+1)*width]) != string(src.raw[p*width:(p+1)*width]) {
					r.Fatalf("width %d, shape %v, strides %v: element %d is not element %d", width, shape, from, i, p)
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

func testBuf(width, n int) moveBuf {
	b := moveBuf{width: width}
	if width == 0 {
		b.strs = make([]string, n)
		for i := range b.strs {
			b.strs[i] = fmt.Sprint(i)
		}
		return b
	}
	b.raw = make([]byte, width*n)
	for i := range b.raw {
		b.raw[i] = byte(i*7 + i>>8)
	}
	return b
}

func TestReshape(t *testing.T) {
	x := moveIota(2, 3, 4)
	wantOp(t, "Reshape", 25, nil, moveIota(4, 6), x, i64s(4, -1))
	wantOp(t, "Reshape", 25, nil, moveIota(2, 12), x, i64s(0, -1))
	wantOp(t, "Reshape", 4, attrs{"shape": []int{6, 4}, "consumed_inputs": []int{0}}, moveIota(6, 4), x)
	wantOp(t, "Reshape", 13, nil, moveIota(), moveIota(1, 1), i64s())
	wantOp(t, "Reshape", 14, attrs{"allowzero": 1}, moveIota(3, 0, 5), moveIota(0, 7), i64s(3, 0, 5))
	wantOp(t, "Reshape", 14, nil, moveIota(0, 2), moveIota(0, 4, 3), i64s(0, 2))
	packed := tensor.Must(tensor.Pack(tensor.TypeInt4, []int8{1, -2, 3, 4, -5, 6}, 2, 3))
	wantOp(t, "Reshape", 21, nil, tensor.Must(packed.Reshape(3, 2)), packed, i64s(3, 2))
	failOp(t, "Reshape", 14, nil, "multiple", x, i64s(5, -1))
	failOp(t, "Reshape", 14, nil, "elements", x, i64s(5, 5))
	failOp(t, "Reshape", 14, nil, "more than one", x, i64s(-1, -1))
	failOp(t, "Reshape", 14, nil, "at position 0", x, i64s(-7, 2))
	failOp(t, "Reshape", 14, nil, "rank 3", x, i64s(2, 3, 4, 0))
	failOp(t, "Reshape", 14, nil, "", x, i64s(1<<62, 1<<62, 2))
	failOp(t, "Reshape", 14, attrs{"alowzero": 1}, "unknown attribute", x, i64s(24))
}

// TestShapeArithmetic follows shapes through the chains that exporters write.
func TestShapeArithmetic(t *testing.T) {
	x := symbolic(tensor.TypeFloat32, "N", "S", 768)
	shape := wantShape(t, "[3]", "Shape", 25, nil, x)
	if fmt.Sprint(shape.Contents) != "[N S 768]" {
		t.Errorf("Shape gives %v", shape.Contents)
	}
	n := wantShape(t, "[]", "Gather", 13, nil, shape, constValue(tensor.Scalar[int64](0)))
	s := wantShape(t, "[1]", "Slice", 13, nil, shape, constValue(i64s(1)), constValue(i64s(2)))
	n1 := wantShape(t, "[1]", "Unsqueeze", 13, nil, n, constValue(i64s(0)))
	heads := constValue(i64s(12, -1))
	want := wantShape(t, "[4]", "Concat", 13, attrs{"axis": 0}, n1, s, heads)
	r := wantShape(t, "[N S 12 64]", "Reshape", 25, nil, x, want)
	r = wantShape(t, "[N 12 S 64]", "Transpose", 25, attrs{"perm": []int{0, 2, 1, 3}}, r)
	back := wantShape(t, "[3]", "Concat", 13, attrs{"axis": 0}, n1, s, constValue(i64s(-1)))
	wantShape(t, "[N S 768]", "Reshape", 25, nil, wantShape(t, "[N S 12 64]", "Transpose", 25, attrs{"perm": []int{0, 2, 1, 3}}, r), back)
	wantShape(t, "[S 1 N]", "Expand", 13, nil, symbolic(tensor.TypeFloat32, 1, 1, 1),
		wantShape(t, "[3]", "Concat", 13, attrs{"axis": 0}, s, constValue(i64s(1)), n1))
	wantShape(t, "[N S-1 768]", "Slice", 13, nil, x, constValue(i64s(1)), constValue(i64s(1<<62)), constValue(i64s(1)))
	wantShape(t, "[N (512&S)]", "Slice", 13, nil, symbolic(tensor.TypeInt64, "N", 512), constValue(i64s(0)), s, constValue(i64s(1)))
	wantShape(t, "[2*N S 768]", "Concat", 13, attrs{"axis": 0}, x, x)
	wantShape(t, "[N 3*S 768]", "Tile", 13, nil, x, constValue(i64s(1, 3, 1)))
	wantShape(t, "[N S+3 768]", "Pad", 25, nil, x, constValue(i64s(0, 1, 0, 0, 2, 0)))
	wantShape(t, "[(N*S) 768]", "Reshape", 25, nil, x, constValue(i64s(-1, 768)))
	wantShape(t, "[N 768*S]", "Flatten", 25, nil, x)
	wantShape(t, "[N S]", "ConstantOfShape", 25, nil, wantShape(t, "[2]", "Slice", 13, nil, shape, constValue(i64s(0)), constValue(i64s(2))))
	size := wantShape(t, "[]", "Size", 25, nil, x)
	if fmt.Sprint(size.Contents) != "[768*(N*S)]" {
		t.Errorf("Size gives %v", size.Contents)
	}
	sp, err := inferOpN(t, 3, "Split", 18, attrs{"num_outputs": 3}, shape)
	if err != nil || fmt.Sprint(sp[1].Contents) != "[S]" {
		t.Errorf("Split of a shape: %v, %v", sp, err)
	}
	wantShape(t, "[2 3]", "Squeeze", 13, nil, symbolic(tensor.TypeFloat32, 2, 1, 3))
	wantShape(t, "[N 3]", "Squeeze", 13, nil, symbolic(tensor.TypeFloat32, "N", 1, 3), constValue(i64s(1)))
}

func TestSqueezeUnsqueezeFlatten(t *testing.T) {
	wantOp(t, "Squeeze", 13, nil, moveIota(2, 3), moveIota(1, 2, 1, 3))
	wantOp(t, "Squeeze", 11, attrs{"axes": []int{-2}}, moveIota(1, 2, 3), moveIota(1, 2, 1, 3))
	wantOp(t, "Squeeze", 1, nil, moveIota(), moveIota(1, 1))
	wantOp(t, "Squeeze", 13, nil, moveIota(1, 2), moveIota(1, 2), i64s())
	failOp(t, "Squeeze", 13, nil, "want 1", moveIota(2, 3), i64s(0))
	failOp(t, "Squeeze", 13, nil, "out of range", moveIota(2, 3), i64s(-1<<63))
	failOp(t, "Squeeze", 13, nil, "twice", moveIota(1, 1), i64s(0, -2))
	wantOp(t, "Unsqueeze", 13, nil, moveIota(1, 2, 1), moveIota(2), i64s(2, 0))
	wantOp(t, "Unsqueeze", 1, attrs{"axes": []int{0}}, moveIota(1, 2), moveIota(2))
	failOp(t, "Unsqueeze", 11, nil, "axes is missing", moveIota(2))
	failOp(t, "Unsqueeze", 13, nil, "out of range", moveIota(2), i64s(1<<63-1))
	wantOp(t, "Flatten", 25, attrs{"axis": -1}, moveIota(6, 4), moveIota(2, 3, 4))
	wantOp(t, "Flatten", 1, nil, moveIota(2, 12), moveIota(2, 3, 4))
	wantOp(t, "Flatten", 25, attrs{"axis": 0}, moveIota(1, 1), moveIota())
	failOp(t, "Flatten", 25, attrs{"axis": 4}, "out of range", moveIota(2, 3, 4))
}

func TestTranspose(t *testing.T) {
	wantOp(t, "Transpose", 25, nil, tt([]string{"a", "c", "b", "d"}, 2, 2), tt([]string{"a", "b", "c", "d"}, 2, 2))
	wantOp(t, "Transpose", 25, nil, tensor.Must(tensor.Pack(tensor.TypeUint4, []uint8{1, 4, 2, 5, 3, 6}, 3, 2)),
		tensor.Must(tensor.Pack(tensor.TypeUint4, []uint8{1, 2, 3, 4, 5, 6}, 2, 3)))
	wantOp(t, "Transpose", 1, attrs{"perm": []int{1, 0, 2}}, moveIota(0, 2, 3), moveIota(2, 0, 3))
	wantOp(t, "Transpose", 13, nil, moveIota(), moveIota())
	failOp(t, "Transpose", 13, attrs{"perm": []int{0, 0}}, "twice", moveIota(2, 2))
	failOp(t, "Transpose", 13, attrs{"perm": []int{0}}, "rank 2", moveIota(2, 2))
	failOp(t, "Transpose", 13, attrs{"perm": []int{-1 << 63, 0}}, "outside", moveIota(2, 2))
}

func TestConcatSplit(t *testing.T) {
	a, b := moveIota(2, 1), tt([]float32{7, 8, 9, 10}, 2, 2)
	wantOp(t, "Concat", 1, nil, tt([]float32{0, 7, 8, 1, 9, 10}, 2, 3), a, b)
	wantOp(t, "Concat", 13, attrs{"axis": -2}, moveIota(2, 1), a, moveIota(0, 1))
	failOp(t, "Concat", 13, nil, "axis is missing", a)
	failOp(t, "Concat", 13, attrs{"axis": 0}, "differ in dimension 1", a, b)
	failOp(t, "Concat", 13, attrs{"axis": 0}, "rank", a, moveIota(2))
	x := moveIota(7)
	wantOps(t, "Split", 18, attrs{"num_outputs": 3}, []tensor.Value{tt([]float32{0, 1, 2}), tt([]float32{3, 4, 5}), tt([]float32{6}, 1)}, x)
	wantOps(t, "Split", 13, nil, []tensor.Value{tt([]float32{0, 1}), tt([]float32{2, 3, 4, 5, 6})}, x, i64s(2, 5))
	wantOps(t, "Split", 2, attrs{"split": []int{7, 0}}, []tensor.Value{x, moveIota(0)}, x)
	wantOps(t, "Split", 1, nil, []tensor.Value{moveIota(3), tt([]float32{3, 4, 5, 6})}, x, tt([]float32{3, 4}))
	failOp(t, "Split", 13, nil, "add up", x, i64s(3))
	failOp(t, "Split", 13, nil, "add up", x, i64s(-3))
	failOp(t, "Split", 18, attrs{"num_outputs": 0}, "num_outputs", x)
	if _, err := runOpN(t, 2, "Split", 13, nil, x); err == nil {
		t.Error("Split-13 cuts 7 into 2 equal parts")
	}
}

func TestSlice(t *testing.T) {
	x := moveIota(3, 4)
	wantOp(t, "Slice", 1, attrs{"starts": []int{1, -3}, "ends": []int{1 << 62, 3}}, tt([]float32{5, 6, 9, 10}, 2, 2), x)
	wantOp(t, "Slice", 13, nil, tt([]float32{11, 9, 7, 5}, 2, 2),
		x, i64s(-1, 3), i64s(0, -1<<63), i64s(0, 1), i64s(-1, -2))
	wantOp(t, "Slice", 10, nil, moveIota(0, 4), x, tt([]int32{5}, 1), tt([]int32{9}, 1))
	wantOp(t, "Slice", 13, nil, tt([]float32{3}, 1), moveIota(4), i64s(-1), i64s(-1<<63), i64s(0), i64s(-1<<63))
	wantOp(t, "Slice", 13, nil, tt([]float32{0}, 1), moveIota(4), i64s(0), i64s(1<<63-1), i64s(0), i64s(1<<63-1))
	wantOp(t, "Slice", 13, nil, moveIota(0), moveIota(0), i64s(-1), i64s(-5), i64s(0), i64s(-1))
	failOp(t, "Slice", 13, nil, "step 0", x, i64s(0), i64s(1), i64s(0), i64s(0))
	failOp(t, "Slice", 13, nil, "twice", x, i64s(0, 0), i64s(1, 1), i64s(0, -2))
	failOp(t, "Slice", 13, nil, "out of range", x, i64s(0), i64s(1), i64s(-1<<63))
	failOp(t, "Slice", 13, nil, "rank 2", x, i64s(0, 0, 0), i64s(1, 1, 1))
	failOp(t, "Slice", 13, nil, "ends 2", x, i64s(0), i64s(1, 1))
}

func TestGathers(t *testing.T) {
	x := moveIota(3, 2)
	wantOp(t, "Gather", 1, nil, tt([]float32{4, 5, 0, 1}, 2, 2), x, tt([]int32{-1, 0}))
	wantOp(t, "Gather", 13, attrs{"axis": 1}, tt([]float32{1, 3, 5}), x, tensor.Scalar[int64](1))
	wantOp(t, "Gather", 13, nil, moveIota(0, 2), x, i64s())
	failOp(t, "Gather", 13, nil, "outside", x, i64s(3))
	failOp(t, "Gather", 13, nil, "outside", x, i64s(-1<<63))
	failOp(t, "Gather", 13, nil, "outside", moveIota(0, 2), i64s(0))
	failOp(t, "Gather", 13, nil, "axis 0", moveIota(), i64s(0))
	wantOp(t, "GatherElements", 11, attrs{"axis": 1}, tt([]string{"b", "a"}, 2, 1), tt([]string{"a", "b", "a", "b"}, 2, 2), tt([]int64{1, 0}, 2, 1))
	wantOp(t, "GatherElements", 13, nil, tt([]float32{4, 1, 4, 5, 0, 5}, 3, 2), x, tt([]int64{2, 0, -1, 2, 0, 2}, 3, 2))
	failOp(t, "GatherElements", 13, nil, "rank", x, i64s(0))
	failOp(t, "GatherElements", 13, nil, "exceed", x, tt([]int64{0, 0, 0}, 1, 3))
	wantOp(t, "GatherND", 11, nil, tt([]float32{4, 5, 0, 1}, 2, 2), x, tt([]int64{2, 0}, 2, 1))
	wantOp(t, "GatherND", 12, attrs{"batch_dims": 1}, tt([]float32{1, 2, 5}), x, tt([]int64{1, 0, -1}, 3, 1))
	wantOp(t, "GatherND", 13, nil, tt([]float32{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}, 2, 3, 2), x, tt([]int64{}, 2, 0))
	failOp(t, "GatherND", 13, nil, "coordinates", x, tt([]int64{0, 0, 0}, 1, 3))
	failOp(t, "GatherND", 13, attrs{"batch_dims": -1}, "batch_dims", x, tt([]int64{0}, 1, 1))
	failOp(t, "GatherND", 13, nil, "outside", x, tt([]int64{3}, 1, 1))
}

// TestElementPlaces compares with the formula for random shapes and axes.
func TestElementPlaces(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rank := rapid.IntRange(1, 4).Draw(r, "rank")
		axis := rapid.IntRange(0, rank-1).Draw(r, "axis")
		shape, box := make([]int, rank), make([]int, rank)
		for i := range shape {
			shape[i] = rapid.IntRange(1, 4).Draw(r, "dim")
			box[i] = rapid.IntRange(0, shape[i]).Draw(r, "box")
		}
		box[axis] = rapid.IntRange(0, 5).Draw(r, "along")
		idx := make([]int64, product(box))
		for i := range idx {
			idx[i] = int64(rapid.IntRange(-shape[axis], shape[axis]-1).Draw(r, "index"))
		}
		c := &ir.Call{Env: &testEnv{ctx: context.Background(), limit: testMemoryLimit}}
		at, err := elementPlaces(c, shape, tt(idx, box...), axis)
		if err != nil {
			r.Fatal(err)
		}
		s, bs := strides(shape), strides(box)
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
	wantOp(t, "Shape", 1, nil, i64s(2, 3, 4), x)
	wantOp(t, "Shape", 15, attrs{"start": -2, "end": 1 << 40}, i64s(3, 4), x)
	wantOp(t, "Shape", 15, attrs{"start": 2, "end": 0}, i64s(), x)
	wantOp(t, "Shape", 13, nil, i64s(), moveIota())
	wantOp(t, "Size", 13, nil, tensor.Scalar[int64](24), x)
	wantOp(t, "Size", 13, nil, tensor.Scalar[int64](0), moveIota(0, 5))
	wantOp(t, "ConstantOfShape", 9, attrs{"value": i64s(7)}, tt([]int64{7, 7}), i64s(2))
	wantOp(t, "ConstantOfShape", 9, nil, tt([]float32{0}, 1, 1), i64s(1, 1))
	wantOp(t, "ConstantOfShape", 21, attrs{"value": tensor.Must(tensor.Pack(tensor.TypeInt4, []int8{-3}, 1))},
		tensor.Must(tensor.Pack(tensor.TypeInt4, []int8{-3, -3, -3}, 3)), i64s(3))
	failOp(t, "ConstantOfShape", 9, nil, "memory limit", i64s(1<<40))
	failOp(t, "ConstantOfShape", 9, nil, "is -1", i64s(-1))
	failOp(t, "ConstantOfShape", 9, attrs{"value": i64s(1, 2)}, "one element", i64s(1))
	wantOp(t, "Constant", 1, attrs{"value": x}, x)
	wantOp(t, "Constant", 12, attrs{"value_ints": []int{3}}, i64s(3))
	wantOp(t, "Constant", 12, attrs{"value_float": 1.5}, tensor.Scalar[float32](1.5))
	wantOp(t, "Constant", 13, attrs{"value_strings": []string{"a", "b"}}, tt([]string{"a", "b"}))
	wantOp(t, "Constant", 13, attrs{"value_string": "a"}, tensor.Scalar("a"))
	sp := tensor.Sparse{Values: tt([]float32{5, 6}), Indices: i64s(1, 3), Shape: []int{2, 2}}
	wantOp(t, "Constant", 11, attrs{"sparse_value": &sp}, tt([]float32{0, 5, 0, 6}, 2, 2))
	sp2 := tensor.Sparse{Values: tt([]float32{5, 6}), Indices: tt([]int64{0, 1, 1, 1}, 2, 2), Shape: []int{2, 2}}
	wantOp(t, "Constant", 11, attrs{"sparse_value": &sp2}, tt([]float32{0, 5, 0, 6}, 2, 2))
	failOp(t, "Constant", 11, nil, "exactly one")
	failOp(t, "Constant", 11, attrs{"value_int": 1}, "exactly one")
	failOp(t, "Constant", 13, attrs{"value_int": 1, "value_float": 1.0}, "exactly one")
}

func TestExpandTile(t *testing.T) {
	x := moveIota(2, 1)
	wantOp(t, "Expand", 8, nil, tt([]float32{0, 0, 1, 1, 0, 0, 1, 1}, 2, 2, 2), x, i64s(2, 1, 2))
	wantOp(t, "Expand", 13, nil, moveIota(2, 0), x, i64s(0))
	failOp(t, "Expand", 13, nil, "memory limit", x, i64s(1<<40))
	failOp(t, "Expand", 13, nil, "overflows", x, i64s(1<<40, 1<<40, 1, 1))
	failOp(t, "Expand", 13, nil, "broadcast", x, i64s(3, 3))
	failOp(t, "Expand", 13, nil, "is -1", x, i64s(-1, 3))
	wantOp(t, "Tile", 6, nil, tt([]float32{0, 0, 1, 1, 0, 0, 1, 1}, 4, 2), x, i64s(2, 2))
	wantOp(t, "Tile", 1, nil, tt([]float32{0, 0, 1, 1}, 2, 2), x, tensor.Scalar[float32](2), tensor.Scalar[float32](1))
	wantOp(t, "Tile", 13, nil, moveIota(2, 0), x, i64s(1, 0))
	wantOp(t, "Tile", 13, nil, moveIota(), moveIota(), i64s())
	failOp(t, "Tile", 13, nil, "memory limit", x, i64s(1<<20, 1<<20))
	failOp(t, "Tile", 13, nil, "", x, i64s(1<<62, 1<<62))
	failOp(t, "Tile", 13, nil, "position 0", x, i64s(-1, 1))
	failOp(t, "Tile", 13, nil, "rank 2", x, i64s(1))
}

func TestPad(t *testing.T) {
	x := moveIota(3)
	for mode, want := range map[string][]float32{
		"constant": {0, 0, 0, 0, 1, 2, 0, 0, 0, 0},
		"edge":     {0, 0, 0, 0, 1, 2, 2, 2, 2, 2},
		"reflect":  {1, 2, 1, 0, 1, 2, 1, 0, 1, 2},
		"wrap":     {0, 1, 2, 0, 1, 2, 0, 1, 2, 0},
	} {
		wantOp(t, "Pad", 19, attrs{"mode": mode}, tt(want), x, i64s(3, 4))
	}
	wantOp(t, "Pad", 1, attrs{"paddings": []int{0, 1, 0, 0}, "value": 9.0}, tt([]float32{9, 0, 1}, 1, 3), moveIota(1, 2))
	wantOp(t, "Pad", 2, attrs{"pads": []int{-1, 2}, "value": 5.0}, tt([]tensor.Float16{tensor.NewFloat16(2), tensor.NewFloat16(5), tensor.NewFloat16(5)}),
		tt([]tensor.Float16{tensor.NewFloat16(1), tensor.NewFloat16(2)}))
	wantOp(t, "Pad", 13, nil, tt([]string{"z", "a"}), tt([]string{"a"}, 1), i64s(1, 0), tensor.Scalar("z"))
	wantOp(t, "Pad", 18, nil, tt([]float32{0, 7, 1, 7}, 2, 2), moveIota(2, 1), i64s(0, 1), tensor.Scalar[float32](7), i64s(-1))
	wantOp(t, "Pad", 13, attrs{"mode": "reflect"}, tt([]float32{1, 2, 1}), x, i64s(-1, 1))
	wantOp(t, "Pad", 13, nil, moveIota(0), x, i64s(-3, 0))
	wantOp(t, "Pad", 13, nil, tt([]float32{0, 0}), x, i64s(-4, 3))
	wantOp(t, "Pad", 13, nil, tt([]float32{0, 0, 0}), moveIota(0), i64s(1, 2))
	failOp(t, "Pad", 13, attrs{"mode": "edge"}, "cut to nothing", moveIota(0), i64s(1, 2))
	failOp(t, "Pad", 13, nil, "pads has 1", x, i64s(1))
	failOp(t, "Pad", 13, nil, "padded by", x, i64s(-1<<63, 1<<62))
	failOp(t, "Pad", 13, nil, "memory limit", x, i64s(1<<40, 0))
	failOp(t, "Pad", 13, attrs{"mode": "mirror"}, "want one of", x, i64s(0, 0))
}

// TestTransposeOfPowersOfTwo goes by way of the square on the stack.
func TestTransposeOfPowersOfTwo(t *testing.T) {
	for _, shape := range [][2]int{{70, 1024}, {33, 512}, {1, 512}, {64, 2048}} {
		x := moveIota(shape[0], shape[1])
		got, err := runOp(t, "Transpose", 25, nil, x)
		if err != nil {
			t.Fatal(err)
		}
		out := tensor.Of[float32](got[0].(*tensor.Tensor))
		for i, v := range out {
			if want := float32(i%shape[0]*shape[1] + i/shape[0]); v != want {
				t.Fatalf("%v: element %d is %v, want %v", shape, i, v, want)
			}
		}
	}
}
