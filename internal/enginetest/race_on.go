//go:build race

package enginetest

// Race says whether the race detector is on.
const Race = true
