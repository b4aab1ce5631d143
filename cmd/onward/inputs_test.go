package main

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/exported"
	"github.com/onward-ml/onward/onnx"
)

// Exported transformers run in every verb without a shape or a value.
func TestVerbsOnExportedTransformers(t *testing.T) {
	ownCache(t)
	for name, m := range map[string]*onnx.Model{
		"encoder": exported.Encoder{Vocabulary: 300, Types: 2, IDs: onnx.Int64, Mask: onnx.Int64, Batch: "batch", Sequence: "sequence", How: "subtract"}.Model(),
		"decoder": exported.Decoder{Vocabulary: 300, Past: "past_sequence_length", Total: "total", Positions: true, Heads: 2}.Model(),
	} {
		path := saveModel(t, m)
		for _, args := range [][]string{
			{"run", path, "--random"},
			{"bench", path, "--duration", "2ms", "--rounds", "1", "--provider", "cpu,reference"},
			{"profile", path, "--runs", "2"},
			{"compare", path, "--layers"},
			{"tune", path, "--duration", "2ms", "--provider", "cpu,reference"},
			{"calibrate", path, "--data", "random:2", "-o", t.TempDir()},
			{"edit", "simplify", path, "-o", filepath.Join(t.TempDir(), "s.onnx")},
		} {
			if code, out, errs := invoke(t, args...); code != exitOK {
				t.Errorf("%s: onward %s: exit code %d\n%s%s", name, strings.Join(args, " "), code, out, errs)
			}
		}
		out, _ := command(t, exitOK, "bench", path, "--duration", "2ms", "--rounds", "1", "--dimension", "batch=2")
		if !strings.Contains(out, "free dimensions: batch=2, sequence=8") {
			t.Errorf("%s: no sizes in\n%s", name, out)
		}
		// The command that inspect suggests works.
		out, _ = command(t, exitOK, "inspect", path)
		line := regexp.MustCompile(`(?m)^try it: onward (.*)$`).FindStringSubmatch(out)
		if line == nil || !strings.Contains(line[1], "--random --dimension batch=1 --dimension sequence=8") {
			t.Fatalf("%s: no command in\n%s", name, out)
		}
		command(t, exitOK, strings.Fields(line[1])...)
	}
}

func TestUnknownDimensions(t *testing.T) {
	path := saveModel(t, exported.Encoder{Vocabulary: 30, IDs: onnx.Int64, Mask: onnx.Int64, Batch: "batch",
		Sequence: "sequence", How: "where"}.Model())
	for _, verb := range [][]string{{"run", "--random"}, {"bench"}, {"profile"}, {"compare"}, {"tune"},
		{"calibrate", "--data", "random:1"}} {
		for _, c := range [][2]string{
			{"--dimension=seq=8", `no free dimension "seq"; it has batch, sequence`},
			{"--shape=ids=1x8", `no input "ids"; it has input_ids, attention_mask`},
			{"--dimension=sequence=x", "want NAME=SIZE"},
			{"--shape=input_ids=1xx", "want sizes such as"},
		} {
			code, _, errs := invoke(t, append(append([]string{verb[0], path}, verb[1:]...), c[0])...)
			if code != exitUsage || !strings.Contains(errs, c[1]) {
				t.Errorf("%s %s: exit code %d, %q, want %q", verb[0], c[0], code, errs, c[1])
			}
		}
	}
}

