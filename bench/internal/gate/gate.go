// Package gate compares ratios to ONNX Runtime with those that a file records, and names the cases
// that became slower.
package gate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/onward-ml/onward/internal/atomicfile"
)

// A Section holds the ratios that one program recorded: ONNX Runtime's time divided by that of the
// cpu engine, by case.
type Section struct {
	Processor string             `json:"processor"`
	Kernels   string             `json:"kernels"`
	Ratios    map[string]float64 `json:"ratios"`
}

// Read returns a section of a file. The error of a section that is not there wraps fs.ErrNotExist.
func Read(path, section string) (Section, error) {
	all, err := readAll(path)
	if err != nil {
		return Section{}, err
	}
	s, ok := all[section]
	if !ok {
		return s, fmt.Errorf("%s has no section %q: %w; record it with -record", path, section, fs.ErrNotExist)
	}
	return s, nil
}

func readAll(path string) (map[string]Section, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all := map[string]Section{}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// Write replaces a section of a file and keeps the others. The ratios are rounded to three digits.
func Write(path, section string, s Section) error {
	all, err := readAll(path)
	if errors.Is(err, fs.ErrNotExist) {
		all, err = map[string]Section{}, nil
	}
	if err != nil {
		return err
	}
	rounded := map[string]float64{}
	for name, r := range s.Ratios {
		scale := math.Pow(10, 2-math.Floor(math.Log10(r)))
		rounded[name] = math.Round(r*scale) / scale
	}
	s.Ratios = rounded
	all[section] = s
	data, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, 0o666, append(data, '\n'))
}

// A Fall is a case whose ratio fell.
type Fall struct {
	Name          string
	Recorded, Now float64
}

// A Result is the outcome of a comparison.
type Result struct {
	Fallen   []Fall // the largest fall first
	Compared int
	New      []string // measured but not recorded
}

// Compare compares measured ratios with the recorded ones. A case has fallen if its ratio is below
// the recorded one by more than the part limit, and stays so in as many repetitions as retries:
// other processes disturb single measurements. again measures a case once more.
func (s Section) Compare(measured map[string]float64, limit float64, retries int,
	again func(name string) (float64, error)) (*Result, error) {
	r := &Result{}
	for name, now := range measured {
		recorded, ok := s.Ratios[name]
		if !ok {
			r.New = append(r.New, name)
			continue
		}
		r.Compared++
		least := recorded * (1 - limit)
		for try := 0; now < least && try < retries; try++ {
			v, err := again(name)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			now = max(now, v)
		}
		if now < least {
			r.Fallen = append(r.Fallen, Fall{name, recorded, now})
		}
	}
	slices.Sort(r.New)
	slices.SortFunc(r.Fallen, func(a, b Fall) int {
		return cmp.Or(cmp.Compare(a.Now/a.Recorded, b.Now/b.Recorded), cmp.Compare(a.Name, b.Name))
	})
	return r, nil
}

// Report returns the text of a result. processor is that of the measurement.
func (s Section) Report(r *Result, processor, kernels string) string {
	var b strings.Builder
	if processor != s.Processor || kernels != s.Kernels {
		fmt.Fprintf(&b, "The ratios were recorded on %s with kernels %s, and measured on %s with kernels %s: ratios "+
			"differ between processors.\n",
			s.Processor, s.Kernels, processor, kernels)
	}
	for _, f := range r.Fallen {
		fmt.Fprintf(&b, "%.3g to %.3g (%.0f %%)  %s\n", f.Recorded, f.Now, 100*(f.Now/f.Recorded-1), f.Name)
	}
	fmt.Fprintf(&b, "%d cases compared, %d fell", r.Compared, len(r.Fallen))
	if len(r.New) > 0 {
		fmt.Fprintf(&b, ", %d are not recorded", len(r.New))
	}
	b.WriteString("\n")
	return b.String()
}

// Error returns an error if cases fell, nil otherwise.
func (r *Result) Error(limit float64) error {
	if n := len(r.Fallen); n > 0 {
		return fmt.Errorf("the ratio of %d cases fell by more than %.0f %%", n, 100*limit)
	}
	if r.Compared == 0 {
		return errors.New("no measured case is recorded; record them with -record")
	}
	return nil
}

// Program is a program that measures cases and compares or records them.
type Program struct {
	Section            string
	Check, Record      string // files, or ""
	Limit              float64
	Retries            int
	Processor, Kernels string
}

// Finish compares measured ratios with those of the file Check and prints the report, and writes
// them to the file Record.
func (p *Program) Finish(measured map[string]float64, again func(name string) (float64, error)) error {
	if p.Record != "" {
		if err := Write(p.Record, p.Section, Section{p.Processor, p.Kernels, measured}); err != nil {
			return err
		}
	}
	if p.Check == "" {
		return nil
	}
	s, err := Read(p.Check, p.Section)
	if err != nil {
		return err
	}
	r, err := s.Compare(measured, p.Limit, p.Retries, again)
	if err != nil {
		return err
	}
	fmt.Print(s.Report(r, p.Processor, p.Kernels))
	return r.Error(p.Limit)
}
