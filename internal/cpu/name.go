package cpu

import (
	"bytes"
	"os"
	"strings"
)

// Name returns the processor's name as the system tells it, such as "AMD EPYC 9B45", or "" if it
// tells none. It is known on Linux for x86.
func Name() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for l := range bytes.Lines(data) {
		if k, v, ok := strings.Cut(string(l), ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
