package ops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func f32(v float32) *tensor.Tensor { return tensor.Scalar(v) }

func TestIf(t *testing.T) {
	branch := func(v tensor.Value) *ir.Graph {
		b := optest.NewGraph(t)
		return b.Returns(b.Node("Identity", nil, b.Constant(v)))
	}
	a := optest.Attrs{"then_branch": branch(moveIota(2)), "else_branch": branch(moveIota(3))}
	wantOp2 := func(cond bool, want tensor.Value) {
		t.Helper()
		got, err := optest.RunN(t, 1, "If", 16, a, tensor.Scalar(cond))
		if err != nil || !optest.Same(got[0], want, 0) {
			t.Errorf("If(%v) = %v, %v", cond, got, err)
		}
	}
	wantOp2(true, moveIota(2))
	wantOp2(false, moveIota(3))
	out, err := optest.InferN(t, 1, "If", 16, a, symbolic(tensor.TypeBool))
	if err != nil || fmt.Sprint(out[0].Type.Shape) != "[?]" {
		t.Errorf("If: type %v, %v", out, err)
	}
	optest.Fail(t, "If", 16, a, "want one bool", optest.Tensor([]bool{true, false}))
}

// counter is a loop body that adds its iteration to a carried sum, returns the sum as scan
// output and continues while the sum is below limit.
func counter(t *testing.T, limit float32) *ir.Graph {
	b := optest.NewGraph(t)
	i := b.Input(ir.TensorType(tensor.TypeInt64))
	b.Input(ir.TensorType(tensor.TypeBool))
	sum := b.Float()
	_ = i
	next := b.Node("Add", nil, sum, b.Constant(f32(1)))
	on := b.Node("Less", nil, next, b.Constant(f32(limit)))
	return b.Returns(on, next, b.Node("Identity", nil, next))
}

func TestLoop(t *testing.T) {
	none := (*tensor.Tensor)(nil)
	run := func(limit float32, m, cond tensor.Value, want float32, scans ...float32) {
		t.Helper()
		got, err := optest.RunN(t, 2, "Loop", 16, optest.Attrs{"body": counter(t, limit)}, m, cond, f32(0))
		if err != nil {
			t.Error(err)
			return
		}
		if !optest.Same(got[0], f32(want), 0) ||
			!optest.Same(got[1], optest.Tensor(append([]float32{}, scans...), len(scans)), 0) {
			t.Errorf("Loop gives %s, %s, want %v, %v", optest.Show(got[0]), optest.Show(got[1]), want, scans)
		}
	}
	run(9, tensor.Scalar[int64](3), none, 3, 1, 2, 3)
	run(9, optest.Int64s(2), tensor.Scalar(true), 2, 1, 2)
	run(3, tensor.Scalar[int64](5), none, 3, 1, 2, 3) // ends early
	run(3, none, tensor.Scalar(true), 3, 1, 2, 3)
	run(3, none, none, 3, 1, 2, 3)
	run(9, tensor.Scalar[int64](5), tensor.Scalar(false), 0)
	run(9, tensor.Scalar[int64](0), none, 0)
	run(9, tensor.Scalar[int64](-1<<63), none, 0)
}

// A body that declares its iteration number and condition as vectors gets them as such, as in ONNX
// Runtime.
func TestLoopIterationNumberIsAVector(t *testing.T) {
	b := optest.NewGraph(t)
	number := b.Input(ir.TensorType(tensor.TypeInt64, ir.Known(1)))
	on := b.Input(ir.TensorType(tensor.TypeBool, ir.Known(1)))
	body := b.Returns(b.Node("Identity", nil, on), b.Node("Identity", nil, number))
	got, err := optest.RunN(t, 1, "Loop", 16, optest.Attrs{"body": body}, tensor.Scalar[int64](3),
		(*tensor.Tensor)(nil))
	if want := optest.Tensor([]int64{0, 1, 2}, 3, 1); err != nil || !optest.Same(got[0], want, 0) {
		t.Errorf("Loop gives %v, %v, want %s", got, err, optest.Show(want))
	}
}

