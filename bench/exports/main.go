// Command exports runs models that other libraries' exporters write on both engines
// and compares the results with those of the libraries.
//
//	python bench/exports/export_sklearn.py FOLDER
//	python bench/exports/export_trees.py FOLDER
//	python bench/exports/export_torch.py FOLDER
//	python bench/exports/export_opsets.py FOLDER
//	python bench/exports/export_transformers.py FOLDER
//	python bench/exports/export_timm.py FOLDER
//	python bench/exports/export_keras.py FOLDER
//	python bench/exports/export_ort.py FOLDER
//	go run ./bench/exports -models FOLDER -out docs/exports.md
//
// Each model has a folder FAMILY/NAME with model.onnx, data.npz and case.json; see case.py. Without
// -out the table goes to the standard output; a file that holds one keeps the lines of the models
// that are not in the folder. The exit code is 1 when an engine fails a case on which ONNX Runtime
// agrees with the library.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"

	"github.com/onward-ml/onward/onnx"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	failed, err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "exports:", err)
		os.Exit(2)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func run(ctx context.Context) (failed int, err error) {
	root := flag.String("models", "bench/exports/testdata", "folder with the exported models")
	out := flag.String("out", "", "file to write the table to")
	only := flag.String("only", "", "run the cases whose FAMILY/NAME holds this text")
	flag.Parse()
	cases, err := find(*root)
	if err != nil {
		return 0, err
	}
	written := &report{families: map[string]*family{}, refused: map[string]string{}}
	if *out != "" {
		text, err := os.ReadFile(*out)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		written = earlier(string(text))
	}
	for _, c := range cases {
		if !strings.Contains(c.family+"/"+c.name, *only) {
			continue
		}
		if c.NotExported != "" {
			written.add(row{exported: c})
			continue
		}
		if err := c.load(); err != nil {
			return 0, fmt.Errorf("%s: %w", c.folder, err)
		}
		r := row{exported: c, outcomes: map[string]outcome{}}
		m, err := onnx.ReadFile(c.model(), nil)
		if err != nil {
			return 0, err
		}
		r.nodes, r.kinds = operators(m)
		m.Close()
		for _, e := range engines {
			o := c.run(ctx, e)
			r.outcomes[e] = o
			if o.err != nil {
				mark := "FAIL"
				if o.asORT {
					mark = "as ONNX Runtime:"
				}
				fmt.Fprintf(os.Stderr, "%s %s/%s on %s: %s\n", mark, c.family, c.name, e, brief(o.err.Error()))
			}
		}
		if r.failed() && c.ONNXRuntime == "" {
			failed++
		}
		c.in, c.out = nil, nil
		debug.FreeOSMemory()
		written.add(r)
		if ctx.Err() != nil {
			return failed, ctx.Err()
		}
	}
	if *out == "" {
		fmt.Print(written)
		return failed, nil
	}
	return failed, os.WriteFile(*out, []byte(written.String()), 0o644)
}
