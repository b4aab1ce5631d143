package page

import (
	"fmt"
	"hash/fnv"
	"html"
	"math"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/cmd/onward/internal/text"
)

// Flame is a flame chart: frames by level, each as wide as its share of the time.
type Flame struct {
	Depth  int
	Frames []Frame
}

// Frame is a rectangle of a flame chart. Left and Width are shares of the whole.
type Frame struct {
	Label, Title string
	Left, Width  float64
	Level, Color int
}

// Color returns one of eight colors for a name, such as that of an operator.
func Color(name string) int {
	h := fnv.New32a()
	h.Write([]byte(name))
	return int(h.Sum32() % 8)
}

// Point is a point of a line chart. Title is shown when the pointer is over it.
type Point struct {
	X, Y  float64
	Title string
	Bad   bool
}

// Line is a line chart. Points whose Y is NaN, or not positive on a logarithmic axis, are gaps.
type Line struct {
	Label    string
	XName    string
	Log      bool
	Points   []Point
	Mark     float64 // a vertical line with MarkText, if that is not empty
	MarkText string
}

const (
	chartWidth, chartHeight  = 960.0, 260.0
	left, right, top, bottom = 62.0, 12.0, 16.0, 40.0
)

type axis struct {
	lo, hi, from, to float64
	log              bool
}

// at returns the position of x, at an end of the axis if x is outside.
func (a axis) at(x float64) float64 {
	lo, hi := a.lo, a.hi
	x = min(max(x, lo), hi)
	if a.log {
		x, lo, hi = math.Log10(x), math.Log10(lo), math.Log10(hi)
	}
	return a.from + (a.to-a.from)*(x-lo)/(hi-lo)
}

// ticks returns about n round numbers of the axis.
func (a axis) ticks(n int) []float64 {
	var r []float64
	if a.log {
		first, last := math.Ceil(math.Log10(a.lo)-1e-9), math.Floor(math.Log10(a.hi)+1e-9)
		if last-first < 2 { // also 2 and 5 of each decade
			for e := first - 1; e <= last; e++ {
				for _, m := range []float64{1, 2, 5} {
					if v := m * math.Pow(10, e); v >= a.lo*(1-1e-9) && v <= a.hi*(1+1e-9) {
						r = append(r, v)
					}
				}
			}
			return r
		}
		step := max(1, math.Ceil((last-first)/float64(n)))
		for e := first; e <= last; e += step {
			r = append(r, math.Pow(10, e))
		}
		return r
	}
	raw := (a.hi - a.lo) / float64(n)
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5, 10} {
		if step*m >= raw {
			step *= m
			break
		}
	}
	for k := math.Ceil(a.lo/step - 1e-9); k*step <= a.hi+step*1e-9 && len(r) < 100; k++ {
		r = append(r, k*step+0) // +0 makes −0 0
	}
	return r
}

// widened returns an axis with a range that is finite and not empty.
func widened(a axis) axis {
	if !(a.lo <= a.hi) {
		a.lo, a.hi = 0.1, 1
	}
	const most = 1e300 // differences and ratios of positions stay finite
	a.lo, a.hi = min(max(a.lo, -most), most), min(max(a.hi, -most), most)
	switch {
	case a.log:
		a.lo = math.Pow(10, math.Floor(math.Log10(max(a.lo, 1/most))))
		a.hi = math.Pow(10, math.Ceil(math.Log10(max(a.hi, a.lo))))
		if a.lo == a.hi {
			a.hi *= 10
		}
	case a.hi-a.lo <= math.Abs(a.hi)*1e-12:
		d := max(math.Abs(a.hi)/10, 0.5)
		a.lo, a.hi = a.lo-d, a.hi+d
	}
	return a
}

// Markup is markup whose texts are escaped.
type Markup string

// Format returns markup in a format of package fmt. Arguments that are strings are escaped.
func Format(format string, args ...any) Markup {
	var d drawing
	d.add(format, args...)
	return Markup(d.String())
}

// drawing collects the elements of a page or an image. Arguments that are strings are escaped.
type drawing struct{ strings.Builder }

func (d *drawing) add(format string, args ...any) {
	for i, a := range args {
		switch a := a.(type) {
		case string:
			args[i] = html.EscapeString(text.Name(a))
		case float64:
			args[i] = strconv.FormatFloat(math.Round(a*100)/100, 'f', -1, 64)
		}
	}
	fmt.Fprintf(d, format, args...)
}

func (d *drawing) begin(width, height float64, label string) {
	d.add(`<svg viewBox="0 0 %v %v" role="img" aria-label="%v">`, width, height, label)
}

func (d *drawing) svg() Markup {
	d.WriteString("</svg>")
	return Markup(d.String())
}

