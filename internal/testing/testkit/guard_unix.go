//go:build linux || darwin

package testkit

import (
	"os"
	"syscall"
	"testing"
)

// guardedBytes maps n bytes with an inaccessible page at the chosen end.
func guardedBytes(t testing.TB, n int, side Side) []byte {
	t.Helper()
	page := os.Getpagesize()
	body := (n + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, body+2*page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatalf("mapping %d bytes: %v", body+2*page, err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(m); err != nil {
			t.Errorf("unmapping: %v", err)
		}
	})
	for _, g := range [][]byte{m[:page], m[page+body:]} {
		if err := syscall.Mprotect(g, syscall.PROT_NONE); err != nil {
			t.Fatalf("protecting a guard page: %v", err)
		}
	}
	if side == Low {
		return m[page : page+n : page+n]
	}
	return m[page+body-n : page+body : page+body]
}
