package backendtest

import (
	"cmp"
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

// The tolerances of cases without their own.
const (
	DefaultRtol = 1e-3
	DefaultAtol = 1e-7
)

// TestCase is one case of the suite: a model, and inputs with expected outputs.
type TestCase struct {
	Name      string // begins with "test_"
	ModelName string // Name without "test_", or as data.json has it
	URL       string // of the model, if the suite does not contain it
	ModelDir  string // holds model.onnx and test_data_set_*; empty if URL is set
	Kind      string // "node", "real", "simple", "pytorch-converted", "pytorch-operator"

	// Model and DataSets are set instead of ModelDir and URL for a case in memory.
	Model    *onnx.Model
	DataSets []DataSet

	// A result r is accepted for an expected e if |r − e| ≤ Atol + Rtol·|e|.
	Rtol, Atol float64

	root string // the data folder of the suite
}

// DataSet holds the inputs of one run and the expected outputs, in the order of the
// graph's inputs and outputs.
type DataSet struct {
	Inputs, Outputs []tensor.Value
}

// maxCaseFile is the largest data.json in bytes that is read.
const maxCaseFile = 1 << 20

// caseFile is data.json.
type caseFile struct {
	URL       string   `json:"url"`
	ModelName string   `json:"model_name"`
	Rtol      *float64 `json:"rtol"`
	Atol      *float64 `json:"atol"`
}

// DataEnv is the environment variable with the data folder of the suite: the one that holds
// the folders node, simple and so on, or one with onnx/backend/test/data below it.
const DataEnv = "ONNX_TEST_DATA"

// DataDir returns the data folder of the suite: that of [DataEnv], else the newest in
// onward/onnx-* of the user's cache, where `make test` stores it.
func DataDir() (string, error) {
	var places []string
	if dir := os.Getenv(DataEnv); dir != "" {
		places = []string{filepath.Join(dir, "onnx", "backend", "test", "data"), dir}
	} else if cache, err := os.UserCacheDir(); err == nil {
		if places, err = filepath.Glob(filepath.Join(cache, "onward", "onnx-[0-9]*")); err != nil {
			return "", fmt.Errorf("backendtest: %w", err)
		}
		slices.SortFunc(places, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	}
	for _, dir := range slices.Backward(places) {
		if isDir(filepath.Join(dir, "node")) {
			return dir, nil
		}
	}
	return "", fmt.Errorf(
		"backendtest: the data of the suite is not on this machine, looked at %q: set %s to its folder",
		places, DataEnv)
}

// LoadModelTests returns the cases of a kind in a data folder of the suite, sorted by
// name. An empty dir stands for [DataDir]. The kind is the name of a folder in dir, see
// [Kinds]. Models and data are read when a case runs.
func LoadModelTests(dir, kind string) ([]TestCase, error) {
	if dir == "" {
		var err error
		if dir, err = DataDir(); err != nil {
			return nil, err
		}
	}
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

// Kinds returns the kinds of cases in a data folder of the suite: its folders with cases.
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
		return c, errors.New("data.json lacks url or model_name")
	}
	if !filepath.IsLocal(f.ModelName) {
		return c, fmt.Errorf("data.json: model_name %q points outside the folder of models", f.ModelName)
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
		return nil, fmt.Errorf("%s is not a regular file of at most %d bytes", path, maxCaseFile)
	}
	return os.ReadFile(path)
}

// dataSets reads the data sets of a model's folder: the archives test_data_*.npz, then the
// folders test_data_set*, whose values have the types that the graph declares.
func dataSets(dir string, g *onnx.Graph) ([]DataSet, error) {
	archives, err := filepath.Glob(filepath.Join(dir, "test_data_*.npz"))
	if err != nil {
		return nil, err
	}
	var sets []DataSet
	for _, f := range archives {
		s, err := readArchive(f)
		if err != nil {
			return nil, err
		}
		sets = append(sets, s)
	}
	folders, err := filepath.Glob(filepath.Join(dir, "test_data_set*"))
	if err != nil {
		return nil, err
	}
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

// maxArchive is the largest size in bytes of the arrays of an archive.
const maxArchive = 1 << 30

// readArchive reads a data set of older models: a NumPy archive with the arrays inputs and
// outputs, each a stack of tensors of one shape. NumPy pickles a list of tensors of different
// shapes; that is an error.
func readArchive(path string) (s DataSet, err error) {
	z, err := tensor.ReadNPZFile(path, maxArchive)
	if err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	for name, values := range map[string]*[]tensor.Value{"inputs": &s.Inputs, "outputs": &s.Outputs} {
		if *values, err = unstack(z.Arrays[name]); err != nil {
			return s, fmt.Errorf("%s: array %s: %w", path, name, err)
		}
	}
	return s, nil
}

// unstack returns the parts of a tensor along its first axis.
func unstack(t *tensor.Tensor) ([]tensor.Value, error) {
	if t == nil || t.Rank() == 0 {
		return nil, errors.New("want an array of at least one axis")
	}
	shape, n := t.Shape()[1:], t.Dim(0)
	values := make([]tensor.Value, n)
	for i := range values {
		part, err := tensor.Zeros(t.DType(), shape...)
		if err != nil {
			return nil, err
		}
		size := len(part.Bytes())
		if t.DType() == tensor.TypeString || size*n != len(t.Bytes()) {
			return nil, fmt.Errorf("elements of type %s cannot be read from an archive", t.DType())
		}
		copy(part.Bytes(), t.Bytes()[i*size:])
		values[i] = part
	}
	return values, nil
}

// values reads the files input_0.pb, input_1.pb, … or those of the outputs.
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
