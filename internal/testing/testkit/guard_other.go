//go:build !(linux || darwin)

package testkit

import "testing"

const canary, canaries = 0xA5, 256

// guardedBytes surrounds n bytes with canaries and checks them when the test ends.
func guardedBytes(t testing.TB, n int, _ Side) []byte {
	t.Helper()
	m := make([]byte, n+2*canaries)
	for i := range m {
		if i < canaries || i >= canaries+n {
			m[i] = canary
		}
	}
	t.Cleanup(func() {
		for i, b := range m {
			if (i < canaries || i >= canaries+n) && b != canary {
				t.Errorf("byte %d relative to a slice of %d bytes was overwritten", i-canaries, n)
				return
			}
		}
	})
	return m[canaries : canaries+n : canaries+n]
}
