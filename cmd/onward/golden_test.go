//go:build !core && !server

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onward-ml/onward/onnx"
)

var update = flag.Bool("update", false, "write the files of testdata/golden")

// masked says what of an output depends on the machine.
type masked int

const (
	digits  masked = iota // the last digits of fractions
	numbers               // all numbers
	values                // all but the names
)

// golden are the command lines of testdata/golden/VERB-NAME.txt and .json.
var golden = []struct {
	name, line string
	mask       masked
}{
	{"run", "run logreg_iris.onnx --input float_input=[[5.1,3.5],[6.2,2.9],[5.9,3.0]]", digits},
	{"run-intermediates", "run mul_1.onnx --input X=[[1,2],[3,4],[5,6]] --intermediates --provider reference", numbers},
	{"inspect", "inspect model.onnx", digits},
	{"inspect-layers", "inspect model.onnx --layers", digits},
	{"check", "check model.onnx", digits},
	{"check-invalid", "check invalid.onnx", digits},
	{"graph", "graph model.onnx", digits},
	{"graph-dot", "graph model.onnx --format dot", digits},
	{"graph-mermaid", "graph model.onnx --format mermaid", digits},
	{"bench", "bench model.onnx --iterations 3 --rounds 1 --provider cpu,reference --threads 1", numbers},
	{"profile", "profile one.onnx --provider reference --runs 1 --peak=false --threads 1", numbers},
	{"tune", "tune model.onnx --provider cpu --duration 1ms --no-cache --threads 1", numbers},
	{"compare", "compare model.onnx --provider reference,reference", digits},
	{"compare-layers", "compare changed.onnx model.onnx --provider reference --layers", digits},
	{"compare-golden", "compare changed.onnx --inputs samples.npz --golden results.npz --provider reference", digits},
	{"edit-extract", "edit extract model.onnx -o out.onnx --from h1 --to pooled", digits},
	{"edit-dims", "edit dims fixed.onnx -o out.onnx --batch N", digits},
	{"edit-simplify", "edit simplify cnn.onnx -o out.onnx", digits},
	{"edit-convert", "edit convert model.onnx -o out.onnx --float16 --keep Softmax", numbers},
	{"edit-convert-opset", "edit convert model.onnx -o out.onnx --opset 21", digits},
	{"edit-rename", "edit rename model.onnx -o out.onnx --value image=x --dim batch=N", digits},
	{"edit-insert", "edit insert model.onnx -o out.onnx --value h1 --op Identity --name probe", digits},
	{"edit-remove", "edit remove model.onnx -o out.onnx --node relu1 --force", numbers},
	{"edit-weights", "edit weights model.onnx -o out.onnx --from weights.npz", numbers},
	{"edit-metadata", "edit metadata model.onnx", digits},
	{"edit-diff", "edit diff model.onnx changed.onnx", digits},
	{"optimize", "optimize cnn.onnx --level extended -o out.onnx", digits},
	{"optimize-explain", "optimize cnn.onnx --level extended --explain", digits},
	{"calibrate", "calibrate model.onnx --data samples.npz -o tables --provider reference", digits},
	{"quantize", "quantize model.onnx -o out.onnx --data samples.npz", numbers},
	{"conformance", "conformance --data suite", digits},
	{"map", "map logreg_iris.onnx rows.csv -o out.csv --bind float_input=a,b --outputs output_label --on-error null", digits},
	{"tokenize", "tokenize all-MiniLM-L6-v2 A-cat! é", digits},
	{"tokenize-decode", "tokenize all-MiniLM-L6-v2 2,4,5,6,3 --decode --no-special", digits},
	{"doctor", "doctor --peak=false", values},
	{"version", "--version", values},
}

// mask replaces what depends on the machine: times, the providers besides cpu
// and reference, and digits.
func mask(s string, how masked) string {
	s = regexp.MustCompile(`(?m)^(provider )?(ort|openvino)\b.*\n(  .*\n)*`).ReplaceAllString(s, "")
	s = regexp.MustCompile(`\d+\.\d+ s, \d+ rows/s`).ReplaceAllString(s, "N s, N rows/s")
	switch how {
	case digits:
		return regexp.MustCompile(`\d+\.\d+(e[-+]?\d+)?`).ReplaceAllStringFunc(s, func(x string) string {
			f, err := strconv.ParseFloat(x, 64)
			if err != nil {
				return x
			}
			return strconv.FormatFloat(f, 'g', 2, 64)
		})
	case numbers:
		s = regexp.MustCompile(`-?\b\d+(\.\d+)?(e[-+]?\d+)?(µs|ms|ns|s)?\b`).ReplaceAllString(s, "N")
		return regexp.MustCompile(`  +`).ReplaceAllString(s, "  ")
	}
	return regexp.MustCompile(`(?m)^(\S+)( +).*$`).ReplaceAllString(s, "$1$2…")
}

