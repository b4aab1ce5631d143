// Command exports runs models that other libraries' exporters write on both engines
// and compares the results with those of the libraries.
//
//	python bench/exports/export_sklearn.py FOLDER
//	python bench/exports/export_torch.py FOLDER
//	go run ./bench/exports -models FOLDER -out docs/exports.md
//
// Each model has a folder FAMILY/NAME with model.onnx, data.npz and case.json; see
// case.py. Without -out the table goes to the standard output. The exit code is 1
// when an engine fails a case on which ONNX Runtime agrees with the library.
package main

import (
	"context"
	"flag"
	"fmt"
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
	var rows, left []row
	for _, c := range cases {
		if !strings.Contains(c.family+"/"+c.name, *only) {
			continue
		}
		if c.NotExported != "" {
			left = append(left, row{exported: c})
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
		rows = append(rows, r)
		if ctx.Err() != nil {
			return failed, ctx.Err()
		}
	}
	text := table(rows, left)
	if *out == "" {
		fmt.Print(text)
		return failed, nil
	}
	return failed, os.WriteFile(*out, []byte(text), 0o644)
}
