package goengine

import (
	"sync"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/frontend"
)

// memoryLimit returns how many bytes one run may take.
func memoryLimit(l driver.Limits) int64 {
	if l.MaxMemory > 0 {
		return l.MaxMemory
	}
	return defaultMemory()
}

func frontendLimits(l driver.Limits) frontend.Limits {
	return frontend.Limits{MaxNodes: l.MaxNodes, MaxDepth: l.MaxDepth}
}

// defaultMemory returns half of the machine's memory, or 4 GiB if that is unknown.
var defaultMemory = sync.OnceValue(func() int64 {
	if n := physicalMemory(); n > 0 {
		return n / 2
	}
	return 4 << 30
})
