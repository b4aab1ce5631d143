package onward_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
)

// chainOf returns a model of n nodes, of which each reads the one before.
func chainOf(n int) *onnx.Model {
	b := onnx.NewModel("m").Opset("", 22)
	b.Input("v0", onnx.Float, 4).Output(fmt.Sprint("v", n), onnx.Float, 4)
	for i := range n {
		b.Node([]string{"Neg", "Relu", "Sigmoid", "Erf"}[i%4], []string{fmt.Sprint("v", i)},
			[]string{fmt.Sprint("v", i+1)})
	}
	return b.Must()
}

// A model of a million nodes fits in a file of 20 MB. What checking and opening allocate per node
// decides whether it takes seconds or a minute, and must not grow with the number of nodes. The
// bounds are a third above what was measured.
func TestAllocationsPerNode(t *testing.T) {
	const n = 20_000
	for _, c := range []struct {
		name         string
		count, bytes uint64 // per node
		run          func(m *onnx.Model) error
	}{
		{"check", 1, 420, func(m *onnx.Model) error {
			_ = onnx.Check(m, &onnx.CheckOptions{Schema: onward.OperatorSchema})
			return nil
		}},
		{"reference", 10, 1150, func(m *onnx.Model) error { return openClose(t, m, "reference") }},
		{"cpu", 14, 2300, func(m *onnx.Model) error { return openClose(t, m, "cpu") }},
	} {
		for _, reversed := range []bool{false, true} {
			m := chainOf(n)
			if reversed {
				slices.Reverse(m.Graph.Nodes)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if err := c.run(m); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			count, bytes := (after.Mallocs-before.Mallocs)/n, (after.TotalAlloc-before.TotalAlloc)/n
			t.Logf("%s, reversed %v: %d allocations and %d bytes per node", c.name, reversed, count, bytes)
			if count > c.count || bytes > c.bytes {
				t.Errorf("%s, reversed %v: %d allocations and %d bytes per node, want at most %d and %d", c.name,
					reversed, count, bytes, c.count, c.bytes)
			}
		}
	}
}

func openClose(t *testing.T, m *onnx.Model, provider string) error {
	s, err := onward.OpenModel(t.Context(), m, enginetest.On(provider))
	if err != nil {
		return err
	}
	return s.Close()
}
