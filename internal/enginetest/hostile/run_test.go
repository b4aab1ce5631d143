package hostile

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/internal/testing/cputime"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestQuadraticPasses opens graphs on which a quadratic pass would take minutes.
func TestQuadraticPasses(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 10_000
	}
	node := func(op string, out string, in ...string) *onnx.Node {
		return &onnx.Node{OpType: op, Inputs: in, Outputs: []string{out}}
	}
	base := func() (*onnx.ModelBuilder, *onnx.Model) {
		b := onnx.NewModel("m").Opset("", 21)
		b.Input("x", onnx.Float, 1, 1, 2, 2).Initializer("k", []float32{2})
		b.Output("y", onnx.Float, nil, nil, nil, nil)
		return b, b.Must()
	}
	for name, build := range map[string]func() *onnx.Model{
		"one value used by all": func() *onnx.Model {
			_, m := base()
			sum := node("Sum", "y")
			for i := range n {
				m.Graph.Nodes = append(m.Graph.Nodes, node("Mul", "v"+strconv.Itoa(i), "x", "k"))
				sum.Inputs = append(sum.Inputs, "v"+strconv.Itoa(i))
			}
			m.Graph.Nodes = append(m.Graph.Nodes, sum)
			return m
		},
		"equal operators with other attributes": func() *onnx.Model {
			_, m := base()
			cat := node("Sum", "y")
			for i := range n {
				v := node("LeakyRelu", "v"+strconv.Itoa(i), "x")
				a, err := onnx.NewAttribute("alpha", float32(i))
				if err != nil {
					t.Fatal(err)
				}
				v.Attributes = []*onnx.Attribute{a}
				m.Graph.Nodes = append(m.Graph.Nodes, v)
				cat.Inputs = append(cat.Inputs, "v"+strconv.Itoa(i))
			}
			m.Graph.Nodes = append(m.Graph.Nodes, cat)
			return m
		},
		"a chain of views": func() *onnx.Model {
			_, m := base()
			prev := "x"
			for i := range n {
				m.Graph.Nodes = append(m.Graph.Nodes, node("Identity", "v"+strconv.Itoa(i), prev))
				prev = "v" + strconv.Itoa(i)
			}
			m.Graph.Nodes = append(m.Graph.Nodes, node("Neg", "y", prev))
			return m
		},
		"a chain backwards": func() *onnx.Model {
			_, m := base()
			for i := range n {
				m.Graph.Nodes = append(m.Graph.Nodes, node("Neg", "v"+strconv.Itoa(n-1-i), "v"+strconv.Itoa(n-2-i)))
			}
			m.Graph.Nodes[n-1].Inputs = []string{"x"}
			m.Graph.Nodes = append(m.Graph.Nodes, node("Neg", "y", "v"+strconv.Itoa(n-1)))
			return m
		},
		"a node with many constants": func() *onnx.Model {
			b, _ := base()
			sum := node("Sum", "s")
			for i := range 4 * n {
				b.Initializer("c"+strconv.Itoa(i), float32(1))
				sum.Inputs = append(sum.Inputs, "c"+strconv.Itoa(i))
			}
			m := b.Must()
			m.Graph.Nodes = []*onnx.Node{sum, node("Add", "y", "x", "s")}
			return m
		},
		"a call with many inputs and outputs": func() *onnx.Model {
			_, m := base()
			f := &onnx.Function{Domain: "f", Name: "F"}
			call := node("F", "y", "x")
			call.Domain = "f"
			for i := range 2 * n {
				in, out := "a"+strconv.Itoa(i), "b"+strconv.Itoa(i)
				f.Inputs, f.Outputs = append(f.Inputs, in), append(f.Outputs, out)
				f.Nodes = append(f.Nodes, node("Neg", out, in))
				if i > 0 {
					call.Inputs, call.Outputs = append(call.Inputs, "v"+strconv.Itoa(i)), append(call.Outputs, out)
					m.Graph.Nodes = append(m.Graph.Nodes, node("Neg", "v"+strconv.Itoa(i), "x"))
				}
			}
			m.Functions = []*onnx.Function{f}
			m.OpsetImports = append(m.OpsetImports, onnx.OperatorSetID{Domain: "f", Version: 1})
			m.Graph.Nodes = append(m.Graph.Nodes, call)
			return m
		},
	} {
		start := cputime.Now()
		m := build()
		s, err := onward.OpenModel(t.Context(), m, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1, 1, 2, 2))
		for range 2 {
			if _, err := s.Run(context.Background(), onward.Values{"x": x}, nil); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if d := start.Elapsed(); d > 40*time.Second {
			t.Errorf("%s: %d nodes took %v", name, n, d)
		}
		t.Logf("%s: %v", name, start.Elapsed())
	}
}

// TestCancellation: cancelling a run stops it between and within kernels.
func TestCancellation(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, nil, nil).Output("y", onnx.Float, nil, nil)
	prev := "x"
	for i := range 200 {
		b.Node("MatMul", []string{prev, "x"}, []string{"v" + strconv.Itoa(i)})
		prev = "v" + strconv.Itoa(i)
	}
	b.Node("Neg", []string{prev}, []string{"y"})
	for _, p := range enginetest.Engines {
		s, err := onward.OpenModel(t.Context(), b.Must(), enginetest.On(p))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		start := cputime.Now()
		_, err = s.Run(ctx, onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, 768, 768))}, nil)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: error is %v, want the deadline", p, err)
		}
		if d := start.Elapsed(); d > 10*time.Second {
			t.Errorf("%s: the run went on for %v", p, d)
		}
		// The session still works.
		if _, err := s.Run(context.Background(),
			onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, 3, 3))}, nil); err != nil {
			t.Errorf("%s: after the cancelled run: %v", p, err)
		}
	}
}

// TestInputChangesDuringRun: a caller that changes an input during a run gets wrong numbers or an
// error, but no panic or memory error: indices are checked where they are used.
func TestInputChangesDuringRun(t *testing.T) {
	if enginetest.Race {
		t.Skip("the test races on purpose")
	}
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, nil).Input("i", onnx.Int64, nil).Output("y", onnx.Float, nil)
	prev := "x"
	for k := range 50 {
		b.Node("Gather", []string{prev, "i"}, []string{"v" + strconv.Itoa(k)})
		prev = "v" + strconv.Itoa(k)
	}
	b.Node("Neg", []string{prev}, []string{"y"})
	const n = 4096
	index := make([]int64, n)
	feed := onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, n)), "i": tensor.Must(tensor.New(index))}
	stop := make(chan struct{})
	go func() {
		for k := 0; ; k++ {
			select {
			case <-stop:
				return
			default:
				index[k%n] = []int64{0, n - 1, -n, 1 << 40, -1 << 40}[k%5]
			}
		}
	}()
	defer close(stop)
	for _, p := range enginetest.Engines {
		s, err := onward.OpenModel(t.Context(), b.Must(), enginetest.On(p))
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if _, err := s.Run(context.Background(), feed, nil); err != nil &&
				!errors.Is(err, onward.ErrRuntimeException) {
				t.Fatalf("%s: %v", p, err)
			}
		}
	}
}
