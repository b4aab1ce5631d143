package page

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const evil = `</script><script>alert(1)</script><img src=x onerror=alert(1)>"'` + "\x1b\u202e`${}<!--"

func rendered(t *testing.T, p *Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := Render(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// hostile has the text in all places.
func hostile(s string) *Page {
	nan := math.NaN()
	return &Page{Verb: "profile", Title: s, Facts: []Fact{{"model", s}}, Sections: []Section{
		{Title: "charts", Note: s, Charts: []Chart{
			{Caption: s, SVG: (&Line{Label: s, XName: s, Points: []Point{{X: 0, Y: 1, Title: s}, {X: 1, Y: nan, Title: s}}, MarkText: s}).Draw()},
			{Caption: s, SVG: (&Histogram{Label: s, Unit: s, Edges: []float64{0, 1}, Counts: []float64{1}, Hi: 1, Marks: []Mark{{0, s}}}).Draw()}}},
		{Flame: &Flame{Depth: 1, Frames: []Frame{{Label: s, Title: s, Width: 1}}}},
		{View: &View{Style: "p{}", Script: "1", Body: Format("<p>%v", s)}},
		{Table: &Table{Caption: s, Columns: []Column{{Name: s}}, Rows: [][]Cell{{{Text: s, Value: s}}}}}}}
}

// Names of a model become text: the page has the elements and attributes of
// one with harmless names.
func TestHostileNames(t *testing.T) {
	tags := regexp.MustCompile(`(?i)<(/?[a-z]+)|\son[a-z]+\s*=`)
	count := func(s string) map[string]int {
		r := map[string]int{}
		for _, m := range tags.FindAllString(s, -1) {
			r[strings.ToLower(m)]++
		}
		return r
	}
	good, bad := count(rendered(t, hostile("a"))), count(rendered(t, hostile(evil)))
	for _, tag := range []string{"<script", "</script", "<img", "</title", "</style"} {
		if good[tag] != bad[tag] {
			t.Errorf("%d of %s with hostile names, want %d", bad[tag], tag, good[tag])
		}
	}
	if s := rendered(t, hostile(evil)); strings.ContainsAny(s, "\x1b\u202e") ||
		!strings.Contains(s, "&lt;/script&gt;") {
		t.Error("control characters are not escaped, or the names are missing")
	}
}

// A page refers to no other file, and its policy names the hash of its script.
func TestSelfContained(t *testing.T) {
	s := rendered(t, hostile("a"))
	for _, m := range regexp.MustCompile(`(?i)\s(src|href|action|data)\s*=\s*"?([^"\s>]*)|url\(|@import|https?://[^"'\s<]*`).FindAllString(s, -1) {
		if m = strings.TrimSpace(m); m != `href="#main` {
			t.Errorf("the page refers to %q", m)
		}
	}
	if !strings.Contains(s, "default-src &#39;none&#39;") || strings.Count(s, "sha256-") != 1 {
		t.Error("the content security policy is missing or has no hash")
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.html")
	if err := Write(path, hostile("a")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.HasSuffix(bytes.TrimSpace(b), []byte("</html>")) {
		t.Errorf("the file ends in %q, %v", b[max(len(b)-20, 0):], err)
	}
}

// Axes with equal, missing and extreme values have finite positions and few ticks.
func TestAxes(t *testing.T) {
	inf := math.Inf(1)
	for _, v := range [][]float64{nil, {1}, {0, 0}, {-3, -3}, {1e-300, 1e300}, {math.MaxFloat64, -math.MaxFloat64},
		{math.MaxFloat64}, {5e-324}, {inf}, {math.NaN()}, {0, 1, 2}} {
		for _, log := range []bool{false, true} {
			c := Line{Label: "c", Log: log}
			for i, y := range v {
				c.Points = append(c.Points, Point{X: float64(i), Y: y})
			}
			if s := string(c.Draw()); strings.Contains(s, "NaN") || strings.Contains(s, "Inf") ||
				strings.Count(s, "<text") > 60 {
				t.Errorf("%v, log %t: %s", v, log, s)
			}
		}
	}
}

func TestBins(t *testing.T) {
	for _, log := range []bool{false, true} {
		edges, counts := Bins([]float64{1, 2, 4, 8, 16, 32}, 1, 16, 4, log)
		sum := 0.0
		for _, n := range counts {
			sum += n
		}
		if len(edges) != 5 || sum != 5 || math.Abs(edges[4]-16) > 1e-9 || log && math.Abs(edges[1]-2) > 1e-9 || !log &&
			edges[1] != 4.75 {
			t.Errorf("log %t: edges %v, counts %v", log, edges, counts)
		}
	}
}
