package passes

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// workspaceModels returns models whose operators have a workspace per thread.
func workspaceModels() map[string]*onnx.Model {
	r := rand.New(rand.NewPCG(7, 8))
	one := func(op string, attrs onnx.Attrs, opset int64, inputs map[string][]any, weights map[string][]int,
		order ...string) *onnx.Model {
		b := onnx.NewModel(op).Opset("", opset)
		for _, name := range order {
			if dims, ok := inputs[name]; ok {
				b.Input(name, onnx.Float, dims...)
			} else {
				enginetest.AddWeights(b.GraphBuilder, r, name, 1, weights[name]...)
			}
		}
		b.Node(op, order, []string{"y"}, attrs)
		b.Output("y", onnx.Float)
		return b.Must()
	}
	type in = map[string][]any
	type weights = map[string][]int
	return map[string]*onnx.Model{
		"Attention": attentionModel(1, 512, 512, 4, 32, nil),
		"dynamic Conv": one("Conv", onnx.Attrs{"pads": []int64{3, 3, 3, 3}}, 21,
			in{"x": {1, 32, 56, 56}, "w": {32, 32, 7, 7}}, nil, "x", "w"),
		"dilated Conv": one("Conv", onnx.Attrs{"pads": []int64{6, 6, 6, 6}, "dilations": []int64{6, 6}}, 21,
			in{"x": {1, 64, 32, 32}}, weights{"w": {64, 64, 3, 3}}, "x", "w"),
		"ConvTranspose": one("ConvTranspose", onnx.Attrs{"strides": []int64{2, 2}, "pads": []int64{1, 1, 1, 1}}, 21,
			in{"x": {1, 64, 32, 32}}, weights{"w": {64, 32, 4, 4}}, "x", "w"),
		"DeformConv": one("DeformConv", onnx.Attrs{"pads": []int64{1, 1, 1, 1}}, 21,
			in{"x": {1, 32, 28, 28}, "o": {1, 18, 28, 28}}, weights{"w": {32, 32, 3, 3}}, "x", "w", "o"),
		"Det": one("Det", nil, 21, in{"x": {256, 60, 60}}, nil, "x"),
		"DFT": one("DFT", onnx.Attrs{"axis": int64(1)}, 17, in{"x": {256, 1021, 1}}, nil, "x"),
		"LSTM": one("LSTM", onnx.Attrs{"hidden_size": int64(128)}, 21, in{"x": {10, 8, 64}},
			weights{"w": {1, 512, 64}, "r": {1, 512, 128}}, "x", "w", "r"),
	}
}

