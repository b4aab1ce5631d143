// Package fail makes errors in less code than [fmt.Errorf] does, and of a bounded length.
package fail

import (
	"fmt"
	"slices"
	"strings"
)

// maxText is the most bytes of a string that an error has. Names in a file may have megabytes, and
// errors are copied and put in quotes several times.
const maxText = 4 << 10

// Errorf is [fmt.Errorf] as a plain call: since Go 1.26 the compiler inlines fmt.Errorf, which
// takes some 70 bytes for each of a thousand errors. It cuts strings as [Cut] does.
//
//go:noinline
func Errorf(format string, args ...any) error { return fmt.Errorf(format, Cut(args)...) }

// Cut returns the arguments of a format with strings of at most 4 KiB each.
func Cut(args []any) []any {
	for i, a := range args {
		if s, ok := a.(string); ok && len(s) > maxText {
			args = slices.Clone(args)
			args[i] = strings.ToValidUTF8(s[:maxText], "") + "…"
		}
	}
	return args
}

// Join returns texts between a separator, of at most 4 KiB in all.
func Join(texts []string, separator string) string {
	var b strings.Builder
	for i, s := range texts {
		if i > 0 {
			b.WriteString(separator)
		}
		if b.Len()+len(s) > maxText {
			b.WriteString(strings.ToValidUTF8(s[:max(0, maxText-b.Len())], ""))
			b.WriteString("…")
			break
		}
		b.WriteString(s)
	}
	return b.String()
}