// maskJSON does the same for JSON: all numbers become 0 and strings that are no names "".
func maskJSON(t *testing.T, s string, how masked) string {
	t.Helper()
	var all []string
	for d := json.NewDecoder(strings.NewReader(s)); ; {
		var v any
		if err := d.Decode(&v); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, s)
		}
		b, err := json.MarshalIndent(maskValue("", v, how), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(b)+"\n")
	}
	return strings.Join(all, "")
}

func maskValue(key string, v any, how masked) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range maps.Keys(v) {
			if strings.HasPrefix(k, "ort") || k == "openvino" {
				delete(v, k)
				continue
			}
			v[k] = maskValue(k, v[k], how)
		}
	case []any:
		v = slices.DeleteFunc(v, func(e any) bool {
			p, _ := e.(map[string]any)
			name, _ := p["name"].(string)
			return key == "providers" && name != "cpu" && name != "reference" && p != nil
		})
		for i := range v {
			v[i] = maskValue(key, v[i], how)
		}
		if how == values && key != "providers" {
			return []any{}
		}
		return v
	case bool:
		return v && (how != values || key == "available")
	case float64:
		if how != digits || strings.HasSuffix(key, "seconds") {
			return 0
		}
		f, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 2, 64), 64)
		if v == float64(int64(v)) {
			return v
		}
		return f
	case string:
		switch {
		case how == values && key != "name":
			return "…"
		case how == numbers && key != "name":
			return mask(v, how)
		}
	}
	return v
}

// TestGolden compares the output of the verbs, as text and as JSON, with testdata/golden. After a
// change, look at what go test ./cmd/onward -run TestGolden -update has changed.
func TestGolden(t *testing.T) {
	dir, err := filepath.Abs("testdata/golden")
	if err != nil {
		t.Fatal(err)
	}
	suite := smallSuite(t)
	t.Chdir(t.TempDir())
	ownCache(t)
	documentedFiles(t, ".")
	one := onnx.NewModel("one").Opset("", 21)
	one.Input("x", onnx.Float, 2, 3).Output("y", onnx.Float, 2, 4).Initializer("w", make([]float32, 12), 3, 4)
	one.Node("MatMul", []string{"x", "w"}, []string{"y"}).Name("product")
	invalid := onnx.NewModel("invalid").Opset("", 21)
	invalid.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	invalid.Node("Nonsense", []string{"x"}, []string{"h"}).Name("first")
	invalid.Node("Relu", []string{"nothing"}, []string{"y"})
	for name, m := range map[string]*onnx.Model{"one.onnx": one.Must(), "cnn.onnx": cnn(),
		"invalid.onnx": invalid.Must()} {
		if err := onnx.WriteFile(name, m, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("rows.csv", []byte("a,b\n5.1,3.5\nx,2.9\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(suite, "suite"); err != nil {
		t.Fatal(err)
	}
	command(t, exitOK, "run", "model.onnx", "--inputs", "samples.npz", "--save", "results.npz",
		"--provider", "reference")
	if *update {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	files := 0
	for _, g := range golden {
		for _, ext := range []string{"txt", "json"} {
			words := strings.Fields(g.line)
			switch {
			case ext == "json" && (words[0] == "--version" || strings.Contains(g.line, "--format")):
				continue
			case ext == "json":
				words = append(words, "--json")
			}
			var out, errs bytes.Buffer
			code := run(t.Context(), words, &out, &errs)
			got := fmt.Sprintf("$ onward %s\n", strings.Join(words, " "))
			if ext == "txt" {
				got += mask(out.String(), g.mask)
			} else {
				got += maskJSON(t, out.String(), g.mask)
			}
			if errs.Len() > 0 {
				got += "standard error:\n" + mask(errs.String(), g.mask)
			}
			if code != exitOK {
				got += fmt.Sprintf("exit code %d\n", code)
			}
			path := filepath.Join(dir, g.name+"."+ext)
			files++
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
				continue
			}
			want, err := os.ReadFile(path)
			if diff := cmp.Diff(string(want), got); err != nil || diff != "" {
				t.Errorf("%s: %v\n%s", path, err, diff)
			}
		}
	}
	if have, err := os.ReadDir(dir); err != nil || len(have) != files {
		t.Errorf("%s has %d files, the test %d, %v", dir, len(have), files, err)
	}
}