func TestGeneratedInputs(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 18)
	b.Input("x", onnx.Float, "N", 2).Input("i", onnx.Int32, "N").Input("s", onnx.String, "N")
	b.Output("y", onnx.Float, "N", 2).Output("j", onnx.Int32, "N").Output("t", onnx.String, "N")
	b.Node("Identity", []string{"x"}, []string{"y"}).Node()
	b.Node("Identity", []string{"i"}, []string{"j"})
	b.Node("Identity", []string{"s"}, []string{"t"})
	path := saveModel(t, b.Must())
	csvFile := writeFile(t, "x.csv", []byte("a,b\n1,2\n3,4.5\n"), nil)
	column := writeFile(t, "i.csv", []byte("7\n8\n"), nil)
	words := writeFile(t, "s.csv", []byte("one\n\"t,wo\"\n"), nil)
	literal := writeFile(t, "x.json", []byte("[[1,2],[3,4.5]]"), nil)
	for _, c := range []struct {
		args []string
		want string // pattern of the output
	}{
		{[]string{"x=ones"}, `y: \[\[1 1\]\] `},
		{[]string{"x=ones:3x2"}, `y: \[\[1 1\] +\[1 1\] +\[1 1\]\] j: \[\d \d \d\]`},
		{[]string{"i=random:5..5:2"}, `j: \[5 5\]`},
		{[]string{"x=random:-3..-2:2x2", "i=zeros:2", "s=random:2"}, `-2\.`},
		{[]string{"x=@" + csvFile, "i=@" + column, "s=@" + words}, `(?s)3 +4\.5.*\[7 8\].*"one" "t,wo"`},
		{[]string{"x=@" + literal}, `3 +4\.5`},
	} {
		args := []string{"run", path, "--random"}
		for _, a := range c.args {
			args = append(args, "--input", a)
		}
		out, _ := command(t, exitOK, args...)
		if !regexp.MustCompile(c.want).MatchString(strings.ReplaceAll(out, "\n", " ")) {
			t.Errorf("%v prints\n%s, want %s", c.args, out, c.want)
		}
	}
	one, _ := command(t, exitOK, "run", path, "--random", "--seed", "1")
	if two, _ := command(t, exitOK, "run", path, "--random", "--seed", "2"); one == two {
		t.Error("--seed has no effect")
	}
	for _, c := range [][2]string{
		{"x=random:2..1", "LO ≤ HI"}, {"x=random:nan..1", "LO ≤ HI"}, {"x=ones:2xq", "want sizes"}, {"s=zeros", "cannot be zeros"},
		{"x=@" + words, "row 1, column 1"}, {"x=@" + writeFile(t, "bad.json", []byte("[1,"), nil), "input x"},
		{"i=@" + csvFile, "2 columns"},
	} {
		if code, _, errs := invoke(t, "run", path, "--random", "--input", c[0]); code == exitOK ||
			!strings.Contains(errs, c[1]) {
			t.Errorf("--input %s: exit code %d, %q, want %q", c[0], code, errs, c[1])
		}
	}
}

func TestImageFlags(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 4, 2))
	for x := range 4 {
		for y := range 2 {
			m.Set(x, y, color.RGBA{uint8(51 * x), 0, 255, 255})
		}
	}
	var b bytes.Buffer
	err := png.Encode(&b, m)
	file := writeFile(t, "p.png", b.Bytes(), err)
	build := onnx.NewModel("m").Opset("", 18)
	build.Input("x", onnx.Float, 1, 3, 1, 2).Output("y", onnx.Float, 1, 3, 1, 2)
	build.Node("Identity", []string{"x"}, []string{"y"})
	path := saveModel(t, build.Must())
	out, _ := command(t, exitOK, "run", path, "--input", "x=@"+file, "--resize", "--mean", "0.1,0,1", "--std",
		"0.5,1,1", "--json")
	r := decode[struct{ Outputs map[string][][][][]float64 }](t, out)
	// Pillow weighs the pixels 3:3:1
	want := [][]float64{{(36./255 - 0.1) / 0.5, (117./255 - 0.1) / 0.5}, {0, 0}, {0, 0}}
	for c, w := range want {
		for i := range w {
			if got := r.Outputs["y"][0][c][0][i]; got-w[i] > 1e-6 || w[i]-got > 1e-6 {
				t.Errorf("channel %d is %v, want %v", c, r.Outputs["y"][0][c], w)
			}
		}
	}
	for _, c := range [][]string{
		{"want 1×2|want 2×1", "--mean=0"},
		{"Mean has 2 numbers, want one or 3", "--resize", "--mean=1,2"},
		{"Std of channel 0 is 0", "--resize", "--std=0"},
		{"want a height and a width", "--resize=3"},
	} {
		code, _, errs := invoke(t, append([]string{"run", path, "--input", "x=@" + file}, c[1:]...)...)
		if code == exitOK || !regexp.MustCompile(c[0]).MatchString(errs) {
			t.Errorf("%v: exit code %d, %q", c[1:], code, errs)
		}
	}
}

// A folder of the suite's form gives the inputs.
func TestInputsFolder(t *testing.T) {
	ownCache(t)
	dir := t.TempDir()
	if code, _, errs := invoke(t, "run", "mul_1.onnx", "--inputs", dir); code != exitFailed ||
		!strings.Contains(errs, "no input_0.pb") {
		t.Errorf("an empty folder: exit code %d, %q", code, errs)
	}
	if err := os.WriteFile(filepath.Join(dir, "input_0.pb"), []byte("\xff"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := invoke(t, "run", "mul_1.onnx", "--inputs", dir); code != exitFailed ||
		!strings.Contains(errs, "input X") {
		t.Errorf("a damaged file: exit code %d, %q", code, errs)
	}
}
