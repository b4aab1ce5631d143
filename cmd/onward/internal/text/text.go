// Package text writes the output of the verbs: escaped text, tables and JSON.
package text

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape makes text from a file safe for a terminal: it escapes control and invisible
// characters, and keeps line ends and tabs.
func Escape(s string) string {
	ok := func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) && r != utf8.RuneError }
	if strings.IndexFunc(s, func(r rune) bool { return !ok(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1 || r < 0x80 && !ok(r):
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case ok(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[n:]
	}
	return b.String()
}

// Name escapes a name, in which line ends and tabs are escaped too.
func Name(s string) string { return lineEnds.Replace(Escape(s)) }

var lineEnds = strings.NewReplacer("\n", `\n`, "\t", `\t`)

// Indent escapes s and puts indent before all lines but the first.
func Indent(s, indent string) string {
	return strings.ReplaceAll(Escape(s), "\n", "\n"+indent)
}

// Wrap breaks s at spaces into lines of at most width characters.
func Wrap(s string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(s) {
		n := utf8.RuneCountInString(word)
		switch {
		case column > 0 && column+1+n > width:
			b.WriteByte('\n')
			column = 0
		case column > 0:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// JSON writes v as indented JSON, in which characters that do not print are escaped, as in text.
func JSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(escapeJSON(b.Bytes()))
	return err
}

// JSONLines returns a writer for lines of JSON that escapes as [JSON] does. Each
// Write has whole lines.
func JSONLines(w io.Writer) io.Writer { return jsonLines{w} }

type jsonLines struct{ w io.Writer }

// Write implements io.Writer.
func (l jsonLines) Write(p []byte) (int, error) {
	if _, err := l.w.Write(escapeJSON(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// escapeJSON escapes the characters of JSON strings that do not print, such as U+202E, which
// reverses the text after it.
func escapeJSON(b []byte) []byte {
	hidden := func(r rune) bool { return r >= 0x80 && !unicode.IsPrint(r) }
	if bytes.IndexFunc(b, hidden) < 0 {
		return b
	}
	var r []byte
	for _, c := range string(b) {
		switch {
		case !hidden(c):
			r = utf8.AppendRune(r, c)
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			r = fmt.Appendf(r, `\u%04x\u%04x`, high, low)
		default:
			r = fmt.Appendf(r, `\u%04x`, c)
		}
	}
	return r
}

// Table returns a writer that aligns cells, which tabs separate, to the left.
func Table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// NumberTable returns a writer that aligns cells, which tabs end, to the right.
func NumberTable(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
}

// Finite returns x for JSON, which has no infinities and no NaN: nil for those.
func Finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// Milliseconds returns d in milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// Bytes returns a size with a unit: "512 B", "3.4 MB".
func Bytes(n int64) string { return Scaled(n) + "B" }

// Count returns a count with a prefix: "512", "3.4 M".
func Count(n int64) string { return strings.TrimSpace(Scaled(n)) }

// Plural returns a number with a noun: "1 node", "2 nodes", "2 batches".
func Plural(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "ch"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Number returns x with four digits or more, without an exponent if it is large: "0.1234", "74880".
func Number(x float64) string {
	if math.Abs(x) >= 1e4 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.4g", x)
}

// Scaled returns a number with a prefix for a unit: "512 ", "3.4 M".
func Scaled(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d ", n)
	}
	x, prefix := float64(n), ""
	for _, p := range []string{"k", "M", "G", "T", "P", "E"} {
		if x < 999.5 {
			break
		}
		x, prefix = x/1000, p
	}
	return fmt.Sprintf("%.3g %s", x, prefix)
}

// SortedFunc is [slices.SortedFunc] for strings, with the code of sort.Slice,
// which all types share.
func SortedFunc(seq iter.Seq[string], compare func(a, b string) int) []string {
	r := slices.Collect(seq)
	sort.Slice(r, func(i, k int) bool { return compare(r[i], r[k]) < 0 })
	return r
}
