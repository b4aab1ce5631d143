package ops

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

func TestMatMul(t *testing.T) {
	wantOp(t, "MatMul", 1, nil, tt([]float32{22, 28, 49, 64}, 2, 2), iota32(2, 3), iota32(3, 2))
	wantOp(t, "MatMul", 9, nil, tt([]int32{22, 28}, 2), tt([]int32{1, 2, 3}, 3), tt([]int32{1, 2, 3, 4, 5, 6}, 3, 2))
	wantOp(t, "MatMul", 9, nil, tt([]uint64{14}), tt([]uint64{1, 2, 3}, 3), tt([]uint64{1, 2, 3}, 3))
	wantOp(t, "MatMul", 13, nil, tt([]int64{14, 32}, 2), tt([]int64{1, 2, 3, 4, 5, 6}, 2, 3), tt([]int64{1, 2, 3}, 3))
	wantOp(t, "MatMul", 13, nil, tt(half16(14, 32), 2), tt(half16(1, 2, 3, 4, 5, 6), 2, 3), tt(half16(1, 2, 3), 3))
	wantOp(t, "MatMul", 13, nil, tt([]float64{1, 2, 2, 4}, 2, 2, 1, 1), tt([]float64{1, 2}, 2, 1, 1, 1), tt([]float64{1, 2}, 2, 1, 1))
	wantOp(t, "MatMul", 13, nil, tt([]float32{0, 0}, 1, 2), tt([]float32{}, 1, 0), tt([]float32{}, 0, 2))
	wantOp(t, "MatMul", 13, nil, tt([]float32{}, 0, 2, 2), tt([]float32{}, 0, 2, 3), iota32(3, 2))
	for _, s := range [][2][]int{{{5, 3, 4}, {4, 6}}, {{5, 3, 4}, {1, 4, 6}}, {{4}, {5, 4, 6}}, {{5, 1, 70, 80}, {2, 80, 66}}, {{3, 4, 5}, {5}}} {
		if _, err := runOp(t, "MatMul", 13, nil, iota32(s[0]...), iota32(s[1]...)); err != nil {
			t.Error(s, err)
		}
	}
	failOp(t, "MatMul", 13, nil, "inner dimensions are 3 and 2", iota32(2, 3), iota32(2, 3))
	failOp(t, "MatMul", 13, nil, "cannot be broadcast", iota32(2, 2, 3), iota32(3, 3, 2))
	failOp(t, "MatMul", 13, nil, "rank at least 1", tt([]float32{1}), iota32(3, 2))
}

func TestGemm(t *testing.T) {
	a, b := iota32(2, 3), iota32(3, 2)
	wantOp(t, "Gemm", 1, map[string]any{"broadcast": 1}, tt([]float32{23, 30, 50, 66}, 2, 2), a, b, tt([]float32{1, 2}, 2))
	wantOp(t, "Gemm", 6, map[string]any{"beta": 2.0}, tt([]float32{24, 32, 55, 72}, 2, 2), a, b, iota32(2, 2))
	wantOp(t, "Gemm", 7, nil, tt([]float32{23, 29, 51, 66}, 2, 2), a, b, tt([]float32{1, 2}, 2, 1))
	wantOp(t, "Gemm", 9, map[string]any{"alpha": 2.0}, tt([]int32{47, 59, 101, 131}, 2, 2), tt([]int32{1, 2, 3, 4, 5, 6}, 2, 3), tt([]int32{1, 2, 3, 4, 5, 6}, 3, 2), tt([]int32{3}))
	wantOp(t, "Gemm", 11, map[string]any{"alpha": 0.5}, tt([]float64{11, 14, 24.5, 32}, 2, 2), tt([]float64{1, 2, 3, 4, 5, 6}, 2, 3), tt([]float64{1, 2, 3, 4, 5, 6}, 3, 2))
	wantOp(t, "Gemm", 13, map[string]any{"alpha": 0.0}, iota32(2, 2), a, b, iota32(2, 2))
	wantOp(t, "Gemm", 13, nil, iota32(2, 2), tt([]float32{}, 2, 0), tt([]float32{}, 0, 2), iota32(2, 2))
	for _, trans := range []map[string]any{nil, {"transA": 1}, {"transB": 1}, {"transA": 1, "transB": 1}} {
		sa, sb := []int{70, 40}, []int{40, 50}
		if trans["transA"] != nil {
			sa = []int{40, 70}
		}
		if trans["transB"] != nil {
			sb = []int{50, 40}
		}
		for _, sc := range [][]int{{}, {50}, {70, 1}, {70, 50}, {1, 1}} {
			for _, beta := range []float64{1, 0.5, 0} {
				attrs := map[string]any{"beta": beta, "alpha": 0.25}
				for k, v := range trans {
					attrs[k] = v
				}
				if _, err := runOp(t, "Gemm", 13, attrs, iota32(sa...), iota32(sb...), iota32(sc...)); err != nil {
					t.Error(err)
				}
			}
		}
	}
	failOp(t, "Gemm", 13, nil, "cannot be broadcast", a, b, iota32(3))
	failOp(t, "Gemm", 13, nil, "rank", a, iota32(3))
	failOp(t, "Gemm", 13, nil, "at most 2", a, b, iota32(1, 2, 2))
	failOp(t, "Gemm", 13, map[string]any{"transA": 1}, "inner dimensions are 2 and 3", a, b)
	failOp(t, "Gemm", 13, map[string]any{"broadcast": 1}, "unknown attribute broadcast", a, b)
}

// prepared runs an operator whose inputs listed in constant are known when the
// model is loaded.
func prepared(t *testing.T, name string, attrs map[string]any, constant []int, inputs ...tensor.Value) *tensor.Tensor {
	t.Helper()
	return preparedAt(t, name, 22, attrs, constant, inputs...)
}

