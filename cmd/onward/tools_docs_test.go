//go:build !core && !server

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/inputs"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/internal/testing/modelfolder"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// documented returns the command lines in the code spans and code blocks of a page, without the
// word onward, up to a pipe.
func documented(t *testing.T, page string) [][]string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var r [][]string
	for _, m := range regexp.MustCompile("(?:`|(?m:^)(?:\\$ )?(?:go run ./cmd/)?)onward ([^`\n]+)").
		FindAllStringSubmatch(string(text), -1) {
		if words := shellWords(m[1]); !slices.ContainsFunc(r, func(w []string) bool { return slices.Equal(w, words) }) {
			r = append(r, words)
		}
	}
	return r
}

// shellWords splits a command line as a shell does, up to a pipe, a redirection or a comment.
// It knows quotes only.
func shellWords(line string) []string {
	var words []string
	for _, m := range regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`).FindAllString(line, -1) {
		if m[0] == '|' || m[0] == '#' || m == `\|` || m == ">" {
			break
		}
		words = append(words, regexp.MustCompile(`['"]`).ReplaceAllString(m, ""))
	}
	return words
}

// checkFlags checks that a command line has a verb, flags and a number of arguments that the
// command takes. A verb without arguments is a mention.
func checkFlags(t *testing.T, page string, words []string) {
	t.Helper()
	cmd, rest, err := newRoot().Find(words)
	if err == nil {
		cmd.InitDefaultHelpFlag()
		cmd.InitDefaultVersionFlag()
		err = cmd.ParseFlags(rest)
	}
	if err == nil && cmd.Flags().NArg() > 0 {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Errorf("%s: onward %s: %v", filepath.Base(page), strings.Join(words, " "), err)
	}
}

// documentedFiles writes the files that docs/tools.md names to a folder.
func documentedFiles(t *testing.T, dir string) {
	t.Helper()
	m, err := modelfile.Load("digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := onnx.WriteFile(at("model.onnx"), m, nil); err != nil {
		t.Fatal(err)
	}
	scaleWeight(t, m.Graph, 1, 1.7)
	if err := onnx.WriteFile(at("changed.onnx"), m, nil); err != nil {
		t.Fatal(err)
	}
	images, npz := digitData(t)
	for _, folder := range []string{"datasets/models", "all-MiniLM-L6-v2"} {
		if err := os.MkdirAll(at(folder), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := modelfolder.Write(at("sentiment"), "classifier"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("all-MiniLM-L6-v2/vocab.txt"), []byte("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nca\n##t\n-\n"),
		0o666); err != nil {
		t.Fatal(err)
	}
	command(t, exitOK, "optimize", at("model.onnx"), "-o", at("fixed.onnx"), "--level", "none",
		"--dimension", "batch=1")
	command(t, exitOK, "edit", "convert", at("model.onnx"), "-o", at("half.onnx"), "--float16")
	z, err := tensor.ReadNPZFile(npz, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{npz: "samples.npz",
		filepath.Join(images, "a.png"): "datasets/models/digit7.png"} {
		if err == nil {
			err = os.Rename(from, at(to))
		}
	}
	if err == nil {
		err = os.Mkdir(at("test_data_set_0"), 0o777)
	}
	if err == nil {
		feed := &inputs.Feed{Values: onward.Values{"image": z.Arrays["image"]}}
		err = feed.Write(at("test_data_set_0"), []onward.NodeArg{{Name: "image"}})
	}
	var weights tensor.NPZ
	for _, w := range m.Graph.Initializers {
		x, err := m.DecodeTensor(w)
		if err == nil {
			err = weights.Add(w.Name, x)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err == nil {
		err = tensor.WriteNPZFile(at("weights.npz"), &weights, false)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestToolsPage parses each command of docs/tools.md. A row without a command says why the
// feature is not supported.
func TestToolsPage(t *testing.T) {
	const page = "../../docs/tools.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `\|`, ""), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| feature") {
			continue
		}
		rows++
		if len(cells) != 2 || !strings.Contains(cells[1], "`onward ") &&
			!strings.HasPrefix(cells[1], "not supported: ") {
			t.Errorf("want a feature and a command, or \"not supported: \" and a reason:\n%s", line)
		}
	}
	commands := documented(t, page)
	if rows < 130 || len(commands) < 80 {
		t.Fatalf("found %d rows and %d commands", rows, len(commands))
	}
	for _, words := range commands {
		checkFlags(t, page, words)
	}
}

// TestRunsDocumentedCommands runs the commands of README.md and docs/tools.md that need neither
// another library, the ONNX backend suite nor a table.
func TestRunsDocumentedCommands(t *testing.T) {
	commands := append(documented(t, "../../README.md"), documented(t, "../../docs/tools.md")...)
	dir := t.TempDir()
	documentedFiles(t, dir)
	ownCache(t)
	t.Chdir(dir)
	ran := 0
	for _, words := range commands {
		line := strings.Join(words, " ")
		if mention := len(words) == 1 && words[0] != "doctor" || line == "edit insert"; mention ||
			regexp.MustCompile(`\bort|^conformance|^map|^serve`).MatchString(line) {
			continue
		}
		switch words[0] {
		case "bench":
			words = append(words, "--duration=1ms", "--rounds=1")
		case "profile", "doctor":
			words = append(words, "--peak=false")
		case "tune":
			words = append(words, "--duration=1ms", "--provider=cpu,reference")
		}
		ran++
		var out, errs bytes.Buffer
		code := run(t.Context(), words, &out, &errs)
		silent := out.Len() == 0 && words[0] != "graph" // with --html
		if differ := code == exitFailed && errs.Len() == 0; code != exitOK && !differ || silent {
			t.Errorf("onward %s: exit code %d\n%s", line, code, errs.String())
		}
	}
	if ran < 80 {
		t.Errorf("%d commands were run", ran)
	}
}

// TestDocumentedCommands parses the commands in the documentation.
func TestDocumentedCommands(t *testing.T) {
	pages := []string{"../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md", "../../examples/README.md",
		"../../deploy/README.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/design/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	if _, err := os.Stat("../../datasets/models/digit7.png"); err != nil {
		t.Errorf("README.md: %v", err)
	}
	total := 0
	for _, page := range pages {
		for _, words := range documented(t, page) {
			total++
			checkFlags(t, page, words)
		}
	}
	if total < 100 {
		t.Errorf("found %d commands", total)
	}
}
