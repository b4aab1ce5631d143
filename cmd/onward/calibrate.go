package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward/calibration"
	"github.com/onward-ml/onward/onnx"
)

// calibrateJSON is what --json prints.
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

// calibrateOptions are the flags that onward calibrate and quantize share.
type calibrateOptions struct {
	data      dataOptions
	method    string
	percent   float64
	symmetric bool
	average   bool
	window    int
	bins      int
	opTypes   []string
	provider  string
	threads   int
}

func (o *calibrateOptions) flags(c *cobra.Command) {
	o.data.flags(c)
	f := c.Flags()
	f.StringVar(&o.method, "method", "minmax", "how ranges are found: minmax, entropy or percentile")
	f.Float64Var(&o.percent, "percentile", 99.999, "with --method percentile, how much of the values to keep")
	f.BoolVar(&o.average, "moving-average", false, "with --method minmax, average the ends over batches")
	f.IntVar(&o.window, "window", 0, "look at so many batches together (default all; histograms then read the data twice)")
	f.IntVar(&o.bins, "bins", 0, "bins of a histogram (default 128 for entropy, 2048 for percentile)")
	f.StringVarP(&o.provider, "provider", "p", "cpu", "the engine that runs the model")
	f.IntVar(&o.threads, "threads", 0, "threads of one run (default all cores)")
}

// options turns the flags into options.
func (o *calibrateOptions) options() (*calibration.Options, error) {
	methods := map[string]calibration.Method{"minmax": calibration.MinMax, "entropy": calibration.Entropy, "percentile": calibration.Percentile}
	method, ok := methods[strings.ToLower(o.method)]
	if !ok {
		return nil, usagef("--method is %q, want minmax, entropy or percentile", o.method)
	}
	if !(o.percent > 0 && o.percent <= 100) {
		return nil, usagef("--percentile is %g, want more than 0 and 100 at most", o.percent)
	}
	if o.average && method != calibration.MinMax {
		return nil, usagef("--moving-average is for --method minmax")
	}
	if o.window < 0 || o.bins < 0 || o.bins%2 != 0 {
		return nil, usagef("--window is %d and --bins %d, want 0 or more, and an even number of bins", o.window, o.bins)
	}
	session, err := sessionOptions(o.provider, o.threads)
	if err != nil {
		return nil, err
	}
	return &calibration.Options{
		Method: method, Percent: o.percent, Symmetric: o.symmetric, MovingAverage: o.average, Window: o.window, Bins: o.bins,
		OpTypes: o.opTypes, MaxBatches: o.data.maxBatches, Session: session,
	}, nil
}

// calibrate finds the ranges, showing progress on w.
func (o *calibrateOptions) calibrate(ctx context.Context, w io.Writer, m *onnx.Model, data calibration.Data) (*calibration.Table, int, error) {
	opts, err := o.options()
	if err != nil {
		return nil, 0, err
	}
	step, end := batchBar(w, "calibrating")
	defer end()
	batches := 0
	opts.Progress = func(p calibration.Progress) {
		if p.Pass == 1 {
			batches = p.Batch
		}
		step((p.Pass-1)*batches + p.Batch)
	}
	t, err := calibration.Calibrate(ctx, m, data, opts)
	return t, batches, err
}

func calibrateCommand() *cobra.Command {
	var (
		o              calibrateOptions
		output, format string
		asJSON         bool
	)
	c := &cobra.Command{
		Use:   "calibrate MODEL --data DATA",
		Short: "Find the ranges of a model's activations",
		Long: `Find the ranges of a model's activations on example data, and write them as a
calibration table: for onward quantize, or for TensorRT by way of ONNX Runtime
(trt_int8_calibration_table_name).

` + dataHelp + `

The table is written in all formats, as calibration.flatbuffers, calibration.json and
calibration.cache into the folder that -o names; with --format in one, -o being the
folder or the file. Only JSON keeps both ends of the ranges.`,
		Example: `  onward calibrate model.onnx --data samples.npz -o tables
  onward calibrate digits.onnx --data pictures/ --method entropy --format flatbuffers -o digits.flatbuffers
  onward calibrate model.onnx --data random:8 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := tableFiles(output, format)
			if err != nil {
				return err
			}
			if _, err := o.options(); err != nil {
				return err
			}
			m, d, err := modelAndInputs(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			data, err := o.data.data(d.Inputs)
			if err != nil {
				return err
			}
			table, batches, err := o.calibrate(cmd.Context(), cmd.ErrOrStderr(), m, data)
			if err != nil {
				return err
			}
			r := calibrateJSON{Model: args[0], Method: strings.ToLower(table.Method.String()), Batches: batches, Tensors: []rangeJSON{}}
			for _, f := range files {
				if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
					return err
				}
				if err := table.WriteFile(f.path, f.format); err != nil {
					return err
				}
				r.Files = append(r.Files, f.path)
			}
			for _, n := range table.Names() {
				r.Tensors = append(r.Tensors, rangeJSON{n, table.Ranges[n].Lowest, table.Ranges[n].Highest})
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return printCalibration(cmd.OutOrStdout(), &r)
		},
	}
	o.flags(c)
	f := c.Flags()
	f.BoolVar(&o.symmetric, "symmetric", false, "ranges that reach as far below zero as above, as TensorRT takes them")
	f.StringSliceVar(&o.opTypes, "op-types", nil, "operators whose inputs and outputs get ranges, as Conv,Gemm (default all)")
	f.StringVarP(&output, "output", "o", ".", "the folder, or with --format the file, to write")
	f.StringVar(&format, "format", "", "flatbuffers, json or cache (default all three)")
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
		calibration.FlatBuffers: calibration.FlatBuffersFile, calibration.JSON: calibration.JSONFile, calibration.Cache: calibration.CacheFile,
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
		return nil, usagef("--format is %q, want flatbuffers, json or cache", format)
	}
	if info, err := os.Stat(output); err == nil && info.IsDir() {
		output = filepath.Join(output, names[f])
	}
	return []tableFile{{output, f}}, nil
}

func printCalibration(w io.Writer, r *calibrateJSON) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "tensor\tlowest\thighest")
	for _, x := range r.Tensors {
		fmt.Fprintf(t, "%s\t%.6g\t%.6g\n", name(x.Name), x.Lowest, x.Highest)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d tensors by %s over %d batches, written to %s\n", len(r.Tensors), r.Method, r.Batches, name(strings.Join(r.Files, ", ")))
	return err
}
