package goengine

import (
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/memory"
)

// MemoryLimit returns the largest number of bytes that the data of a model and that
// one run may take.
func MemoryLimit(l driver.Limits) int64 {
	if l.MaxMemory > 0 {
		return l.MaxMemory
	}
	return memory.Default()
}

func frontendLimits(l driver.Limits) frontend.Limits {
	return frontend.Limits{MaxNodes: l.MaxNodes, MaxDepth: l.MaxDepth}
}
