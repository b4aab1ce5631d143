package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/preset"
)

// ownCache keeps the test out of the user's cache folder.
func ownCache(t *testing.T) {
	t.Helper()
	lib, err := ortlib.Find() // which may lie there
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("LocalAppData", t.TempDir())
	if err != nil {
		lib = filepath.Join(t.TempDir(), "none.so") // so that machines differ less
	}
	t.Setenv(ortlib.Env, lib)
}

func TestTune(t *testing.T) {
	ownCache(t)
	read := func(args ...string) tuneJSON {
		t.Helper()
		out, errs := command(t, exitOK, append([]string{"tune", "--duration", "6ms", "--json"}, args...)...)
		var r tuneJSON
		if err := json.Unmarshal([]byte(out), &r); err != nil || errs != "" {
			t.Fatal(err, errs)
		}
		return r
	}
	iris := []string{"logreg_iris.onnx", "--shape", "float_input=3x2"}
	r := read(iris...)
	if r.Model != "logreg_iris.onnx" || len(r.Results) != 9 || r.Cached || r.Reference != "OnwardReference" {
		t.Fatalf("%+v", r)
	}
	for _, x := range r.Results {
		own := x.Backend == "Onward"
		if own && x.Status != preset.StatusOK || x.Status == preset.StatusOK != (x.MedianMS > 0 && x.FPS > 0 &&
			x.Runs > 0) || (x.Status == preset.StatusOK) != (x.Reason == "") {
			t.Errorf("%+v", x)
		}
		if x.Backend == r.Best && x.Status != preset.StatusOK {
			t.Errorf("the best is %+v", x)
		}
	}
	// A choice is cached unless noise decided it.
	if again := read(iris...); again.Cached != (len(r.Undecided) == 0) || again.Cached && again.Best != r.Best {
		t.Errorf("%+v", again)
	}
	if again := read(append(iris, "--no-cache")...); again.Cached {
		t.Error("--no-cache remembers")
	}
	two := read(append(iris, "--provider", "reference,cpu,ORT_CUDA", "--threads", "1", "-i",
		"float_input=[[5.1,3.5],[6.2,2.9],[5.9,3.0]]")...)
	if len(two.Results) != 3 || two.Results[0].Backend != "reference" || two.Results[1].Status != preset.StatusOK ||
		two.Results[2].Provider != "ort:cuda" {
		t.Errorf("%+v", two)
	}
	out, _ := command(t, exitOK, append([]string{"tune", "--duration", "6ms"}, iris...)...)
	wants := []string{`^logreg_iris\.onnx\nbackend +provider +median ms`, `\nOnward +cpu +[0-9.e-]+ `, `\nfastest: `}
	for _, x := range r.Results {
		if x.Status != preset.StatusOK {
			wants = append(wants, `\n(|.*, )`+x.Backend+`(|, .*): `)
		}
	}
	for _, want := range wants {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestTuneMistakes(t *testing.T) {
	ownCache(t)
	b := onnx.NewModel("m")
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("Reshape", []string{"x", "s"}, []string{"y"}).Name("bad")
	b.Initializer("s", []int64{3}, 1)
	failing := saveModel(t, b.Must())
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{}, exitUsage, "accepts 1 arg"},
		{[]string{"mul_1.onnx", "--provider", "torch"}, exitUsage, `unknown backend "torch", want one of CPU, REFERENCE, ORT_CPU`},
		{[]string{"mul_1.onnx", "--provider", "auto"}, exitUsage, `unknown backend "auto"`},
		{[]string{"mul_1.onnx", "--duration", "0s"}, exitUsage, "--duration 0s"},
		{[]string{"mul_1.onnx", "--shape", "Q=1"}, exitUsage, `no input "Q"`},
		{[]string{"nosuch.onnx"}, exitFailed, "nosuch.onnx"},
		{[]string{"mul_1.onnx", "--input", "X=[1,2,3]"}, exitFailed, "Invalid rank for input: X"},
	} {
		code, _, errs := invoke(t, append([]string{"tune"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("tune %v: exit code %d, %q", c.args, code, errs)
		}
	}
	code, out, errs := invoke(t, "tune", failing, "--provider", "cpu")
	if code != exitFailed || errs != "" || !strings.Contains(out, "failed") ||
		!strings.Contains(out, "no backend here runs the model") || !strings.Contains(out, "cpu: ") {
		t.Errorf("a model that fails: %d\n%s%s", code, out, errs)
	}
}

// A user of the command cannot import a provider that build tags leave out.
func TestTuneNamesBuildOfProvider(t *testing.T) {
	const reason = `provider "ort:cpu" is not registered: the program must import _ "github.com/onward-ml/onward/provider/ort"`
	x := preset.Result{Name: "OrtCPU", Provider: "ort:cpu", Status: preset.StatusSkipped, Reason: reason}
	if got := tuneReason(x, []string{"cpu", "reference"}); got !=
		"the provider is not part of this build: the tag core or server leaves it out" {
		t.Errorf("in a build without it: %q", got)
	}
	if got := tuneReason(x, []string{"cpu", "ort:cpu", "reference"}); got != reason {
		t.Errorf("in a build with it: %q", got)
	}
}

// TestTuneWithoutOutputShape measures a model whose output has no shape, which the ONNX checker
// refuses and sessions run.
func TestTuneWithoutOutputShape(t *testing.T) {
	ownCache(t)
	b := onnx.NewModel("m").Opset("", 17)
	b.Input("x", onnx.Float, 4).Output("y", onnx.Float, 4)
	b.Node("Neg", []string{"x"}, []string{"y"})
	m := b.Must()
	m.Graph.Outputs[0].Type.Tensor.Shape = nil
	out, _ := command(t, exitOK, "tune", saveModel(t, m), "--provider", "cpu,CPU,reference", "--duration", "6ms",
		"--no-cache", "--json")
	for _, x := range decode[tuneJSON](t, out).Results {
		if x.Status != preset.StatusOK {
			t.Errorf("%s: %s: %s", x.Backend, x.Status, x.Reason)
		}
	}
}
