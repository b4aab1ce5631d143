package nativelib

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/dl"
)

// A path is dropped for its reason, not for its text: a library whose error ends with the same
// words stays.
func TestPresentPaths(t *testing.T) {
	nf := &dl.NotFoundError{What: "a library", Tried: []dl.Attempt{
		{Source: "cache", Path: "/a", Err: dl.ErrAbsent},
		{Source: "system", Path: "/b", Err: errors.New("libc.so.9: file does not exist")},
		{Source: "system", Path: "/c\x1b", Err: fmt.Errorf("pattern: %w", dl.ErrAbsent)},
	}}
	err := fmt.Errorf("not available: %w", nf)
	lines, absent := PresentPaths(err.Error(), err)
	if want := []string{"not available: a library could not be opened; looked at:",
		"  /b (system): libc.so.9: file does not exist"}; absent != 2 || !slices.Equal(lines, want) {
		t.Errorf("%d absent, lines %q, want 2 and %q", absent, lines, want)
	}
	for _, err := range []error{nil, errors.New("x")} {
		if lines, absent := PresentPaths("one\ntwo: file does not exist", err); absent != 0 || len(lines) != 2 {
			t.Errorf("%v: %d absent, lines %q", err, absent, lines)
		}
	}
}
