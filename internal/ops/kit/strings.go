package kit

import (
	"strings"

	"github.com/onward-ml/onward/internal/ir"
)

// StringSize returns what a string of n bytes takes in memory, at most.
func StringSize(n int) int64 {
	if n <= 128 {
		return int64(n+15) &^ 15
	}
	return int64(n + n/8)
}

// CopyStrings replaces each string by a copy, which the call reserves. A part of a string would
// keep all of it in memory.
func CopyStrings(c *ir.Call, s []string) error {
	size := int64(0)
	c.Serial(len(s), ir.GrainWatch, func(lo, hi int) {
		for _, x := range s[lo:hi] {
			size += StringSize(len(x))
		}
	})
	if err := c.Reserve(size); err != nil {
		return err
	}
	m := ir.Meter{C: c}
	for i, x := range s {
		m.Check(copyCost + len(x))
		s[i] = strings.Clone(x)
	}
	return c.Err()
}

// copyCost is the cost of copying a short string in elementary operations.
const copyCost = 64
