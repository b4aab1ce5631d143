package exec

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/tensor"
)

// TestSizesOfSequences compares remembered sizes with tensor.SizeOf for sequences that grow in
// place, in copies, and from the same items.
func TestSizesOfSequences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		item := func() tensor.Value {
			return tensor.Must(tensor.Zeros(tensor.TypeFloat32, rapid.IntRange(0, 5).Draw(t, "length")))
		}
		var z sizes
		start := new(tensor.Sequence)
		for range longSequence {
			start.Items = append(start.Items, item())
		}
		all := []*tensor.Sequence{start}
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			s := all[rapid.IntRange(max(0, len(all)-3), len(all)-1).Draw(t, "sequence")]
			switch rapid.IntRange(0, 3).Draw(t, "operation") {
			case 0: // as the result of a loop, which another loop extends
				s = &tensor.Sequence{Items: s.Items[:len(s.Items):len(s.Items)]}
			case 1: // only the last one was not extended before
				s = all[len(all)-1]
				s = &tensor.Sequence{Items: append(s.Items, item())}
			case 2:
				s = &tensor.Sequence{Items: append(append([]tensor.Value{}, s.Items[1:]...), item())}
			}
			if s != all[len(all)-1] && !slices.Contains(all, s) {
				all = append(all, s)
			}
			want := tensor.SizeOf(s)
			if len(s.Items) >= longSequence {
				want += int64(cap(s.Items)-len(s.Items)) * slotSize
			}
			if got := z.of(s); got != want {
				t.Fatalf("the size of %d items is %d, want %d", len(s.Items), got, want)
			}
		}
	})
}
