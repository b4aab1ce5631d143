// Package page replaces sections of the pages that several benchmarks write.
package page

import "strings"

// Real is the heading of the section of bench/real, Scale and Cores those of bench/scale, and
// Networks the one that follows them.
const (
	Real     = "## Real files"
	Scale    = "## Many cores, predicted"
	Cores    = "## Memory and processor time"
	Networks = "## Networks"
)

// Section returns the section of a page that begins with a heading line as "## Title", without
// blank lines at its end; "" if it is not there.
func Section(page, heading string) string {
	_, after, ok := strings.Cut(page, heading+"\n")
	if !ok {
		return ""
	}
	after, _, _ = strings.Cut(after, "\n## ")
	return heading + "\n" + strings.TrimRight(after, "\n") + "\n"
}

// Replace returns the page with the section replaced. If it is not there, it is inserted before
// the line next, or appended if that is not there either.
func Replace(page, heading, section, next string) string {
	before, after, found := strings.Cut(page, heading+"\n")
	rest := ""
	if i := strings.Index(after, "\n## "); i >= 0 {
		rest = after[i:]
	}
	if i := strings.Index(page, "\n"+next+"\n"); !found && next != "" && i >= 0 {
		before, rest = page[:i], page[i:]
	}
	return strings.TrimRight(before, "\n") + "\n\n" + section + rest
}

// Others returns the parts of a section that begin with a heading line as "### Title", but not the
// one whose title is given: what was measured on other processors.
func Others(section, title string) string {
	var b strings.Builder
	for i, part := range strings.Split(section, "\n### ") {
		if head, _, _ := strings.Cut(part, "\n"); i > 0 && head != title {
			b.WriteString("\n### " + strings.TrimRight(part, "\n") + "\n")
		}
	}
	return b.String()
}
