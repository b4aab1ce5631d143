//go:build !core && !server

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/datasets"
)

func TestMap(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.csv"), filepath.Join(dir, "out.jsonl")
	if err := os.WriteFile(in, []byte("a,b\n5.1,3.5\n6.2,2.9\nx,3.0\n5.9,3.0\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	args := []string{"map", "logreg_iris.onnx", in, "-o", out, "--bind", "float_input=a,b", "--outputs",
		"output_label", "--batch", "3"}
	_, stderr := command(t, exitFailed, args...)
	if !strings.Contains(stderr, `in.csv line 4: column a is "x"`) {
		t.Errorf("fail prints %s", stderr)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("fail writes the file")
	}
	_, stderr = command(t, exitOK, append(args, "--on-error", "null")...)
	if !strings.Contains(stderr, "in.csv line 4: ") || !strings.Contains(stderr, "4 rows: 3 scored, 1 null in ") {
		t.Errorf("null prints %s", stderr)
	}
	got, err := os.ReadFile(out)
	want := `{"a":"5.1","b":"3.5","output_label":0,"error":null}
{"a":"6.2","b":"2.9","output_label":2,"error":null}
{"a":"x","b":"3.0","output_label":null,"error":"column a is \"x\", which is not of type float"}
{"a":"5.9","b":"3.0","output_label":2,"error":null}
`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v, want\n%s", got, err, want)
	}
	stdout, _ := command(t, exitOK, append(args, "--on-error", "skip", "--json")...)
	if c := decode[struct{ Rows, Scored, Skipped int }](t, stdout); c.Rows != 4 || c.Scored != 3 || c.Skipped != 1 {
		t.Errorf("counts %+v", c)
	}
	stdout, _ = command(t, exitOK, "map", "logreg_iris.onnx", in, "--to", "csv", "--bind", "float_input=a,b",
		"--outputs", "output_label", "--on-error", "skip", "--keep", "", "--prefix", "p_")
	if stdout != "p_output_label\n0\n2\n2\n" {
		t.Errorf("to standard output: %q", stdout)
	}
}

func TestMapImages(t *testing.T) {
	dir := t.TempDir()
	image, in := filepath.Join(dir, "digit.png"), filepath.Join(dir, "in.jsonl")
	line, err := json.Marshal(map[string]string{"image": "digit.png"})
	if err == nil {
		err = os.WriteFile(in, line, 0o666)
	}
	if err == nil {
		err = os.WriteFile(image, datasets.SampleImage(), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	stdout, _ := command(t, exitOK, "map", "digits.onnx", in, "--images", dir, "--outputs", "digit", "--to", "jsonl")
	if stdout != `{"image":"digit.png","digit":7}`+"\n" {
		t.Error(stdout)
	}
}

func TestMapUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--on-error", "stop"}, "want fail, null or skip"},
		{[]string{"--bind", "x"}, "want input=column"},
		{[]string{"--batch", "-1"}, "--batch is -1"},
		{[]string{"--shard", "3/3"}, "want i/n"},
		{[]string{"--shard", "x"}, "want i/n"},
		{[]string{"--from", "xls"}, `format is "xls"`},
		{[]string{"--to", "xls"}, `format is "xls"`},
		{[]string{"--resume"}, "name IN and -o OUT"},
		{[]string{"--shard", "0/2"}, "name IN"},
	} {
		if _, stderr := command(t, exitUsage,
			append([]string{"map", "mul_1.onnx"}, c.args...)...); !strings.Contains(stderr, c.want) {
			t.Errorf("%v: %s, want %s", c.args, stderr, c.want)
		}
	}
}

// The multiplexer of pseudo-terminals stands for a terminal: writing to it without a reader blocks
// nothing that is this short.
func TestMapWritesNoBinaryToATerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("not tested, since there are no pseudo-terminals: ", err)
	}
	defer terminal.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	in := filepath.Join(t.TempDir(), "in.csv")
	if err := os.WriteFile(in, []byte("a,b\n5.1,3.5\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		out  *os.File
		to   string
		want int
	}{
		{terminal, "", exitUsage}, {terminal, "parquet", exitUsage}, {terminal, "csv", exitOK}, {null, "", exitOK},
	} {
		var stderr strings.Builder
		got := run(t.Context(), []string{"map", "logreg_iris.onnx", in, "--bind", "float_input=a,b", "--outputs",
			"output_label", "--to", c.to}, c.out, &stderr)
		if got != c.want || (got == exitUsage) != strings.Contains(stderr.String(), "not written to a terminal") {
			t.Errorf("--to %q to %s: exit code %d, want %d: %s", c.to, c.out.Name(), got, c.want, &stderr)
		}
	}
}
