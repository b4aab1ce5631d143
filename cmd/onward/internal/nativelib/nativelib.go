// Package nativelib registers the providers that open native libraries and shortens their
// errors.
package nativelib

import (
	"errors"
	"strings"

	"github.com/onward-ml/onward/cmd/onward/internal/text"
)

// notFound is *dl.NotFoundError. Importing dl would link every build dynamically.
type notFound interface {
	error
	Absent() []string
}

// PresentPaths splits reason, the text of err or a part of it, into lines. If err is about a
// missing library, it drops and counts the lines about paths that do not exist.
func PresentPaths(reason string, err error) (lines []string, absent int) {
	if nf, ok := errors.AsType[notFound](err); ok {
		for _, line := range nf.Absent() {
			reason = strings.Replace(reason, "\n  "+line, "", 1)
			absent++
		}
	}
	return strings.Split(text.Escape(reason), "\n"), absent
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
