// Package page writes the HTML pages of the verbs: one file each, which loads nothing and can be
// read without JavaScript, with tables that scripts make sortable.
package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
	"math"

	"github.com/onward-ml/onward/internal/atomicfile"
)

// Page is the contents of a page. Texts may come from hostile files.
type Page struct {
	Verb     string // such as "profile"
	Title    string // such as the path of the model
	Facts    []Fact
	Sections []Section
}

// Fact is a number or a name that the head of the page shows.
type Fact struct{ Name, Value string }

// Section is a part of a page: charts, a flame chart, a view, or a table.
type Section struct {
	Title  string
	Note   string
	Charts []Chart
	Flame  *Flame
	View   *View
	Table  *Table
}

// View is a part of the page with a style and a script of its own. A page with one is as
// wide as the window.
type View struct {
	Style, Script string
	Body          Markup
}

// Chart is an SVG image with a text below it.
type Chart struct {
	Caption string
	SVG     Markup
}

// Table is a table whose columns can be sorted.
type Table struct {
	Caption string
	Columns []Column
	Rows    [][]Cell
	// Items marks a table whose first column has items of the page's view as Value.
	Items bool
}

// Column is the head of a column. Numbers are aligned to the right.
type Column struct {
	Name   string
	Number bool
}

// Cell is an element of a table.
type Cell struct {
	Text  string
	Value string  // what the column is sorted by; empty: the text
	Bar   float64 // the length of a bar under the number, 0 to 1
	Class string  // "ok", "bad", "dim" or empty
}

// Text returns a cell with text.
func Text(s string) Cell { return Cell{Text: s} }

// Number returns a cell with a number in a format of package fmt; "-" for NaN.
func Number(format string, x float64) Cell {
	if math.IsNaN(x) {
		return Cell{Text: "-", Class: "dim"}
	}
	return Cell{Text: fmt.Sprintf(format, x), Value: fmt.Sprint(x)}
}

// Optional is [Number] of a number that may be missing.
func Optional(format string, x *float64) Cell {
	if x == nil {
		return Number(format, math.NaN())
	}
	return Number(format, *x)
}

//go:embed page.css
var style string

//go:embed page.js
var script string

// policy is a content security policy that runs the page's own script and permits no request. If a
// name in a page became markup in spite of the escaping, a script in it would not run.
func policy(script string) string {
	sum := sha256.Sum256([]byte(script))
	return "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Render writes a page. It does not use html/template, which makes the linker keep all
// exported methods and the command 2 MB larger. Texts of models stand only between tags
// and in quoted attributes.
func Render(w io.Writer, p *Page) error {
	var d drawing
	style, script, body := style, script, ""
	for _, s := range p.Sections {
		if s.View != nil {
			style, script, body = style+s.View.Style, script+s.View.Script, "wide"
		}
	}
	d.add(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="%v">
<title>%v: onward %v</title>
<style>%v</style>
</head>
<body class="%v">
<a class="skip" href="#main">Skip to the contents</a>
<header>
<p class="verb">onward %v</p>
<h1>%v</h1>
`, policy(script), p.Title, p.Verb, Markup(style), body, p.Verb, p.Title)
	if len(p.Facts) > 0 {
		d.add("<dl>")
		for _, f := range p.Facts {
			d.add("<div><dt>%v</dt><dd>%v</dd></div>", f.Name, f.Value)
		}
		d.add("</dl>\n")
	}
	d.add("</header>\n<main id=\"main\">\n")
	for i := range p.Sections {
		d.section(&p.Sections[i])
	}
	d.add("</main>\n<script>%v</script>\n</body>\n</html>\n", Markup(script))
	_, err := io.WriteString(w, d.String())
	return err
}

func (d *drawing) section(s *Section) {
	d.add("<section>\n")
	if s.Title != "" {
		d.add("<h2>%v</h2>\n", s.Title)
	}
	if s.Note != "" {
		d.add("<p class=\"note\">%v</p>\n", s.Note)
	}
	if n := len(s.Charts); n > 0 {
		d.add(`<div class="%v">`, map[bool]string{false: "charts", true: "charts many"}[n > 3])
		for _, c := range s.Charts {
			d.add("<figure>%v", c.SVG)
			if c.Caption != "" {
				d.add("<figcaption>%v</figcaption>", c.Caption)
			}
			d.add("</figure>\n")
		}
		d.add("</div>\n")
	}
	if f := s.Flame; f != nil {
		d.add(`<div class="flame" role="group" aria-label="flame chart"><div class="scroll"><div class="frames" style="height:calc(%d * 1.75rem)">`, f.Depth)
		for _, x := range f.Frames {
			d.add(`<div class="frame k%d" style="left:%v;width:%v;top:calc(%d * 1.75rem)" title="%v" tabindex="-1">%v</div>`,
				x.Color, percent(x.Left), percent(x.Width), x.Level, x.Title, x.Label)
		}
		d.add("</div></div><p class=\"status\" aria-live=\"polite\">&nbsp;</p></div>\n")
	}
	if s.View != nil {
		d.add("%v", s.View.Body)
	}
	if s.Table != nil {
		d.table(s.Table)
	}
	d.add("</section>\n")
}

// longTable is the number of rows from which scripts make a table on demand: laying out 5,000 rows
// takes a browser more than a second. Without scripts it is there at once.
const longTable = 1000

func (d *drawing) table(t *Table) {
	var items Markup
	if t.Items {
		items = " data-items"
	}
	if n := len(t.Rows); n >= longTable {
		d.add("<noscript class=\"long\" title=\"Show the table of %d %v\">\n", n, t.Caption)
		defer d.WriteString("</noscript>\n")
	}
	d.add(`<div class="scroll" role="region" aria-label="%v" tabindex="0"><table class="sortable"%v><caption>%v</caption><thead><tr>`, t.Caption, items, t.Caption)
	for _, c := range t.Columns {
		d.add(`<th scope="col" class="%v">%v</th>`, alignment(c), c.Name)
	}
	d.add("</tr></thead>\n<tbody>")
	for _, row := range t.Rows {
		d.add("<tr>")
		for i, c := range row {
			d.add(`<td class="%v %v"`, alignment(t.Columns[i]), c.Class)
			if c.Value != "" {
				d.add(` data-v="%v"`, c.Value)
			}
			d.add(">")
			if c.Bar > 0 {
				d.add(`<span class="meter" style="width:%v"></span>`, percent(c.Bar))
			}
			d.add("%v</td>", c.Text)
		}
		d.add("</tr>\n")
	}
	d.add("</tbody></table></div>\n")
}

func alignment(c Column) string {
	if c.Number {
		return "n"
	}
	return ""
}

func percent(x float64) string { return fmt.Sprintf("%.4g%%", 100*x) }

// Write writes a page to a file.
func Write(path string, p *Page) error {
	return atomicfile.Write(path, 0o644, func(w io.Writer) error { return Render(w, p) })
}
