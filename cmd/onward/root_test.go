package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/onward-ml/onward/onnx"
)

// invoke runs the program and returns its exit code and output.
func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func writeFile(t *testing.T, name string, data []byte, err error) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err == nil {
		err = os.WriteFile(path, data, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func saveModel(t *testing.T, m *onnx.Model) string {
	t.Helper()
	data, err := m.Marshal()
	return writeFile(t, "m.onnx", data, err)
}

const iris = "float_input=[[5.1,3.5],[6.2,2.9],[5.9,3.0]]"

func TestExitCodes(t *testing.T) {
	garbage := writeFile(t, "garbage.onnx", []byte("no protobuf \xff\xff\xff"), nil)
	b := onnx.NewModel("m")
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("NoSuchOperator", []string{"x"}, []string{"y"})
	unsupported := saveModel(t, b.Must())
	for _, c := range []struct {
		args []string
		code int
		err  string // part of standard error
	}{
		{nil, 0, ""},
		{[]string{"--help"}, 0, ""},
		{[]string{"run", "--help"}, 0, ""},
		{[]string{"conformance", "--help"}, 0, ""},
		{[]string{"run", "logreg_iris.onnx", "--input", iris}, 0, ""},
		{[]string{"inspect", "digits.onnx"}, 0, ""},
		{[]string{"check", "sigmoid.onnx"}, 0, ""},
		{[]string{"run", "nosuch.onnx"}, 1, "nosuch.onnx"},
		{[]string{"inspect", garbage}, 1, "ModelProto"},
		{[]string{"check", garbage}, 1, "ModelProto"},
		{[]string{"check", garbage, "--json"}, 1, ""},
		{[]string{"check", unsupported}, 1, ""},
		{[]string{"run", unsupported, "-i", "x=[1,2]"}, 1, "NoSuchOperator"},
		{[]string{"run", "logreg_iris.onnx"}, 1, "Required inputs (['float_input']) are missing from input feed ([])."},
		{[]string{"run", "logreg_iris.onnx", "--input", iris, "--output", "nosuch"}, 1, "Invalid output name:nosuch"},
		{[]string{"run", "logreg_iris.onnx", "--input", iris, "--output", "output_labels"}, 1, "\nhint: did you mean \"output_label\"? there are \"output_label\", \"output_probability\"\n"},
		{[]string{"fly"}, 2, "unknown command"},
		{[]string{"run"}, 2, "accepts 1 arg"},
		{[]string{"run", "a.onnx", "b.onnx"}, 2, "accepts 1 arg"},
		{[]string{"run", "mul_1.onnx", "--nosuch"}, 2, "unknown flag"},
		{[]string{"run", "mul_1.onnx", "--provider", "nosuch"}, 2, `unknown provider "nosuch"`},
		{[]string{"run", "mul_1.onnx", "--threads", "-1"}, 2, "--threads is -1"},
		{[]string{"run", "mul_1.onnx", "--input", "Z=1"}, 2, `no input "Z"; it has X`},
		{[]string{"run", "mul_1.onnx", "--input", "X=@x.txt"}, 2, "want .npy"},
		{[]string{"run", "mul_1.onnx", "--input", "X=zeros:3xtwo"}, 2, "3xtwo"},
	} {
		code, stdout, stderr := invoke(t, c.args...)
		if code != c.code || !strings.Contains(stderr, c.err) || code == 0 && stderr != "" {
			t.Errorf("onward %v: exit code %d, want %d; standard error %q, want %q", c.args, code,
				c.code, stderr, c.err)
		}
		if code == 0 && stdout == "" {
			t.Errorf("onward %v prints nothing", c.args)
		}
	}
}

// failingWriter fails with an error after some bytes.
type failingWriter struct {
	left int
	err  error
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, w.err
	}
	return len(p), nil
}

// TestOutputThatCannotBeWritten: a verb whose output is lost, as on a full disk, fails and says so
// once. A pipe whose reader has ended is no failure.
func TestOutputThatCannotBeWritten(t *testing.T) {
	b := onnx.NewModel("m")
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("NoSuchOperator", []string{"x"}, []string{"y"})
	unsupported := saveModel(t, b.Must())
	for _, args := range [][]string{
		{"--help"}, {"run", "--help"}, {"--version"},
		{"run", "logreg_iris.onnx", "--input", iris}, {"run", "logreg_iris.onnx", "--input", iris, "--json"},
		{"run", "logreg_iris.onnx", "--input", iris, "--intermediates"},
		{"inspect", "mul_1.onnx"}, {"inspect", "mul_1.onnx", "--layers"},
		{"check", "sigmoid.onnx"}, {"check", unsupported},
		{"doctor", "--peak=false"}, {"graph", "mul_1.onnx"}, {"optimize", "mul_1.onnx"},
		{"profile", "mul_1.onnx", "--runs", "1"},
	} {
		var errs bytes.Buffer
		full := &failingWriter{10, &os.PathError{Op: "write", Path: "out", Err: syscall.ENOSPC}}
		code := run(t.Context(), args, full, &errs)
		if code != exitFailed || strings.Count(errs.String(), "standard output: "+full.err.Error()) != 1 ||
			strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%v with a full disk: exit code %d, want 1; standard error %q", args, code, errs.String())
		}
	}
	var errs bytes.Buffer
	closed := &failingWriter{0, &os.PathError{Op: "write", Path: "out", Err: syscall.EPIPE}}
	if code := run(t.Context(), []string{"inspect", "mul_1.onnx"}, closed, &errs); code != exitOK || errs.Len() > 0 {
		t.Errorf("inspect to a closed pipe: exit code %d, want 0; standard error %q", code, errs.String())
	}
}

