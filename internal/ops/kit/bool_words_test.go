package kit

import (
	"slices"
	"testing"
)

// TestWordsOfBytes compares the loops over words with loops over bytes, for every length of a few
// words.
func TestWordsOfBytes(t *testing.T) {
	for n := range 70 {
		which, x, y := make([]byte, n), make([]byte, n), make([]byte, n)
		where, inverted := make([]byte, n), make([]byte, n)
		for i := range n {
			which[i], x[i], y[i] = byte(i*i/3%2), byte(7*i), byte(251*i+3)
			where[i], inverted[i] = y[i], ^x[i]
			if which[i] == 1 {
				where[i] = x[i]
			}
		}
		got := make([]byte, n)
		if WhereWords(got, &[3][]byte{which, x, y}); !slices.Equal(got, where) {
			t.Errorf("WhereWords of %d elements is %v, want %v", n, got, where)
		}
		if InvertWords(got[:n&^31], x, nil); !slices.Equal(got[:n&^31], inverted[:n&^31]) {
			t.Errorf("InvertWords of %d elements is %v, want %v", n&^31, got, inverted)
		}
	}
}
