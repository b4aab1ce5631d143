package natural

import (
	"slices"
	"testing"
)

func TestCompare(t *testing.T) {
	want := []string{"so.1.9", "so.1.09.1", "so.1.10.0", "so.1.10.0a", "so.2", "sp"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Compare)
	if !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}
