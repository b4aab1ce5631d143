package elementwise

import (
	"slices"
	"testing"
)

// TestWordsOfBytes compares the loops over words with loops over bytes, for every length of a few
// words.
func TestWordsOfBytes(t *testing.T) {
	for n := range 70 {
		x, inverted := make([]byte, n), make([]byte, n)
		for i := range n {
			x[i] = byte(7 * i)
			inverted[i] = ^x[i]
		}
		got := make([]byte, n)
		if InvertWords(got[:n&^31], x, nil); !slices.Equal(got[:n&^31], inverted[:n&^31]) {
			t.Errorf("InvertWords of %d elements is %v, want %v", n&^31, got, inverted)
		}
	}
}
