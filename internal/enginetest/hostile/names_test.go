package hostile

import (
	"runtime"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestLongNames checks that errors cut names of megabytes, and that dimensions with such names take
// little more memory than they have in the file.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("\x01", 1<<20) // four bytes each in quotes
	x := tensor.Must(tensor.New([]float32{1, 2, 3}, 3))
	two := tensor.Must(tensor.New([]int64{2}, 1))
	for name, c := range map[string]struct {
		node, input, output string
		feed                onward.Values
	}{
		"node":           {long, "x", "y", onward.Values{"x": x, "s": two}},
		"output":         {"", "x", long, onward.Values{"x": x, "s": two}},
		"missing input":  {"", long, "y", onward.Values{"s": two}},
		"unknown input":  {"", long, "y", onward.Values{"x": x, "s": two}},
		"input's type":   {"", long, "y", onward.Values{long: two, "s": two}},
		"input's length": {"", long, "y", onward.Values{long: x, "s": two}},
	} {
		b := onnx.NewModel("m").Opset("", 17)
		b.Input(c.input, onnx.Float, "n").Input("s", onnx.Int64, 1).Output(c.output, onnx.Float, "m")
		b.Node("Reshape", []string{c.input, "s"}, []string{c.output})
		m, err := b.Model()
		enginetest.Must(t, err)
		m.Graph.Nodes[0].Name = c.node
		s := enginetest.Open(t, m, enginetest.On("cpu"))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = s.Run(t.Context(), c.feed, nil)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if n := after.TotalAlloc - before.TotalAlloc; len(err.Error()) > 64<<10 || n > 1<<20 {
			t.Errorf("%s: an error of %d bytes, and %d are allocated", name, len(err.Error()), n)
		}
	}
}
