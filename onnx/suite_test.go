package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/tensor"
)

// suiteFiles lists the files of the suite with one of the suffixes.
func suiteFiles(t testing.TB, suffix string) []string {
	var files []string
	err := filepath.WalkDir(suite.Dir(t), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.HasSuffix(path, suffix) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no *%s under %s", suffix, suite.Dir(t))
	}
	return files
}

func TestSuiteModelsRead(t *testing.T) {
	files := suiteFiles(t, ".onnx")
	for _, path := range files {
		m, err := ReadFile(path, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		if m.Graph == nil || len(m.Graph.Nodes) == 0 || len(m.Graph.Outputs) == 0 {
			t.Errorf("%s: graph is empty", path)
		}
	}
	t.Logf("%d models", len(files))
}

// This test checks that Marshal's output reads as the same model and is written as the same
// bytes again.
func TestSuiteModelsRewrite(t *testing.T) {
	for _, path := range suiteFiles(t, ".onnx") {
		m, err := ReadFile(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		first, err := m.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Unmarshal(first, nil)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		second, err := again.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Errorf("%s: rewritten bytes differ", path)
		}
	}
}

// This test checks that every input and output of the suite decodes by the type in its graph
// and equals the result of writing and reading.
func TestSuiteValuesDecode(t *testing.T) {
	n := 0
	for _, path := range suiteFiles(t, ".onnx") {
		m, err := ReadFile(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		initializer := map[string]bool{}
		for _, i := range m.Graph.Initializers {
			initializer[i.Name] = true
			if _, err := m.DecodeTensor(i); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		sets, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "test_data_set_*"))
		for _, set := range sets {
			for prefix, infos := range map[string][]*ValueInfo{"input": m.Graph.Inputs, "output": m.Graph.Outputs} {
				for i, info := range infos {
					data, err := os.ReadFile(filepath.Join(set, fmt.Sprintf("%s_%d.pb", prefix, i)))
					if errors.Is(err, fs.ErrNotExist) && initializer[info.Name] {
						continue
					}
					if err != nil {
						t.Error(err)
						continue
					}
					v, err := UnmarshalValue(data, info.Type, nil, nil)
					if err != nil {
						t.Errorf("%s/%s_%d: %v", set, prefix, i, err)
						continue
					}
					n++
					again, err := MarshalValue(v)
					if err != nil {
						t.Errorf("%s/%s_%d: %v", set, prefix, i, err)
						continue
					}
					w, err := UnmarshalValue(again, info.Type, nil, &DecodeOptions{Copy: true})
					if err != nil {
						t.Errorf("%s/%s_%d, written: %v", set, prefix, i, err)
					} else if !sameValue(v, w) {
						t.Errorf("%s/%s_%d: written value differs", set, prefix, i)
					}
				}
			}
		}
	}
	t.Logf("%d values", n)
	if n < 3000 {
		t.Errorf("only %d values", n)
	}
}

// sameValue compares values by their bits.
func sameValue(a, b tensor.Value) bool {
	if reflect.TypeOf(a) != reflect.TypeOf(b) || !a.Type().Equal(b.Type()) {
		return false
	}
	switch a := a.(type) {
	case *tensor.Tensor:
		b := b.(*tensor.Tensor)
		if !slices.Equal(a.Shape(), b.Shape()) {
			return false
		}
		if a.DType() == tensor.TypeString {
			return slices.Equal(tensor.MustData[string](a), tensor.MustData[string](b))
		}
		return bytes.Equal(a.Bytes(), b.Bytes())
	case *tensor.Sequence:
		return slices.EqualFunc(a.Items, b.(*tensor.Sequence).Items, sameValue)
	case *tensor.Map:
		b := b.(*tensor.Map)
		return sameValue(a.Keys, b.Keys) && sameValue(a.Values, b.Values)
	case *tensor.Optional:
		b := b.(*tensor.Optional)
		return (a.Value == nil) == (b.Value == nil) && (a.Value == nil || sameValue(a.Value, b.Value))
	case *tensor.Sparse:
		b := b.(*tensor.Sparse)
		return slices.Equal(a.Shape, b.Shape) && sameValue(a.Values, b.Values) && sameValue(a.Indices, b.Indices)
	}
	return false
}

func TestSuiteModelsCheck(t *testing.T) {
	for _, path := range suiteFiles(t, ".onnx") {
		m, err := ReadFile(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(m, nil); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
