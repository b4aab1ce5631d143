package move

import (
	"testing"

	"github.com/onward-ml/onward/internal/ir"
)

// TestConcatDimsOfSymbols concatenates dimensions that occur several times.
func TestConcatDimsOfSymbols(t *testing.T) {
	n, m := ir.Symbol("N"), ir.Symbol("M")
	want := n.Add(n).Add(n).Add(m).Add(m).Add(ir.Known(4))
	for _, c := range []struct {
		dims []ir.Dim
		want ir.Dim
	}{
		{[]ir.Dim{n, m, ir.Known(1), n, ir.Known(3), m, n}, want},
		{[]ir.Dim{n, ir.Unknown, m}, ir.Unknown},
		{[]ir.Dim{n}, n},
	} {
		shapes := make([][]ir.Dim, len(c.dims))
		for i, d := range c.dims {
			shapes[i] = []ir.Dim{ir.Known(2), d}
		}
		out, err := ConcatDims(shapes, 1)
		if err != nil || out[1] != c.want {
			t.Errorf("%v: %v, %v, want %s", c.dims, out, err, c.want)
		}
	}
}
