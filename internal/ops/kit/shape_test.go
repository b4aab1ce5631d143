package kit

import (
	"testing"

	"github.com/onward-ml/onward/internal/ir"
)

// TestBroadcastWithMinimum broadcasts a dimension with the smaller of it and a number: position
// embeddings of a table are cut off at the length of a text, and added to its tokens.
func TestBroadcastWithMinimum(t *testing.T) {
	s, n := ir.Symbol("sequence"), ir.Symbol("n")
	for _, c := range []struct{ a, b, want ir.Dim }{
		{s, s.Min(ir.Known(512)), s},
		{s.Min(ir.Known(512)), s, s},
		{s.Min(ir.Known(1)), s, s},
		{s.Min(ir.Known(512)), n, ir.Unknown},
		{s.Min(ir.Known(512)), s.Min(ir.Known(7)), ir.Unknown},
		{s.Min(ir.Known(0)), s, ir.Unknown}, // 0 and 1 give 0
		{s.Min(n), s, ir.Unknown},
		{n.Add(s).Min(ir.Known(8)), n.Add(s), n.Add(s)},
		{n.Add(s).Min(ir.Known(8)), n, ir.Unknown},
		{ir.Unknown, s, ir.Unknown},
	} {
		got, err := BroadcastDims([]ir.Dim{c.a}, []ir.Dim{c.b})
		if err != nil || got[0] != c.want {
			t.Errorf("%s with %s: %v, %v, want %s", c.a, c.b, got, err, c.want)
		}
	}
}
