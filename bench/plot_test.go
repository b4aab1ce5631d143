package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/onward-ml/onward/bench/internal/measure"
)

func TestDrawRatios(t *testing.T) {
	rows := []row{
		{model: model{group: gNetworks, name: "a network"}, Row: measure.Row{By: []measure.Measured{took(1, 2, 3), took(2, 10, 7)}}},
		{model: model{group: gNetworks, name: "one that failed"}, Row: measure.Row{By: []measure.Measured{{Threads: 1}}}},
		{model: model{group: "Others", name: "left out"}, Row: measure.Row{By: []measure.Measured{took(1, 1, 30), took(2, 1, 20)}}},
	}
	svg, err := drawRatios(rows)
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]bool{}
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := tok.(xml.CharData); ok {
			text[strings.TrimSpace(string(c))] = true
		}
	}
	for _, want := range []string{"a network", "one that failed", "Others", "1 thread", "2 threads", "20"} {
		if !text[want] {
			t.Errorf("the image does not say %q", want)
		}
	}
	if text["left out"] {
		t.Error("models of groups other than networks have no line of their own")
	}
}

// took returns a measurement of cpu and of others, in milliseconds.
func took(threads int, ms ...float64) measure.Measured {
	m := measure.Measured{Threads: threads}
	for i, t := range ms {
		m.Results = append(m.Results,
			measure.Result{Provider: []string{"cpu", "ort", "openvino"}[i], MinMS: t / 2, MedianMS: t})
	}
	return m
}