func TestLoopCarriesSequences(t *testing.T) {
	b := optest.NewGraph(t)
	b.Input(ir.TensorType(tensor.TypeInt64))
	on := b.Input(ir.TensorType(tensor.TypeBool))
	seq := b.Input(ir.SequenceOf(ir.UnrankedTensor(tensor.TypeFloat32)))
	body := b.Returns(b.Node("Identity", nil, on), b.Node("SequenceInsert", nil, seq, b.Constant(f32(7))))
	got, err := optest.RunN(t, 1, "Loop", 16, optest.Attrs{"body": body}, tensor.Scalar[int64](2),
		(*tensor.Tensor)(nil), &tensor.Sequence{Elem: tensor.TensorType(tensor.TypeFloat32)})
	if err != nil || len(got[0].(*tensor.Sequence).Items) != 2 {
		t.Errorf("Loop over a sequence gives %v, %v", got, err)
	}
}

// TestEndlessLoopStops runs loops whose conditions never become false.
func TestEndlessLoopStops(t *testing.T) {
	for name, outs := range map[string]int{"deadline": 1, "memory limit": 2} {
		b, err := optest.Build("Loop", 16, optest.Attrs{"body": counter(t, 1e30)}, 3, outs)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		limit := int64(1 << 16)
		if name == "deadline" {
			ctx, cancel = context.WithTimeout(t.Context(), 30*time.Millisecond)
			limit = 1 << 40
		}
		c := &ir.Call{Node: b.Node, Env: &optest.Env{Ctx: ctx, Limit: limit}, In: []tensor.Value{nil, nil, f32(0)},
			Out: make([]tensor.Value, outs)}
		err = optest.RunCaught(b.Node.Op, c)
		cancel()
		if name == "deadline" && !errors.Is(err, context.DeadlineExceeded) || name != "deadline" &&
			(err == nil || !strings.Contains(err.Error(), name)) {
			t.Errorf("an endless loop ends with %v, want the %s", err, name)
		}
	}
}

// summing is a scan body whose state grows by each item and is its scan output.
func summing(t *testing.T, width int) *ir.Graph {
	b := optest.NewGraph(t)
	item := ir.TensorType(tensor.TypeFloat32, ir.Known(width))
	sum := b.Node("Add", nil, b.Input(item), b.Input(item))
	return b.Returns(sum, b.Node("Identity", nil, sum))
}

