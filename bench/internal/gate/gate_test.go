package gate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestCompareRepeatsWhatFell injects measurements: one case stays slow, one is slow once, one is
// within the limit, and one became faster.
func TestCompareRepeatsWhatFell(t *testing.T) {
	s := Section{Ratios: map[string]float64{"slow": 2, "noisy": 1, "within": 1, "faster": 1,
		"slower still": 4, "not run": 1}}
	measured := map[string]float64{"slow": 1.5, "noisy": 0.5, "within": 0.91, "faster": 3,
		"slower still": 1, "added": 1}
	repeated := map[string][]float64{"slow": {1.4, 1.7, 1.6}, "noisy": {0.6, 0.95}, "slower still": {1, 1, 1}}
	calls := map[string]int{}
	r, err := s.Compare(measured, .1, 3, func(name string) (float64, error) {
		v := repeated[name][calls[name]] // panics for a case that must not be repeated, or not as often
		calls[name]++
		return v, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &Result{Fallen: []Fall{{"slower still", 4, 1}, {"slow", 2, 1.7}}, Compared: 5, New: []string{"added"}}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v, want %+v", r, want)
	}
	if want := map[string]int{"slow": 3, "noisy": 2, "slower still": 3}; !reflect.DeepEqual(calls, want) {
		t.Errorf("repetitions %v, want %v", calls, want)
	}
	if err := r.Error(.1); err == nil || !strings.Contains(err.Error(), "2 cases fell by more than 10 %") {
		t.Errorf("error %v", err)
	}
	text := s.Report(r, "a processor", "avx2")
	for _, want := range []string{"2 to 1.7 (-15 %)  slow\n", "5 cases compared, 2 fell, 1 are not recorded",
		"measured on a processor with kernels avx2"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	if r, _ := s.Compare(map[string]float64{"faster": 1}, .1, 3, nil); r.Error(.1) != nil || len(r.Fallen) > 0 {
		t.Errorf("an unchanged ratio gives %+v, %v", r, r.Error(.1))
	}
	if r, _ := s.Compare(map[string]float64{"added": 1}, .1, 3, nil); r.Error(.1) == nil {
		t.Error("no error if no measured case is recorded")
	}
	failed := errors.New("failed")
	if _, err := s.Compare(map[string]float64{"slow": 1}, .1, 1, func(string) (float64, error) {
		return 0, failed
	}); !errors.Is(err, failed) {
		t.Errorf("error %v, want that of the repetition", err)
	}
}

// TestRecordKeepsOtherSections records two programs in one file, one of them again.
func TestRecordKeepsOtherSections(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recorded.json")
	if err := (&Program{Section: "a", Check: path}).Finish(nil, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v without a file, want fs.ErrNotExist", err)
	}
	record := func(section string, ratio float64) {
		t.Helper()
		p := &Program{Section: section, Record: path, Processor: "cpu", Kernels: "avx512"}
		if err := p.Finish(map[string]float64{"x <1>": ratio, "y": 0.0123456}, nil); err != nil {
			t.Fatal(err)
		}
	}
	record("a", 1)
	record("b", 123.456)
	record("a", 2.3456)
	for section, want := range map[string]float64{"a": 2.35, "b": 123} {
		s, err := Read(path, section)
		if err != nil || s.Ratios["x <1>"] != want || s.Ratios["y"] != 0.0123 || s.Processor != "cpu" ||
			s.Kernels != "avx512" {
			t.Errorf("section %s is %+v, %v, want ratio %v", section, s, err, want)
		}
	}
	if _, err := Read(path, "c"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v for a section that is not there, want fs.ErrNotExist", err)
	}
	p := &Program{Section: "a", Check: path, Limit: .1, Retries: 1, Processor: "cpu", Kernels: "avx512"}
	if err := p.Finish(map[string]float64{"x <1>": 1}, func(string) (float64, error) { return 1.1, nil }); err == nil {
		t.Error("no error for a ratio that fell by half")
	}
	if err := os.WriteFile(path, []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := (&Program{Section: "a", Record: path}).Finish(nil, nil); err == nil ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("error %v for a damaged file, want one with its name", err)
	}
}