func tick(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

// Draw returns the chart as an image.
func (c *Line) Draw() Markup {
	drawn := func(p Point) bool { return p.Y-p.Y == 0 && (!c.Log || p.Y > 0) }
	x := axis{lo: 0, hi: math.Inf(-1), from: left, to: chartWidth - right}
	y := axis{lo: math.Inf(1), hi: math.Inf(-1), from: chartHeight - bottom, to: top, log: c.Log}
	for _, p := range c.Points {
		x.hi = max(x.hi, p.X)
		if drawn(p) {
			y.lo, y.hi = min(y.lo, p.Y), max(y.hi, p.Y)
		}
	}
	x, y = widened(x), widened(y)
	var d drawing
	d.begin(chartWidth, chartHeight, c.Label)
	for _, v := range y.ticks(5) {
		d.add(`<path class="grid" d="M%v %vH%v"/><text x="%v" y="%v" text-anchor="end">%v</text>`, left, y.at(v), chartWidth-right, left-8, y.at(v)+4, tick(v))
	}
	for _, v := range x.ticks(10) {
		d.add(`<text x="%v" y="%v" text-anchor="middle">%v</text>`, x.at(v), chartHeight-bottom+18, tick(v))
	}
	d.add(`<path class="axis" d="M%v %vH%v"/><text x="%v" y="%v" text-anchor="middle">%v</text>`, left, chartHeight-bottom, chartWidth-right, (left+chartWidth-right)/2, chartHeight-4, c.XName)
	if c.MarkText != "" {
		anchor := "start"
		if x.at(c.Mark) > chartWidth/2 {
			anchor = "end"
		}
		d.add(`<path class="mark" d="M%v %vV%v"/><text class="badtext" x="%v" y="%v" text-anchor="%v">%v</text>`, x.at(c.Mark), top, chartHeight-bottom, x.at(c.Mark), top-4, anchor, c.MarkText)
	}
	d.WriteString(`<path class="line k0" d="`)
	move := "M"
	for _, p := range c.Points {
		if move = map[bool]string{true: move, false: "M"}[drawn(p)]; drawn(p) {
			d.add("%v%v %v", move, x.at(p.X), y.at(p.Y))
			move = "L"
		}
	}
	d.WriteString(`"/>`)
	for _, p := range c.Points {
		if drawn(p) {
			class := "k0"
			if p.Bad {
				class = "badpoint"
			}
			d.add(`<circle class="dot %v" cx="%v" cy="%v" r="3"><title>%v</title></circle>`, class, x.at(p.X), y.at(p.Y), p.Title)
		}
	}
	return d.svg()
}

// Histogram is a chart of counts in bins, with marks on the axis of values.
type Histogram struct {
	Label  string
	Unit   string
	Edges  []float64 // one more than Counts, ascending
	Counts []float64
	Lo, Hi float64 // the values that the axis shows
	Log    bool    // the axis is logarithmic; Lo is positive
	Shade  *[2]float64
	Marks  []Mark
	Width  float64 // 0: that of a page
	Color  int
}

// Mark is a vertical line with a text.
type Mark struct {
	X    float64
	Text string
}

// Draw returns the chart as an image.
func (c *Histogram) Draw() Markup {
	width, height := c.Width, 150.0
	if width == 0 {
		width = chartWidth
	}
	const side, under = 14.0, 34.0
	x := axis{lo: c.Lo, hi: c.Hi, from: side, to: width - side, log: c.Log}
	if !c.Log || !(c.Lo > 0 && c.Hi > c.Lo) {
		x.log = false
		x = widened(x)
	}
	most := 0.0
	for _, n := range c.Counts {
		most = max(most, n)
	}
	base, above := height-under, 8+14*float64(min(len(c.Marks), 3))
	var d drawing
	d.begin(width, height, c.Label)
	if s := c.Shade; s != nil {
		d.add(`<rect class="range" x="%v" y="%v" width="%v" height="%v"/>`, x.at(s[0]), above, max(x.at(s[1])-x.at(s[0]), 1), base-above)
		d.add(`<path class="axis" d="M%v %vV%vM%v %vV%v"/>`, x.at(s[0]), above, base, x.at(s[1]), above, base)
	}
	d.add(`<path class="bars k%d" d="`, c.Color)
	for i, n := range c.Counts {
		if a, b := c.Edges[i], c.Edges[i+1]; n > 0 && b >= x.lo && a <= x.hi {
			d.add("M%v %vV%vH%vV%vz", x.at(a), base, base-(base-above)*n/most, max(x.at(b), x.at(a)+0.5), base)
		}
	}
	d.add(`"/><path class="axis" d="M%v %vH%v"/>`, side, base, width-side)
	for _, v := range x.ticks(int(width / 110)) {
		d.add(`<text x="%v" y="%v" text-anchor="middle">%v</text>`, x.at(v), base+15, tick(v))
	}
	if c.Unit != "" {
		d.add(`<text x="%v" y="%v" text-anchor="end">%v</text>`, width-side, base+30, c.Unit)
	}
	for i, m := range c.Marks { // each on a line of its own, so that texts do not overlap
		anchor, dx := "start", 4.0
		if x.at(m.X) > width*3/4 {
			anchor, dx = "end", -4
		}
		d.add(`<path class="axis" d="M%v %vV%v"/><text class="strong" x="%v" y="%v" text-anchor="%v">%v</text>`, x.at(m.X), 2+14*float64(i), base, x.at(m.X)+dx, 12+14*float64(i), anchor, m.Text)
	}
	return d.svg()
}

// Bins counts values in n bins from lo to hi, of equal width or, if log is set, of equal ratios.
func Bins(values []float64, lo, hi float64, n int, log bool) (edges, counts []float64) {
	if log && lo > 0 && hi > lo {
		logs := make([]float64, len(values))
		for i, v := range values {
			logs[i] = math.Log(v)
		}
		edges, counts = Bins(logs, math.Log(lo), math.Log(hi), n, false)
		for i, e := range edges {
			edges[i] = math.Exp(e)
		}
		return edges, counts
	}
	if !(hi > lo) {
		lo, hi = lo-0.5, hi+0.5
	}
	edges, counts = make([]float64, n+1), make([]float64, n)
	for i := range edges {
		edges[i] = lo + (hi-lo)*float64(i)/float64(n)
	}
	for _, v := range values {
		if v >= lo && v <= hi {
			counts[min(int((v-lo)/(hi-lo)*float64(n)), n-1)]++
		}
	}
	return edges, counts
}
