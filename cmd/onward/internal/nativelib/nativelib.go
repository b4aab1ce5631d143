// Package nativelib registers the providers that open native libraries and shortens their
// errors.
package nativelib

import (
	"strings"

	"github.com/onward-ml/onward/cmd/onward/internal/text"
)

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