func preparedAt(t *testing.T, name string, opset int, attrs map[string]any, constant []int, inputs ...tensor.Value) *tensor.Tensor {
	t.Helper()
	b, err := buildOp(name, opset, attrs, len(inputs), 1)
	if err != nil {
		t.Fatal(err)
	}
	in, types := make([]tensor.Value, len(inputs)), make([]ir.Type, len(inputs))
	for i, v := range inputs {
		if v != nil {
			types[i] = ir.TypeOf(v)
		}
	}
	for _, i := range constant {
		in[i] = inputs[i]
	}
	op, drop, err := b.node.Op.(ir.Preparer).Prepare(in, types)
	if err != nil || op == nil {
		t.Fatalf("%s is not prepared: %v, %v", name, op, err)
	}
	c := &ir.Call{Node: b.node, Env: &testEnv{ctx: t.Context(), two: true, limit: testMemoryLimit}, In: append([]tensor.Value{}, inputs...), Out: make([]tensor.Value, 1)}
	for _, i := range drop {
		c.In[i] = nil
	}
	if err := op.Run(c); err != nil {
		t.Fatal(err)
	}
	return c.Out[0].(*tensor.Tensor)
}

// Operators prepared for constant weights compute the same as without.
func TestPreparedOperators(t *testing.T) {
	halves := func(x *tensor.Tensor) *tensor.Tensor { return tt(half16(tensor.Of[float32](x)...), x.Shape()...) }
	bytes := func(shape ...int) *tensor.Tensor {
		d := make([]uint8, product(shape))
		for i := range d {
			d[i] = uint8(i * 37)
		}
		return tt(d, shape...)
	}
	bias := iota32(5)
	for _, c := range []struct {
		name     string
		attrs    map[string]any
		constant []int
		inputs   []tensor.Value
	}{
		{"MatMul", nil, []int{1}, []tensor.Value{iota32(2, 3, 4), iota32(4, 5)}},
		{"MatMul", nil, []int{1}, []tensor.Value{iota32(4), iota32(4, 5)}},
		{"MatMul", nil, []int{1}, []tensor.Value{halves(iota32(3, 4)), halves(iota32(4, 5))}},
		{"Gemm", nil, []int{1, 2}, []tensor.Value{iota32(3, 4), iota32(4, 5), bias}},
		{"Gemm", map[string]any{"transA": 1, "transB": 1, "alpha": 0.5, "beta": 0.5}, []int{1}, []tensor.Value{iota32(4, 3), iota32(5, 4), bias}},
		{"Gemm", map[string]any{"alpha": 0.0}, []int{1}, []tensor.Value{iota32(3, 4), iota32(4, 5), bias}},
		{"Conv", map[string]any{"pads": []int{1, 1}}, []int{1}, []tensor.Value{halves(iota32(1, 2, 4)), halves(iota32(2, 2, 3))}},
		{"MatMulInteger", nil, []int{1}, []tensor.Value{bytes(2, 3, 4), bytes(4, 5), tt([]uint8{7}), tt([]uint8{1, 2, 3, 4, 5}, 5)}},
		{"QLinearMatMul", nil, []int{3}, []tensor.Value{bytes(3, 4), tt([]float32{.5}), tt([]uint8{7}), bytes(4, 5), tt([]float32{.1, .2, .3, .4, .5}, 5), tt([]uint8{9}), tt([]float32{30}), tt([]uint8{3})}},
		{"QLinearMatMul", nil, []int{3}, []tensor.Value{bytes(3, 4), tt([]float32{.5, 1, 2}, 3), tt([]uint8{7, 8, 9}, 3), bytes(4, 5), tt([]float32{.1}), tt([]uint8{9}), tt([]float32{30}), tt([]uint8{3})}},
		{"ConvInteger", map[string]any{"pads": []int{1, 1}, "group": 2}, []int{1, 3}, []tensor.Value{bytes(2, 4, 9), bytes(6, 2, 3), tt([]uint8{7}), tt([]uint8{9})}},
		{"QLinearConv", map[string]any{"pads": []int{1, 1, 0, 2}, "strides": []int{1, 2}}, []int{3, 5}, []tensor.Value{bytes(2, 3, 8, 9), tt([]float32{.5}), tt([]uint8{7}),
			bytes(3, 3, 2, 3), tt([]float32{.1, .2, .3}, 3), tt([]uint8{1, 2, 3}, 3), tt([]float32{300}), tt([]uint8{3}), tt([]int32{1, 2, 3}, 3)}},
	} {
		want, err := runOp(t, c.name, 22, c.attrs, c.inputs...)
		if err != nil {
			t.Fatal(err)
		}
		if got := prepared(t, c.name, c.attrs, c.constant, c.inputs...); !sameValue(got, want[0], 1e-4) {
			t.Errorf("%s %v: prepared %s, want %s", c.name, c.attrs, show(got), show(want[0]))
		}
	}
}

// Only matrices that binary16 holds exactly are kept as such.
func TestPackMatrixHalves(t *testing.T) {
	for _, c := range []struct {
		last float32
		half bool
	}{{2, true}, {0.1, false}, {1e6, false}, {float32(math.NaN()), false}} {
		w := make([]float32, 70*40)
		w[len(w)-1] = c.last
		p, err := packMatrix(tt(w, 70, 40), false, false)
		if err != nil || (p.half != nil) != c.half || (p.data != nil) == c.half {
			t.Errorf("a matrix with %v: binary16 %v, float %v, %v", c.last, p.half != nil, p.data != nil, err)
		}
	}
}
