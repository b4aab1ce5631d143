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

// Parts are the parts of a text that begin with a heading of a level, in order.
type Parts struct {
	level string // "\n### "
	list  []part
}

type part struct{ title, text string }

// Divide returns the parts of a text that begin with a heading line as "### Title", where level is
// "### ". What is before the first one is left out.
func Divide(text, level string) *Parts {
	p := &Parts{level: "\n" + level}
	for i, s := range strings.Split("\n"+text, p.level) {
		if title, text, _ := strings.Cut(s, "\n"); i > 0 {
			p.list = append(p.list, part{title, strings.Trim(text, "\n")})
		}
	}
	return p
}

// Text returns the text of a part without its heading, or "".
func (p *Parts) Text(title string) string {
	for _, x := range p.list {
		if x.title == title {
			return x.text
		}
	}
	return ""
}

// Set replaces the text of a part, which becomes the last if it is not there.
func (p *Parts) Set(title, text string) {
	text = strings.Trim(text, "\n")
	for i := range p.list {
		if p.list[i].title == title {
			p.list[i].text = text
			return
		}
	}
	p.list = append(p.list, part{title, text})
}

// String returns the parts with their headings.
func (p *Parts) String() string {
	var b strings.Builder
	for _, x := range p.list {
		b.WriteString(p.level + x.title + "\n\n" + x.text + "\n")
	}
	return strings.TrimPrefix(b.String(), "\n")
}
