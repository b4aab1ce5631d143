package main

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"unsafe"
)

// even returns a section of equal chunks.
func even(threads, chunks int, each float64) section {
	s := section{used: threads, chunks: make([]float64, chunks)}
	for i := range s.chunks {
		s.chunks[i] = each
	}
	return s
}

func TestReplay(t *testing.T) {
	free := &processor{bandwidth: math.Inf(1)}
	real := &processor{line: 100, bandwidth: 100}
	slow := even(4, 16, 1e6)
	slow.chunks[0] = 4e6
	joined := even(2, 2, 1000)
	joined.joined, joined.goesOn = true, true
	for name, c := range map[string]struct {
		s        section
		p        *processor
		min, max float64
	}{
		"one thread":                {even(1, 4, 1000), real, 4000, 4000},
		"four threads":              {even(4, 16, 1e6), free, 4e6, 4.001e6},
		"more threads than a set":   {even(64, 256, 1e6), free, 4e6, 4.001e6},
		"chunks are not divisible":  {even(4, 5, 1e6), free, 2e6, 2.001e6},
		"others take queued chunks": {slow, free, 5e6, 5.001e6},
		"hand-off takes two lines":  {even(2, 2, 1000), real, 1400, 1500},
		"hand-off in three steps":   {even(64, 64, 1000), real, 1800, 2300},
		"joined to others":          {joined, real, 1210, 1220},
	} {
		if got := c.s.replay(c.p.line); got < c.min || got > c.max {
			t.Errorf("%s: %v ns, want %v to %v", name, got, c.min, c.max)
		}
	}
	trace := []step{{data: []data{{"x", 5000, false}}, tail: 5,
		sections: []section{{before: 10, used: 1, chunks: []float64{20}}}}, {tail: 7}}
	if got, nodes := replay(trace, real, 1, 1); got != 57 || nodes[0] != 50 {
		t.Errorf("a node of 35 ns and 5000 bytes takes %v, with one of 7 ns %v, want 50 and 57", nodes[0], got)
	}
}

// TestTraffic checks what two nodes read from memory in a second run, by how teams share caches.
func TestTraffic(t *testing.T) {
	trace := []step{
		{data: []data{{"x", 10, false}, {"w", 20, true}}},
		{data: []data{{"x", 10, false}, {"y", 10, false}, {"v", 20, true}}},
	}
	for name, c := range map[string]struct {
		cache          float64
		chiplet        int
		teams, threads int
		want           []float64
	}{
		"no cache":                        {0, 0, 8, 8, []float64{240, 320}},
		"one cache for all":               {200, 0, 8, 8, []float64{0, 0}},
		"one cache for all, too small":    {199, 0, 8, 8, []float64{20, 100}},
		"a chiplet per team":              {60, 8, 8, 8, []float64{0, 0}},
		"a chiplet per team, too small":   {50, 8, 8, 8, []float64{160, 240}},
		"four teams per chiplet":          {120, 8, 8, 2, []float64{0, 0}},
		"four teams in one, too small":    {119, 8, 4, 2, []float64{20, 60}},
		"four teams in each of two":       {119, 8, 8, 2, []float64{40, 120}},
		"teams of two chiplets":           {200, 8, 4, 16, []float64{120, 160}},
		"teams at the border of chiplets": {200, 8, 4, 3, []float64{120, 160}},
		"one team in a chiplet":           {60, 8, 1, 4, []float64{0, 0}},
		"one team in several chiplets":    {60, 8, 1, 64, []float64{30, 40}},
	} {
		p := &processor{cache: c.cache, chiplet: c.chiplet}
		if got := p.traffic(trace, c.teams, c.threads); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v bytes, want %v", name, got, c.want)
		}
	}
}

// TestLinesOfChiplets checks that lines between the threads of a team take less time in a chiplet
// than between two.
func TestLinesOfChiplets(t *testing.T) {
	bound, shared := &processor{cache: 1, chiplet: 8, line: 100, near: 20}, &processor{cache: 1, line: 100}
	trace := []step{{sections: []section{even(4, 4, 1000)}}}
	for _, c := range []struct {
		p              *processor
		teams, threads int
		least, most    float64
	}{{bound, 8, 8, 1080, 1200}, {bound, 4, 16, 1400, 1500}, {shared, 8, 8, 1400, 1500}} {
		if got, _ := replay(trace, c.p, c.teams, c.threads); got < c.least || got > c.most {
			t.Errorf("%+v: a section takes %v ns, want %v to %v", c, got, c.least, c.most)
		}
	}
}

// TestColumns checks that each series has one column for a number of cores.
func TestColumns(t *testing.T) {
	for cores, want := range map[int][]string{
		64:  {"EPYC", "EPYC bound", "Xeon"},
		192: {"EPYC"},
		193: nil,
	} {
		var got []string
		for _, c := range columns([]int{cores}) {
			got = append(got, c.series)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d cores: columns of %q, want %q", cores, got, want)
		}
	}
}

func TestCauses(t *testing.T) {
	free := &processor{bandwidth: math.Inf(1)}
	late := even(4, 4, 1e6)
	late.chunks[0] = 3e6
	const want = "3.1ms = ideal 1.53ms, more work 0s, serial 75µs, hand-off of 1 launches in 1 sections 0s, " +
		"waiting 1.5ms, memory 0s"
	if got := causes([]step{{sections: []section{late}, tail: 1e5}}, free, 1, 6.1e6, 4); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestReachable checks that weights of an operator are counted once, also those behind pointers.
func TestReachable(t *testing.T) {
	type packed struct {
		data []float32
		rows [][]byte
		more any
	}
	p := &packed{data: make([]float32, 100), rows: [][]byte{make([]byte, 7), nil}}
	p.more = &packed{data: p.data, more: []*packed{p, {data: make([]float32, 3)}}}
	if got, want := reachable(reflect.ValueOf(p), map[unsafe.Pointer]bool{}), 400.+2*24+7+2*8+12; got != want {
		t.Errorf("%v bytes, want %v", got, want)
	}
}
