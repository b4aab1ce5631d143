package backendtest

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onward-ml/onward/internal/atomicfile"
)

// WriteCSV writes nodes.csv, models.csv and metadata.csv into a folder, in the form that the
// ONNX backend scoreboard (https://onnx.ai/backend-scoreboard/) reads: a row for each operator
// or model, a column for each backend. Existing files keep the columns of other backends.
func (c *Coverage) WriteCSV(dir, backend string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("backendtest: report: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes, err := readBoard(filepath.Join(dir, "nodes.csv"), "Op")
	if err == nil {
		c.fillNodes(nodes, backend)
		err = nodes.write(filepath.Join(dir, "nodes.csv"))
	}
	if err != nil {
		return fmt.Errorf("backendtest: report: %w", err)
	}
	models, err := readBoard(filepath.Join(dir, "models.csv"), "Model")
	if err == nil {
		c.fillModels(models, backend)
		err = models.write(filepath.Join(dir, "models.csv"))
	}
	if err == nil {
		now := time.Now().UTC().Format("2006-01-02 15:04:05.000000-07:00")
		err = writeRecords(filepath.Join(dir, "metadata.csv"), [][]string{{"Latest Update", now}})
	}
	if err != nil {
		return fmt.Errorf("backendtest: report: %w", err)
	}
	return nil
}

const summary = "Summary"

func (c *Coverage) fillNodes(b *board, backend string) {
	b.column(backend)
	passed, total := 0, 0
	for _, o := range operators {
		if o.Domain != "" {
			continue
		}
		name := o.Name
		if o.Experimental {
			name += " (Experimental)"
		}
		total++
		result := "Failed!"
		if c.passed.operators[o.Name] != nil {
			result = "Passed!"
		}
		b.set(name, backend, result)
	}
	// ONNX's count includes the operators of all domains and of functions.
	passed = len(c.passed.operators)
	b.set(summary, backend, fmt.Sprintf("%d/%d node tests passed", passed, total))
}

func (c *Coverage) fillModels(b *board, backend string) {
	b.column(backend)
	for _, name := range slices.Sorted(maps.Keys(c.loaded.models)) {
		ops := c.loaded.models[name]
		covered := 0
		for op := range ops {
			if c.passed.operators[op] != nil {
				covered++
			}
		}
		result := "Failed!"
		if c.passed.models[name] != nil {
			result = "Passed!"
		}
		b.set(name, backend, fmt.Sprintf("%d/%d nodes covered: %s", covered, len(ops), result))
	}
	b.set(summary, backend, fmt.Sprintf("%d/%d model tests passed", len(c.passed.models), len(c.loaded.models)))
}

// board is one file of the scoreboard.
type board struct {
	key      string   // title of the first column
	backends []string // titles of the others
	order    []string // first cells, without the summary
	rows     map[string]map[string]string
}

// maxBoard is the largest report in bytes that is read back.
const maxBoard = 64 << 20

func readBoard(path, key string) (*board, error) {
	b := &board{key: key, rows: map[string]map[string]string{}}
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return nil, err
	}
	if fi.Size() > maxBoard {
		return nil, fmt.Errorf("%s has %d bytes, want at most %d", path, fi.Size(), maxBoard)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	records, err := csv.NewReader(strings.NewReader(string(data))).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(records) == 0 {
		return b, nil
	}
	k := slices.Index(records[0], key)
	if k < 0 {
		return nil, fmt.Errorf("%s has no column %q", path, key)
	}
	for i, title := range records[0] {
		if i != k {
			b.backends = append(b.backends, title)
		}
	}
	for _, rec := range records[1:] {
		for i, cell := range rec {
			if i != k {
				b.set(rec[k], records[0][i], cell)
			}
		}
	}
	return b, nil
}

func (b *board) column(backend string) {
	if !slices.Contains(b.backends, backend) {
		b.backends = append(b.backends, backend)
	}
}

func (b *board) set(row, backend, cell string) {
	if b.rows[row] == nil {
		b.rows[row] = map[string]string{}
		if row != summary {
			b.order = append(b.order, row)
		}
	}
	b.rows[row][backend] = cell
}

func (b *board) write(path string) error {
	records := [][]string{append([]string{b.key}, b.backends...)}
	for _, row := range append(slices.Clone(b.order), summary) {
		rec := []string{row}
		for _, name := range b.backends {
			cell, ok := b.rows[row][name]
			if !ok && row != summary {
				cell = "Skipped!"
			}
			rec = append(rec, cell)
		}
		records = append(records, rec)
	}
	return writeRecords(path, records)
}

func writeRecords(path string, records [][]string) error {
	return atomicfile.Write(path, 0o644, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(records) })
}
