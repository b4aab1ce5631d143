package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
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
		{[]string{"fly"}, 2, "unknown command"},
		{[]string{"run"}, 2, "accepts 1 arg"},
		{[]string{"run", "a.onnx", "b.onnx"}, 2, "accepts 1 arg"},
		{[]string{"run", "mul_1.onnx", "--nosuch"}, 2, "unknown flag"},
		{[]string{"run", "mul_1.onnx", "--provider", "nosuch"}, 2, `no provider "nosuch"`},
		{[]string{"run", "mul_1.onnx", "--threads", "-1"}, 2, "--threads is -1"},
		{[]string{"run", "mul_1.onnx", "--input", "Z=1"}, 2, `no input "Z"; it has X`},
		{[]string{"run", "mul_1.onnx", "--input", "X=@x.txt"}, 2, "want .npy"},
		{[]string{"run", "mul_1.onnx", "--input", "X=zeros:3xtwo"}, 2, "3xtwo"},
	} {
		code, stdout, stderr := invoke(t, c.args...)
		if code != c.code || !strings.Contains(stderr, c.err) || code == 0 && stderr != "" {
			t.Errorf("onward %v: exit code %d, want %d; standard error %q, want %q", c.args, code, c.code, stderr, c.err)
		}
		if code == 0 && stdout == "" {
			t.Errorf("onward %v prints nothing", c.args)
		}
	}
}

func TestEveryVerbHasAnExampleAndJSON(t *testing.T) {
	for _, verb := range []string{"run", "inspect", "check", "conformance", "tune"} {
		_, help, _ := invoke(t, verb, "--help")
		if !strings.Contains(help, "Examples:") || !strings.Contains(help, "--json") {
			t.Errorf("%s --help:\n%s", verb, help)
		}
	}
}

