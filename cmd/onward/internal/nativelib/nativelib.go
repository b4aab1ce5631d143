// Package nativelib describes the native libraries behind the providers.
package nativelib

import (
	"strings"

	"github.com/onward-ml/onward/cmd/onward/internal/text"
)

// Info describes a native library in use.
type Info struct {
	What       string   `json:"what"` // "ONNX Runtime"
	Path       string   `json:"path"`
	Source     string   `json:"source"` // which search rule found it
	Version    string   `json:"version"`
	APIVersion int      `json:"api_version,omitempty"` // 0: its API has none of its own
	Build      string   `json:"build,omitempty"`
	Providers  []string `json:"providers"` // execution providers that it was built with, or devices that it finds
}

// describers are the drivers that are compiled in.
var describers []func(provider string) (needs string, info *Info)

// Describe returns what a provider needs and which library it uses. needs is empty if the
// provider needs no native library; info is nil if the library is missing.
func Describe(provider string) (needs string, info *Info) {
	for _, d := range describers {
		if needs, info := d(provider); needs != "" {
			return needs, info
		}
	}
	return "", nil
}

// PresentPaths splits the error about a missing library into lines. It drops and counts the
// lines about paths that do not exist.
func PresentPaths(reason string) (lines []string, absent int) {
	for line := range strings.SplitSeq(text.Escape(reason), "\n") {
		if strings.HasSuffix(line, ": file does not exist") {
			absent++
			continue
		}
		lines = append(lines, line)
	}
	return lines, absent
}

// CutStatus splits off the prefix of a status error: "[ONNXRuntimeError]", the number and the
// name of the status.
func CutStatus(text string) (status, message string, found bool) {
	rest, found := strings.CutPrefix(text, "[ONNXRuntimeError] : ")
	if parts := strings.SplitN(rest, " : ", 3); found && len(parts) == 3 {
		return parts[1], parts[2], true
	}
	return "", text, false
}
