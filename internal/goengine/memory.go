package goengine

import (
	"sync"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/frontend"
)

// memoryLimit returns the largest number of bytes that one run may allocate.
func memoryLimit(l driver.Limits) int64 {
	if l.MaxMemory > 0 {
		return l.MaxMemory
	}
	return defaultMemory()
}

func frontendLimits(l driver.Limits) frontend.Limits {
	return frontend.Limits{MaxNodes: l.MaxNodes, MaxDepth: l.MaxDepth}
}

// defaultMemory returns half of the machine's memory in bytes, or 4 GiB if its size is
// unknown.
var defaultMemory = sync.OnceValue(func() int64 {
	if n := physicalMemory(); n > 0 {
		return n / 2
	}
	return 4 << 30
})
