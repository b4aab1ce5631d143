package kit

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

// TestWordsOfPairs compares the loops over two operands with loops over bytes, for all pairs of bytes.
func TestWordsOfPairs(t *testing.T) {
	const n = 1 << 16
	a, b, got := make([]byte, n), make([]byte, n), make([]byte, n)
	for i := range a {
		a[i], b[i] = byte(i), byte(i>>8)+byte(i) // neighbours differ in both
	}
	for _, tc := range []struct {
		name  string
		words func(dst, a, b []byte)
		want  func(a, b byte) byte
	}{
		{"EqualWords", EqualWords, func(a, b byte) byte {
			if a == b {
				return 1
			}
			return 0
		}},
		{"AddWords", AddWords, func(a, b byte) byte { return a + b }},
		{"SubWords", SubWords, func(a, b byte) byte { return a - b }},
	} {
		tc.words(got, a, b)
		for i, g := range got {
			if want := tc.want(a[i], b[i]); g != want {
				t.Fatalf("%s of %d and %d is %d, want %d", tc.name, a[i], b[i], g, want)
			}
		}
	}
}
