package main

import (
	"context"
	"slices"
	"testing"
)

// TestChunks processes one signal whole and cut in several ways: the results are the same bits.
func TestChunks(t *testing.T) {
	signal := []float32{0.5, -1, 2, 0, 0.25, 3, -2, 1, 0.125, 0.75}
	process := func(cut ...int) []float32 {
		f, err := open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var r []float32
		rest := signal
		for _, n := range append(cut, len(signal)) {
			n = min(n, len(rest))
			if n == 0 {
				break
			}
			y, err := f.Process(t.Context(), rest[:n])
			if err != nil {
				t.Fatal(err)
			}
			r, rest = append(r, y...), rest[n:]
		}
		return r
	}
	whole := process()
	if len(whole) != len(signal) || slices.Contains(whole[1:], whole[0]) {
		t.Fatalf("got %v, want %d different values", whole, len(signal))
	}
	for _, cut := range [][]int{{1, 1, 1, 1, 1, 1, 1, 1, 1}, {3, 4}, {9}} {
		if got := process(cut...); !slices.Equal(got, whole) {
			t.Errorf("chunks of %v: got %v, want %v", cut, got, whole)
		}
	}
}

// TestFailedChunk sends a chunk again after its run was stopped.
func TestFailedChunk(t *testing.T) {
	f, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Process(stopped, []float32{1, 2}); err == nil {
		t.Fatal("a run with a context that is done gave no error")
	}
	again, err := f.Process(t.Context(), []float32{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	if want, err := fresh.Process(t.Context(), []float32{1, 2}); err != nil || !slices.Equal(again, want) {
		t.Errorf("got %v, want %v (%v)", again, want, err)
	}
}