func TestEveryVerbHasAnExampleAndJSON(t *testing.T) {
	for _, verb := range []string{"run", "inspect", "check", "conformance", "bench", "compare", "profile", "tune",
		"optimize", "graph", "calibrate", "quantize", "doctor", "map", "edit"} {
		code, help, _ := invoke(t, verb, "--help")
		if code != exitOK || !strings.Contains(help, "Examples:") || !strings.Contains(help, "--json") {
			t.Errorf("%s --help:\n%s", verb, help)
		}
	}
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return v
}

// Names and texts from a file never reach the terminal with control characters.
func TestHostileNames(t *testing.T) {
	evil := "a\x1b[31m\u202e\x07\nb"
	b := onnx.NewModel(evil).Doc(evil).Producer(evil, evil).Metadata(evil, evil)
	b.Input(evil, onnx.Float, 2, evil).Output("y"+evil, onnx.Float, 2, evil)
	b.Node("Relu", []string{evil}, []string{"y" + evil}).Name(evil)
	good := saveModel(t, b.Must())
	b.Node("NoSuch"+evil, []string{evil}, []string{"z" + evil}).Domain(evil)
	bad := saveModel(t, b.Must())
	for _, args := range [][]string{
		{"inspect", good}, {"check", good}, {"run", good, "[[1],[2]]"}, {"run", good, "--input", evil + "=[[1],[2]]", "--intermediates"}, {"run", good, "--input", "=1"}, {"run", good},
		{"inspect", bad}, {"check", bad}, {"run", bad},
		{"run", evil}, {evil}, {"run", "--" + evil},
	} {
		_, stdout, stderr := invoke(t, args...)
		for _, r := range stdout + stderr {
			if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
				t.Errorf("onward %q prints %q", args, r)
				break
			}
		}
		if stdout+stderr == "" {
			t.Errorf("onward %q prints nothing", args)
		}
	}
}

func command(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	if code := run(context.Background(), args, &out, &errs); code != want {
		t.Fatalf("onward %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code, want, &out, &errs)
	}
	return out.String(), errs.String()
}