// The text is ONNX Runtime's, word for word.
func TestWrongDims(t *testing.T) {
	for _, provider := range []string{"cpu", "reference"} {
		code, stdout, stderr := invoke(t, "run", "logreg_iris.onnx", "--input", "float_input=[[1,2]]", "--provider", provider)
		want := "onward: [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: float_input for the following indices\n" +
			" index: 0 Got: 1 Expected: 3\n Please fix either the inputs or the model.\n"
		if code != 1 || stdout != "" || stderr != want {
			t.Errorf("%s: exit code %d, output %q, error %q, want %q", provider, code, stdout, stderr, want)
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

func TestRunJSON(t *testing.T) {
	code, stdout, _ := invoke(t, "run", "mul_1.onnx", "--input", "X=[[1,2],[3,4],[5,6]]", "--json", "--intermediates", "--provider", "reference")
	r := decode[struct {
		Provider string
		Nodes    []struct {
			Index   int
			OpType  string `json:"op_type"`
			Outputs map[string]any
		}
		Outputs map[string]json.RawMessage
	}](t, stdout)
	if code != 0 || r.Provider != "reference" || len(r.Nodes) != 1 || r.Nodes[0].OpType != "Mul" {
		t.Errorf("code %d, %+v", code, r)
	}
	if y := string(r.Outputs["Y"]); !strings.Contains(strings.Join(strings.Fields(y), ""), "36") {
		t.Errorf("Y is %s", y)
	}
}

func TestInspectJSON(t *testing.T) {
	_, stdout, _ := invoke(t, "inspect", "logreg_iris.onnx", "--json")
	r := decode[inspectJSON](t, stdout)
	if len(r.Inputs) != 1 || r.Inputs[0].Name != "float_input" || len(r.Inputs[0].Shape) != 2 || len(r.Outputs) != 2 || r.Providers["cpu"] != "ok" || r.Nodes == 0 {
		t.Errorf("got %+v", r)
	}
}

func TestCheckJSON(t *testing.T) {
	b := onnx.NewModel("m")
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("Relu", []string{"nowhere"}, []string{"h"})
	b.Node("NoSuchOperator", []string{"h"}, []string{"y"})
	code, stdout, _ := invoke(t, "check", saveModel(t, b.Must()), "--json")
	r := decode[checkJSON](t, stdout)
	if code != 1 || r.Valid || len(r.Errors) < 2 || r.Runs["cpu"] || r.Problems["cpu"] == "" {
		t.Errorf("code %d, %+v", code, r)
	}
	code, stdout, _ = invoke(t, "check", "digits.onnx", "--json")
	if r := decode[checkJSON](t, stdout); code != 0 || !r.Valid || len(r.Errors) != 0 || !r.Runs["cpu"] || !r.Runs["reference"] {
		t.Errorf("code %d, %+v", code, r)
	}
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

func TestClean(t *testing.T) {
	for in, want := range map[string]string{"plain ü 数": "plain ü 数", "a\tb\nc": "a\tb\nc", "\x1b[0m": `\x1b[0m`, "\u202e": `\u202e`, "\xff": `\xff`, "\x00": `\x00`} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
	if got := name("a\tb\nc"); got != `a\tb\nc` {
		t.Errorf("name: %q", got)
	}
}

func TestInputForms(t *testing.T) {
	x := tensor.Must(tensor.New([]float32{1, 2, 3, 4, 5, 6}, 3, 2))
	var npy, npz bytes.Buffer
	errNPY := tensor.WriteNPY(&npy, x)
	var z tensor.NPZ
	errNPZ := z.Add("X", x)
	if errNPZ == nil {
		errNPZ = tensor.WriteNPZ(&npz, &z, true)
	}
	pb, errPB := onnx.MarshalValue(x)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--input", "X=[[1,2],[3,4],[5,6]]"}, "36"},
		{[]string{"--input", "[[1,2],[3,4],[5,6]]"}, "36"}, // the only input needs no name
		{[]string{"--input", "X=@" + writeFile(t, "x.npy", npy.Bytes(), errNPY)}, "36"},
		{[]string{"--input", "X=@" + writeFile(t, "x.pb", pb, errPB)}, "36"},
		{[]string{"--inputs", writeFile(t, "x.npz", npz.Bytes(), errNPZ)}, "36"},
		{[]string{"--input", "X=range"}, "30"}, // 5·6
		{[]string{"--input", "X=range:3x2"}, "30"},
		{[]string{"--input", "X=zeros"}, "0"},
		{[]string{"--input", "X=random"}, "0."},
	} {
		code, stdout, stderr := invoke(t, append([]string{"run", "mul_1.onnx"}, c.args...)...)
		if code != 0 || !strings.HasPrefix(stdout, "Y: ") || !strings.Contains(stdout, c.want) {
			t.Errorf("%v: exit code %d, %q, %q", c.args, code, stdout, stderr)
		}
	}
	for _, bad := range []string{"X=", "X=[1", "X=@nosuch.npy", "X=@nosuch.pb", "X=nothing", "X=@" + writeFile(t, "bad.npy", []byte("x"), nil), "X=@" + writeFile(t, "bad.png", []byte("x"), nil)} {
		if code, _, stderr := invoke(t, "run", "mul_1.onnx", "--input", bad); code != 1 || !strings.Contains(stderr, "input X") {
			t.Errorf("%s: exit code %d, %q", bad, code, stderr)
		}
	}
}

func TestPictureInput(t *testing.T) {
	picture := writeFile(t, "digit.png", datasets.SamplePicture(), nil)
	code, stdout, stderr := invoke(t, "run", "digits.onnx", "--input", "image=@"+picture, "--output", "digit")
	if code != 0 || stdout != "digit: [7]\n" {
		t.Errorf("exit code %d, %q, %q, want digit %d", code, stdout, stderr, datasets.SampleDigit)
	}
	if code, _, stderr = invoke(t, "run", "mul_1.onnx", "--input", "X=@"+picture); code != 1 || !strings.Contains(stderr, "want an image tensor") {
		t.Errorf("a picture for a matrix: exit code %d, %q", code, stderr)
	}
}

func TestSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.npz")
	if code, _, stderr := invoke(t, "run", "mul_1.onnx", "--input", "X=range", "--save", path); code != 0 {
		t.Fatal(stderr)
	}
	z, err := tensor.ReadNPZFile(path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := tensor.Equal(z.Arrays["Y"], tensor.Must(tensor.New([]float32{0, 2, 6, 12, 20, 30}, 3, 2))); err != nil {
		t.Error(err)
	}
	if code, _, stderr := invoke(t, "run", "logreg_iris.onnx", "--input", iris, "--save", path); code != 1 || !strings.Contains(stderr, "output_probability") {
		t.Errorf("a sequence in .npz: exit code %d, %q", code, stderr)
	}
}
