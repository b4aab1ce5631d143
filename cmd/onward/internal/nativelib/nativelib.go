// Package nativelib registers the providers that open native libraries and shortens their
// errors.
package nativelib

import (
	"errors"
	"strings"

	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/internal/dl"
)

// PresentPaths splits reason, the text of err or a part of it, into lines. If err is about a
// missing library, it drops and counts the lines about paths that do not exist.
func PresentPaths(reason string, err error) (lines []string, absent int) {
	if nf, ok := errors.AsType[*dl.NotFoundError](err); ok {
		for _, a := range nf.Tried {
			if errors.Is(a.Err, dl.ErrAbsent) {
				reason = strings.Replace(reason, "\n  "+a.String(), "", 1)
				absent++
			}
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
