// Package machine describes the machine on which a benchmark runs.
package machine

import (
	"bytes"
	"os"
	"strings"
)

// CPU returns the name of the processor, "an unnamed processor" if the system does not tell it.
func CPU() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for l := range bytes.Lines(data) {
		if k, v, ok := strings.Cut(string(l), ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return "an unnamed processor"
}
