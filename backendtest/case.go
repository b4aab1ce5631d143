package backendtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// The tolerances of cases that name none.
const (
	DefaultRtol = 1e-3
	DefaultAtol = 1e-7
)

// TestCase is one case of the suite: a model, and inputs with the outputs that
// are expected of them.
type TestCase struct {
	Name      string // begins with "test_"
	ModelName string // Name without "test_", or as data.json has it
	URL       string // of the model, when the suite only refers to it
	ModelDir  string // holds model.onnx and test_data_set_*; "" for a model that URL names
	Kind      string // "node", "real", "simple", "pytorch-converted", "pytorch-operator"

	// Model and DataSets are set for a case that lives in memory, instead of
	// ModelDir and URL.
	Model    *onnx.Model
	DataSets []DataSet

	// A result r passes for an expected e where |r − e| ≤ Atol + Rtol·|e|.
	Rtol, Atol float64

	root string // the folder that was loaded from
}

// DataSet is the inputs of one run, in the order of the graph's inputs, and the
// outputs expected.
type DataSet struct {
	Inputs, Outputs []tensor.Value
}

// maxCaseFile bounds the description of a case.
const maxCaseFile = 1 << 20

// caseFile is data.json.
type caseFile struct {
	URL       string   `json:"url"`
	ModelName string   `json:"model_name"`
	Rtol      *float64 `json:"rtol"`
	Atol      *float64 `json:"atol"`
}

// LoadModelTests lists the cases of a kind in a data folder of the suite, sorted
// by name. Models and data are read when a case runs. The kinds are the folders
// of dir that hold cases.
func LoadModelTests(dir, kind string) ([]TestCase, error) {
	kinds, err := Kinds(dir)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(kinds, kind) {
		return nil, fmt.Errorf("kind must be one of [%s]", quoted(kinds))
	}
	entries, err := os.ReadDir(filepath.Join(dir, kind))
	if err != nil {
		return nil, fmt.Errorf("backendtest: %w", err)
	}
	var cases []TestCase
	for _, e := range entries {
		if path := filepath.Join(dir, kind, e.Name()); isDir(path) {
			c, err := loadCase(path, e.Name())
			if err != nil {
				return nil, fmt.Errorf("backendtest: case %s: %w", e.Name(), err)
			}
			c.Kind, c.root = kind, dir
			cases = append(cases, c)
		}
	}
	return cases, nil
}

// Kinds lists the kinds of cases in a data folder of the suite.
func Kinds(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("backendtest: %w", err)
	}
	var kinds []string
	for _, e := range entries {
		found, err := filepath.Glob(filepath.Join(dir, e.Name(), "test_*"))
		if err != nil {
			return nil, fmt.Errorf("backendtest: %w", err)
		}
		if slices.ContainsFunc(found, isDir) {
			kinds = append(kinds, e.Name())
		}
	}
	return kinds, nil
}

func quoted(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = "'" + n + "'"
	}
	return strings.Join(q, ", ")
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

func loadCase(dir, name string) (TestCase, error) {
	c := TestCase{Name: name, ModelName: strings.TrimPrefix(name, "test_"), Rtol: DefaultRtol, Atol: DefaultAtol}
	var f caseFile
	described := true
	switch data, err := readSmall(filepath.Join(dir, "data.json")); {
	case errors.Is(err, fs.ErrNotExist):
		described = false
	case err != nil:
		return c, err
	default:
		if err := json.Unmarshal(data, &f); err != nil {
			return c, fmt.Errorf("data.json: %w", err)
		}
	}
	if f.Rtol != nil {
		c.Rtol = *f.Rtol
	}
	if f.Atol != nil {
		c.Atol = *f.Atol
	}
	if _, err := os.Stat(filepath.Join(dir, "model.onnx")); err == nil {
		c.ModelDir = dir
		return c, nil
	}
	if !described {
		return c, errors.New("the folder has neither model.onnx nor data.json")
	}
	if f.URL == "" || f.ModelName == "" {
		return c, errors.New("data.json names no url and model_name")
	}
	if !filepath.IsLocal(f.ModelName) {
		return c, fmt.Errorf("data.json: model_name %q leads out of the folder of models", f.ModelName)
	}
	c.URL, c.ModelName = f.URL, f.ModelName
	return c, nil
}

func readSmall(path string) ([]byte, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() || fi.Size() > maxCaseFile {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", path, maxCaseFile)
	}
	return os.ReadFile(path)
}

// dataSets reads the data sets of a model's folder, by the types that the graph
// declares for its inputs and outputs.
func dataSets(dir string, g *onnx.Graph) ([]DataSet, error) {
	folders, err := filepath.Glob(filepath.Join(dir, "test_data_set*"))
	if err != nil {
		return nil, err
	}
	var sets []DataSet
	for _, f := range folders {
		var s DataSet
		if s.Inputs, err = values(f, "input", g.Inputs); err == nil {
			s.Outputs, err = values(f, "output", g.Outputs)
		}
		if err != nil {
			return nil, err
		}
		sets = append(sets, s)
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("%s has no test_data_set", dir)
	}
	return sets, nil
}

// values reads input_0.pb, input_1.pb, … or the outputs.
func values(dir, what string, declared []*onnx.ValueInfo) ([]tensor.Value, error) {
	files, err := filepath.Glob(filepath.Join(dir, what+"_*.pb"))
	if err != nil {
		return nil, err
	}
	if len(files) > len(declared) {
		return nil, fmt.Errorf("%s has %d %ss, the graph declares %d", dir, len(files), what, len(declared))
	}
	r := make([]tensor.Value, len(files))
	for i := range files {
		if r[i], err = readValue(filepath.Join(dir, fmt.Sprintf("%s_%d.pb", what, i)), declared[i].Type); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func readValue(path string, t *onnx.Type) (tensor.Value, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	v, err := onnx.UnmarshalValue(data, t, nil, &onnx.DecodeOptions{External: &onnx.External{Dir: filepath.Dir(path)}})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}
