package main

import (
	"bytes"
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/onward-ml/onward/bench/internal/measure"
)

// threadColors are the colors for one and more threads, from Okabe and Ito's palette for
// colour-blind readers.
var threadColors = []color.Color{
	color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
	color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff},
	color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff},
}

// drawRatios returns an SVG chart with the ratio of every model. Each network has its own line; the
// models of every other group share one.
func drawRatios(rows []row) ([]byte, error) {
	var labels []string
	place := map[string]int{}
	label := func(r row) string {
		switch {
		case r.group == gInt8:
			return r.name + ", 8-bit"
		case r.group == gFP16:
			return r.name + ", float16"
		case r.group == gBF16:
			return r.name + ", bfloat16"
		case r.isNetwork():
			return r.name
		}
		return r.group
	}
	for _, r := range rows {
		if _, ok := place[label(r)]; !ok {
			place[label(r)] = 0
			labels = append(labels, label(r))
		}
	}
	slices.Reverse(labels) // the first label belongs at the top
	for i, l := range labels {
		place[l] = i
	}
	points := map[int]plotter.XYs{}
	lo, hi := .8, 2.
	for _, r := range rows {
		for i, m := range r.By {
			ratio := m.Ratio((*measure.Result).Median, "")
			if ratio == 0 {
				continue
			}
			y := float64(place[label(r)]) + .15 - .3*float64(i) // numbers of threads are drawn side by side
			points[m.Threads] = append(points[m.Threads], plotter.XY{X: ratio, Y: y})
			lo, hi = min(lo, ratio/1.1), max(hi, ratio*1.1)
		}
	}
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	p := plot.New()
	p.Title.Text = "Time of the faster of ONNX Runtime and OpenVINO / time of Onward"
	p.X.Label.Text = "over 1, Onward is faster"
	p.X.Scale, p.X.Min, p.X.Max = plot.LogScale{}, lo, hi
	p.X.Tick.Marker = plot.TickerFunc(ratioTicks)
	p.Y.Min, p.Y.Max = -.6, float64(len(labels))-.4
	p.NominalY(labels...)
	grid := plotter.NewGrid()
	grid.Horizontal.Color = color.Gray{0xe0}
	grid.Vertical.Color = color.Gray{0xe0}
	p.Add(grid)
	par, err := plotter.NewLine(plotter.XYs{{X: 1, Y: p.Y.Min}, {X: 1, Y: p.Y.Max}})
	if err != nil {
		return nil, err
	}
	par.Width = vg.Points(1.2)
	p.Add(par)
	for i, t := range slices.Sorted(maps.Keys(points)) {
		s, err := plotter.NewScatter(points[t])
		if err != nil {
			return nil, err
		}
		s.GlyphStyle = draw.GlyphStyle{Color: threadColors[min(i, len(threadColors)-1)], Radius: vg.Points(3),
			Shape: draw.CircleGlyph{}}
		p.Add(s)
		name := fmt.Sprintf("%d threads", t)
		if t == 1 {
			name = "1 thread"
		}
		p.Legend.Add(name, s)
	}
	p.Legend.Top = true
	c := vgsvg.New(22*vg.Centimeter, vg.Length(2.4+.55*float64(len(labels)))*vg.Centimeter)
	p.Draw(draw.New(c))
	var b bytes.Buffer
	_, err = c.WriteTo(&b)
	return b.Bytes(), err
}

// ratioTicks marks 1, 2 and 5 times the powers of ten.
func ratioTicks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); v >= lo && v <= hi {
				ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 3, 64)})
			}
		}
	}
	return ticks
}
