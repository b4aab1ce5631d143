package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/internal/testing/openvinolib"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// The text is ONNX Runtime's, word for word.
func TestWrongDims(t *testing.T) {
	for _, provider := range []string{"cpu", "reference"} {
		code, stdout, stderr := invoke(t, "run", "logreg_iris.onnx", "--input", "float_input=[[1,2]]",
			"--provider", provider)
		want := "onward: logreg_iris.onnx: [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for " +
			"input: float_input for the following indices\n" +
			" index: 0 Got: 1 Expected: 3\n Please fix either the inputs or the model.\n"
		if code != 1 || stdout != "" || stderr != want {
			t.Errorf("%s: exit code %d, output %q, error %q, want %q", provider, code, stdout, stderr, want)
		}
	}
}

func TestRunJSON(t *testing.T) {
	code, stdout, _ := invoke(t, "run", "mul_1.onnx", "--input", "X=[[1,2],[3,4],[5,6]]", "--json", "--intermediates",
		"--provider", "reference")
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

// onNativeLibraries runs a test with the libraries that this machine has.
func onNativeLibraries(t *testing.T, test func(t *testing.T, provider string)) {
	for _, c := range []struct {
		provider, env string
		library       func(testing.TB) string
	}{{"ort", ortlib.Env, ortlib.Path}, {"openvino", openvinolib.Env, openvinolib.Path}} {
		t.Run(c.provider, func(t *testing.T) {
			t.Setenv(c.env, c.library(t))
			test(t, c.provider)
		})
	}
}

// A native library runs a model with more outputs, and returns no times.
func TestIntermediatesOfNativeLibraries(t *testing.T) {
	onNativeLibraries(t, func(t *testing.T, provider string) {
		args := []string{"run", "sigmoid.onnx", "--input", "x=zeros", "--intermediates", "--provider", provider}
		code, stdout, stderr := invoke(t, args...)
		if code != 0 || !strings.HasPrefix(stdout, "#0 Sigmoid") || strings.Count(stdout, "0.5") < 2 ||
			strings.Contains(stdout, "(0s)") {
			t.Errorf("code %d, %s%s", code, stdout, stderr)
		}
		if _, stdout, _ = invoke(t, append(args, "--json")...); !strings.Contains(stdout, `"time_ms": null`) {
			t.Errorf("JSON: %s", stdout)
		}
	})
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
	for _, bad := range []string{"X=", "X=[1", "X=@nosuch.npy", "X=@nosuch.pb", "X=nothing",
		"X=@" + writeFile(t, "bad.npy", []byte("x"), nil), "X=@" + writeFile(t, "bad.png", []byte("x"), nil)} {
		if code, _, stderr := invoke(t, "run", "mul_1.onnx", "--input", bad); code != 1 ||
			!strings.Contains(stderr, "input X") {
			t.Errorf("%s: exit code %d, %q", bad, code, stderr)
		}
	}
}

func TestImageInput(t *testing.T) {
	image := writeFile(t, "digit.png", datasets.SampleImage(), nil)
	code, stdout, stderr := invoke(t, "run", "digits.onnx", "--input", "image=@"+image, "--output", "digit")
	if code != 0 || stdout != "digit: [7]\n" {
		t.Errorf("exit code %d, %q, %q, want digit %d", code, stdout, stderr, datasets.SampleDigit)
	}
	if code, _, stderr = invoke(t, "run", "mul_1.onnx", "--input", "X=@"+image); code != 1 ||
		!strings.Contains(stderr, "want an image tensor") {
		t.Errorf("an image for a matrix: exit code %d, %q", code, stderr)
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
	if code, _, stderr := invoke(t, "run", "logreg_iris.onnx", "--input", iris, "--save", path); code != 1 ||
		!strings.Contains(stderr, "output_probability") {
		t.Errorf("a sequence in .npz: exit code %d, %q", code, stderr)
	}
}

func TestRunAdapter(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17).IRVersion(9)
	b.Input("x", onnx.Float, nil, 2).Input("lora_A", onnx.Float, 2, nil).Input("lora_B", onnx.Float, nil, 2).
		Output("y", onnx.Float, nil, 2)
	b.Node("MatMul", []string{"x", "lora_A"}, []string{"r"})
	b.Node("MatMul", []string{"r", "lora_B"}, []string{"y"})
	model := filepath.Join(t.TempDir(), "m.onnx")
	if err := onnx.WriteFile(model, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	adapter := filepath.Join("..", "..", "testdata", "lora.onnx_adapter")
	onNativeLibraries(t, func(t *testing.T, provider string) {
		for _, p := range []string{"cpu", provider} {
			for _, more := range [][]string{nil, {"--intermediates"}} {
				args := append([]string{"run", model, "--input", "x=[[1,2],[5,1]]", "--adapter", adapter,
					"--provider", p}, more...)
				code, stdout, stderr := invoke(t, args...)
				if code != 0 || !strings.Contains(strings.Join(strings.Fields(stdout), " "), "-10, -20") &&
					!strings.Contains(stdout, "-10 -20") {
					t.Errorf("%v: code %d, %s%s", args, code, stdout, stderr)
				}
			}
		}
	})
	if code, _, stderr := invoke(t, "run", model, "--input", "x=[[1,2]]", "--adapter", model); code != 1 ||
		!strings.Contains(stderr, "not a LoRA adapter") {
		t.Errorf("a model as adapter: code %d, %s", code, stderr)
	}
}
