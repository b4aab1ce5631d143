//go:build !core

package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward/calibration"
	"github.com/onward-ml/onward/cmd/onward/internal/batches"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/page"
	"github.com/onward-ml/onward/cmd/onward/internal/ranges"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/internal/natural"
)

// calibrateJSON is the output of --json.
type calibrateJSON struct {
	Model   string      `json:"model"`
	Method  string      `json:"method"`
	Batches int         `json:"batches"`
	Tensors []rangeJSON `json:"tensors"`
	Files   []string    `json:"files"`
}

type rangeJSON struct {
	Name    string  `json:"name"`
	Lowest  float32 `json:"lowest"`
	Highest float32 `json:"highest"`
}

func init() { large = append(large, calibrateCommand) }

func calibrateCommand() *cobra.Command {
	var (
		o              ranges.Flags
		output, format string
		html           string
		asJSON         bool
	)
	c := &cobra.Command{
		Use:   "calibrate MODEL --data DATA",
		Short: "Find the ranges of a model's activations",
		Long: `Find the ranges of a model's activations on example data, and write them as a
calibration table for onward quantize, or for TensorRT through ONNX Runtime
(trt_int8_calibration_table_name).

` + batches.Help + `

The folder -o receives the table in three formats: calibration.flatbuffers,
calibration.json and calibration.cache. With --format only that format is written, and
-o names the folder or the file. Only JSON keeps both ends of the ranges.

--html writes a page with the histograms and the chosen ranges.`,
		Example: `  onward calibrate model.onnx --data samples.npz -o tables
  onward calibrate digits.onnx --data images/ --method entropy --format flatbuffers -o digits.flatbuffers
  onward calibrate model.onnx --data samples.npz --html ranges.html
  onward calibrate model.onnx --data random:8 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := tableFiles(output, format)
			if err != nil {
				return err
			}
			if _, err := o.Options(); err != nil {
				return err
			}
			m, err := modelfile.Load(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			data, err := o.Data.Read(m)
			if err != nil {
				return err
			}
			table, count, err := o.Find(cmd.Context(), cmd.ErrOrStderr(), m, data)
			if err != nil {
				return err
			}
			hist := table
			if html != "" {
				if hist, err = o.Histograms(cmd.Context(), cmd.ErrOrStderr(), m, data, table); err != nil {
					return err
				}
			}
			r := calibrateJSON{Model: args[0], Method: strings.ToLower(table.Method.String()), Batches: count,
				Tensors: []rangeJSON{}}
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			for _, f := range files {
				if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
					return err
				}
				if err := table.WriteFile(f.path, f.format); err != nil {
					return err
				}
				r.Files = append(r.Files, f.path)
			}
			for _, n := range slices.SortedFunc(maps.Keys(table.Ranges), natural.Compare) {
				r.Tensors = append(r.Tensors, rangeJSON{n, table.Ranges[n].Lowest, table.Ranges[n].Highest})
			}
			if err := writePage(cmd.Context(), html, func() *page.Page { return calibratePage(&r, hist) }); err != nil {
				return err
			}
			if asJSON {
				return text.JSON(cmd.OutOrStdout(), r)
			}
			printCalibration(cmd.OutOrStdout(), &r)
			return nil
		},
	}
	f := c.Flags()
	o.Register(f)
	f.BoolVar(&o.Symmetric, "symmetric", false, "make ranges symmetric around zero, as TensorRT requires")
	f.StringSliceVar(&o.OpTypes, "op-types", nil, "operator types to calibrate, such as Conv,Gemm (default all)")
	f.StringVarP(&output, "output", "o", ".", "the folder, or with --format the file, to write")
	f.StringVar(&format, "format", "", "flatbuffers, json or cache (default all three)")
	htmlFlag(f, &html)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

type tableFile struct {
	path   string
	format calibration.Format
}

// tableFiles returns the files to write.
func tableFiles(output, format string) ([]tableFile, error) {
	names := map[calibration.Format]string{
		calibration.FlatBuffers: calibration.FlatBuffersFile, calibration.JSON: calibration.JSONFile,
		calibration.Cache: calibration.CacheFile,
	}
	if format == "" {
		var files []tableFile
		for _, f := range []calibration.Format{calibration.FlatBuffers, calibration.JSON, calibration.Cache} {
			files = append(files, tableFile{filepath.Join(output, names[f]), f})
		}
		return files, nil
	}
	f := calibration.Format(format)
	if names[f] == "" {
		return nil, cli.Usagef("--format is %q, want flatbuffers, json or cache", format)
	}
	if info, err := os.Stat(output); err == nil && info.IsDir() {
		output = filepath.Join(output, names[f])
	}
	return []tableFile{{output, f}}, nil
}

func printCalibration(w io.Writer, r *calibrateJSON) {
	t := text.Table(w)
	fmt.Fprintln(t, "tensor\tlowest\thighest")
	for _, x := range r.Tensors {
		fmt.Fprintf(t, "%s\t%.6g\t%.6g\n", text.Name(x.Name), x.Lowest, x.Highest)
	}
	t.Flush()
	fmt.Fprintf(w, "%s by %s over %s, written to %s\n", text.Plural(len(r.Tensors), "tensor"), r.Method,
		text.Plural(r.Batches, "batch"), text.Name(strings.Join(r.Files, ", ")))
}
