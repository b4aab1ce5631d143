//go:build !core

package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/datasets"
)

// TestCurlLinesOfServingDocs runs the first example of docs/serving.md: its folder, its server on
// another port, and its curl lines.
func TestCurlLinesOfServingDocs(t *testing.T) {
	for _, program := range []string{"bash", "curl", "seq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("found no %s to run the lines of the documentation", program)
		}
	}
	text, err := os.ReadFile("../../docs/serving.md")
	if err != nil {
		t.Fatal(err)
	}
	block := strings.Split(string(text), "```\n")[1]
	dir := t.TempDir()
	digits, err := datasets.Get("digits.onnx")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "digits.onnx"), digits, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	shell := func(line string) string {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return string(out)
	}
	ctx, stop := context.WithCancel(t.Context())
	code := make(chan int, 1)
	address, started := "", false
	var answers []string
	for line := range strings.Lines(block) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "onward serve "):
			logs := &records{c: make(chan map[string]any, 100)}
			repo := filepath.Join(dir, strings.TrimPrefix(line, "onward serve "))
			started = true
			go func() {
				code <- run(ctx, []string{"serve", repo, "--http", ":0", "--grpc", "", "--metrics", ""},
					io.Discard, logs)
			}()
			for address == "" {
				select {
				case m := <-logs.c:
					if m["protocol"] == "http" {
						address = m["address"].(string)
					}
				case c := <-code:
					t.Fatalf("%s: exit code %d", line, c)
				}
			}
		case strings.HasPrefix(line, "curl "):
			if !strings.Contains(line, "127.0.0.1:8000") {
				t.Errorf("%s: want the default address", line)
			}
			answers = append(answers,
				shell(strings.Replace(strings.Replace(line, "curl ", "curl -sSf ", 1), "127.0.0.1:8000", address, 1)))
		default:
			shell(line)
		}
	}
	stop()
	if !started || len(answers) != 2 {
		t.Fatalf("the example starts a server: %v, and has %d curl lines, want 2:\n%s", started, len(answers), block)
	}
	if c := <-code; c != exitOK {
		t.Errorf("exit code %d, want 0", c)
	}
	var result struct {
		Outputs []struct {
			Name, Datatype string
			Shape          []int
		}
	}
	if err := json.Unmarshal([]byte(answers[1]), &result); err != nil || len(result.Outputs) != 2 {
		t.Fatalf("%s: %v", answers[1], err)
	}
	// What the documentation says below the example.
	for _, o := range result.Outputs {
		want := map[string]string{"digit": "INT64 [1]", "probabilities": "FP32 [1,10]"}[o.Name]
		shape, err := json.Marshal(o.Shape)
		if err != nil || o.Datatype+" "+string(shape) != want {
			t.Errorf("output %s is %s %s, want %s", o.Name, o.Datatype, shape, want)
		}
	}
}