func TestScan(t *testing.T) {
	two, one := summing(t, 2), summing(t, 1)
	x := optest.Tensor([]float32{1, 2, 3, 4, 5, 6}, 3, 2)
	run := func(opset int, a optest.Attrs, want, scan tensor.Value, in ...tensor.Value) {
		t.Helper()
		a["body"], a["num_scan_inputs"] = two, 1
		if opset == 8 {
			a["body"] = one
		}
		got, err := optest.RunN(t, 2, "Scan", opset, a, in...)
		if err != nil || !optest.Same(got[0], want, 0) || !optest.Same(got[1], scan, 0) {
			t.Errorf("Scan-%d %v gives %v, %v, want %s, %s", opset, a, got, err, optest.Show(want), optest.Show(scan))
			for _, v := range got {
				t.Log(optest.Show(v))
			}
		}
	}
	zero := optest.Tensor([]float32{0, 0})
	run(11, optest.Attrs{}, optest.Tensor([]float32{9, 12}), optest.Tensor([]float32{1, 2, 4, 6, 9, 12}, 3, 2), zero, x)
	run(9, optest.Attrs{"scan_input_directions": []int{1}, "scan_output_directions": []int{1}},
		optest.Tensor([]float32{9, 12}), optest.Tensor([]float32{9, 12, 8, 10, 5, 6}, 3, 2), zero, x)
	run(11, optest.Attrs{"scan_input_axes": []int{-1}, "scan_output_axes": []int{1}},
		optest.Tensor([]float32{3, 7, 11}), optest.Tensor([]float32{1, 3, 3, 7, 5, 11}, 3, 2),
		optest.Tensor([]float32{0, 0, 0}), x)
	run(11, optest.Attrs{}, zero, moveIota(0, 2), zero, moveIota(0, 2))
	batch := optest.Tensor([]float32{1, 2, 3, 10, 20, 30}, 2, 3, 1)
	run(8, optest.Attrs{}, optest.Tensor([]float32{6, 30}, 2, 1), optest.Tensor([]float32{1, 3, 6, 10, 30, 0}, 2, 3, 1),
		optest.Int64s(3, 2), optest.Tensor([]float32{0, 0}, 2, 1), batch)
	run(8, optest.Attrs{"directions": []int{1}}, optest.Tensor([]float32{6, 60}, 2, 1),
		optest.Tensor([]float32{3, 5, 6, 30, 50, 60}, 2, 3, 1), (*tensor.Tensor)(nil),
		optest.Tensor([]float32{0, 0}, 2, 1), batch)
	run(8, optest.Attrs{}, moveIota(0, 1), moveIota(0, 3, 1), (*tensor.Tensor)(nil), moveIota(0, 1), moveIota(0, 3, 1))

	fail := func(opset int, a optest.Attrs, want string, in ...tensor.Value) {
		t.Helper()
		a["body"] = two
		if a["num_scan_inputs"] == nil {
			a["num_scan_inputs"] = 1
		}
		_, err := optest.RunN(t, 2, "Scan", opset, a, in...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "PANIC") {
			t.Errorf("Scan-%d %v: error %v, want one with %q", opset, a, err, want)
		}
	}
	fail(11, optest.Attrs{"num_scan_inputs": 0}, "num_scan_inputs", zero, x)
	fail(11, optest.Attrs{"num_scan_inputs": 3}, "num_scan_inputs", zero, x)
	fail(11, optest.Attrs{"scan_input_axes": []int{2}}, "axis 2", zero, x)
	fail(11, optest.Attrs{"scan_output_axes": []int{-1 << 63}}, "out of range", zero, x)
	fail(11, optest.Attrs{"scan_input_axes": []int{0, 1}}, "has 2 elements", zero, x)
	fail(11, optest.Attrs{"scan_input_directions": []int{2}}, "want 0 or 1", zero, x)
	fail(11, optest.Attrs{}, "state variable 0", f32(0), x)
	fail(8, optest.Attrs{}, "sequence_lens", optest.Int64s(4, 2), optest.Tensor([]float32{0, 0}, 2, 1), batch)
	fail(8, optest.Attrs{}, "batch", (*tensor.Tensor)(nil), optest.Tensor([]float32{0}, 1, 1), batch)
}

func TestSequenceMap(t *testing.T) {
	b := optest.NewGraph(t)
	body := b.Returns(b.Node("Add", nil, b.Float(), b.Float()))
	seq := &tensor.Sequence{Elem: tensor.TensorType(tensor.TypeFloat32),
		Items: []tensor.Value{moveIota(2), moveIota(3)}}
	got, err := optest.RunN(t, 1, "SequenceMap", 17, optest.Attrs{"body": body}, seq, f32(1))
	if err != nil || !optest.Same(got[0],
		&tensor.Sequence{Items: []tensor.Value{optest.Tensor([]float32{1, 2}), optest.Tensor([]float32{1, 2, 3})}}, 0) {
		t.Errorf("SequenceMap gives %v, %v", got, err)
	}
	short := &tensor.Sequence{Elem: seq.Elem, Items: seq.Items[:1]}
	if _, err := optest.RunN(t, 1, "SequenceMap", 17, optest.Attrs{"body": body}, seq, short); err == nil ||
		!strings.Contains(err.Error(), "items") {
		t.Errorf("SequenceMap of sequences of different lengths: %v", err)
	}
	empty := &tensor.Sequence{Elem: seq.Elem}
	if got, err := optest.RunN(t, 1, "SequenceMap", 17, optest.Attrs{"body": body}, empty, f32(1)); err != nil ||
		len(got[0].(*tensor.Sequence).Items) != 0 {
		t.Errorf("SequenceMap of an empty sequence: %v, %v", got, err)
	}
}