// peakMemory returns the largest number of bytes that a run reserves, and its first output.
func peakMemory(t *testing.T, m *onnx.Model, limits onward.Limits, threads int) (int64, *tensor.Tensor) {
	t.Helper()
	was := exec.Processors
	exec.Processors = func() int { return threads }
	defer func() { exec.Processors = was }()
	budget := onward.NewMemoryBudget(8 << 30)
	limits.Budget = budget
	s, err := onward.OpenModel(t.Context(), m, &onward.SessionOptions{Threads: threads, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	feed := onward.Values{}
	r := rand.New(rand.NewPCG(9, 10))
	for _, a := range s.Inputs() {
		var dims []int
		for _, d := range a.Shape {
			dims = append(dims, int(d.Value))
		}
		feed[a.Name] = enginetest.Normal(r, dims...)
	}
	idle, peak := budget.Used(), int64(0)
	out, err := s.Run(t.Context(), feed, &onward.RunOptions{Observe: func(onward.NodeRun) {
		peak = max(peak, budget.Used()-idle)
	}})
	if err != nil {
		t.Fatalf("GOMAXPROCS %d, %d threads: %v", runtime.GOMAXPROCS(0), threads, err)
	}
	return peak, out[s.Outputs()[0].Name].(*tensor.Tensor)
}

// TestMemoryFollowsThreads checks that the memory of a run depends on its number of threads only,
// not on GOMAXPROCS, that it grows at most linearly with threads, and that results are the same.
func TestMemoryFollowsThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for name, m := range workspaceModels() {
		t.Run(name, func(t *testing.T) {
			runtime.GOMAXPROCS(2)
			one, want := peakMemory(t, m, onward.Limits{}, 1)
			two, _ := peakMemory(t, m, onward.Limits{}, 2)
			if one <= 0 || two < one {
				t.Fatalf("a run reserves %d bytes on one thread and %d on two", one, two)
			}
			for _, procs := range []int{64, 192} {
				runtime.GOMAXPROCS(procs)
				if n, _ := peakMemory(t, m, onward.Limits{MaxMemory: one + 4096}, 1); n != one {
					t.Errorf("GOMAXPROCS %d: one thread reserves %d bytes, want %d as with 2", procs, n, one)
				}
				n, got := peakMemory(t, m, onward.Limits{}, procs)
				if most := one + int64(procs-1)*(two-one); n > most+most/8 {
					t.Errorf("%d threads reserve %d bytes, want at most %d: one takes %d, two %d", procs, n, most,
						one, two)
				}
				if err := tensor.AllClose(got, want, 0, 0); err != nil {
					t.Errorf("%d threads: %v", procs, err)
				}
			}
		})
	}
}

// TestResultsOfManyThreads compares bits of a network over several images, and of a product,
// between numbers of threads: launches of images are joined, and images and products divided.
func TestResultsOfManyThreads(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	b := onnx.NewModel("network").Opset("", 21)
	b.Input("x", onnx.Float, 3, 3, 112, 112)
	add := func(op, x, y string, attrs onnx.Attrs, weights ...int) string {
		in := []string{x}
		if weights != nil {
			in = append(in, enginetest.AddWeights(b.GraphBuilder, r, "w"+y, .2, weights...))
		}
		b.Node(op, in, []string{y}, attrs)
		return y
	}
	pads := []int64{1, 1, 1, 1}
	x := add("Conv", "x", "a", onnx.Attrs{"pads": pads, "strides": []int64{2, 2}}, 32, 3, 3, 3)
	x = add("Relu", x, "b", nil)
	x = add("Conv", x, "c", onnx.Attrs{"pads": pads, "group": int64(32)}, 32, 1, 3, 3)
	se := add("GlobalAveragePool", x, "p", nil)
	se = add("Conv", add("Relu", add("Conv", se, "s", nil, 8, 32, 1, 1), "t", nil), "u", nil, 32, 8, 1, 1)
	b.Node("Mul", []string{x, add("Sigmoid", se, "v", nil)}, []string{"scaled"})
	x = add("Conv", "scaled", "d", nil, 144, 32, 1, 1)
	x = add("Conv", x, "e", onnx.Attrs{"pads": pads, "strides": []int64{2, 2}, "group": int64(144)}, 144, 1, 3, 3)
	x = add("MaxPool", x, "f", onnx.Attrs{"kernel_shape": []int64{2, 2}, "strides": []int64{2, 2}})
	x = add("Conv", x, "g", onnx.Attrs{"pads": pads}, 64, 144, 3, 3)
	b.Output(x, onnx.Float)
	m := onnx.NewModel("product").Opset("", 21)
	m.Input("x", onnx.Float, 130, 1200)
	m.Node("MatMul", []string{"x", enginetest.AddWeights(m.GraphBuilder, r, "w", 1, 1200, 300)}, []string{"y"}, nil)
	m.Output("y", onnx.Float)
	for name, m := range map[string]*onnx.Model{"network": b.Must(), "product": m.Must()} {
		_, want := peakMemory(t, m, onward.Limits{}, 1)
		for _, threads := range []int{2, 3, 16, 64} {
			_, got := peakMemory(t, m, onward.Limits{}, threads)
			if err := tensor.AllClose(got, want, 0, 0); err != nil {
				t.Errorf("%s on %d threads: %v", name, threads, err)
			}
		}
	}
}
