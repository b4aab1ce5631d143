//go:build !core && !server

package main

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/onnx"
)

// evilName would color the terminal, ring its bell and start a line of its own.
const evilName = "a\x1b[31m\u202e\x07\nonward: b"

// deepFile returns a model of subgraphs that are nested depth deep.
func deepFile(depth int) []byte {
	var heads [][]byte // from the innermost to the model's
	size := 0
	wrap := func(field protowire.Number, before ...byte) {
		h := protowire.AppendVarint(protowire.AppendTag(before, field, protowire.BytesType), uint64(size))
		heads = append(heads, h)
		size += len(h)
	}
	for range depth {
		// AttributeProto.g
		wrap(6, append([]byte{1<<3 | 2, 1, 'b'},
			protowire.AppendVarint(protowire.AppendTag(nil, 20, protowire.VarintType), uint64(onnx.AttrGraph))...)...)
		// NodeProto.attribute
		wrap(5, 4<<3|2, 2, 'I', 'f')
		// GraphProto.node
		wrap(1)
	}
	wrap(7, 1<<3, 10) // ModelProto.graph
	slices.Reverse(heads)
	return bytes.Join(heads, nil)
}

// hostileFiles writes files to the working directory. It returns their names with the verbs
// that may accept them.
func hostileFiles(t *testing.T) map[string]string {
	t.Helper()
	digits, err := modelfile.Load("digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	good, err := digits.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	model := func(in, weight []int64, op string, edit func(m *onnx.Model)) []byte {
		b := onnx.NewModel("m").Opset("", 21)
		dims := make([]any, len(in))
		for i, d := range in {
			dims[i] = d
		}
		b.Input("x", onnx.Float, dims...).Output("y", onnx.Float, "rows", "columns")
		b.Initializer("w", []float32{1, 2, 3, 4, 5, 6}, 2, 3)
		b.Node(op, []string{"x", "w"}, []string{"h"}).Name("first")
		b.Node("Relu", []string{"h"}, []string{"y"})
		m, err := b.Model()
		if err != nil {
			t.Fatal(err)
		}
		m.Graph.Initializers[0].Dims = weight
		if edit != nil {
			edit(m)
		}
		data, err := m.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	w := []int64{2, 3}
	files := map[string][]byte{
		"empty.onnx":     nil,
		"text.onnx":      []byte("<!DOCTYPE html>\n<title>404 Not Found</title>\n"),
		"truncated.onnx": good[:len(good)/2],
		"cyclic.onnx":    model([]int64{4, 2}, w, "MatMul", func(m *onnx.Model) { m.Graph.Nodes[0].Inputs[0] = "y" }),
		"unknown.onnx":   model([]int64{4, 2}, w, "Nonsense", nil),
		"deep.onnx":      deepFile(100_000),
		"dims.onnx":      model([]int64{4, 5}, w, "MatMul", nil),
		"data.onnx":      model([]int64{4, 2}, []int64{1 << 30, 1 << 30}, "MatMul", nil),
		"input.onnx":     model([]int64{1 << 40, 2}, w, "MatMul", nil),
		"external.onnx": model([]int64{4, 2}, w, "MatMul", func(m *onnx.Model) {
			t := m.Graph.Initializers[0]
			t.DataLocation, t.FloatData, t.RawData = onnx.LocationExternal, nil, nil
			t.ExternalData = []onnx.StringStringEntry{{Key: "location", Value: "../secret"}}
		}),
		"names.onnx": model([]int64{4, 2}, w, "Nonsense"+evilName, func(m *onnx.Model) {
			m.Graph.Name, m.ProducerName, m.Graph.Nodes[0].Name = evilName, evilName, evilName
			m.Graph.Inputs[0].Name, m.Graph.Nodes[0].Inputs[0] = evilName, evilName
		}),
	}
	for name, data := range files {
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("../secret", make([]byte, 24), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("folder.onnx", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("unreadable.onnx", good, 0); err != nil {
		t.Fatal(err)
	}
	accepts := map[string]string{"folder.onnx": "", "missing.onnx": "", "unreadable.onnx": ""}
	for name := range files {
		accepts[name] = ""
	}
	// Verbs that show a model also show one that cannot run. One with a large input is valid.
	const shows = "inspect graph diff metadata"
	for _, name := range []string{"cyclic.onnx", "unknown.onnx", "names.onnx", "data.onnx",
		"external.onnx", "dims.onnx"} {
		accepts[name] = shows
	}
	accepts["folder.onnx"] = "serve" // a repository
	accepts["input.onnx"] = shows + " check optimize quantize serve"
	if f, err := os.Open("unreadable.onnx"); err == nil { // root reads all
		f.Close()
		delete(accepts, "unreadable.onnx")
	}
	return accepts
}

// TestHostileFiles gives files that are no valid models to each verb. The exit code is 1, one line
// names the file and the mistake, and nothing is written.
func TestHostileFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("here", 0o777); err != nil {
		t.Fatal(err)
	}
	t.Chdir("here")
	ownCache(t)
	accepts := hostileFiles(t)
	if err := os.WriteFile("rows.csv", []byte("x\n1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	before := contents(t, ".")
	for name, verbs := range accepts {
		for _, line := range []string{
			"run MODEL --random --save out",
			"inspect MODEL", "inspect MODEL --json", "check MODEL", "check MODEL --json", "graph MODEL", "graph MODEL --format json", "graph MODEL --optimized", "graph MODEL --html out",
			"bench MODEL --duration 1ms --rounds 1 --csv out", "profile MODEL --trace out", "tune MODEL --provider cpu,reference --duration 1ms",
			"compare MODEL --html out", "compare digits.onnx MODEL --layers", "compare MODEL --bisect out",
			"optimize MODEL -o out", "quantize MODEL -o out --data random:1", "quantize MODEL -o out --mode dynamic", "calibrate MODEL --data random:1 -o out",
			"edit extract MODEL -o out --to h", "edit dims MODEL -o out --batch N", "edit simplify MODEL -o out", "edit convert MODEL -o out --float16",
			"edit convert MODEL -o out --opset 20", "edit rename MODEL -o out --value h=i", "edit insert MODEL -o out --value h --op Identity",
			"edit remove MODEL -o out --node Relu --force", "edit metadata MODEL", "edit metadata MODEL -o out --set a=b", "edit diff MODEL digits.onnx", "edit diff digits.onnx MODEL --json",
			"map MODEL rows.csv -o out.csv", "serve MODEL --http :0 --grpc= --metrics=",
		} {
			words := strings.Fields(strings.ReplaceAll(line, "MODEL", name))
			verb := words[0]
			if verb == "edit" {
				verb = words[1]
			}
			accepted := slices.Contains(strings.Fields(verbs), verb)
			if accepted && verb == "serve" {
				continue
			}
			var out, errs bytes.Buffer
			ctx, stop := context.WithTimeout(t.Context(), time.Minute) // serve would not end
			code := run(ctx, words, &out, &errs)
			stop()
			line, all := strings.Join(words, " "), out.String()+errs.String()
			if code != exitFailed && !(accepted && code == exitOK) {
				t.Errorf("onward %s: exit code %d\n%s", line, code, all)
			}
			for _, r := range all {
				if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
					t.Errorf("onward %s prints %q", line, all)
					break
				}
			}
			switch {
			case strings.Contains(all, "panic") || strings.Contains(all, "goroutine"):
				t.Errorf("onward %s prints\n%s", line, all)
			case verb == "serve": // logs
			case strings.Contains(out.String(), "\nonward: ") || strings.Contains(errs.String(), "\nonward: "):
				t.Errorf("onward %s prints a name with a line end\n%s", line, all)
			case errs.Len() > 0 && (!strings.HasPrefix(errs.String(), "onward: ") ||
				!strings.Contains(errs.String(), name) || errs.Len() > 1000):
				t.Errorf("onward %s prints %s", line, &errs)
			}
			if after := contents(t, "."); !slices.Equal(after, before) {
				if code != exitOK {
					t.Errorf("onward %s leaves %v", line, after)
				}
				os.RemoveAll("out")
			}
		}
	}
}
