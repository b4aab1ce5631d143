package measure

import (
	"slices"
	"strings"
	"testing"
)

func TestRounds(t *testing.T) {
	m, failed := took(1), took(1, 6, 30)
	failed.Results[1].Error = "no memory"
	for _, round := range []Measured{took(1, 5, 20),
		{Results: []Result{took(1, 0, 10).Results[1], took(1, 9).Results[0]}}, took(1, 7, 40)} {
		m.Add(&round)
	}
	if a, b := m.Results[0], m.Results[1]; len(m.Results) != 2 || a.Provider != "cpu" || a.MedianMS != 7 ||
		a.MinMS != 2.5 || b.MedianMS != 20 || b.MinMS != 5 {
		t.Errorf("got %+v", m.Results)
	}
	m.Add(&failed)
	if a, b := m.Results[0], m.Results[1]; a.MedianMS != 6.5 || a.Error != "" || b.Error == "" {
		t.Errorf("got %+v after a failure", m.Results)
	}
}

func TestTable(t *testing.T) {
	failed := took(1, 5, 1, 8)
	failed.Results[1].Error = "no such operator"
	rows := []*Row{{Name: "a", By: []Measured{took(1, 5, 20, 10)}},
		{Name: "b", By: []Measured{took(1, 5, 5, 10)}},
		{Name: "d", By: []Measured{failed}}}
	got := strings.Split(Table(rows, Columns{}), "\n")
	for _, want := range []string{"1T: geometric mean 1.47, lowest 1.00, over 3 models; against openvino alone 1.86 " +
		"and 1.60; against ort alone 2.00 and 1.00 over 2.",
		"| a | 5 ms | 20 ms | 10 ms | 2.00 | 2.00 |", "| d | 5 ms | failed | 8 ms | 1.60 | 1.60 |"} {
		if !slices.Contains(got, want) {
			t.Errorf("no line %q in %q", want, got)
		}
	}
	got = strings.Split(Table(rows, Columns{Alone: "ort"}), "\n")
	for _, want := range []string{"| model | cpu 1T | ort 1T | openvino 1T | to ort | ratio | of minima |",
		"| a | 5 ms | 20 ms | 10 ms | 4.00 | 2.00 | 2.00 |", "| d | 5 ms | failed | 8 ms | – | 1.60 | 1.60 |"} {
		if !slices.Contains(got, want) {
			t.Errorf("no line %q in %q", want, got)
		}
	}
	used := took(1, 5, 20)
	for i := range used.Results {
		used.Results[i].LoadMS, used.Results[i].FirstMS = float64(10*i+2), float64(8*i+7)
	}
	got = strings.Split(Table([]*Row{{Name: "e", By: []Measured{used}}}, Columns{Alone: "ort", Load: true}), "\n")
	for _, want := range []string{
		"| e | 5 ms | 20 ms | 4.00 | 4.00 | 4.00 | cpu 2 ms, 7 ms, 0 MB; ort 12 ms, 15 ms, 0 MB | 0.33 | 1.40 |",
		"First use: load and first run take 0.33 of ort's sum (geometric mean), highest 0.33; the first run takes 1.40 of " +
			"the median run, highest 1.40."} {
		if !slices.Contains(got, want) {
			t.Errorf("no line %q in %q", want, got)
		}
	}
	alone := []*Row{{Name: "c", By: []Measured{took(1, 5)}}}
	if s := Table(alone, Columns{}); !strings.Contains(s, "| c | 5 ms | – | – |") || strings.Contains(s, "mean") {
		t.Errorf("%q", s)
	}
	for ms, want := range map[float64]string{.00123: "1.23 µs", 1.234: "1.23 ms", 123.4: "123 ms"} {
		if got := number(ms); got != want {
			t.Errorf("number(%v) = %s, want %s", ms, got, want)
		}
	}
}

// took returns a measurement of cpu and of others, in milliseconds.
func took(threads int, ms ...float64) Measured {
	m := Measured{Threads: threads}
	for i, t := range ms {
		m.Results = append(m.Results,
			Result{Provider: []string{"cpu", "ort", "openvino"}[i], MinMS: t / 2, MedianMS: t})
	}
	return m
}
